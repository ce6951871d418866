//! Histories in the Messages API's form.
//!
//! * Everything between two answers of the model becomes one `user` message: tool results first,
//!   as the API demands, then the user's messages. Adjacent answers become one as well, so the
//!   roles always alternate, and a history that begins with an answer gets a user message in front.
//! * System messages at the beginning of a history join the system prompt. Later ones are text in
//!   a user message, between `<system>` and `</system>`: not every model has another place for
//!   them.
//! * For a model that takes thinking only after the prefix it was made for, the volatile sections
//!   of the system prompt stand after the history, in the same form.
//! * Blocks the API refuses are omitted or filled in: text without a visible character, media in
//!   answers, results without content.

use std::collections::HashSet;
use std::sync::Arc;

use serde::Deserialize;

use crate::error::Result;
use crate::message::{MediaSource, Message, Part, ProviderBlock, Role, ToolCall};
use crate::model::{Stability, SystemPrompt, ToolDefinition};

use super::super::encode::{GroupPlace, Wire};
use super::super::json::{Str, write, write_text};
use super::content::BlockArray;

/// The name of the wire format. It is the tag of blocks that are sent back unchanged.
pub(super) const PROVIDER: &str = "anthropic";

/// The name of blocks of compatible servers, whose models are not Claude. Their thinking means
/// nothing to Anthropic's own server, and the other way round.
pub(super) const COMPATIBLE: &str = "anthropic-compatible";

/// The provider of the part that holds the container of hosted tools. It is sent as a field of the
/// body and never as a block.
pub(super) const CONTAINER: &str = "anthropic-container";

/// The text that replaces a message without a part that can be sent.
pub(super) const NOTHING: &str = "(nothing)";

/// A part of the citations of the server's own search.
const SEARCH_CITATION: &str = "\"web_search_result_location\"";

/// The types of images, as data.
const IMAGE_TYPES: &[&str] = &["image/jpeg", "image/png", "image/gif", "image/webp"];

/// The types of documents that are sent as data. Text documents are sent as text.
const DOCUMENT_TYPES: &[&str] = &["application/pdf"];

/// The breakpoint of a prompt cache that lives for 5 minutes.
const CACHE_CONTROL: &str = r#","cache_control":{"type":"ephemeral"}"#;
/// The breakpoint of a cache entry that lives for 1 hour, which must come before all other
/// breakpoints.
const LONG_CACHE_CONTROL: &str = r#","cache_control":{"type":"ephemeral","ttl":"1h"}"#;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct MessagesWire {
    /// The tag of the server's own blocks.
    pub(super) tag: &'static str,
    /// True if prompt-cache breakpoints are set: on the last tool, on the last stable block of
    /// the system prompt, and on the last block of the last message of this request and of the
    /// previous request. The API allows four.
    pub(super) cache: bool,
    /// True if tools and system prompt are stored for 1 hour.
    pub(super) long_cache: bool,
    /// True if the server runs tools itself, and takes their blocks back.
    pub(super) has_hosted_tools: bool,
    /// True if the model accepts images.
    pub(super) takes_images: bool,
    /// True if the model takes thinking only after the prefix it was made for.
    pub(super) binds_reasoning: bool,
}

impl MessagesWire {
    /// Returns the breakpoint of tools and system prompt.
    fn breakpoint(&self) -> &'static str {
        if self.long_cache {
            LONG_CACHE_CONTROL
        } else {
            CACHE_CONTROL
        }
    }
}

impl Wire for MessagesWire {
    fn joins(&self, before: &Message, after: &Message) -> bool {
        is_answer(before) == is_answer(after)
    }

    const BREAKPOINT: &'static str = CACHE_CONTROL;

    fn message(
        &self,
        group: &[Arc<Message>],
        place: GroupPlace<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Option<usize>> {
        let answer = group.first().is_some_and(|message| is_answer(message));
        if answer && place.is_first {
            out.extend_from_slice(br#"{"role":"user","content":"#);
            let mut blocks = BlockArray::open(out);
            blocks.text(NOTHING)?;
            blocks.close();
            out.extend_from_slice(b"},");
        }

        out.extend_from_slice(if answer {
            br#"{"role":"assistant","content":"#
        } else {
            br#"{"role":"user","content":"#
        });

        let mut blocks = BlockArray::open(out);
        if answer {
            self.answer_blocks(group, place, &mut blocks)?;
        } else {
            user_blocks(group, self, &mut blocks)?;
            if let Some(text) = place.tail {
                blocks.system_text(text)?;
            }
        }

        if blocks.is_empty() {
            blocks.text(NOTHING)?;
        }

        let breakpoint = blocks.breakpoint_offset.filter(|_| self.cache);
        blocks.close();
        out.push(b'}');
        Ok(breakpoint)
    }

    /// An answer that is to be continued must not end in whitespace; an answer that begins a
    /// history gets a message before it.
    fn depends_on_place(&self, group: &[Arc<Message>]) -> bool {
        group.first().is_some_and(|message| is_answer(message))
    }

    fn depends_on_next(&self, group: &[Arc<Message>]) -> bool {
        self.has_hosted_tools && has_open_server_call(group)
    }

    fn has_tail(&self) -> bool {
        self.binds_reasoning
    }

    fn allows_tail(&self, before: &[Arc<Message>]) -> bool {
        !(self.has_hosted_tools && has_open_server_call(before))
    }

    fn binds_reasoning(&self) -> bool {
        self.binds_reasoning
    }

    fn system(
        &self,
        system: &SystemPrompt,
        lifted: &[Arc<Message>],
        out: &mut Vec<u8>,
    ) -> Result<()> {
        if lifted.is_empty() && system.is_empty() {
            return Ok(());
        }

        let mut blocks = BlockArray::open(out);
        blocks.text(&system.text_of(Stability::Stable))?;
        for message in lifted {
            blocks.text(&message.text())?;
        }

        if self.cache {
            blocks.set_breakpoint(self.breakpoint());
        }

        if !self.binds_reasoning {
            blocks.text(&system.text_of(Stability::Volatile))?;
        }

        if blocks.is_empty() {
            blocks.abandon();
            return Ok(());
        }

        blocks.close();
        Ok(())
    }

    fn tools(&self, tools: &[ToolDefinition], out: &mut Vec<u8>) -> Result<()> {
        let mut blocks = BlockArray::open(out);
        for tool in tools {
            blocks.block(|out| {
                out.extend_from_slice(br#"{"name":"#);
                write(out, &tool.name)?;
                if !tool.description.is_empty() {
                    out.extend_from_slice(br#","description":"#);
                    write_text(out, &tool.description)?;
                }

                out.extend_from_slice(br#","input_schema":"#);
                write(out, &tool.parameters)
            })?;
        }

        if self.cache {
            blocks.set_breakpoint(self.breakpoint());
        }

        blocks.close();
        Ok(())
    }
}

fn is_answer(message: &Message) -> bool {
    message.role() == Role::Assistant
}

fn user_blocks(
    group: &[Arc<Message>],
    wire: &MessagesWire,
    blocks: &mut BlockArray<'_>,
) -> Result<()> {
    for result in group.iter().filter_map(|message| message.as_tool_result()) {
        blocks.tool_result(result, wire)?;
    }

    for message in group {
        match &**message {
            Message::User(user) => blocks.media_and_text(&user.content, wire)?,
            Message::System(system) => {
                blocks.system_text(&system.content.text())?;
            }
            Message::Assistant(_) | Message::Tool(_) => {}
        }
    }

    Ok(())
}

impl MessagesWire {
    /// The API refuses whitespace at the end of an answer that it is to continue.
    fn answer_blocks(
        &self,
        group: &[Arc<Message>],
        place: GroupPlace<'_>,
        blocks: &mut BlockArray<'_>,
    ) -> Result<()> {
        let open_calls = self.interrupted_calls(group, place.after);
        let parts: Vec<&Part> = group
            .iter()
            .flat_map(|m| m.content().parts())
            .filter(|part| !is_server_call(part, &open_calls))
            .collect();
        let end = parts.iter().rposition(|part| self.is_block(part));
        for (at, part) in parts.iter().enumerate() {
            match part {
                Part::Text(text) => {
                    let text = match end {
                        Some(end) if place.is_last && at == end => text.trim_end(),
                        _ => text,
                    };
                    let fields = parts.get(at + 1).and_then(|part| self.own_fields(part));
                    blocks.cited_text(text, fields)?;
                }
                // A local call that the server's code made has its id.
                Part::ToolCall(call) if has_id_of(call, &open_calls) => {
                    let mut call = call.clone();
                    call.extra = None;
                    blocks.tool_use(&call, self.tag)?;
                }
                Part::ToolCall(call) => blocks.tool_use(call, self.tag)?,
                Part::Thinking(_) if !place.has_reasoning => {}
                Part::Thinking(block) | Part::Opaque(block) if self.takes_block(block) => {
                    blocks.raw(block.raw.get());
                }
                Part::Thinking(_)
                | Part::Opaque(_)
                | Part::Image(_)
                | Part::Document(_)
                | Part::Audio(_)
                | Part::Annotations(_) => {}
            }
        }

        Ok(())
    }

    /// Returns `true` for media that the server has a form for: images and documents of the API's
    /// types, and files of Anthropic's own server, which no other has.
    pub(super) fn takes(&self, part: &Part) -> bool {
        let (media, types) = match part {
            Part::Image(media) => (media, IMAGE_TYPES),
            // Documents of text are sent as text.
            Part::Document(media) if media.text().is_some() => return true,
            Part::Document(media) => (media, DOCUMENT_TYPES),
            _ => return false,
        };
        let has_files = self.has_hosted_tools && self.tag == PROVIDER;
        match &media.source {
            MediaSource::File { provider, .. } => has_files && **provider == *PROVIDER,
            MediaSource::Base64(_) => types.contains(&&*media.media_type),
            MediaSource::Url(_) => true,
        }
    }

    /// The ids of the server's calls in an answer that have no result and whose round a message of
    /// the user ends. Nothing but results may follow such a call, so it is omitted.
    fn interrupted_calls(&self, group: &[Arc<Message>], after: &[Arc<Message>]) -> HashSet<String> {
        let mut next = after.iter().take_while(|message| !is_answer(message));
        if !self.has_hosted_tools || next.all(|message| message.role() == Role::Tool) {
            return HashSet::new();
        }
        open_server_calls(group)
    }

    /// Returns `true` for parts of an answer that are blocks of their own.
    fn is_block(&self, part: &Part) -> bool {
        match part {
            Part::Text(_) | Part::ToolCall(_) => true,
            Part::Thinking(block) | Part::Opaque(block) => self.takes_block(block),
            Part::Image(_) | Part::Document(_) | Part::Audio(_) | Part::Annotations(_) => false,
        }
    }

    /// Returns `true` for a block that the server takes back.
    fn takes_block(&self, block: &ProviderBlock) -> bool {
        block.is_for(self.tag) && (self.has_hosted_tools || !is_of_hosted_tool(block))
    }

    /// Returns the API's own fields of the text before these annotations.
    fn own_fields<'a>(&self, part: &'a Part) -> Option<&'a ProviderBlock> {
        let Part::Annotations(annotations) = part else {
            return None;
        };
        let block = annotations.block.as_ref();
        let is_of_search = |block: &ProviderBlock| block.raw.get().contains(SEARCH_CITATION);
        block.filter(|block| {
            block.is_for(self.tag) && (self.has_hosted_tools || !is_of_search(block))
        })
    }
}

/// Returns `true` for the call or the result of a tool that the server runs.
fn is_of_hosted_tool(block: &ProviderBlock) -> bool {
    #[derive(Deserialize)]
    struct Block<'a> {
        #[serde(borrow, rename = "type")]
        kind: Str<'a>,
    }

    let block = serde_json::from_str::<Block<'_>>(block.raw.get());
    block.is_ok_and(|block| {
        let kind = block.kind.as_str();
        kind.ends_with("_tool_result") || matches!(kind, "server_tool_use" | "mcp_tool_use")
    })
}

/// The type and the ids of a block.
#[derive(Deserialize)]
struct HostedBlock<'a> {
    #[serde(borrow, rename = "type")]
    kind: Str<'a>,
    #[serde(borrow)]
    id: Option<Str<'a>>,
    #[serde(borrow)]
    tool_use_id: Option<Str<'a>>,
}

/// Returns the warning about calls of server tools that a request leaves out.
pub(super) fn interrupted_call_warning(messages: &[Arc<Message>]) -> Option<String> {
    let behind = messages
        .iter()
        .rev()
        .take_while(|message| !is_answer(message));
    let mut roles = behind.map(|message| message.role());
    let has_input = roles.any(|role| role != Role::Tool);
    let end = messages.iter().rposition(|message| is_answer(message))?;
    (has_input && has_open_server_call(&messages[..=end])).then(|| {
        "the call of a server tool without a result was left out, because a message of the user \
         follows it"
            .to_owned()
    })
}

/// Returns `true` for a call of a server tool whose id is one of `ids`.
fn is_server_call(part: &Part, ids: &HashSet<String>) -> bool {
    let Part::Opaque(block) = part else {
        return false;
    };
    if ids.is_empty() {
        return false;
    }
    let block = serde_json::from_str::<HostedBlock<'_>>(block.raw.get());
    block.is_ok_and(|block| {
        let id = block.id.as_ref().map(Str::as_str);
        block.kind.as_str() == "server_tool_use" && id.is_some_and(|id| ids.contains(id))
    })
}

/// Returns `true` if the caller of a local call is a call of a server tool with one of `ids`.
fn has_id_of(call: &ToolCall, ids: &HashSet<String>) -> bool {
    #[derive(Deserialize)]
    struct Fields<'a> {
        #[serde(borrow)]
        caller: Caller<'a>,
    }

    #[derive(Deserialize)]
    struct Caller<'a> {
        #[serde(borrow)]
        tool_id: Str<'a>,
    }

    let fields = call.extra.as_deref().filter(|_| !ids.is_empty());
    fields.is_some_and(|fields| {
        let fields = serde_json::from_str::<Fields<'_>>(fields.raw.get());
        fields.is_ok_and(|fields| ids.contains(fields.caller.tool_id.as_str()))
    })
}

/// Returns `true` if the last answer has a call of a server tool without its result. Only results
/// of local calls may follow it, because the server finishes its own call first.
fn has_open_server_call(messages: &[Arc<Message>]) -> bool {
    !open_server_calls(messages).is_empty()
}

/// Returns the ids of the calls of server tools in the last answer that have no result.
fn open_server_calls(messages: &[Arc<Message>]) -> HashSet<String> {
    let answers = messages
        .iter()
        .rev()
        .take_while(|message| is_answer(message));
    let parts = answers.flat_map(|message| message.content().parts());
    let mut calls = HashSet::new();
    let mut results = HashSet::new();
    for part in parts {
        let Part::Opaque(block) = part else {
            continue;
        };
        let Ok(block) = serde_json::from_str::<HostedBlock<'_>>(block.raw.get()) else {
            continue;
        };
        if block.kind.as_str() == "server_tool_use" {
            calls.extend(block.id.map(|id| id.0));
        } else {
            results.extend(block.tool_use_id.map(|id| id.0));
        }
    }
    let open_calls = calls.difference(&results);
    open_calls.map(|id| id.to_string()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::value::to_raw_value;

    use super::*;

    #[test]
    fn call_of_open_server_call_is_recognized_by_the_id_of_its_caller() {
        let ids = HashSet::from(["srvtoolu_1".to_owned()]);
        let call = |fields: serde_json::Value| {
            let mut call = ToolCall::new("1", "t", serde_json::json!({}));
            let block = ProviderBlock::new(PROVIDER, to_raw_value(&fields).unwrap());
            call.extra = Some(Arc::new(block));
            call
        };
        let own = serde_json::json!({"caller": {"type": "code", "tool_id": "srvtoolu_1"}});
        assert!(has_id_of(&call(own.clone()), &ids));
        assert!(!has_id_of(&call(own), &HashSet::new()));
        let longer = serde_json::json!({"caller": {"tool_id": "srvtoolu_12"}, "a": "srvtoolu_1"});
        assert!(!has_id_of(&call(longer), &ids));
        assert!(!has_id_of(
            &ToolCall::new("1", "t", serde_json::json!({})),
            &ids
        ));
    }
}
