//! The records of calls that are about to run.

use std::future::poll_fn;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::Poll;

use crate::run::RunContext;
use crate::session::Record;
use crate::util::sync::lock;

use super::session_writer::SessionWriter;

/// The start of a call.
#[derive(Default)]
pub(super) struct CallStart {
    has_begun: AtomicBool,
    /// True if its record was stored with the answer.
    pub(super) is_stored: bool,
}

impl CallStart {
    /// The start of a call whose record was stored with the answer.
    pub(super) fn stored() -> Self {
        Self {
            has_begun: AtomicBool::new(false),
            is_stored: true,
        }
    }

    /// Marks that the tool may run from now on.
    pub(super) fn begin(&self) {
        self.has_begun.store(true, Ordering::Release);
    }

    /// Returns `true` once the tool may have run.
    pub(super) fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Acquire)
    }
}

/// Stores the starts of calls. The starts of calls that are permitted at the same time are stored
/// together.
pub(super) struct CallStarts {
    /// True if there are several calls.
    is_shared: bool,
    /// The starts that are stored with the next write.
    next: Mutex<Arc<StartGroup>>,
    /// Held while starts are stored.
    write_lock: tokio::sync::Mutex<()>,
}

/// Starts that are stored with one write, by the first of their calls whose turn it is. If that is
/// dropped meanwhile, the next one repeats the write.
#[derive(Default)]
struct StartGroup {
    call_ids: Mutex<Vec<Arc<str>>>,
    /// The outcome of the write; an error is its text.
    outcome: OnceLock<Result<(), String>>,
}

impl CallStarts {
    /// The starts of this many calls.
    pub(super) fn new(call_count: usize) -> Self {
        Self {
            is_shared: call_count > 1,
            next: Mutex::default(),
            write_lock: tokio::sync::Mutex::default(),
        }
    }

    /// Stores the start of a call, unless `is_halted` returns `true` once the other calls that are
    /// ready have been permitted. Then it returns `None`. An error is its text.
    pub(super) async fn store(
        &self,
        writer: &SessionWriter,
        cx: &RunContext,
        call_id: Arc<str>,
        is_halted: impl Fn() -> bool,
    ) -> Option<Result<(), String>> {
        let starts = {
            let next = lock(&self.next);
            lock(&next.call_ids).push(call_id);
            next.clone()
        };

        if self.is_shared {
            let_others_go_first().await;
            if is_halted() {
                return None;
            }
        }

        Some(self.store_all(&starts, writer, cx).await)
    }

    /// Stores starts, unless that has been done.
    async fn store_all(
        &self,
        starts: &Arc<StartGroup>,
        writer: &SessionWriter,
        cx: &RunContext,
    ) -> Result<(), String> {
        let _guard = self.write_lock.lock().await;
        if let Some(outcome) = starts.outcome.get() {
            return outcome.clone();
        }

        self.close(starts);
        let call_ids = lock(&starts.call_ids).clone();
        let records = call_ids
            .into_iter()
            .map(|call_id| Record::ToolStarted { call_id });
        let outcome = writer
            .append(cx, records.collect())
            .await
            .map_err(|error| error.to_string());
        starts.outcome.get_or_init(|| outcome).clone()
    }

    /// Lets later starts be part of the next write.
    fn close(&self, starts: &Arc<StartGroup>) {
        let mut next = lock(&self.next);
        if Arc::ptr_eq(&next, starts) {
            *next = Arc::default();
        }
    }
}

/// Yields once to the futures that are ready, in their order. Tokio's `yield_now` wakes the futures
/// that use it in the reverse order.
async fn let_others_go_first() {
    let mut has_yielded = false;
    poll_fn(|cx| {
        if mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
