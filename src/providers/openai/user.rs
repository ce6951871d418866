//! Messages of the user, and media in them.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::error::Result;
use crate::message::{Media, MediaSource, Message, Part};

use super::super::chat::GAP;
use super::super::encode::Items;
use super::super::json::{write, write_text};
use super::super::media::{address, is_left_out, placeholder};
use super::PROVIDER;
use super::messages::{ChatWire, ReasoningForm, non_empty};
use super::rules::{AudioForm, DocumentForm, Rules};

/// A piece of a user message.
pub(super) enum UserPiece<'a> {
    Text(Cow<'a, str>),
    Image(&'a Media),
    Document(&'a Media),
    /// The id of a document that the server has.
    DocumentFile(&'a str),
    /// A document by its address.
    DocumentAddress(&'a Media),
    /// A recording, and the name of its format.
    Audio(&'a str, &'static str),
    /// The data or the address of a recording.
    BareAudio(&'a str),
    /// A piece in the server's own format.
    Own(&'a RawValue),
}

/// Adds the pieces of a message of the user.
pub(super) fn user_pieces<'a>(message: &'a Message, wire: &ChatWire, out: &mut Vec<UserPiece<'a>>) {
    let text = message.text();
    if !text.is_empty() {
        out.push(UserPiece::Text(text));
    }
    media_pieces(message.content().parts(), wire, out);
}

/// Adds the media of a result, which follow it in a message of the user. An image that the model
/// does not take is omitted: the result describes it in words.
pub(super) fn result_pieces<'a>(
    message: &'a Message,
    wire: &ChatWire,
    out: &mut Vec<UserPiece<'a>>,
) {
    let parts = message
        .content()
        .parts()
        .iter()
        .filter(|part| !is_left_out(part, wire.takes_images));
    media_pieces(parts, wire, out);
}

/// Adds the pieces of the parts that are no text.
fn media_pieces<'a>(
    parts: impl IntoIterator<Item = &'a Part>,
    wire: &ChatWire,
    out: &mut Vec<UserPiece<'a>>,
) {
    for part in parts {
        match part {
            Part::Opaque(block) if block.provider.as_deref() == Some(&*wire.tag) => {
                out.push(UserPiece::Own(&block.raw));
            }
            part => match piece_of(part, wire) {
                Some(piece) => out.push(piece),
                None => out.extend(
                    placeholder(part, wire.takes_images).map(|text| UserPiece::Text(text.into())),
                ),
            },
        }
    }
}

/// Returns `true` for media that the server has a form for and the model takes.
pub(super) fn takes(part: &Part, wire: &ChatWire) -> bool {
    piece_of(part, wire).is_some()
}

/// Returns `true` for media that a server with these rules has a form for. Its model may accept
/// fewer.
pub(super) fn has_form(part: &Part, rules: &'static Rules) -> bool {
    let wire = ChatWire {
        rules,
        tag: rules.tag.into(),
        reasoning: ReasoningForm::None,
        signs_calls: false,
        takes_audio: true,
        takes_images: true,
    };
    takes(part, &wire)
}

/// Returns the piece of a part of media. Returns `None` if the server has no form for it, or the
/// model does not take it.
fn piece_of<'a>(part: &'a Part, wire: &ChatWire) -> Option<UserPiece<'a>> {
    match part {
        Part::Image(_) if !wire.takes_images => None,
        Part::Image(media) => {
            let types = wire.rules.image_types;
            let is_taken = match media.source {
                MediaSource::File { .. } => false,
                MediaSource::Base64(_) => types.is_empty() || types.contains(&&*media.media_type),
                MediaSource::Url(_) => true,
            };
            is_taken.then_some(UserPiece::Image(media))
        }
        // Documents of text are sent as text.
        Part::Document(media) if media.text().is_none() => {
            document_piece(media, wire.rules.documents)
        }
        Part::Audio(media) if wire.takes_audio => audio_piece(media, wire.rules.audio),
        _ => None,
    }
}

fn document_piece(media: &Media, form: DocumentForm) -> Option<UserPiece<'_>> {
    let is_pdf = matches!(&*media.media_type, "" | "application/pdf");
    match (form, &media.source) {
        (DocumentForm::File, MediaSource::Base64(_)) => Some(UserPiece::Document(media)),
        (DocumentForm::Pdf, MediaSource::Base64(_)) if is_pdf => Some(UserPiece::Document(media)),
        (DocumentForm::Pdf, MediaSource::File { provider, id }) if **provider == *PROVIDER => {
            Some(UserPiece::DocumentFile(id))
        }
        (DocumentForm::Address, MediaSource::Base64(_)) if !is_pdf => None,
        (DocumentForm::Address, MediaSource::Base64(_) | MediaSource::Url(_)) => {
            Some(UserPiece::DocumentAddress(media))
        }
        _ => None,
    }
}

fn audio_piece(media: &Media, form: AudioForm) -> Option<UserPiece<'_>> {
    match (form, &media.source) {
        (AudioForm::Named, MediaSource::Base64(data)) => {
            Some(UserPiece::Audio(data, audio_format(media)?))
        }
        (AudioForm::Bare, MediaSource::Base64(source) | MediaSource::Url(source)) => {
            Some(UserPiece::BareAudio(source))
        }
        _ => None,
    }
}

/// Returns the name of a recording's format; `None` if it is not supported.
fn audio_format(media: &Media) -> Option<&'static str> {
    match &*media.media_type {
        "audio/wav" | "audio/wave" | "audio/x-wav" | "audio/vnd.wave" => Some("wav"),
        "audio/mpeg" | "audio/mp3" => Some("mp3"),
        _ => None,
    }
}

/// Writes one user message: a string, which every server accepts, if it has only texts.
pub(super) fn write_user(pieces: &[UserPiece<'_>], out: &mut Vec<u8>) -> Result<()> {
    out.extend_from_slice(b"{\"role\":\"user\",\"content\":");
    let texts: Option<Vec<&str>> = pieces
        .iter()
        .map(|piece| match piece {
            UserPiece::Text(text) => Some(&**text),
            _ => None,
        })
        .collect();
    match texts {
        Some(texts) => match &*texts {
            [text] => write_text(out, non_empty(text))?,
            texts => write_text(out, non_empty(&texts.join(GAP)))?,
        },
        None => {
            out.push(b'[');
            let mut items = Items::new(out);
            for piece in pieces {
                items.item(|out| write_part(piece, out))?;
            }

            out.push(b']');
        }
    }

    out.push(b'}');
    Ok(())
}

fn write_part(piece: &UserPiece<'_>, out: &mut Vec<u8>) -> Result<()> {
    match piece {
        UserPiece::Text(text) => write_text_part(text, out)?,
        UserPiece::Own(raw) => out.extend_from_slice(raw.get().as_bytes()),
        UserPiece::Image(media) => {
            out.extend_from_slice(b"{\"type\":\"image_url\",\"image_url\":{\"url\":");
            write(out, &*address(media, "image/png"))?;
            out.extend_from_slice(b"}}");
        }
        UserPiece::Audio(data, format) => {
            out.extend_from_slice(b"{\"type\":\"input_audio\",\"input_audio\":{\"data\":");
            write(out, *data)?;
            out.extend_from_slice(b",\"format\":");
            write(out, *format)?;
            out.extend_from_slice(b"}}");
        }
        UserPiece::BareAudio(source) => {
            out.extend_from_slice(b"{\"type\":\"input_audio\",\"input_audio\":");
            write(out, *source)?;
            out.push(b'}');
        }
        UserPiece::DocumentAddress(media) => {
            out.extend_from_slice(b"{\"type\":\"document_url\",\"document_url\":");
            write(out, &*address(media, "application/pdf"))?;
            if let Some(name) = &media.name {
                out.extend_from_slice(b",\"document_name\":");
                write_text(out, name)?;
            }
            out.push(b'}');
        }
        UserPiece::DocumentFile(id) => {
            out.extend_from_slice(b"{\"type\":\"file\",\"file\":{\"file_id\":");
            write(out, *id)?;
            out.extend_from_slice(b"}}");
        }
        UserPiece::Document(media) => {
            out.extend_from_slice(b"{\"type\":\"file\",\"file\":{\"filename\":");
            write_text(out, media.name.as_deref().unwrap_or("document"))?;
            out.extend_from_slice(b",\"file_data\":");
            write(out, &*address(media, "application/pdf"))?;
            out.extend_from_slice(b"}}");
        }
    }
    Ok(())
}

/// Appends a part of text.
pub(super) fn write_text_part(text: &str, out: &mut Vec<u8>) -> Result<()> {
    out.extend_from_slice(b"{\"type\":\"text\",\"text\":");
    write_text(out, text)?;
    out.push(b'}');
    Ok(())
}
