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
    /// True if its record was stored with the response.
    pub(super) is_stored: bool,
}

impl CallStart {
    /// Creates the start of a call whose record was stored with the response.
    pub(super) fn stored() -> Self {
        Self {
            has_begun: AtomicBool::new(false),
            is_stored: true,
        }
    }

    /// Records that the tool may run from now on.
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
    /// Locked while starts are stored.
    write_lock: tokio::sync::Mutex<()>,
}

/// The starts that are stored with one write. The first of their calls to take the lock writes; if
/// its future is dropped during the write, the next call writes again.
#[derive(Default)]
struct StartGroup {
    call_ids: Mutex<Vec<Arc<str>>>,
    /// The outcome of the write, with the text of an error.
    outcome: OnceLock<Result<(), String>>,
}

impl CallStarts {
    /// Creates the state for the starts of `call_count` calls.
    pub(super) fn new(call_count: usize) -> Self {
        Self {
            is_shared: call_count > 1,
            next: Mutex::default(),
            write_lock: tokio::sync::Mutex::default(),
        }
    }

    /// Stores the start of a call. If there are several calls, waits first until the others that
    /// are ready have been permitted; if `is_halted` then returns `true`, returns `None` and stores
    /// nothing.
    ///
    /// # Errors
    ///
    /// Returns the text of the store's error.
    pub(super) async fn store(
        &self,
        writer: &SessionWriter,
        cx: &RunContext,
        call_id: Arc<str>,
        is_halted: impl Fn() -> bool,
    ) -> Option<Result<(), String>> {
        let group = {
            let next = lock(&self.next);
            lock(&next.call_ids).push(call_id);
            next.clone()
        };

        if self.is_shared {
            yield_to_ready_calls().await;
            if is_halted() {
                return None;
            }
        }

        Some(self.store_group(&group, writer, cx).await)
    }

    /// Stores the starts of a group, unless another call has stored them.
    async fn store_group(
        &self,
        group: &Arc<StartGroup>,
        writer: &SessionWriter,
        cx: &RunContext,
    ) -> Result<(), String> {
        let _guard = self.write_lock.lock().await;
        if let Some(outcome) = group.outcome.get() {
            return outcome.clone();
        }

        self.close(group);
        let call_ids = lock(&group.call_ids).clone();
        let records = call_ids
            .into_iter()
            .map(|call_id| Record::ToolStarted { call_id });
        let outcome = writer
            .append(cx, records.collect())
            .await
            .map_err(|error| error.to_string());
        group.outcome.get_or_init(|| outcome).clone()
    }

    /// Closes a group, so that later starts join the next write.
    fn close(&self, group: &Arc<StartGroup>) {
        let mut next = lock(&self.next);
        if Arc::ptr_eq(&next, group) {
            *next = Arc::default();
        }
    }
}

/// Yields once, so that the other calls that are ready are polled first, in their order. Tokio's
/// `yield_now` would wake the calls that use it in the reverse order.
async fn yield_to_ready_calls() {
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
