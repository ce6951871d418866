//! Messages as Chat Completions takes them.
//!
//! Format: the OpenAI API reference, "Create chat completion".

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::value::RawValue;

use crate::error::Result;
use crate::message::{Media, MediaSource, Message, Part, Role};
use crate::model::{SystemPrompt, ToolDefinition};

use super::super::chat::{EMPTY, GAP, write_system, write_tools};
use super::super::encode::{Place, Wire};
use super::super::json::{call_args, write, write_identifier, write_text};
use super::super::media::{address, placeholder};
use super::call_ids::sent_id;
use super::rules::CallIdForm;

/// The wire of messages.
#[derive(Clone, PartialEq)]
pub(super) struct ChatWire {
    /// The mark of the server's own blocks; no others are sent.
    pub(super) tag: &'static str,
    pub(super) call_ids: CallIdForm,
    pub(super) reasoning: Reasoning,
}

/// The reasoning in the answers of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reasoning {
    None,
    /// The fields of the server's own answers.
    Own,
    /// The same; an answer without any has an empty `reasoning_content`.
    OwnOrEmpty,
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
                user_pieces(message, self.tag, &mut pieces);
                continue;
            }

            if !std::mem::take(&mut first) {
                out.push(b',');
            }

            match &**message {
                Message::Tool(result) => {
                    out.extend_from_slice(b"{\"role\":\"tool\",\"tool_call_id\":");
                    write_text(out, &sent_id(&result.tool_call_id, self.call_ids))?;
                    out.extend_from_slice(b",\"content\":");
                    write_text(out, non_empty(&message.text()))?;
                    out.push(b'}');
                    media_pieces(message, self.tag, &mut pieces);
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

        self.reasoning(message, out);

        if calls.peek().is_some() {
            out.extend_from_slice(b",\"tool_calls\":[");
            for (at, call) in calls.enumerate() {
                if at > 0 {
                    out.push(b',');
                }

                out.extend_from_slice(b"{\"id\":");
                write_text(out, &sent_id(&call.id, self.call_ids))?;
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

    /// Appends the reasoning of an answer.
    fn reasoning(&self, message: &Message, out: &mut Vec<u8>) {
        if self.reasoning == Reasoning::None {
            return;
        }

        let parts = message.content().parts();
        let mut has_fields = false;
        for fields in parts.iter().filter_map(|part| own_fields(part, self.tag)) {
            has_fields = true;
            out.push(b',');
            out.extend_from_slice(fields.as_bytes());
        }

        if !has_fields && self.reasoning == Reasoning::OwnOrEmpty {
            out.extend_from_slice(b",\"reasoning_content\":\"\"");
        }
    }
}

/// The fields of a reasoning block that came from this server: its JSON is the object of fields that
/// the message had.
fn own_fields<'a>(part: &'a Part, tag: &str) -> Option<&'a str> {
    let Part::Thinking(block) = part else {
        return None;
    };
    if block.provider.as_deref() != Some(tag) {
        return None;
    }

    let fields = block.raw.get().trim().strip_prefix('{')?;
    let fields = fields.strip_suffix('}')?.trim();
    Some(fields).filter(|fields| !fields.is_empty())
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

fn user_pieces<'a>(message: &'a Message, tag: &str, out: &mut Vec<Piece<'a>>) {
    let text = message.text();
    if !text.is_empty() {
        out.push(Piece::Text(text));
    }
    media_pieces(message, tag, out);
}

fn media_pieces<'a>(message: &'a Message, tag: &str, out: &mut Vec<Piece<'a>>) {
    for part in message.content().parts() {
        match part {
            Part::Image(media) if takes(part) => out.push(Piece::Image(media)),
            Part::Document(media) if takes(part) && media.text().is_none() => {
                out.push(Piece::Document(media));
            }
            Part::Opaque(block) if block.provider.as_deref() == Some(tag) => {
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
