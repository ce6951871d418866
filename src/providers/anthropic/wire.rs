//! Histories in the Messages API's form.
//!
//! * Everything between two answers of the model becomes one `user` message: tool results first,
//!   as the API demands, then what the user said. Neighbouring answers become one as well, so the
//!   roles always alternate, and a history that begins with an answer gets a user message in front.
//! * System messages at the beginning of a history join the system prompt. Later ones are text in
//!   a user message, between `<system>` and `</system>`: the API has no other place for them.
//! * Blocks the API refuses are left out or filled in: text without a visible character, media in
//!   answers, results without content.

use std::sync::Arc;

use crate::error::Result;
use crate::message::{
    Content, Media, MediaSource, Message, NO_OUTPUT, Part, Role, ToolCall, ToolResult,
};
use crate::model::{Stability, SystemPrompt, ToolDefinition};

use super::super::encode::{Place, Wire};
use super::super::json::{call_args, write, write_identifier, write_text};
use super::super::media::words;

/// The name of the wire format: what blocks that are kept verbatim are marked with.
pub(super) const PROVIDER: &str = "anthropic";

/// What stands in for a message of which nothing can be sent.
const NOTHING: &str = "(nothing)";

const CACHE_CONTROL: &str = r#","cache_control":{"type":"ephemeral"}"#;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct MessagesWire {
    /// Whether prompt-cache breakpoints are set: on the last tool, on the last stable block of
    /// the system prompt and on the last block of the last message. The API allows four.
    pub(super) cache: bool,
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
            answer_blocks(group, place.last, &mut blocks)?;
        } else {
            user_blocks(group, &mut blocks)?;
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

    fn system(
        &self,
        system: &SystemPrompt,
        lifted: &[Arc<Message>],
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let volatile = system.text_of(Stability::Volatile);
        if lifted.is_empty() && system.is_empty() {
            return Ok(());
        }

        let mut blocks = Blocks::open(out);
        blocks.text(&system.text_of(Stability::Stable))?;
        for message in lifted {
            blocks.text(&message.text())?;
        }

        if self.cache {
            blocks.mark();
        }

        blocks.text(&volatile)?;
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
            blocks.mark();
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
                let text = system.content.text();
                if is_visible(&text) {
                    blocks.text(&format!("<system>\n{text}\n</system>"))?;
                }
            }
            Message::Assistant(_) | Message::Tool(_) => {}
        }
    }

    Ok(())
}

/// `last`: the API refuses white space at the end of an answer that it is to continue.
fn answer_blocks(group: &[Arc<Message>], last: bool, blocks: &mut Blocks<'_>) -> Result<()> {
    let parts: Vec<&Part> = group.iter().flat_map(|m| m.content().parts()).collect();
    for (at, part) in parts.iter().enumerate() {
        match part {
            Part::Text(text) if last && at + 1 == parts.len() => blocks.text(text.trim_end())?,
            Part::Text(text) => blocks.text(text)?,
            Part::ToolCall(call) => blocks.tool_use(call)?,
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

/// Whether the API takes `text` as a block of its own.
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
    /// Where the last block that may carry a breakpoint takes further fields.
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
    fn mark(&mut self) {
        if let Some(at) = self.markable.take() {
            self.out
                .splice(at..at, CACHE_CONTROL.as_bytes().iter().copied());
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
        if !is_visible(text) {
            return Ok(());
        }
        self.block(true, |out| {
            out.extend_from_slice(br#"{"type":"text","text":"#);
            write_text(out, text)
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
                    if let Some(text) = words(part) {
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

/// Where the bytes of a medium are. Text documents are sent as text, the only form the API takes
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
