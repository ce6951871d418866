//! Messages of the user, and media in them.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::error::Result;
use crate::message::{Media, MediaSource, Message, Part};

use super::super::chat::GAP;
use super::super::encode::Items;
use super::super::json::{write, write_text};
use super::super::media::{address, placeholder};
use super::messages::non_empty;
use super::rules::Rules;

/// A piece of a user message.
pub(super) enum Piece<'a> {
    Text(Cow<'a, str>),
    Image(&'a Media),
    Document(&'a Media),
    /// A recording, and the name of its format.
    Audio(&'a str, &'static str),
    /// A piece in the server's own format.
    Own(&'a RawValue),
}

/// Adds the pieces of a message of the user.
pub(super) fn user_pieces<'a>(message: &'a Message, rules: &Rules, out: &mut Vec<Piece<'a>>) {
    let text = message.text();
    if !text.is_empty() {
        out.push(Piece::Text(text));
    }
    media_pieces(message, rules, out);
}

/// Adds the pieces of a message that are no text.
pub(super) fn media_pieces<'a>(message: &'a Message, rules: &Rules, out: &mut Vec<Piece<'a>>) {
    for part in message.content().parts() {
        match part {
            Part::Opaque(block) if block.provider.as_deref() == Some(rules.tag) => {
                out.push(Piece::Own(&block.raw));
            }
            part => match piece_of(part, rules) {
                Some(piece) => out.push(piece),
                None => out.extend(placeholder(part).map(|text| Piece::Text(text.into()))),
            },
        }
    }
}

/// True for media that a server of these rules has a form for: pictures, documents as data, and
/// recordings as data of two formats.
pub(super) fn takes(part: &Part, rules: &Rules) -> bool {
    piece_of(part, rules).is_some()
}

/// The piece of a part of media; `None` for one that the server has no form for.
fn piece_of<'a>(part: &'a Part, rules: &Rules) -> Option<Piece<'a>> {
    match part {
        Part::Image(media) => match media.source {
            MediaSource::File { .. } => None,
            MediaSource::Base64(_) | MediaSource::Url(_) => Some(Piece::Image(media)),
        },
        // Documents of text are sent as text.
        Part::Document(media) if rules.has_documents && media.text().is_none() => {
            let is_data = matches!(media.source, MediaSource::Base64(_));
            is_data.then_some(Piece::Document(media))
        }
        Part::Audio(media) if rules.has_audio => match &media.source {
            MediaSource::Base64(data) => Some(Piece::Audio(data, audio_format(media)?)),
            MediaSource::File { .. } | MediaSource::Url(_) => None,
        },
        _ => None,
    }
}

/// The name of a recording's format.
fn audio_format(media: &Media) -> Option<&'static str> {
    match &*media.media_type {
        "audio/wav" | "audio/wave" | "audio/x-wav" | "audio/vnd.wave" => Some("wav"),
        "audio/mpeg" | "audio/mp3" => Some("mp3"),
        _ => None,
    }
}

/// One user message: a string while there is only text, which every server takes.
pub(super) fn user(pieces: &[Piece<'_>], out: &mut Vec<u8>) -> Result<()> {
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
            let mut items = Items::new(out);
            for piece in pieces {
                items.item(|out| part(piece, out))?;
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
        Piece::Audio(data, format) => {
            out.extend_from_slice(b"{\"type\":\"input_audio\",\"input_audio\":{\"data\":");
            write(out, *data)?;
            out.extend_from_slice(b",\"format\":");
            write(out, *format)?;
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

/// Appends a part of text.
pub(super) fn text_part(text: &str, out: &mut Vec<u8>) -> Result<()> {
    out.extend_from_slice(b"{\"type\":\"text\",\"text\":");
    write_text(out, text)?;
    out.push(b'}');
    Ok(())
}
