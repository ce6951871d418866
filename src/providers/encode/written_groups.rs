//! The groups of messages that the last body of a run has. The module `encode` defines the terms.

use std::sync::Arc;

use crate::message::{Message, Role, shared_prefix};
use crate::util::hash::IdSet;

use super::encoded_calls::{EncodedCalls, calls};
use super::wire::Wire;

/// The groups of messages in a body: closed groups, which others follow, and the last one. Their
/// offsets are counted from the first message.
#[derive(Clone, Default)]
pub(super) struct WrittenGroups {
    /// The messages of the closed groups. Separate pointers: a clone of `Messages` would make the
    /// list shared, and the run's next push would copy it.
    messages: Vec<Arc<Message>>,
    /// The ends of the closed groups.
    ends: Vec<GroupEnd>,
    /// The ids of the calls in `messages`, if there are any.
    ids: Option<Arc<IdSet>>,
    pub(super) last: LastGroup,
    /// The offset of the breakpoint of the request before the last, which stays for one request: a
    /// server that looks for the stored prefix only near a breakpoint finds it there.
    former_breakpoint: Option<usize>,
    /// The last tail after the closed groups, and the number of messages in front of it. It stays
    /// there, and is sent again only after it has changed.
    tail: Option<(Arc<str>, usize)>,
}

/// The end of a group of messages.
#[derive(Clone, Copy, Default)]
struct GroupEnd {
    /// The number of messages up to here.
    message: usize,
    /// The offset, counted from the first message.
    byte: usize,
}

/// The last group of a request, whose form may change once other groups follow.
#[derive(Clone, Default)]
pub(super) struct LastGroup {
    pub(super) group: Vec<Arc<Message>>,
    /// The offsets of its end and of its breakpoint.
    pub(super) end: usize,
    pub(super) breakpoint: Option<usize>,
    /// The volatile text after it.
    pub(super) tail: Option<Arc<str>>,
}

impl WrittenGroups {
    /// Drops all groups, so that they are written again.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Returns the number of messages in the closed groups.
    pub(super) fn closed_message_count(&self) -> usize {
        self.messages.len()
    }

    /// Returns the offset of the end of the closed groups.
    pub(super) fn closed_end(&self) -> usize {
        self.ends.last().map_or(0, |end| end.byte)
    }

    /// Returns the first message.
    pub(super) fn first(&self) -> Option<&Arc<Message>> {
        self.messages.iter().chain(&self.last.group).next()
    }

    /// Returns the number of messages in all groups.
    pub(super) fn message_count(&self) -> usize {
        self.messages.len() + self.last.group.len()
    }

    /// Returns the calls of a request with `message_count` messages.
    pub(super) fn calls(&self, message_count: usize) -> EncodedCalls {
        let last_calls = calls(&self.last.group);
        EncodedCalls {
            message_count,
            closed_ids: self.ids.clone(),
            last_ids: last_calls.map(|call| call.id.clone()).collect(),
        }
    }

    /// Returns the number of messages at the beginning that are equal to the messages of the last
    /// body.
    pub(super) fn common(&self, messages: &[Arc<Message>]) -> usize {
        self.messages
            .iter()
            .chain(&self.last.group)
            .zip(messages)
            .take_while(|(former, message)| Arc::ptr_eq(former, message) || former == message)
            .count()
    }

    /// Returns `true` if the text is to be sent after this group, which follows the messages
    /// `before`: the group is not an answer, the text differs from the text that was sent last, and
    /// the API accepts a text there.
    pub(super) fn takes_tail<W: Wire>(
        &self,
        wire: &W,
        before: &[Arc<Message>],
        group: &[Arc<Message>],
        text: &str,
    ) -> bool {
        let is_answer = group.last().is_some_and(|m| m.role() == Role::Assistant);
        let former = self.tail.as_ref().map(|(former, _)| &**former);
        !is_answer
            && former != Some(text)
            && !wire.depends_on_place(group)
            && wire.allows_tail(before)
    }

    /// Returns `true` if this is the former last group, in the form that it has when others follow
    /// it.
    pub(super) fn is_written<W: Wire>(&self, wire: &W, group: &[Arc<Message>]) -> bool {
        let last = &self.last.group;
        group.len() == last.len()
            && shared_prefix(group, last) == group.len()
            && !wire.depends_on_place(group)
    }

    /// Records a group that others follow, and its end, counted from the first message.
    pub(super) fn push(&mut self, group: &[Arc<Message>], end: usize) {
        for call in calls(group) {
            let ids = self.ids.get_or_insert_default();
            Arc::make_mut(ids).insert(call.id.clone());
        }
        self.messages.extend_from_slice(group);
        self.ends.push(GroupEnd {
            message: self.messages.len(),
            byte: end,
        });
    }

    /// Keeps the breakpoint of the last group, and removes the breakpoint before it, which has
    /// `breakpoint_len` bytes. Returns the offset from which that is to be removed in the body.
    pub(super) fn replace_breakpoint(&mut self, breakpoint_len: usize) -> Option<usize> {
        let mut breakpoint = self.last.breakpoint.take()?;
        let former_breakpoint = self.former_breakpoint.take();
        if let Some(former) = former_breakpoint {
            breakpoint -= breakpoint_len;
            let later = self.ends.iter_mut().rev();
            for end in later.take_while(|end| end.byte > former) {
                end.byte -= breakpoint_len;
            }
        }
        self.former_breakpoint = Some(breakpoint);
        former_breakpoint
    }

    /// Keeps the tail of the last group, which has `message_count` messages in front of it.
    pub(super) fn keep_tail(&mut self, message_count: usize) {
        if let Some(tail) = self.last.tail.take() {
            self.tail = Some((tail, message_count));
        }
    }

    /// Drops the groups that `messages` does not begin with, and groups that are longer in
    /// `messages`.
    pub(super) fn keep_common<W: Wire>(&mut self, wire: &W, messages: &[Arc<Message>]) {
        let common = shared_prefix(&self.messages, messages);
        let is_whole = |end: usize| {
            end <= common && end < messages.len() && !wire.joins(&messages[end - 1], &messages[end])
        };

        while let Some(end) = self.ends.last()
            && !is_whole(end.message)
        {
            self.ends.pop();
            self.last = LastGroup::default();
        }

        // The group after the last one may have become longer.
        let start = self.ends.iter().nth_back(1).map_or(0, |end| end.message);
        if let Some(end) = self.ends.last()
            && wire.depends_on_next(&self.messages[start..end.message])
        {
            self.ends.pop();
            self.last = LastGroup::default();
        }

        let end = self.ends.last().copied().unwrap_or_default();
        self.tail.take_if(|(_, position)| *position > end.message);
        self.former_breakpoint.take_if(|offset| *offset >= end.byte);
        if let Some(ids) = &mut self.ids
            && end.message < self.messages.len()
        {
            let ids = Arc::make_mut(ids);
            for call in calls(&self.messages[end.message..]) {
                ids.remove(&call.id);
            }
        }

        self.messages.truncate(end.message);
    }
}
