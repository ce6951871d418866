//! The limits of a run and of the runs within its calls together.

use crate::tool::LoadTurns;

use super::history_pool::HistoryPool;

/// The limits that a run shares with the runs within its calls. Clones share them.
#[derive(Clone)]
pub(crate) struct TreeLimits {
    pub(crate) loads: LoadTurns,
    pub(crate) histories: HistoryPool,
}

impl TreeLimits {
    /// The limits of a run that has no parent.
    pub(crate) fn new(max_history_bytes: usize) -> Self {
        Self {
            loads: LoadTurns::default(),
            histories: HistoryPool::new(max_history_bytes),
        }
    }
}
