//! The content blocks of the Messages API.

use crate::error::Result;
use crate::message::{
    Content, Media, MediaSource, NO_OUTPUT, Part, ProviderBlock, ToolCall, ToolResult,
};

use super::super::chat::system_text;
use super::super::json::{
    call_args, insert, write, write_call_identifier, write_identifier, write_text,
};
use super::super::media::placeholder;
use super::PROVIDER;
use super::wire::MessagesWire;

/// An array of content blocks being written.
pub(super) struct BlockArray<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
    /// The offset at which the last block that may have a breakpoint takes further fields.
    pub(super) breakpoint_offset: Option<usize>,
}

impl<'a> BlockArray<'a> {
    pub(super) fn open(out: &'a mut Vec<u8>) -> Self {
        out.push(b'[');
        Self {
            start: out.len(),
            out,
            breakpoint_offset: None,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.out.len() == self.start
    }

    pub(super) fn close(self) {
        self.out.push(b']');
    }

    /// Removes the array from the output.
    pub(super) fn abandon(self) {
        self.out.truncate(self.start - 1);
    }

    /// Puts a breakpoint on the last block that may have one.
    pub(super) fn set_breakpoint(&mut self, breakpoint: &str) {
        if let Some(offset) = self.breakpoint_offset.take() {
            insert(self.out, offset, breakpoint);
        }
    }

    /// Writes a block that may have a breakpoint. `fields` writes all of it except the last brace.
    pub(super) fn block(&mut self, fields: impl FnOnce(&mut Vec<u8>) -> Result<()>) -> Result<()> {
        self.separate();
        fields(self.out)?;
        self.breakpoint_offset = Some(self.out.len());
        self.out.push(b'}');
        Ok(())
    }

    fn separate(&mut self) {
        if !self.is_empty() {
            self.out.push(b',');
        }
    }

    pub(super) fn raw(&mut self, json: &str) {
        self.separate();
        self.out.extend_from_slice(json.as_bytes());
    }

    pub(super) fn text(&mut self, text: &str) -> Result<()> {
        self.cited_text(text, None)
    }

    pub(super) fn system_text(&mut self, text: &str) -> Result<()> {
        match system_text(text).filter(|_| is_visible(text)) {
            Some(text) => self.text(&text),
            None => Ok(()),
        }
    }

    /// Writes a text with the further fields that the API gave it.
    pub(super) fn cited_text(&mut self, text: &str, fields: Option<&ProviderBlock>) -> Result<()> {
        if !is_visible(text) {
            return Ok(());
        }
        self.block(|out| {
            out.extend_from_slice(br#"{"type":"text","text":"#);
            write_text(out, text)?;
            write_fields(out, fields);
            Ok(())
        })
    }

    /// Adds the blocks of the content of a message or a result.
    pub(super) fn media_and_text(&mut self, content: &Content, wire: &MessagesWire) -> Result<()> {
        let takes_images = wire.takes_images;
        for part in content.parts() {
            match part {
                Part::Text(text) => self.text(text)?,
                Part::Image(media) if takes_images && wire.takes(part) => {
                    self.media("image", media)?;
                }
                Part::Document(media) if wire.takes(part) => self.media("document", media)?,
                Part::Opaque(block) if block.is_for(PROVIDER) => self.raw(block.raw.get()),
                part => {
                    if let Some(text) = placeholder(part, takes_images) {
                        self.text(&text)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn media(&mut self, kind: &str, media: &Media) -> Result<()> {
        self.block(|out| {
            out.extend_from_slice(br#"{"type":"#);
            write(out, kind)?;
            out.extend_from_slice(br#","source":"#);
            write_source(media, out)?;
            if let Some(name) = media.name.as_deref().filter(|_| kind == "document") {
                out.extend_from_slice(br#","title":"#);
                write_text(out, name)?;
            }
            Ok(())
        })
    }

    /// Adds a call. Its further fields go back to the server whose blocks have this tag.
    pub(super) fn tool_use(&mut self, call: &ToolCall, tag: &str) -> Result<()> {
        self.block(|out| {
            out.extend_from_slice(br#"{"type":"tool_use","id":"#);
            write_call_identifier(out, &call.id)?;
            out.extend_from_slice(br#","name":"#);
            write_identifier(out, &call.name)?;
            out.extend_from_slice(br#","input":"#);
            out.extend_from_slice(call_args(call)?.as_bytes());
            let extra = call.extra.as_deref();
            write_fields(out, extra.filter(|fields| fields.is_for(tag)));
            Ok(())
        })
    }

    pub(super) fn tool_result(&mut self, result: &ToolResult, wire: &MessagesWire) -> Result<()> {
        self.block(|out| {
            out.extend_from_slice(br#"{"type":"tool_result","tool_use_id":"#);
            write_call_identifier(out, &result.tool_call_id)?;
            out.extend_from_slice(br#","content":"#);
            let mut blocks = BlockArray::open(out);
            blocks.media_and_text(&result.content, wire)?;
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

/// Writes the fields of an object after others.
fn write_fields(out: &mut Vec<u8>, fields: Option<&ProviderBlock>) {
    if let Some(fields) = fields.and_then(inner_fields) {
        out.push(b',');
        out.extend_from_slice(fields.as_bytes());
    }
}

/// Writes the source of a medium. Text documents are sent as text, the only form that the API takes
/// for them.
fn write_source(media: &Media, out: &mut Vec<u8>) -> Result<()> {
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

/// Returns `true` if `text` has a visible character: the API refuses a block without one.
fn is_visible(text: &str) -> bool {
    text.contains(|c: char| !c.is_whitespace())
}

/// Returns the fields of an object, without its braces; `None` without a field.
fn inner_fields(block: &ProviderBlock) -> Option<&str> {
    let fields = block
        .raw
        .get()
        .trim()
        .strip_prefix('{')?
        .strip_suffix('}')?;
    Some(fields).filter(|fields| !fields.trim().is_empty())
}
