//! Request bodies that are not written anew each turn.
//!
//! The encoder keeps the body it wrote in the request's [`provider_cache`](ModelRequest::provider_cache). The next
//! request of the run usually has the same tools, the same system prompt and the same messages with
//! a few more at the end. Messages stand last in a body, so it is the former one written on:
//! nothing of it is copied once its request is over. That also makes the prefix stable to the byte,
//! which providers' prompt caches need.

use std::borrow::Cow;
use std::collections::HashSet;
use std::mem;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::error::{Error, ErrorKind, Result};
use crate::message::{Message, Role, ToolCall, shared_prefix};
use crate::model::{ModelRequest, SystemPrompt, ToolDefinition};

use super::fields::Fields;

/// The field that `extra` may replace as a whole.
const MESSAGES: &str = "messages";

/// How a provider writes what is kept. A value with different options is a different wire: what
/// one wrote is not used by the other.
pub(super) trait Wire: Clone + PartialEq + Send + 'static {
    /// What marks how far a prompt cache should reach.
    const BREAKPOINT: &'static str = "";

    /// Whether both messages become parts of one wire message.
    fn joins(&self, before: &Message, after: &Message) -> bool;

    /// Appends the wire messages, separated by commas, that messages which join become. Returns
    /// where in `out` a breakpoint goes, should one be set behind them.
    fn message(
        &self,
        group: &[Arc<Message>],
        place: Place,
        out: &mut Vec<u8>,
    ) -> Result<Option<usize>>;

    /// Whether the group is written in another way when others follow it.
    fn depends_on_place(&self, _group: &[Arc<Message>]) -> bool {
        false
    }

    /// Appends the system prompt; nothing when there is none.
    fn system(
        &self,
        system: &SystemPrompt,
        lifted: &[Arc<Message>],
        out: &mut Vec<u8>,
    ) -> Result<()>;

    /// Appends the tools; only called when there are some.
    fn tools(&self, tools: &[ToolDefinition], out: &mut Vec<u8>) -> Result<()>;
}

/// Where a group stands among the wire messages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) first: bool,
    /// The last group is written in every request, so it may carry what others must not.
    pub(super) last: bool,
}

/// The parts of a body that were kept or just written, messages aside.
pub(super) struct Sections<'a> {
    /// What [`Wire::system`] wrote.
    pub(super) system: &'a [u8],
    /// What [`Wire::tools`] wrote; empty when there are none.
    pub(super) tools: &'a [u8],
}

/// The last group of a request, which may change its form once others follow.
#[derive(Default)]
struct Last {
    group: Vec<Arc<Message>>,
    /// Where it ends, and where in it the breakpoint was set; counted from the first message.
    end: usize,
    breakpoint: Option<usize>,
}

/// The calls of the history that was encoded. Their ids are gathered meanwhile, so that telling
/// whether one is taken costs the same however long the history is.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    len: usize,
    ids: Option<Arc<HashSet<Arc<str>>>>,
    /// The ids of the calls of the last group, which are not among `ids`.
    last: HashSet<Arc<str>>,
}

impl History {
    /// How many messages it has.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Whether one of its calls has this id.
    pub(super) fn has_call(&self, id: &str) -> bool {
        self.ids.as_ref().is_some_and(|ids| ids.contains(id)) || self.last.contains(id)
    }
}

fn calls(messages: &[Arc<Message>]) -> impl Iterator<Item = &ToolCall> {
    messages.iter().flat_map(|message| message.tool_calls())
}

/// Encodes `request`. `write` puts down every field but the messages and those in `extra`, and
/// returns what stands before the history in the list of messages, separated by commas.
///
/// # Errors
///
/// [`ErrorKind::InvalidMessages`] when there is nothing to send.
pub(super) fn encode<W: Wire>(
    wire: &W,
    request: &ModelRequest,
    extra: &Map<String, Value>,
    write: impl for<'a> FnOnce(&mut Fields<'_>, &Sections<'a>) -> Result<Cow<'a, [u8]>>,
) -> Result<(Bytes, History)> {
    let kept = request.provider_cache().take::<Cache<W>>();
    let mut cache = match kept {
        Some(cache) if cache.wire == *wire => cache,
        _ => Box::new(Cache::new(wire.clone())),
    };

    let (lifted, messages) = request.messages.as_slice().split_at(lifted(request));
    let sections = cache.sections(request, lifted)?;
    let mut fields = Fields::new(extra, sections.tools.len() + sections.system.len() + 256);
    let opening = write(&mut fields, &sections)?;
    let mut head = fields.finish()?;
    let history = |cache: &Cache<W>| History {
        len: request.messages.len(),
        ids: cache.ids.clone(),
        last: calls(&cache.last.group)
            .map(|call| call.id.clone())
            .collect(),
    };

    if extra.contains_key(MESSAGES) {
        head.push(b'}');
        return Ok((head.into(), history(&cache)));
    }

    head.extend_from_slice(b",\"messages\":[");
    if !opening.is_empty() {
        head.extend_from_slice(&opening);
        head.push(b',');
    }

    let body = cache.body(head, messages)?;
    let history = history(&cache);
    request.provider_cache().put(cache);
    Ok((body, history))
}

/// How many messages at the beginning belong to the system prompt.
fn lifted(request: &ModelRequest) -> usize {
    let messages = request.messages.iter();
    messages
        .take_while(|message| message.role() == Role::System)
        .count()
}

/// A body that its request shares with the cache.
struct Sent(Arc<Vec<u8>>);

impl AsRef<[u8]> for Sent {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

struct Cache<W> {
    wire: W,
    system: Option<SystemBytes>,
    tools: Option<(Arc<[ToolDefinition]>, Vec<u8>)>,
    /// The last body.
    sent: Arc<Vec<u8>>,
    /// Where in it the first message begins.
    start: usize,
    /// The messages of all groups but the last. Pointers of our own: a clone of `Messages` would
    /// make the list shared, and the run's next push would copy it.
    messages: Vec<Arc<Message>>,
    /// Where each of those groups ends.
    ends: Vec<End>,
    /// The ids of the calls in `messages`, if there are any.
    ids: Option<Arc<HashSet<Arc<str>>>>,
    last: Last,
}

struct SystemBytes {
    system: SystemPrompt,
    lifted: Vec<Arc<Message>>,
    bytes: Vec<u8>,
}

#[derive(Clone, Copy, Default)]
struct End {
    message: usize,
    /// Counted from the first message.
    byte: usize,
}

impl<W: Wire> Cache<W> {
    fn new(wire: W) -> Self {
        Self {
            wire,
            system: None,
            tools: None,
            sent: Arc::default(),
            start: 0,
            messages: Vec::new(),
            ends: Vec::new(),
            ids: None,
            last: Last::default(),
        }
    }

    fn sections(
        &mut self,
        request: &ModelRequest,
        lifted: &[Arc<Message>],
    ) -> Result<Sections<'_>> {
        self.update_system(&request.system, lifted)?;
        self.update_tools(&request.tools)?;
        Ok(Sections {
            system: self.system.as_ref().map_or(&[], |kept| &kept.bytes),
            tools: self.tools.as_ref().map_or(&[], |(_, bytes)| bytes),
        })
    }

    fn update_system(&mut self, system: &SystemPrompt, lifted: &[Arc<Message>]) -> Result<()> {
        if let Some(kept) = &self.system
            && kept.system.ptr_eq(system)
            && kept.lifted.len() == lifted.len()
            && shared_prefix(&kept.lifted, lifted) == lifted.len()
        {
            return Ok(());
        }

        let mut bytes = Vec::new();
        self.wire.system(system, lifted, &mut bytes)?;
        self.system = Some(SystemBytes {
            system: system.clone(),
            lifted: lifted.to_vec(),
            bytes,
        });

        Ok(())
    }

    fn update_tools(&mut self, tools: &Arc<[ToolDefinition]>) -> Result<()> {
        if let Some((kept, _)) = &self.tools
            && Arc::ptr_eq(kept, tools)
        {
            return Ok(());
        }
        let mut bytes = Vec::new();
        if !tools.is_empty() {
            self.wire.tools(tools, &mut bytes)?;
        }
        self.tools = Some((tools.clone(), bytes));
        Ok(())
    }

    /// The body of these messages behind `head`.
    fn body(&mut self, head: Vec<u8>, messages: &[Arc<Message>]) -> Result<Bytes> {
        self.keep_common(messages);
        let mut begin = self.messages.len();
        let group = self.group(messages, begin);
        let goes_on = group.end < messages.len() && self.is_written(&messages[group.clone()]);
        let kept = if goes_on {
            self.last.end
        } else {
            self.ends.last().map_or(0, |end| end.byte)
        };

        let mut body = self.reopen(head, kept);
        if goes_on {
            if let Some(at) = self.last.breakpoint {
                let at = self.start + at;
                body.drain(at..at + W::BREAKPOINT.len());
            }

            begin = group.end;
            self.push(&messages[group], body.len());
        }

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

            let place = Place {
                first: begin == 0,
                last: group.end == messages.len(),
            };

            begin = group.end;
            let group = &messages[group];
            let breakpoint = self.wire.message(group, place, &mut body)?;
            if place.last {
                return Ok(self.close(body, group, breakpoint));
            }

            self.push(group, body.len());
        }
    }

    /// The former body up to `kept` bytes of its messages, if it has the same head and nobody else
    /// holds it any more; else a copy of those behind the new head.
    fn reopen(&mut self, head: Vec<u8>, kept: usize) -> Vec<u8> {
        let start = mem::replace(&mut self.start, head.len());
        let sent = Arc::try_unwrap(mem::take(&mut self.sent));
        match sent {
            Ok(mut body) if body[..start] == head => {
                body.truncate(start + kept);
                body
            }
            sent => {
                let sent = match &sent {
                    Ok(sent) => sent,
                    Err(shared) => &**shared,
                };

                let mut body = head;
                body.extend_from_slice(&sent[start..start + kept]);
                body
            }
        }
    }

    /// Keeps in mind a group that others follow and that ends there in the body.
    fn push(&mut self, group: &[Arc<Message>], end: usize) {
        for call in calls(group) {
            let ids = self.ids.get_or_insert_default();
            Arc::make_mut(ids).insert(call.id.clone());
        }
        self.messages.extend_from_slice(group);
        self.ends.push(End {
            message: self.messages.len(),
            byte: end - self.start,
        });
    }

    /// Sets the breakpoint and ends a body behind its last group.
    fn close(
        &mut self,
        mut body: Vec<u8>,
        group: &[Arc<Message>],
        breakpoint: Option<usize>,
    ) -> Bytes {
        if let Some(at) = breakpoint {
            body.splice(at..at, W::BREAKPOINT.bytes());
        }
        self.last = Last {
            group: group.to_vec(),
            end: body.len() - self.start,
            breakpoint: breakpoint.map(|at| at - self.start),
        };
        body.extend_from_slice(b"]}");
        self.sent = Arc::new(body);
        Bytes::from_owner(Sent(self.sent.clone()))
    }

    /// Whether this is what was the last group, and looks the same when others follow it.
    fn is_written(&self, group: &[Arc<Message>]) -> bool {
        let last = &self.last.group;
        group.len() == last.len()
            && shared_prefix(group, last) == group.len()
            && !self.wire.depends_on_place(group)
    }

    /// Drops the groups that `messages` does not begin with, and those that go on in it.
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
            self.last = Last::default();
        }

        let end = self.ends.last().copied().unwrap_or_default();
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

    /// The messages from `start` on that become one wire message.
    fn group(&self, messages: &[Arc<Message>], start: usize) -> Range<usize> {
        let joined = messages[start..]
            .windows(2)
            .take_while(|pair| self.wire.joins(&pair[0], &pair[1]))
            .count();
        start..(start + joined + 1).min(messages.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Messages;

    /// A message is its text in quotes, and the last one has a mark behind it.
    #[derive(Clone, PartialEq)]
    struct Plain;

    impl Wire for Plain {
        const BREAKPOINT: &'static str = "!";

        fn joins(&self, _: &Message, _: &Message) -> bool {
            false
        }

        fn message(
            &self,
            group: &[Arc<Message>],
            _: Place,
            out: &mut Vec<u8>,
        ) -> Result<Option<usize>> {
            out.extend_from_slice(format!("{:?}", group[0].text()).as_bytes());
            Ok(Some(out.len()))
        }

        fn system(&self, _: &SystemPrompt, _: &[Arc<Message>], _: &mut Vec<u8>) -> Result<()> {
            Ok(())
        }

        fn tools(&self, _: &[ToolDefinition], _: &mut Vec<u8>) -> Result<()> {
            Ok(())
        }
    }

    fn body(request: &ModelRequest) -> Bytes {
        let encoded = encode(&Plain, request, &request.extra, |fields, _| {
            fields.put("model", "m")?;
            Ok(Cow::default())
        });
        encoded.unwrap().0
    }

    #[test]
    fn body_buffer_is_extended_only_when_not_shared() {
        let mut request = ModelRequest::new("one");
        let first = body(&request);
        assert_eq!(first, r#"{"model":"m","messages":["one"!]}"#);
        request.messages.push(Message::ai("two"));
        let second = body(&request);
        assert_eq!(first, r#"{"model":"m","messages":["one"!]}"#);
        assert_eq!(second, r#"{"model":"m","messages":["one","two"!]}"#);
        let place = second.as_ptr();
        drop(second);
        request.messages = Messages::from("one");
        let third = body(&request);
        assert_eq!(third, first);
        assert_eq!(third.as_ptr(), place);
    }

    #[test]
    fn messages_in_extra_replace_the_encoded_ones() {
        let mut request = ModelRequest::new("one");
        body(&request);
        request.extra.insert(MESSAGES.into(), "mine".into());
        assert_eq!(body(&request), r#"{"model":"m","messages":"mine"}"#);
        request.extra.clear();
        assert_eq!(body(&request), r#"{"model":"m","messages":["one"!]}"#);
    }
}
