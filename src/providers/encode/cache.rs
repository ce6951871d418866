//! The body that is continued from request to request.

use std::borrow::Cow;
use std::collections::HashSet;
use std::mem;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::error::{Error, ErrorKind, Result};
use crate::message::{Message, Part, Role, shared_prefix};
use crate::model::{ModelRequest, Stability};

use super::super::fields::BodyFields;
use super::super::json::insert;
use super::history::{History, Reasoning, calls};
use super::section_cache::SectionCache;
use super::wire::{Place, Sections, Wire};

/// The last group of a request, whose form may change once other groups follow.
#[derive(Clone, Default)]
struct LastGroup {
    group: Vec<Arc<Message>>,
    /// The offsets of its end and of its breakpoint, counted from the first message.
    end: usize,
    breakpoint: Option<usize>,
    /// The volatile text after it.
    tail: Option<Arc<str>>,
}

/// An encoded request.
pub(in crate::providers) struct Encoded {
    pub(in crate::providers) body: Bytes,
    pub(in crate::providers) history: History,
    pub(in crate::providers) reasoning: Reasoning,
    /// The warning about reasoning that was omitted.
    pub(in crate::providers) warning: Option<String>,
}

/// Encodes `request`. `write` writes every field except the messages and the fields in `extra`, and
/// returns the items before the history in the list of messages, separated by commas.
///
/// # Errors
///
/// Returns [`ErrorKind::InvalidMessages`] if there is no message to send.
pub(in crate::providers) fn encode<W: Wire>(
    wire: &W,
    request: &ModelRequest,
    extra: &Map<String, Value>,
    write: impl for<'a> FnOnce(&mut BodyFields<'_>, &Sections<'a>) -> Result<Cow<'a, [u8]>>,
) -> Result<Encoded> {
    let run_cache = request.provider_cache();
    // A request that is counted continues the last body, as the next request of the run will.
    let former = run_cache
        .take::<Cache<W>>()
        .or_else(|| run_cache.read(|former: &Cache<W>| Box::new(former.detached())));
    let mut cache = match former {
        Some(cache) if cache.wire == *wire => cache,
        _ => Box::new(Cache::new(wire.clone())),
    };

    let (lifted, messages) = request.messages.as_slice().split_at(lifted(request));
    let sections = cache.sections.update(wire, request, lifted)?;
    let mut fields = BodyFields::new(extra, sections.tools.len() + sections.system.len() + 256);
    let opening = write(&mut fields, &sections)?;
    let mut head = fields.finish()?;
    if extra.contains_key(W::LIST) {
        head.push(b'}');
        return Ok(cache.encoded(head.into(), request, messages, None));
    }

    begin_list(&mut head, W::LIST, &opening);
    let tail = wire
        .has_tail()
        .then(|| request.system.text_of(Stability::Volatile))
        .filter(|text| !text.is_empty());
    let warning = cache.omit_bound_reasoning(messages, tail.is_some());
    let body = cache.body(head, messages, tail.as_deref())?;
    let encoded = cache.encoded(body, request, messages, warning);
    request.provider_cache().put(cache);
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
fn lifted(request: &ModelRequest) -> usize {
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
struct Cache<W> {
    wire: W,
    sections: SectionCache,
    /// The last body.
    sent: Arc<Vec<u8>>,
    /// The offset of the first message in it.
    start: usize,
    /// The messages of all groups except the last. Separate pointers: a clone of `Messages` would
    /// make the list shared, and the run's next push would copy it.
    messages: Vec<Arc<Message>>,
    /// The ends of those groups.
    ends: Vec<GroupEnd>,
    /// The ids of the calls in `messages`, if there are any.
    ids: Option<Arc<HashSet<Arc<str>>>>,
    last: LastGroup,
    /// The offset of the breakpoint of the request before the last, which stays for one request: a
    /// server that looks for the stored prefix only near a breakpoint finds it there.
    former_breakpoint: Option<usize>,
    /// The last tail after the groups in `ends`, and the number of messages in front of it. It
    /// stays there, and is sent again only after it has changed.
    tail: Option<(Arc<str>, usize)>,
    /// The number of the first message that is sent with its reasoning.
    reasoning_start: Arc<AtomicUsize>,
    /// The value of `reasoning_start` with which the groups were written.
    applied_reasoning_start: usize,
}

/// The end of a group of messages.
#[derive(Clone, Copy, Default)]
struct GroupEnd {
    /// The number of messages up to here.
    message: usize,
    /// The offset, counted from the first message.
    byte: usize,
}

impl<W: Wire> Cache<W> {
    fn new(wire: W) -> Self {
        Self {
            wire,
            sections: SectionCache::default(),
            sent: Arc::default(),
            start: 0,
            messages: Vec::new(),
            ends: Vec::new(),
            ids: None,
            last: LastGroup::default(),
            former_breakpoint: None,
            tail: None,
            reasoning_start: Arc::default(),
            applied_reasoning_start: 0,
        }
    }

    /// Returns a copy that leaves the run's cache as it is.
    fn detached(&self) -> Self {
        let reasoning_start = self.reasoning_start.load(Ordering::Relaxed);
        Self {
            reasoning_start: Arc::new(AtomicUsize::new(reasoning_start)),
            ..self.clone()
        }
    }

    fn encoded(
        &self,
        body: Bytes,
        request: &ModelRequest,
        messages: &[Arc<Message>],
        warning: Option<String>,
    ) -> Encoded {
        let last_calls = calls(&self.last.group);
        Encoded {
            body,
            history: History {
                len: request.messages.len(),
                ids: self.ids.clone(),
                last: last_calls.map(|call| call.id.clone()).collect(),
            },
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

        let common = self.common(messages);
        let first_changed = if self.sent.is_empty() {
            has_tail.then_some(0)
        } else if has_new_sections {
            Some(0)
        } else {
            let former_len = self.messages.len() + self.last.group.len();
            (common < former_len).then_some(common)
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

    /// Returns the number of messages at the beginning that are equal to the messages of the last
    /// body.
    fn common(&self, messages: &[Arc<Message>]) -> usize {
        self.messages
            .iter()
            .chain(&self.last.group)
            .zip(messages)
            .take_while(|(former, message)| Arc::ptr_eq(former, message) || former == message)
            .count()
    }

    /// Returns the body of these messages after `head`, with `tail` after the last of them.
    fn body(
        &mut self,
        head: Vec<u8>,
        messages: &[Arc<Message>],
        tail: Option<&str>,
    ) -> Result<Bytes> {
        self.keep_common(messages);
        self.apply_reasoning_start(messages.len());
        let (mut body, mut begin) = self.continued(head, messages);
        loop {
            let group = self.group(messages, begin);
            if group.is_empty() {
                return Err(Error::new(
                    ErrorKind::InvalidMessages,
                    "there is no message to send",
                ));
            }

            if body.len() > self.start {
                body.push(b',');
            }

            let is_last = group.end == messages.len();
            let has_reasoning = begin >= self.applied_reasoning_start;
            let first = begin == 0;
            begin = group.end;
            let (before, after) = (&messages[..group.start], &messages[group.end..]);
            let group = &messages[group];
            let place = Place {
                before: before.last().map(|message| &**message),
                after,
                first,
                last: is_last,
                has_reasoning,
                tail: tail.filter(|text| is_last && self.takes_tail(before, group, text)),
            };

            let breakpoint = self.wire.message(group, place, &mut body)?;
            if is_last {
                return Ok(self.close(body, group, breakpoint, place.tail));
            }

            self.push(group, body.len());
        }
    }

    /// Returns `true` if the text is to be sent after this group: it is not an answer, and the text
    /// differs from the text that was sent before.
    fn takes_tail(&self, before: &[Arc<Message>], group: &[Arc<Message>], text: &str) -> bool {
        let is_answer = group.last().is_some_and(|m| m.role() == Role::Assistant);
        let former = self.tail.as_ref().map(|(former, _)| &**former);
        !is_answer
            && former != Some(text)
            && !self.wire.depends_on_place(group)
            && self.wire.allows_tail(before)
    }

    /// Drops all groups if reasoning in them is to be omitted: they are written again without it.
    fn apply_reasoning_start(&mut self, message_count: usize) {
        // After a compaction, the numbers denote other messages.
        self.applied_reasoning_start = self.applied_reasoning_start.min(message_count);
        let former = self
            .reasoning_start
            .fetch_min(message_count, Ordering::Relaxed);
        let number = former.min(message_count);
        if number > self.applied_reasoning_start {
            self.applied_reasoning_start = number;
            self.messages.clear();
            self.ends.clear();
            self.ids = None;
            self.last = LastGroup::default();
            self.former_breakpoint = None;
            self.tail = None;
        }
    }

    /// Returns the former body after `head`, up to the end of the groups that did not change, and
    /// the number of messages in it.
    fn continued(&mut self, head: Vec<u8>, messages: &[Arc<Message>]) -> (Vec<u8>, usize) {
        let begin = self.messages.len();
        let group = self.group(messages, begin);
        if group.end == messages.len() || !self.is_written(&messages[group.clone()]) {
            let end = self.ends.last().map_or(0, |end| end.byte);
            return (self.reopen(head, end), begin);
        }

        let mut body = self.reopen(head, self.last.end);
        if let Some(breakpoint) = self.last.breakpoint.take() {
            self.replace_breakpoint(breakpoint, &mut body);
        }

        if let Some(tail) = self.last.tail.take() {
            self.tail = Some((tail, group.end));
        }

        let end = group.end;
        self.push(&messages[group], body.len());
        (body, end)
    }

    /// Keeps the last breakpoint in the body and removes the breakpoint before it.
    fn replace_breakpoint(&mut self, mut breakpoint: usize, body: &mut Vec<u8>) {
        let len = W::BREAKPOINT.len();
        if let Some(former) = self.former_breakpoint.take() {
            let offset = self.start + former;
            body.drain(offset..offset + len);
            breakpoint -= len;
            let later = self.ends.iter_mut().rev();
            for end in later.take_while(|end| end.byte > former) {
                end.byte -= len;
            }
        }
        self.former_breakpoint = Some(breakpoint);
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

    /// Records a group that others follow, and its end in the body.
    fn push(&mut self, group: &[Arc<Message>], end: usize) {
        for call in calls(group) {
            let ids = self.ids.get_or_insert_default();
            Arc::make_mut(ids).insert(call.id.clone());
        }
        self.messages.extend_from_slice(group);
        self.ends.push(GroupEnd {
            message: self.messages.len(),
            byte: end - self.start,
        });
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
        self.last = LastGroup {
            group: group.to_vec(),
            end: body.len() - self.start,
            breakpoint: breakpoint.map(|offset| offset - self.start),
            tail: tail.map(Arc::from),
        };
        body.extend_from_slice(b"]}");
        self.sent = Arc::new(body);
        Bytes::from_owner(SentBody(self.sent.clone()))
    }

    /// Returns `true` if this is the former last group, in the form that it has when others follow
    /// it.
    fn is_written(&self, group: &[Arc<Message>]) -> bool {
        let last = &self.last.group;
        group.len() == last.len()
            && shared_prefix(group, last) == group.len()
            && !self.wire.depends_on_place(group)
    }

    /// Drops the groups that `messages` does not begin with, and groups that are longer in
    /// `messages`.
    fn keep_common(&mut self, messages: &[Arc<Message>]) {
        let common = shared_prefix(&self.messages, messages);
        let is_whole = |end: usize| {
            end <= common
                && end < messages.len()
                && !self.wire.joins(&messages[end - 1], &messages[end])
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
            && self
                .wire
                .depends_on_next(&self.messages[start..end.message])
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

    /// Returns the range of the messages from `start` on that become one wire message.
    fn group(&self, messages: &[Arc<Message>], start: usize) -> Range<usize> {
        let joined = messages[start..]
            .windows(2)
            .take_while(|pair| self.wire.joins(&pair[0], &pair[1]))
            .count();
        start..(start + joined + 1).min(messages.len())
    }
}
