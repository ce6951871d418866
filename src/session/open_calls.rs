//! The positions of calls in long lists, so that a call is removed without a search.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use crate::message::Message;

/// The maximum length of a list that is searched, and stays in order. A longer list has an index.
const MAX_SEARCHED: usize = 64;

/// The positions of calls in the lists of a session: the calls that have started, and the results
/// of the calls that have ended.
///
/// The lists are public, so an index is rebuilt when its list has changed since.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenCalls {
    started: Index,
    ended: Index,
}

impl OpenCalls {
    /// Adds a call that has started.
    pub(crate) fn start(&mut self, started: &mut Vec<Arc<str>>, id: Arc<str>) {
        self.started.push(started, id);
    }

    /// Adds the result of a call that has ended.
    pub(crate) fn end(&mut self, ended: &mut Vec<Arc<Message>>, result: Arc<Message>) {
        self.ended.push(ended, result);
    }

    /// Removes a call from both lists.
    pub(crate) fn remove(
        &mut self,
        started: &mut Vec<Arc<str>>,
        ended: &mut Vec<Arc<Message>>,
        id: &str,
    ) {
        self.started.remove(started, id);
        self.ended.remove(ended, id);
    }
}

/// An item of one of the lists.
trait CallEntry {
    fn id(&self) -> Option<&Arc<str>>;

    fn is(&self, id: &str) -> bool;
}

impl CallEntry for Arc<str> {
    fn id(&self) -> Option<&Arc<str>> {
        Some(self)
    }

    fn is(&self, id: &str) -> bool {
        **self == *id
    }
}

impl CallEntry for Arc<Message> {
    fn id(&self) -> Option<&Arc<str>> {
        self.as_tool_result().map(|result| &result.tool_call_id)
    }

    fn is(&self, id: &str) -> bool {
        is_result_of(self, id)
    }
}

/// The position of each call in a long list.
#[derive(Clone, Debug, Default)]
struct Index {
    positions: HashMap<Arc<str>, usize>,
    /// The address and the length of the list that was indexed.
    list: (usize, usize),
}

impl Index {
    /// Adds an item. A long list takes no item without an id, and none with the id of another item.
    fn push<T: CallEntry>(&mut self, list: &mut Vec<T>, item: T) {
        if list.len() < MAX_SEARCHED {
            self.positions.clear();
            list.push(item);
            return;
        }
        let Some(id) = item.id() else { return };
        if self.find(list, id).is_none() {
            self.positions.insert(id.clone(), list.len());
            list.push(item);
        }
        self.list = address_and_len(list);
    }

    /// Removes the items of a call. In a long list, the last item takes the free position.
    fn remove<T: CallEntry>(&mut self, list: &mut Vec<T>, id: &str) {
        if list.len() <= MAX_SEARCHED {
            self.positions = HashMap::new();
            list.retain(|item| !item.is(id));
            return;
        }

        if let Some(position) = self.find(list, id) {
            self.positions.remove(id);
            list.swap_remove(position);
            if let Some(moved_id) = list.get(position).and_then(T::id) {
                self.positions.insert(moved_id.clone(), position);
            }
        }

        self.list = address_and_len(list);
    }

    /// Returns the position of a call in a long list. The index is rebuilt if the list was changed
    /// meanwhile, which removes the items that [`push`](Self::push) does not add.
    fn find<T: CallEntry>(&mut self, list: &mut Vec<T>, id: &str) -> Option<usize> {
        let is_there = |position: &usize| list.get(*position).is_some_and(|item| item.is(id));
        let position = self.positions.get(id);
        let is_current = !self.positions.is_empty() && self.list == address_and_len(list);
        if is_current && position.is_none_or(is_there) {
            return position.copied();
        }

        self.positions = HashMap::with_capacity(list.len());

        // If several items have the same id, the first stays.
        list.retain(|item| {
            let position = self.positions.len();
            let Some(Entry::Vacant(entry)) = item.id().map(|id| self.positions.entry(id.clone()))
            else {
                return false;
            };

            entry.insert(position);
            true
        });

        self.positions.get(id).copied()
    }
}

fn address_and_len<T>(list: &[T]) -> (usize, usize) {
    (list.as_ptr().addr(), list.len())
}

fn is_result_of(message: &Message, call_id: &str) -> bool {
    message
        .as_tool_result()
        .is_some_and(|result| *result.tool_call_id == *call_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: usize) -> Arc<str> {
        number.to_string().into()
    }

    #[test]
    fn short_lists_stay_in_order() {
        let (mut calls, mut started_ids) = (OpenCalls::default(), Vec::new());
        (0..5).for_each(|number| calls.start(&mut started_ids, id(number)));
        calls.remove(&mut started_ids, &mut Vec::new(), "1");
        assert_eq!(started_ids, [id(0), id(2), id(3), id(4)]);
    }

    #[test]
    fn long_lists_keep_ids_that_were_not_removed() {
        let (mut calls, mut started_ids) = (OpenCalls::default(), Vec::new());
        (0..500).for_each(|number| calls.start(&mut started_ids, id(number)));
        for number in (0..500).filter(|number| number % 3 != 0) {
            calls.remove(&mut started_ids, &mut Vec::new(), &id(number));
            calls.remove(&mut started_ids, &mut Vec::new(), "unknown");
        }
        started_ids.sort();
        let mut expected: Vec<_> = (0..500).step_by(3).map(id).collect();
        expected.sort();
        assert_eq!(started_ids, expected);
    }

    #[test]
    fn list_changed_externally_is_reindexed() {
        let (mut calls, mut started_ids) = (OpenCalls::default(), Vec::new());
        (0..100).for_each(|number| calls.start(&mut started_ids, id(number)));
        started_ids.push(id(200));
        started_ids.insert(0, id(3));
        calls.remove(&mut started_ids, &mut Vec::new(), "200");
        calls.remove(&mut started_ids, &mut Vec::new(), "3");
        let reversed_ids: Vec<_> = started_ids.iter().rev().cloned().collect();
        started_ids = reversed_ids;
        calls.remove(&mut started_ids, &mut Vec::new(), "7");
        started_ids.sort();
        let mut expected: Vec<_> = (0..100).filter(|n| ![3, 7].contains(n)).map(id).collect();
        expected.sort();
        assert_eq!(started_ids, expected);
    }
}
