//! The pending calls that are answered while a log is read.

use std::collections::HashMap;
use std::sync::Arc;

use crate::session::PendingCall;
use crate::session::size::of_pending;

/// The answered calls are removed from the session once they have at least the memory of the open
/// calls divided by this number, so that a record with one answer does not examine all of them.
const DIVISOR: usize = 4;

/// The pending calls of a session that is read from its log.
#[derive(Clone, Debug)]
pub(super) struct AnsweredCalls {
    /// The memory of the calls without an answer, by their ids.
    open: HashMap<Arc<str>, usize>,
    open_bytes: usize,
    /// The ids of the answered calls that are still in the session, and the memory of these calls.
    ids: Vec<Arc<str>>,
    bytes: usize,
}

impl AnsweredCalls {
    pub(super) fn of(calls: &[PendingCall]) -> Self {
        let mut open = HashMap::with_capacity(calls.len());
        let mut open_bytes = 0;
        for call in calls {
            let bytes = of_pending(call);
            open_bytes += bytes;
            *open.entry(call.id.clone()).or_default() += bytes;
        }
        Self {
            open,
            open_bytes,
            ids: Vec::new(),
            bytes: 0,
        }
    }

    /// Adds the ids of answered calls. Unknown ids are dropped.
    pub(super) fn add(&mut self, ids: Vec<Arc<str>>) {
        for id in ids {
            if let Some(bytes) = self.open.remove(&id) {
                self.open_bytes -= bytes;
                self.bytes += bytes;
                self.ids.push(id);
            }
        }
    }

    /// Returns `true` if enough calls were answered to remove them.
    pub(super) fn is_due(&self) -> bool {
        !self.ids.is_empty() && self.bytes >= self.open_bytes / DIVISOR
    }

    /// Returns the memory of the answered calls that are still in the session, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the ids of the calls to remove from the session now.
    pub(super) fn take_ids(&mut self) -> Vec<Arc<str>> {
        self.bytes = 0;
        std::mem::take(&mut self.ids)
    }
}
