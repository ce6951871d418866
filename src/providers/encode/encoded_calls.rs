//! The parts of an encoded request that its decoder needs.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::message::{Message, ToolCall};
use crate::util::hash::IdSet;

/// The calls of an encoded history. Their ids are collected by the encoder, so that a lookup costs
/// the same for every length of the history.
#[derive(Clone, Debug, Default)]
pub(in crate::providers) struct EncodedCalls {
    /// The number of messages of the history.
    pub(super) message_count: usize,
    /// The ids of the calls of the closed groups.
    pub(super) closed_ids: Option<Arc<IdSet>>,
    /// The ids of the calls of the last group.
    pub(super) last_ids: BTreeSet<Arc<str>>,
}

impl EncodedCalls {
    /// Returns the number of messages of the history.
    pub(in crate::providers) fn message_count(&self) -> usize {
        self.message_count
    }

    /// Returns `true` if one of the calls has this id.
    pub(in crate::providers) fn has_id(&self, id: &str) -> bool {
        let closed_ids = self.closed_ids.as_ref();
        closed_ids.is_some_and(|ids| ids.contains(id)) || self.last_ids.contains(id)
    }
}

pub(super) fn calls(messages: &[Arc<Message>]) -> impl Iterator<Item = &ToolCall> {
    messages.iter().flat_map(|message| message.tool_calls())
}

/// The reasoning in a request that was sent.
#[derive(Clone, Debug)]
pub(in crate::providers) struct Reasoning {
    /// The index of the first message that is sent with its reasoning, shared with the cache of the
    /// run.
    pub(super) reasoning_start: Arc<AtomicUsize>,
    /// The number of the request's messages, without the lifted ones.
    pub(super) messages: usize,
}

impl Reasoning {
    /// Leaves the reasoning of the request's messages out of the later requests of the run.
    pub(in crate::providers) fn leave_out(&self) {
        self.reasoning_start
            .fetch_max(self.messages, Ordering::Relaxed);
    }
}
