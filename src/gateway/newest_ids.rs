//! The ids that were seen last.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

/// The ids that were added last, up to a limit.
pub(super) struct NewestIds {
    ids: HashSet<Arc<str>>,
    order: VecDeque<Arc<str>>,
    limit: usize,
}

impl NewestIds {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            ids: HashSet::new(),
            order: VecDeque::new(),
            limit,
        }
    }

    /// Adds an id. Returns `false` if it is known.
    pub(super) fn add(&mut self, id: &Arc<str>) -> bool {
        if !self.ids.insert(id.clone()) {
            return false;
        }
        self.order.push_back(id.clone());
        if self.order.len() > self.limit
            && let Some(oldest_id) = self.order.pop_front()
        {
            self.ids.remove(&oldest_id);
        }
        true
    }

    pub(super) fn contains(&self, id: &str) -> bool {
        self.ids.contains(id)
    }
}
