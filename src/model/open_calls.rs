//! The calls of a response that are not complete yet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The number of calls up to which a list is searched from its start. Responses have few calls, but
/// nothing keeps a server from sending many.
const MAX_LISTED: usize = 16;

/// Calls whose end has not arrived, by their index in the stream and by their id.
#[derive(Debug)]
pub(crate) enum OpenCalls<T> {
    /// At most [`MAX_LISTED`] calls in the order of their indexes.
    Listed(Vec<(u32, Arc<str>, T)>),
    Indexed(IndexedCalls<T>),
}

/// Calls that are found in logarithmic time.
#[derive(Debug)]
pub(crate) struct IndexedCalls<T> {
    calls: BTreeMap<u32, (Arc<str>, T)>,
    /// Servers may give several calls the same id.
    indexes: BTreeSet<(Arc<str>, u32)>,
}

impl<T> Default for OpenCalls<T> {
    fn default() -> Self {
        Self::Listed(Vec::new())
    }
}

impl<T> OpenCalls<T> {
    /// Adds a call, in place of the one with the same index.
    pub(crate) fn insert(&mut self, index: u32, id: Arc<str>, call: T) {
        if let Self::Listed(calls) = self {
            let place = calls.partition_point(|(other, ..)| *other < index);
            let is_replaced = calls.get(place).is_some_and(|(other, ..)| *other == index);
            if is_replaced {
                calls[place] = (index, id, call);
                return;
            }
            if calls.len() < MAX_LISTED {
                calls.insert(place, (index, id, call));
                return;
            }

            let mut indexed_calls = IndexedCalls {
                calls: BTreeMap::new(),
                indexes: BTreeSet::new(),
            };
            for (index, id, call) in calls.drain(..) {
                indexed_calls.insert(index, id, call);
            }
            *self = Self::Indexed(indexed_calls);
        }

        if let Self::Indexed(calls) = self {
            calls.insert(index, id, call);
        }
    }

    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        match self {
            Self::Listed(calls) => {
                let (.., call) = calls.iter_mut().find(|(other, ..)| *other == index)?;
                Some(call)
            }
            Self::Indexed(calls) => calls.calls.get_mut(&index).map(|(_, call)| call),
        }
    }

    pub(crate) fn remove(&mut self, index: u32) -> Option<T> {
        match self {
            Self::Listed(calls) => {
                let place = calls.iter().position(|(other, ..)| *other == index)?;
                let (.., call) = calls.remove(place);
                Some(call)
            }
            Self::Indexed(calls) => calls.remove(index),
        }
    }

    /// Returns the index of the first call with this id.
    pub(crate) fn find(&self, id: &Arc<str>) -> Option<u32> {
        match self {
            Self::Listed(calls) => {
                let (index, ..) = calls.iter().find(|(_, other, _)| other == id)?;
                Some(*index)
            }
            Self::Indexed(calls) => {
                let (first_id, index) = calls.indexes.range((id.clone(), 0)..).next()?;
                (first_id == id).then_some(*index)
            }
        }
    }

    /// Returns the calls in the order of their indexes.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let (listed, indexed) = match self {
            Self::Listed(calls) => (&calls[..], None),
            Self::Indexed(calls) => (&[][..], Some(&calls.calls)),
        };
        let listed = listed.iter().map(|(index, _, call)| (*index, call));
        let indexed = indexed.into_iter().flatten();
        listed.chain(indexed.map(|(index, (_, call))| (*index, call)))
    }

    pub(crate) fn clear(&mut self) {
        match self {
            Self::Listed(calls) => calls.clear(),
            Self::Indexed(_) => *self = Self::default(),
        }
    }
}

impl<T> IndexedCalls<T> {
    fn insert(&mut self, index: u32, id: Arc<str>, call: T) {
        self.remove(index);
        self.indexes.insert((id.clone(), index));
        self.calls.insert(index, (id, call));
    }

    fn remove(&mut self, index: u32) -> Option<T> {
        let (id, call) = self.calls.remove(&index)?;
        self.indexes.remove(&(id, index));
        Some(call)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_calls_are_found_as_few_are() {
        let mut few = OpenCalls::default();
        let mut many = OpenCalls::default();
        for index in 0..100 {
            many.insert(1_000 + index, "filler".into(), 0);
        }
        assert!(matches!(many, OpenCalls::Indexed(_)));
        for calls in [&mut few, &mut many] {
            calls.insert(3, "a".into(), 30);
            calls.insert(1, "a".into(), 10);
            calls.insert(3, "b".into(), 31);
            *calls.get_mut(1).unwrap() += 1;
            assert_eq!(calls.find(&"a".into()), Some(1));
            assert_eq!(calls.find(&"b".into()), Some(3));
            let first_calls = calls.iter().take(2).map(|(index, call)| (index, *call));
            assert_eq!(first_calls.collect::<Vec<_>>(), [(1, 11), (3, 31)]);
            assert_eq!((calls.remove(1), calls.remove(1)), (Some(11), None));
            assert_eq!((calls.find(&"a".into()), calls.get_mut(1)), (None, None));
            calls.clear();
            assert_eq!(calls.iter().count(), 0);
        }
    }

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
