//! The body that is continued from request to request.

use std::borrow::Cow;
use std::mem;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::error::{Error, ErrorKind, Result};
use crate::message::{Message, Part, Role};
use crate::model::{ModelRequest, Stability};

use super::super::fields::BodyFields;
use super::super::json::insert;
use super::encoded_calls::{EncodedCalls, Reasoning};
use super::kept_body::{BorrowedCache, KeptBody};
use super::section_cache::SectionCache;
use super::wire::{GroupPlace, Sections, Wire};
use super::written_groups::{LastGroup, WrittenGroups};

/// The bytes that are reserved for a message in addition to its text.
const MESSAGE_OVERHEAD: usize = 48;

/// An encoded request.
pub(in crate::providers) struct Encoded {
    pub(in crate::providers) body: Bytes,
    /// The calls of the history, with whose ids the ids of the response must not collide.
    pub(in crate::providers) calls: EncodedCalls,
    pub(in crate::providers) reasoning: Reasoning,
    /// The warning about reasoning that was omitted.
    pub(in crate::providers) warning: Option<String>,
}

/// Encodes `request`. `write` writes every field except the messages and the fields in `extra`, and
/// returns the items before the history in the list of messages, separated by commas. The first
/// request of a run may continue `kept_body`.
///
/// # Errors
///
/// Returns [`ErrorKind::InvalidMessages`] if there is no message to send.
pub(in crate::providers) fn encode<W: Wire>(
    wire: &W,
    kept_body: &KeptBody,
    request: &ModelRequest,
    extra: &Map<String, Value>,
    write: impl for<'a> FnOnce(&mut BodyFields<'_>, &Sections<'a>) -> Result<Cow<'a, [u8]>>,
) -> Result<Encoded> {
    let run_cache = request.provider_cache();
    // If the request is sent, `take` returns the last body. If it is only counted, `take` returns
    // nothing, and `read` copies the last body, which stays for the next request.
    let former = run_cache
        .take::<BorrowedCache<W>>()
        .or_else(|| run_cache.read(|former: &BorrowedCache<W>| Box::new(former.detached())));
    let (lifted, messages) = request.messages.as_slice().split_at(lifted_count(request));
    let mut borrowed_cache = match former {
        Some(former) if former.cache.wire == *wire => former,
        _ => Box::new(kept_body.lend(wire, messages)),
    };

    let cache = &mut *borrowed_cache.cache;
    let sections = cache.sections.update(wire, request, lifted)?;
    let mut fields = BodyFields::new(extra, sections.tools.len() + sections.system.len() + 256);
    let opening = write(&mut fields, &sections)?;
    let mut head = fields.finish()?;
    // This list replaces the messages, so there is no body for the next request to continue.
    if extra.contains_key(W::LIST) {
        head.push(b'}');
        return Ok(cache.encoded(head.into(), request, messages, None));
    }

    begin_list(&mut head, W::LIST, &opening);
    let tail = wire
        .has_tail()
        .then(|| request.system.text_of(Stability::Volatile))
        .filter(|text| !text.is_empty());
    cache.had_tail |= tail.is_some();
    let warning = cache.omit_bound_reasoning(messages, tail.is_some());
    let body = cache.body(head, messages, tail.as_deref())?;
    let encoded = cache.encoded(body, request, messages, warning);
    run_cache.put(borrowed_cache);
    Ok(encoded)
}

/// Begins the list of messages, the last field of a body, with `opening` in front of the history.
fn begin_list(head: &mut Vec<u8>, name: &str, opening: &[u8]) {
    if head.len() > 1 {
        head.push(b',');
    }
    head.push(b'"');
    head.extend_from_slice(name.as_bytes());
    head.extend_from_slice(b"\":[");
    if !opening.is_empty() {
        head.extend_from_slice(opening);
        head.push(b',');
    }
}

/// Returns the number of messages at the beginning that belong to the system prompt.
fn lifted_count(request: &ModelRequest) -> usize {
    let messages = request.messages.iter();
    messages
        .take_while(|message| message.role() == Role::System)
        .count()
}

/// A body that its request shares with the cache.
struct SentBody(Arc<Vec<u8>>);

impl AsRef<[u8]> for SentBody {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// The last body of a run, which the body of the next request continues.
#[derive(Clone)]
pub(super) struct Cache<W> {
    pub(super) wire: W,
    sections: SectionCache,
    /// The last body.
    sent: Arc<Vec<u8>>,
    /// The offset of the first message in it.
    start: usize,
    /// The groups of messages in it.
    groups: WrittenGroups,
    /// The index of the first message that is sent with its reasoning. Shared with the requests'
    /// [`Reasoning`], which raises it if the server refuses the reasoning that was sent.
    reasoning_start: Arc<AtomicUsize>,
    /// The value of `reasoning_start` with which the groups were written.
    applied_reasoning_start: usize,
    /// True if a request had a tail, which may still be in the body.
    had_tail: bool,
}

impl<W: Wire> Cache<W> {
    pub(super) fn new(wire: W) -> Self {
        Self {
            wire,
            sections: SectionCache::default(),
            sent: Arc::default(),
            start: 0,
            groups: WrittenGroups::default(),
            reasoning_start: Arc::default(),
            applied_reasoning_start: 0,
            had_tail: false,
        }
    }

    /// Returns the length of the last body.
    pub(super) fn body_len(&self) -> usize {
        self.sent.len()
    }

    /// Returns the memory of the last body, in bytes.
    pub(super) fn body_capacity(&self) -> usize {
        self.sent.capacity()
    }

    /// Returns the cache with a `reasoning_start` of its own, which
    /// [`leave_out`](Reasoning::leave_out) of the requests so far does not change.
    pub(super) fn with_own_reasoning_start(mut self: Box<Self>) -> Box<Self> {
        let reasoning_start = self.reasoning_start.load(Ordering::Relaxed);
        self.reasoning_start = Arc::new(AtomicUsize::new(reasoning_start));
        self
    }

    /// Returns `true` if the body begins with the first of these messages.
    pub(super) fn begins_like(&self, messages: &[Arc<Message>]) -> bool {
        let first_messages = self.groups.first().zip(messages.first());
        first_messages.is_some_and(|(former, first)| Arc::ptr_eq(former, first))
    }

    /// Returns `true` if the closed groups of the body are what any run would write for their
    /// messages: without tails, breakpoints and omitted reasoning, which depend on the requests of
    /// the run so far.
    pub(super) fn is_for_every_run(&self) -> bool {
        W::BREAKPOINT.is_empty()
            && !self.wire.binds_reasoning()
            && !self.had_tail
            && self.applied_reasoning_start == 0
            && self.reasoning_start.load(Ordering::Relaxed) == 0
    }

    /// Returns a copy whose use leaves the run's cache as it is.
    pub(super) fn detached(&self) -> Box<Self> {
        Box::new(self.clone()).with_own_reasoning_start()
    }

    fn encoded(
        &self,
        body: Bytes,
        request: &ModelRequest,
        messages: &[Arc<Message>],
        warning: Option<String>,
    ) -> Encoded {
        Encoded {
            body,
            calls: self.groups.calls(request.messages.len()),
            reasoning: Reasoning {
                reasoning_start: self.reasoning_start.clone(),
                messages: messages.len(),
            },
            warning,
        }
    }

    /// Omits all reasoning so far if the wire binds reasoning to the text before it and that text
    /// has changed, since the server would refuse it. Returns the warning about it.
    ///
    /// In the first request of a run with a tail, the tails of earlier runs are missing, so the
    /// text has changed. Without a tail, no change is known.
    fn omit_bound_reasoning(
        &mut self,
        messages: &[Arc<Message>],
        has_tail: bool,
    ) -> Option<String> {
        let has_new_sections = self.sections.take_changes();
        if !self.wire.binds_reasoning() {
            return None;
        }

        let common = self.groups.common(messages);
        let first_changed = if self.sent.is_empty() {
            has_tail.then_some(0)
        } else if has_new_sections {
            Some(0)
        } else {
            (common < self.groups.message_count()).then_some(common)
        };

        let start = first_changed?
            .max(self.applied_reasoning_start)
            .min(messages.len());
        let has_reasoning = |message: &Arc<Message>| {
            let mut parts = message.content().parts().iter();
            parts.any(|part| matches!(part, Part::Thinking(_)))
        };
        if !messages[start..].iter().any(has_reasoning) {
            return None;
        }

        self.reasoning_start
            .fetch_max(messages.len(), Ordering::Relaxed);
        Some(
            "thinking of earlier answers was left out: the conversation in front of it changed, and \
             the server takes it only behind the one it was made for"
                .to_owned(),
        )
    }

    /// Returns the body of these messages after `head`, with `tail` after the last of them.
    fn body(
        &mut self,
        head: Vec<u8>,
        messages: &[Arc<Message>],
        tail: Option<&str>,
    ) -> Result<Bytes> {
        if messages.is_empty() {
            return Err(Error::new(
                ErrorKind::InvalidMessages,
                "there is no message to send",
            ));
        }

        self.groups.keep_common(&self.wire, messages);
        self.apply_reasoning_start(messages.len());
        let (mut body, mut begin) = self.continued(head, messages);
        let new_messages = messages[begin..].iter();
        let new_len = |message: &Arc<Message>| MESSAGE_OVERHEAD + message.content().text_len();
        body.reserve(new_messages.map(new_len).sum());
        loop {
            if body.len() > self.start {
                body.push(b',');
            }

            let range = self.group_range(messages, begin);
            let (before, after) = (&messages[..range.start], &messages[range.end..]);
            let group = &messages[range.clone()];
            let is_last = after.is_empty();
            let place = GroupPlace {
                before: before.last().map(|message| &**message),
                after,
                is_first: before.is_empty(),
                is_last,
                has_reasoning: range.start >= self.applied_reasoning_start,
                tail: tail.filter(|text| {
                    is_last && self.groups.takes_tail(&self.wire, before, group, text)
                }),
            };

            let breakpoint = self.wire.message(group, place, &mut body)?;
            if is_last {
                return Ok(self.close(body, group, breakpoint, place.tail));
            }

            self.groups.push(group, body.len() - self.start);
            begin = range.end;
        }
    }

    /// Drops all groups if reasoning in them is to be omitted: they are written again without it.
    fn apply_reasoning_start(&mut self, message_count: usize) {
        // After a compaction, the indexes denote other messages.
        self.applied_reasoning_start = self.applied_reasoning_start.min(message_count);
        let former = self
            .reasoning_start
            .fetch_min(message_count, Ordering::Relaxed);
        let new_start = former.min(message_count);
        if new_start > self.applied_reasoning_start {
            self.applied_reasoning_start = new_start;
            self.groups.clear();
        }
    }

    /// Returns the former body after `head`, up to the end of the groups that did not change, and
    /// the number of messages in it.
    fn continued(&mut self, head: Vec<u8>, messages: &[Arc<Message>]) -> (Vec<u8>, usize) {
        let begin = self.groups.closed_message_count();
        let group = self.group_range(messages, begin);
        let has_next = group.end < messages.len();
        // The former last group is written again, unless it is closed now and its form stays.
        if !has_next || !self.groups.is_written(&self.wire, &messages[group.clone()]) {
            let end = self.groups.closed_end();
            return (self.reopen(head, end), begin);
        }

        // It stays in the body and becomes a closed group. Its breakpoint stays for one request,
        // and the breakpoint before it is removed.
        let mut body = self.reopen(head, self.groups.last.end);
        let breakpoint_len = W::BREAKPOINT.len();
        if let Some(former) = self.groups.replace_breakpoint(breakpoint_len) {
            let offset = self.start + former;
            body.drain(offset..offset + breakpoint_len);
        }

        let end = group.end;
        self.groups.keep_tail(end);
        self.groups.push(&messages[group], body.len() - self.start);
        (body, end)
    }

    /// Returns the former body up to `end` bytes of its messages, if it has the same head and is no
    /// longer shared; otherwise a copy of those bytes after the new head.
    fn reopen(&mut self, head: Vec<u8>, end: usize) -> Vec<u8> {
        let start = mem::replace(&mut self.start, head.len());
        match Arc::try_unwrap(mem::take(&mut self.sent)) {
            Ok(mut body) if body[..start] == head => {
                body.truncate(start + end);
                body
            }
            former => {
                let former = match &former {
                    Ok(former) => former,
                    Err(shared) => &**shared,
                };

                let mut body = head;
                body.extend_from_slice(&former[start..start + end]);
                body
            }
        }
    }

    /// Sets the breakpoint and ends a body after its last group.
    fn close(
        &mut self,
        mut body: Vec<u8>,
        group: &[Arc<Message>],
        breakpoint: Option<usize>,
        tail: Option<&str>,
    ) -> Bytes {
        if let Some(offset) = breakpoint {
            insert(&mut body, offset, W::BREAKPOINT);
        }
        self.groups.last = LastGroup {
            group: group.to_vec(),
            end: body.len() - self.start,
            breakpoint: breakpoint.map(|offset| offset - self.start),
            tail: tail.map(Arc::from),
        };
        body.extend_from_slice(b"]}");
        self.sent = Arc::new(body);
        Bytes::from_owner(SentBody(self.sent.clone()))
    }

    /// Returns the range of the messages from `start` on that become one wire message.
    fn group_range(&self, messages: &[Arc<Message>], start: usize) -> Range<usize> {
        let joined = messages[start..]
            .windows(2)
            .take_while(|pair| self.wire.joins(&pair[0], &pair[1]))
            .count();
        start..(start + joined + 1).min(messages.len())
    }
}
