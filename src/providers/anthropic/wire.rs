//! Histories in the Messages API's form.
//!
//! * Everything between two answers of the model becomes one `user` message: tool results first,
//!   as the API demands, then the user's messages. Neighbouring answers become one as well, so the
//!   roles always alternate, and a history that begins with an answer gets a user message in front.
//! * System messages at the beginning of a history join the system prompt. Later ones are text in
//!   a user message, between `<system>` and `</system>`: not every model has another place for them.
//! * For a model that takes thinking only behind the prefix it was made for, the volatile sections
//!   of the system prompt stand behind the history, in the same form.
//! * Blocks the API refuses are left out or filled in: text without a visible character, media in
//!   answers, results without content.

use std::collections::HashSet;
use std::sync::Arc;

use serde::Deserialize;

use crate::error::Result;
use crate::message::{
    Content, Media, MediaSource, Message, NO_OUTPUT, Part, ProviderBlock, Role, ToolCall,
    ToolResult,
};
use crate::model::{Stability, SystemPrompt, ToolDefinition};

use super::super::encode::{Place, Wire};
use super::super::json::{Str, call_args, write, write_identifier, write_text};
use super::super::media::placeholder;

/// The name of the wire format: what blocks that are kept verbatim are marked with.
pub(super) const PROVIDER: &str = "anthropic";

/// The provider of the part that holds the container of hosted tools. It is sent as a field of the
/// body and never as a block.
pub(super) const CONTAINER: &str = "anthropic-container";

/// The text in place of a message of which nothing can be sent.
pub(super) const NOTHING: &str = "(nothing)";

/// The breakpoint of a prompt cache that lives for 5 minutes.
const CACHE_CONTROL: &str = r#","cache_control":{"type":"ephemeral"}"#;
/// The breakpoint of one that lives for 1 hour, which must stand before all others.
const LONG_CACHE_CONTROL: &str = r#","cache_control":{"type":"ephemeral","ttl":"1h"}"#;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct MessagesWire {
    /// True if prompt-cache breakpoints are set: on the last tool, on the last stable block of
    /// the system prompt, and on the last block of the last message of this request and of the one
    /// before. The API allows four.
    pub(super) cache: bool,
    /// True if tools and system prompt are stored for 1 hour.
    pub(super) long_cache: bool,
    /// True if the model takes thinking only behind the prefix it was made for.
    pub(super) binds_reasoning: bool,
}

impl MessagesWire {
    /// The breakpoint of tools and system prompt.
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
        place: Place<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Option<usize>> {
        let answer = group.first().is_some_and(|message| is_answer(message));
        if answer && place.first {
            out.extend_from_slice(br#"{"role":"user","content":"#);
            let mut blocks = Blocks::open(out);
            blocks.text(NOTHING)?;
            blocks.close();
            out.extend_from_slice(b"},");
        }

        out.extend_from_slice(if answer {
            br#"{"role":"assistant","content":"#
        } else {
            br#"{"role":"user","content":"#
        });

        let mut blocks = Blocks::open(out);
        if answer {
            answer_blocks(group, place, &mut blocks)?;
        } else {
            user_blocks(group, &mut blocks)?;
            if let Some(text) = place.tail {
                blocks.system_text(text)?;
            }
        }

        if blocks.is_empty() {
            blocks.text(NOTHING)?;
        }

        let breakpoint = blocks.markable.filter(|_| self.cache);
        blocks.close();
        out.push(b'}');
        Ok(breakpoint)
    }

    /// An answer that is to be continued must not end in white space; one that begins a history
    /// gets a message in front.
    fn depends_on_place(&self, group: &[Arc<Message>]) -> bool {
        group.first().is_some_and(|message| is_answer(message))
    }

    fn has_tail(&self) -> bool {
        self.binds_reasoning
    }

    fn allows_tail(&self, before: &[Arc<Message>]) -> bool {
        !has_open_server_call(before)
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

        let mut blocks = Blocks::open(out);
        blocks.text(&system.text_of(Stability::Stable))?;
        for message in lifted {
            blocks.text(&message.text())?;
        }

        if self.cache {
            blocks.mark(self.breakpoint());
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
        let mut blocks = Blocks::open(out);
        for tool in tools {
            blocks.block(true, |out| {
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
            blocks.mark(self.breakpoint());
        }

        blocks.close();
        Ok(())
    }
}

fn is_answer(message: &Message) -> bool {
    message.role() == Role::Assistant
}

fn user_blocks(group: &[Arc<Message>], blocks: &mut Blocks<'_>) -> Result<()> {
    for result in group.iter().filter_map(|message| message.as_tool_result()) {
        blocks.tool_result(result)?;
    }

    for message in group {
        match &**message {
            Message::User(user) => blocks.media_and_text(&user.content)?,
            Message::System(system) => {
                blocks.system_text(&system.content.text())?;
            }
            Message::Assistant(_) | Message::Tool(_) => {}
        }
    }

    Ok(())
}

/// The API refuses white space at the end of an answer that it is to continue.
fn answer_blocks(group: &[Arc<Message>], place: Place<'_>, blocks: &mut Blocks<'_>) -> Result<()> {
    let parts: Vec<&Part> = group.iter().flat_map(|m| m.content().parts()).collect();
    let end = parts.iter().rposition(|part| is_block(part));
    for (at, part) in parts.iter().enumerate() {
        match part {
            Part::Text(text) => {
                let text = match end {
                    Some(end) if place.last && at == end => text.trim_end(),
                    _ => text,
                };
                blocks.cited_text(text, parts.get(at + 1).and_then(|part| own_fields(part)))?;
            }
            Part::ToolCall(call) => blocks.tool_use(call)?,
            Part::Thinking(_) if !place.has_reasoning => {}
            Part::Thinking(block) | Part::Opaque(block) if block.is_for(PROVIDER) => {
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

/// True for parts of an answer that are blocks of their own.
fn is_block(part: &Part) -> bool {
    match part {
        Part::Text(_) | Part::ToolCall(_) => true,
        Part::Thinking(block) | Part::Opaque(block) => block.is_for(PROVIDER),
        Part::Image(_) | Part::Document(_) | Part::Audio(_) | Part::Annotations(_) => false,
    }
}

/// True if the last answer has a call of a server tool without its result. Nothing but the results
/// of local calls may follow then: the server finishes its own call first.
fn has_open_server_call(messages: &[Arc<Message>]) -> bool {
    #[derive(Deserialize)]
    struct Block<'a> {
        #[serde(borrow, rename = "type")]
        kind: Str<'a>,
        #[serde(borrow)]
        id: Option<Str<'a>>,
        #[serde(borrow)]
        tool_use_id: Option<Str<'a>>,
    }

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
        let Ok(block) = serde_json::from_str::<Block<'_>>(block.raw.get()) else {
            continue;
        };
        if block.kind.as_str() == "server_tool_use" {
            calls.extend(block.id.map(|id| id.0));
        } else {
            results.extend(block.tool_use_id.map(|id| id.0));
        }
    }
    !calls.is_subset(&results)
}

/// The API's own fields of the text before these annotations.
fn own_fields(part: &Part) -> Option<&ProviderBlock> {
    let Part::Annotations(annotations) = part else {
        return None;
    };
    let block = annotations.block.as_ref();
    block.filter(|block| block.is_for(PROVIDER))
}

/// The fields of an object, without its braces; `None` without a field.
fn inner_fields(block: &ProviderBlock) -> Option<&str> {
    let fields = block
        .raw
        .get()
        .trim()
        .strip_prefix('{')?
        .strip_suffix('}')?;
    Some(fields).filter(|fields| !fields.trim().is_empty())
}

/// True if the API takes `text` as a block of its own.
fn is_visible(text: &str) -> bool {
    text.contains(|c: char| !c.is_whitespace())
}

/// True for media that the API has a form for: pictures and documents, of files its own.
pub(super) fn takes(part: &Part) -> bool {
    match part {
        Part::Image(media) | Part::Document(media) => match &media.source {
            MediaSource::File { provider, .. } => **provider == *PROVIDER,
            _ => true,
        },
        _ => false,
    }
}

/// An array of content blocks being written.
struct Blocks<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
    /// The offset at which the last block that may have a breakpoint takes further fields.
    markable: Option<usize>,
}

impl<'a> Blocks<'a> {
    fn open(out: &'a mut Vec<u8>) -> Self {
        out.push(b'[');
        Self {
            start: out.len(),
            out,
            markable: None,
        }
    }

    fn is_empty(&self) -> bool {
        self.out.len() == self.start
    }

    fn close(self) {
        self.out.push(b']');
    }

    /// Takes the array back.
    fn abandon(self) {
        self.out.truncate(self.start - 1);
    }

    /// Puts a breakpoint on the last block that may carry one.
    fn mark(&mut self, breakpoint: &str) {
        if let Some(at) = self.markable.take() {
            self.out.splice(at..at, breakpoint.bytes());
        }
    }

    /// Writes a block up to its last brace with `fields`.
    fn block(
        &mut self,
        markable: bool,
        fields: impl FnOnce(&mut Vec<u8>) -> Result<()>,
    ) -> Result<()> {
        self.separate();
        fields(self.out)?;
        if markable {
            self.markable = Some(self.out.len());
        }
        self.out.push(b'}');
        Ok(())
    }

    fn separate(&mut self) {
        if !self.is_empty() {
            self.out.push(b',');
        }
    }

    fn raw(&mut self, json: &str) {
        self.separate();
        self.out.extend_from_slice(json.as_bytes());
    }

    fn text(&mut self, text: &str) -> Result<()> {
        self.cited_text(text, None)
    }

    fn system_text(&mut self, text: &str) -> Result<()> {
        if !is_visible(text) {
            return Ok(());
        }
        self.text(&format!("<system>\n{text}\n</system>"))
    }

    /// A text with the further fields that the API gave it.
    fn cited_text(&mut self, text: &str, fields: Option<&ProviderBlock>) -> Result<()> {
        if !is_visible(text) {
            return Ok(());
        }
        self.block(true, |out| {
            out.extend_from_slice(br#"{"type":"text","text":"#);
            write_text(out, text)?;
            write_fields(out, fields);
            Ok(())
        })
    }

    fn media_and_text(&mut self, content: &Content) -> Result<()> {
        for part in content.parts() {
            match part {
                Part::Text(text) => self.text(text)?,
                Part::Image(media) if takes(part) => self.media("image", media)?,
                Part::Document(media) if takes(part) => self.media("document", media)?,
                Part::Opaque(block) if block.is_for(PROVIDER) => self.raw(block.raw.get()),
                part => {
                    if let Some(text) = placeholder(part) {
                        self.text(&text)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn media(&mut self, kind: &str, media: &Media) -> Result<()> {
        self.block(true, |out| {
            out.extend_from_slice(br#"{"type":"#);
            write(out, kind)?;
            out.extend_from_slice(br#","source":"#);
            source(media, out)?;
            if let Some(name) = media.name.as_deref().filter(|_| kind == "document") {
                out.extend_from_slice(br#","title":"#);
                write_text(out, name)?;
            }
            Ok(())
        })
    }

    fn tool_use(&mut self, call: &ToolCall) -> Result<()> {
        self.block(true, |out| {
            out.extend_from_slice(br#"{"type":"tool_use","id":"#);
            write_identifier(out, &call.id)?;
            out.extend_from_slice(br#","name":"#);
            write_identifier(out, &call.name)?;
            out.extend_from_slice(br#","input":"#);
            out.extend_from_slice(call_args(call)?.as_bytes());
            let extra = call.extra.as_deref();
            write_fields(out, extra.filter(|fields| fields.is_for(PROVIDER)));
            Ok(())
        })
    }

    fn tool_result(&mut self, result: &ToolResult) -> Result<()> {
        self.block(true, |out| {
            out.extend_from_slice(br#"{"type":"tool_result","tool_use_id":"#);
            write_identifier(out, &result.tool_call_id)?;
            out.extend_from_slice(br#","content":"#);
            let mut blocks = Blocks::open(out);
            blocks.media_and_text(&result.content)?;
            if blocks.is_empty() {
                blocks.text(NO_OUTPUT)?;
            }

            blocks.close();
            if result.is_error {
                out.extend_from_slice(br#","is_error":true"#);
            }

            Ok(())
        })
    }
}

/// Writes the fields of an object behind others.
fn write_fields(out: &mut Vec<u8>, fields: Option<&ProviderBlock>) {
    if let Some(fields) = fields.and_then(inner_fields) {
        out.push(b',');
        out.extend_from_slice(fields.as_bytes());
    }
}

/// Writes the source of a medium. Text documents are sent as text, the only form that the API takes
/// for them.
fn source(media: &Media, out: &mut Vec<u8>) -> Result<()> {
    let mut field = |before: &str, value: &str| {
        out.extend_from_slice(before.as_bytes());
        write_text(out, value)
    };

    match &media.source {
        MediaSource::Url(url) => field(r#"{"type":"url","url":"#, url)?,
        MediaSource::File { id, .. } => field(r#"{"type":"file","file_id":"#, id)?,
        MediaSource::Base64(data) => match media.text() {
            Some(text) => field(r#"{"type":"text","media_type":"text/plain","data":"#, &text)?,
            None => {
                field(r#"{"type":"base64","media_type":"#, &media.media_type)?;
                field(r#","data":"#, data)?;
            }
        },
    }

    out.push(b'}');
    Ok(())
}
