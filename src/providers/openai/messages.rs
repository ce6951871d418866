//! Messages as Chat Completions takes them.
//!
//! Format: the OpenAI API reference, "Create chat completion".

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::value::RawValue;

use crate::error::Result;
use crate::message::{Media, MediaSource, Message, Part, Role};
use crate::model::{SystemPrompt, ToolDefinition};

use super::super::chat::{EMPTY, GAP, id_end, write_system, write_tools};
use super::super::encode::{Place, Wire};
use super::super::json::{call_args, write, write_identifier, write_text};
use super::super::media::{address, placeholder};
use super::PROVIDER;

/// The maximum length of a call's id at OpenAI's server, in bytes.
const MAX_ID: usize = 40;

/// How messages are written.
#[derive(Clone, PartialEq)]
pub(super) struct ChatWire {
    /// Whether the model's own reasoning is sent back.
    pub(super) reasoning: bool,
}

impl Wire for ChatWire {
    /// Results and the user's messages behind them form one group: pictures from a tool travel in
    /// the user message behind all results.
    fn joins(&self, before: &Message, after: &Message) -> bool {
        use Role::{Tool, User};
        matches!(
            (before.role(), after.role()),
            (User, User) | (Tool, Tool) | (Tool, User)
        )
    }

    fn message(
        &self,
        group: &[Arc<Message>],
        _: Place<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Option<usize>> {
        let mut pieces = Vec::new();
        let mut first = true;
        for message in group {
            if matches!(**message, Message::User(_)) {
                user_pieces(message, &mut pieces);
                continue;
            }

            if !std::mem::take(&mut first) {
                out.push(b',');
            }

            match &**message {
                Message::Tool(result) => {
                    out.extend_from_slice(b"{\"role\":\"tool\",\"tool_call_id\":");
                    write_text(out, call_id(&result.tool_call_id))?;
                    out.extend_from_slice(b",\"content\":");
                    write_text(out, non_empty(&message.text()))?;
                    out.push(b'}');
                    media_pieces(message, &mut pieces);
                }
                Message::Assistant(_) => self.assistant(message, out)?,
                _ => {
                    out.extend_from_slice(b"{\"role\":\"system\",\"content\":");
                    write_text(out, non_empty(&message.text()))?;
                    out.push(b'}');
                }
            }
        }

        let has_user = group.iter().any(|message| message.role() == Role::User);
        if has_user || !pieces.is_empty() {
            if !first {
                out.push(b',');
            }

            user(&pieces, out)?;
        }

        Ok(None)
    }

    fn system(
        &self,
        system: &SystemPrompt,
        lifted: &[Arc<Message>],
        out: &mut Vec<u8>,
    ) -> Result<()> {
        write_system(system, lifted, out)
    }

    fn tools(&self, tools: &[ToolDefinition], out: &mut Vec<u8>) -> Result<()> {
        write_tools(tools, out)
    }
}

impl ChatWire {
    fn assistant(&self, message: &Message, out: &mut Vec<u8>) -> Result<()> {
        let text = message.text();
        let mut calls = message.tool_calls().peekable();
        out.extend_from_slice(b"{\"role\":\"assistant\",\"content\":");
        match (&*text, calls.peek()) {
            ("", Some(_)) => out.extend_from_slice(b"null"),
            (text, _) => write_text(out, non_empty(text))?,
        }

        if self.reasoning {
            for part in message.content().parts() {
                own_reasoning(part, out)?;
            }
        }

        if calls.peek().is_some() {
            out.extend_from_slice(b",\"tool_calls\":[");
            for (at, call) in calls.enumerate() {
                if at > 0 {
                    out.push(b',');
                }

                out.extend_from_slice(b"{\"id\":");
                write_text(out, call_id(&call.id))?;
                out.extend_from_slice(b",\"type\":\"function\",\"function\":{\"name\":");
                write_identifier(out, &call.name)?;
                out.extend_from_slice(b",\"arguments\":");
                write(out, &*call_args(call)?)?;
                out.extend_from_slice(b"}}");
            }

            out.push(b']');
        }

        out.push(b'}');
        Ok(())
    }
}

/// Appends the fields of a reasoning block that came from this API: its JSON is the object of
/// fields the message had.
fn own_reasoning(part: &Part, out: &mut Vec<u8>) -> Result<()> {
    let Part::Thinking(block) = part else {
        return Ok(());
    };

    if block.provider.as_deref() != Some(PROVIDER) {
        return Ok(());
    }

    let raw: &RawValue = &block.raw;
    let fields = raw.get().trim();
    let fields = fields
        .strip_prefix('{')
        .and_then(|fields| fields.strip_suffix('}'))
        .map(str::trim)
        .unwrap_or_default();
    if !fields.is_empty() {
        out.push(b',');
        out.extend_from_slice(fields.as_bytes());
    }

    Ok(())
}

/// The id of a call as it is sent.
fn call_id(id: &str) -> &str {
    id_end(id, MAX_ID)
}

fn non_empty(text: &str) -> &str {
    if text.is_empty() { EMPTY } else { text }
}

/// A piece of a user message.
enum Piece<'a> {
    Text(Cow<'a, str>),
    Image(&'a Media),
    Document(&'a Media),
    Own(&'a RawValue),
}

fn user_pieces<'a>(message: &'a Message, out: &mut Vec<Piece<'a>>) {
    let text = message.text();
    if !text.is_empty() {
        out.push(Piece::Text(text));
    }
    media_pieces(message, out);
}

fn media_pieces<'a>(message: &'a Message, out: &mut Vec<Piece<'a>>) {
    for part in message.content().parts() {
        match part {
            Part::Image(media) if takes(part) => out.push(Piece::Image(media)),
            Part::Document(media) if takes(part) && media.text().is_none() => {
                out.push(Piece::Document(media));
            }
            Part::Opaque(block) if block.provider.as_deref() == Some(PROVIDER) => {
                out.push(Piece::Own(&block.raw));
            }
            part => out.extend(placeholder(part).map(|text| Piece::Text(text.into()))),
        }
    }
}

/// True for media that the API has a form for: pictures, and documents as data.
pub(super) fn takes(part: &Part) -> bool {
    match part {
        Part::Image(media) => !matches!(media.source, MediaSource::File { .. }),
        Part::Document(media) => matches!(media.source, MediaSource::Base64(_)),
        _ => false,
    }
}

/// One user message: a string while there is only text, which every server takes.
fn user(pieces: &[Piece<'_>], out: &mut Vec<u8>) -> Result<()> {
    out.extend_from_slice(b"{\"role\":\"user\",\"content\":");
    let texts: Option<Vec<&str>> = pieces
        .iter()
        .map(|piece| match piece {
            Piece::Text(text) => Some(&**text),
            _ => None,
        })
        .collect();
    match texts {
        Some(texts) => write_text(out, non_empty(&texts.join(GAP)))?,
        None => {
            out.push(b'[');
            for (at, piece) in pieces.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }

                part(piece, out)?;
            }

            out.push(b']');
        }
    }

    out.push(b'}');
    Ok(())
}

fn part(piece: &Piece<'_>, out: &mut Vec<u8>) -> Result<()> {
    match piece {
        Piece::Text(text) => text_part(text, out),
        Piece::Own(raw) => {
            out.extend_from_slice(raw.get().as_bytes());
            Ok(())
        }
        Piece::Image(media) => {
            out.extend_from_slice(b"{\"type\":\"image_url\",\"image_url\":{\"url\":");
            write(out, &*address(media, "image/png"))?;
            out.extend_from_slice(b"}}");
            Ok(())
        }
        Piece::Document(media) => {
            out.extend_from_slice(b"{\"type\":\"file\",\"file\":{\"filename\":");
            write_text(out, media.name.as_deref().unwrap_or("document"))?;
            out.extend_from_slice(b",\"file_data\":");
            write(out, &*address(media, "application/pdf"))?;
            out.extend_from_slice(b"}}");
            Ok(())
        }
    }
}

fn text_part(text: &str, out: &mut Vec<u8>) -> Result<()> {
    out.extend_from_slice(b"{\"type\":\"text\",\"text\":");
    write_text(out, text)?;
    out.push(b'}');
    Ok(())
}
