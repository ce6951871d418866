//! Request bodies that are not written anew each turn.
//!
//! The encoder keeps the bytes of what it has written in the request's
//! [`memo`](ModelRequest::memo). The next request of the run usually has the same tools, the same
//! system prompt and the same messages with a few more at the end: only those are written, and the
//! old bytes are copied once. That also makes the prefix stable to the byte, which providers'
//! prompt caches need.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use crate::error::{Error, ErrorKind, Result};
use crate::message::{Message, Role, ToolCall};
use crate::model::{ModelRequest, SystemPrompt, ToolDefinition};

/// How a provider writes what is kept. A value with different options is a different wire: what
/// one wrote is not used by the other.
pub(crate) trait Wire: Clone + PartialEq + Send + 'static {
    /// Whether system messages at the beginning of the history belong to the system prompt.
    const LIFTS_SYSTEM: bool;

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
pub(crate) struct Place {
    pub(crate) first: bool,
    /// The last group is written in every request, so it may carry what others must not.
    pub(crate) last: bool,
}

/// The parts of a body that were kept or just written.
pub(crate) struct Sections<'a> {
    /// What [`Wire::system`] wrote.
    pub(crate) system: &'a [u8],
    /// What [`Wire::tools`] wrote; empty when there are none.
    pub(crate) tools: &'a [u8],
    messages: &'a [u8],
    last: &'a Last,
    breakpoint: &'static str,
}

impl Sections<'_> {
    /// How many bytes all sections have.
    pub(crate) fn len(&self) -> usize {
        self.system.len()
            + self.tools.len()
            + self.messages.len()
            + self.last.bytes.len()
            + self.breakpoint.len()
            + 1
    }

    /// Appends the messages, separated by commas, without the array around them.
    pub(crate) fn write_messages(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.messages);
        if !self.messages.is_empty() {
            out.push(b',');
        }
        let last = &self.last.bytes;
        let at = self.last.breakpoint.unwrap_or(last.len());
        out.extend_from_slice(&last[..at]);
        if self.last.breakpoint.is_some() {
            out.extend_from_slice(self.breakpoint.as_bytes());
        }
        out.extend_from_slice(&last[at..]);
    }
}

/// The last group of a request and what was written of it.
#[derive(Default)]
struct Last {
    group: Vec<Arc<Message>>,
    bytes: Vec<u8>,
    breakpoint: Option<usize>,
}

/// The calls of the history that was encoded. Their ids are gathered meanwhile, so that telling
/// whether one is taken costs the same however long the history is.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    len: usize,
    ids: Option<Arc<HashSet<Arc<str>>>>,
    /// The last group, whose calls are not among `ids`.
    last: Vec<Arc<Message>>,
}

impl History {
    /// How many messages it has.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Whether one of its calls has this id.
    pub(crate) fn has_call(&self, id: &str) -> bool {
        self.ids.as_ref().is_some_and(|ids| ids.contains(id))
            || calls(&self.last).any(|call| *call.id == *id)
    }
}

fn calls(messages: &[Arc<Message>]) -> impl Iterator<Item = &ToolCall> {
    messages.iter().flat_map(|message| message.tool_calls())
}

/// Encodes `request`; `assemble` puts the sections together with the provider's other fields.
///
/// # Errors
///
/// [`ErrorKind::InvalidMessages`] when there is nothing to send.
pub(crate) fn encode<W: Wire>(
    wire: &W,
    request: &ModelRequest,
    assemble: impl FnOnce(&Sections<'_>) -> Result<Vec<u8>>,
) -> Result<(Bytes, History)> {
    let kept = request.memo().take::<Cache<W>>();
    let mut cache = match kept {
        Some(cache) if cache.wire == *wire => cache,
        _ => Box::new(Cache::new(wire.clone())),
    };
    let body = cache
        .update(request)
        .and_then(|sections| assemble(&sections))?;
    let history = History {
        len: request.messages.len(),
        ids: cache.ids.clone(),
        last: cache.last.group.clone(),
    };
    request.memo().put(cache);
    Ok((body.into(), history))
}

struct Cache<W> {
    wire: W,
    system: Option<SystemBytes>,
    tools: Option<(Arc<[ToolDefinition]>, Vec<u8>)>,
    /// What `bytes` was made of. Pointers of our own: a clone of `Messages` would make the list
    /// shared, and the run's next push would copy it.
    messages: Vec<Arc<Message>>,
    /// The wire messages of all groups but the last, separated by commas.
    bytes: Vec<u8>,
    /// Where each of those groups ends.
    ends: Vec<End>,
    /// The ids of the calls in `messages`, if there are any.
    ids: Option<Arc<HashSet<Arc<str>>>>,
    /// The group behind them, which may change its form once others follow.
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
    byte: usize,
}

impl<W: Wire> Cache<W> {
    fn new(wire: W) -> Self {
        Self {
            wire,
            system: None,
            tools: None,
            messages: Vec::new(),
            bytes: Vec::new(),
            ends: Vec::new(),
            ids: None,
            last: Last::default(),
        }
    }

    fn update(&mut self, request: &ModelRequest) -> Result<Sections<'_>> {
        let all = request.messages.as_slice();
        let lifted = match W::LIFTS_SYSTEM {
            true => all
                .iter()
                .take_while(|message| message.role() == Role::System)
                .count(),
            false => 0,
        };
        let (lifted, messages) = all.split_at(lifted);
        self.update_system(&request.system, lifted)?;
        self.update_tools(&request.tools)?;
        self.update_messages(messages)?;
        Ok(Sections {
            system: self.system.as_ref().map_or(&[], |kept| &kept.bytes),
            tools: self.tools.as_ref().map_or(&[], |(_, bytes)| bytes),
            messages: &self.bytes,
            last: &self.last,
            breakpoint: W::BREAKPOINT,
        })
    }

    fn update_system(&mut self, system: &SystemPrompt, lifted: &[Arc<Message>]) -> Result<()> {
        if let Some(kept) = &self.system
            && kept.system.ptr_eq(system)
            && kept.lifted.len() == lifted.len()
            && common(&kept.lifted, lifted) == lifted.len()
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

    fn update_messages(&mut self, messages: &[Arc<Message>]) -> Result<()> {
        self.keep_common(messages);
        let mut start = self.messages.len();
        loop {
            let group = self.group(messages, start);
            let place = Place {
                first: start == 0,
                last: group.end == messages.len(),
            };
            if group.is_empty() {
                return Err(Error::new(
                    ErrorKind::InvalidMessages,
                    "there is no message to send",
                ));
            }
            if place.last {
                return self.write_last(&messages[group], place);
            }
            start = group.end;
            if !self.bytes.is_empty() {
                self.bytes.push(b',');
            }
            self.write_inner(&messages[group.clone()], place)?;
            for call in calls(&messages[group.clone()]) {
                let ids = self.ids.get_or_insert_default();
                Arc::make_mut(ids).insert(call.id.clone());
            }
            self.messages.extend_from_slice(&messages[group]);
            self.ends.push(End {
                message: start,
                byte: self.bytes.len(),
            });
        }
    }

    fn write_last(&mut self, group: &[Arc<Message>], place: Place) -> Result<()> {
        self.last.bytes.clear();
        self.last.breakpoint = self.wire.message(group, place, &mut self.last.bytes)?;
        self.last.group = group.to_vec();
        Ok(())
    }

    /// Writes a group that others follow. What was the last one is there already.
    fn write_inner(&mut self, group: &[Arc<Message>], place: Place) -> Result<()> {
        let last = &self.last;
        let is_written = group.len() == last.group.len()
            && common(group, &last.group) == group.len()
            && !self.wire.depends_on_place(group);
        if is_written {
            self.bytes.extend_from_slice(&last.bytes);
        } else {
            self.wire.message(group, place, &mut self.bytes)?;
        }
        Ok(())
    }

    /// Drops the groups that `messages` does not begin with, and those that go on in it.
    fn keep_common(&mut self, messages: &[Arc<Message>]) {
        let common = common(&self.messages, messages);
        let is_whole = |end: usize| {
            end <= common
                && end < messages.len()
                && !self.wire.joins(&messages[end - 1], &messages[end])
        };
        while let Some(end) = self.ends.last()
            && !is_whole(end.message)
        {
            self.ends.pop();
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
        self.bytes.truncate(end.byte);
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

/// How many leading messages are the very same.
fn common(a: &[Arc<Message>], b: &[Arc<Message>]) -> usize {
    a.iter()
        .zip(b)
        .take_while(|(a, b)| Arc::ptr_eq(a, b))
        .count()
}
