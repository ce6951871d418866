//! The limits of a run and of the runs within its calls together.

use crate::tool::LoadTurns;
use crate::util::byte_pool::BytePool;

use super::parent_call::MAX_DEPTH;

/// The largest event has 16 MiB; an answer that is one document, 32 MiB.
const MAX_EVENT_BYTES: usize = 48 * 1024 * 1024;

/// The limits that a run shares with the runs within its calls. Clones share them.
#[derive(Clone)]
pub(crate) struct TreeLimits {
    pub(crate) loads: LoadTurns,
    pub(crate) histories: BytePool,
    /// For the events of models that have not arrived whole.
    pub(crate) event_buffers: BytePool,
    /// The largest depth of a run below: the smallest that this run or one above it allows.
    pub(crate) max_depth: u32,
}

impl TreeLimits {
    /// The limits of a run that has no parent.
    pub(crate) fn new(max_history_bytes: usize, max_depth: u32) -> Self {
        Self {
            loads: LoadTurns::default(),
            histories: BytePool::new(max_history_bytes),
            event_buffers: BytePool::new(MAX_EVENT_BYTES),
            max_depth: max_depth.min(MAX_DEPTH),
        }
    }

    /// The limits of a run at `depth` within a call of the run that has these. Below it, runs may
    /// nest `max_depth` deep.
    pub(crate) fn of_child(&self, depth: u32, max_depth: u32) -> Self {
        let max_depth = self.max_depth.min(depth.saturating_add(max_depth));
        Self {
            max_depth,
            ..self.clone()
        }
    }
}
