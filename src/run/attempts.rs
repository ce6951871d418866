//! The attempts of a turn to stream a response.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use uuid::Uuid;

use crate::model::ModelResponse;
use crate::util::sync::lock;

use super::context::RunContext;

/// The attempts of the current turn.
#[derive(Default)]
pub(super) struct Attempts {
    count: AtomicU32,
    /// The id of the first message of the last attempt that emitted any.
    first_shown: Mutex<Option<Uuid>>,
    /// The partial response of an attempt that failed or was dropped. Kept by the attempt's `Drop`,
    /// discarded when another attempt begins or the call succeeds, and stored by the turn that was
    /// interrupted.
    partial: Mutex<Option<Box<ModelResponse>>>,
}

impl RunContext {
    /// Returns the number of this attempt to stream a response in this turn, from 0.
    pub(crate) fn next_attempt(&self) -> u32 {
        self.0.attempts.count.fetch_add(1, Ordering::Relaxed)
    }

    /// Marks the emitted part of the response as superseded. Returns the number of the next attempt
    /// and the id of the first message of the superseded part; `None` if nothing was emitted.
    pub(crate) fn supersede_attempt(&self) -> Option<(u32, Uuid)> {
        let first = lock(&self.0.attempts.first_shown).take()?;
        Some((self.0.attempts.count.load(Ordering::Relaxed), first))
    }

    /// Forgets the attempts of the previous turn.
    pub(crate) fn reset_attempts(&self) {
        self.0.attempts.count.store(0, Ordering::Relaxed);
        *lock(&self.0.attempts.first_shown) = None;
        *lock(&self.0.attempts.partial) = None;
    }

    /// Returns the id of the first message of the last attempt of this turn that emitted any.
    pub(crate) fn shown_attempt(&self) -> Option<Uuid> {
        *lock(&self.0.attempts.first_shown)
    }

    /// Sets the id that [`shown_attempt`](Self::shown_attempt) returns.
    pub(crate) fn set_shown_attempt(&self, first: Uuid) {
        *lock(&self.0.attempts.first_shown) = Some(first);
    }

    /// Keeps the partial response of an attempt that failed or was dropped, for
    /// [`take_partial`](Self::take_partial).
    pub(crate) fn keep_partial(&self, partial: ModelResponse) {
        *lock(&self.0.attempts.partial) = Some(Box::new(partial));
    }

    /// Takes the partial response that was kept, if there is one.
    pub(crate) fn take_partial(&self) -> Option<ModelResponse> {
        lock(&self.0.attempts.partial)
            .take()
            .map(|partial| *partial)
    }

    /// Discards the partial response of an earlier attempt.
    pub(crate) fn discard_partial(&self) {
        drop(self.take_partial());
    }
}
