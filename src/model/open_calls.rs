//! The calls of an answer that are not complete yet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Calls whose end has not arrived, by their index in the stream and by their id.
#[derive(Debug)]
pub(crate) struct OpenCalls<T> {
    calls: BTreeMap<u32, (Arc<str>, T)>,
    /// Servers may give several calls the same id.
    indexes: BTreeSet<(Arc<str>, u32)>,
}

impl<T> Default for OpenCalls<T> {
    fn default() -> Self {
        Self {
            calls: BTreeMap::new(),
            indexes: BTreeSet::new(),
        }
    }
}

impl<T> OpenCalls<T> {
    /// Adds a call, in place of the one with the same index.
    pub(crate) fn insert(&mut self, index: u32, id: Arc<str>, call: T) {
        self.remove(index);
        self.indexes.insert((id.clone(), index));
        self.calls.insert(index, (id, call));
    }

    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        self.calls.get_mut(&index).map(|(_, call)| call)
    }

    pub(crate) fn remove(&mut self, index: u32) -> Option<T> {
        let (id, call) = self.calls.remove(&index)?;
        self.indexes.remove(&(id, index));
        Some(call)
    }

    /// Returns the index of the first call with this id.
    pub(crate) fn find(&self, id: &Arc<str>) -> Option<u32> {
        let mut indexes = self.indexes.range((id.clone(), 0)..);
        let (first_id, index) = indexes.next()?;
        (first_id == id).then_some(*index)
    }

    /// Returns the calls in the order of their indexes.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.calls.iter().map(|(index, (_, call))| (*index, call))
    }

    pub(crate) fn clear(&mut self) {
        self.calls.clear();
        self.indexes.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_with_the_same_id_are_found_in_their_order() {
        let mut calls = OpenCalls::default();
        let id: Arc<str> = "a".into();
        for index in [7, 3, 5] {
            calls.insert(index, id.clone(), index);
        }
        calls.insert(5, "b".into(), 50);
        assert_eq!(calls.find(&id), Some(3));
        assert_eq!(calls.remove(3), Some(3));
        assert_eq!(calls.find(&id), Some(7));
        assert_eq!(calls.remove(7), Some(7));
        assert_eq!((calls.find(&id), calls.find(&"b".into())), (None, Some(5)));
        assert_eq!(
            calls.iter().map(|(_, call)| *call).collect::<Vec<_>>(),
            [50]
        );
    }
}
