//! The content of user messages and of results.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::value::RawValue;

use crate::error::Result;
use crate::message::{Content, Media, MediaSource, Part};

use super::super::json::{write, write_text};
use super::super::media::{address, placeholder};
use super::super::openai::IMAGE_TYPES;
use super::input::ItemWire;

/// A piece of content.
pub(super) enum ContentPiece<'a> {
    Text(Cow<'a, str>),
    Image(&'a Media),
    Document(&'a Media),
    /// A piece in the API's own format.
    Own(&'a RawValue),
}

impl ContentPiece<'_> {
    pub(super) fn as_text(&self) -> Option<&str> {
        match self {
            ContentPiece::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// Returns the pieces of `content`. Opaque parts with the name `tag` are pieces as they are.
pub(super) fn pieces_of<'a>(
    content: &'a Content,
    tag: &str,
    wire: &ItemWire,
) -> Vec<ContentPiece<'a>> {
    let takes_images = wire.takes_images;
    let takes = |part: &Part| wire.media.takes(part);
    let pieces = content.parts().iter().filter_map(|part| match part {
        Part::Text(text) if text.is_empty() => None,
        Part::Text(text) => Some(ContentPiece::Text(text.into())),
        Part::Image(media) if takes_images && takes(part) => Some(ContentPiece::Image(media)),
        Part::Document(media) if takes(part) => Some(ContentPiece::Document(media)),
        Part::Opaque(block) if !tag.is_empty() && block.provider.as_deref() == Some(tag) => {
            Some(ContentPiece::Own(&block.raw))
        }
        part => placeholder(part, takes_images).map(|text| ContentPiece::Text(text.into())),
    });
    pieces.collect()
}

/// The media that a server takes.
#[derive(Clone, PartialEq)]
pub(super) struct MediaForms {
    /// The provider of the files that the server has.
    pub(super) files_of: Arc<str>,
    /// True if the model takes only the types of images that OpenAI's models take.
    pub(super) has_openai_images: bool,
}

impl MediaForms {
    /// Returns `true` for media that the API has a form for.
    pub(super) fn takes(&self, part: &Part) -> bool {
        let (media, is_image) = match part {
            // Documents of text are sent as text.
            Part::Document(media) if media.text().is_some() => return false,
            Part::Document(media) => (media, false),
            Part::Image(media) => (media, true),
            _ => return false,
        };
        match &media.source {
            MediaSource::File { provider, .. } => *provider == self.files_of,
            MediaSource::Base64(_) if is_image && self.has_openai_images => {
                IMAGE_TYPES.contains(&&*media.media_type)
            }
            MediaSource::Base64(_) | MediaSource::Url(_) => true,
        }
    }
}

/// Writes the list of pieces.
pub(super) fn write_pieces(pieces: &[ContentPiece<'_>], out: &mut Vec<u8>) -> Result<()> {
    out.push(b'[');
    for (index, piece) in pieces.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_piece(piece, out)?;
    }
    out.push(b']');
    Ok(())
}

fn write_piece(piece: &ContentPiece<'_>, out: &mut Vec<u8>) -> Result<()> {
    match piece {
        ContentPiece::Text(text) => {
            out.extend_from_slice(b"{\"type\":\"input_text\",\"text\":");
            write_text(out, text)?;
        }
        ContentPiece::Own(raw) => {
            out.extend_from_slice(raw.get().as_bytes());
            return Ok(());
        }
        ContentPiece::Image(media) => {
            out.extend_from_slice(b"{\"type\":\"input_image\",\"detail\":\"auto\",");
            match &media.source {
                MediaSource::File { id, .. } => field("file_id", id, out)?,
                _ => field("image_url", &address(media, "image/png"), out)?,
            }
        }
        ContentPiece::Document(media) => {
            out.extend_from_slice(b"{\"type\":\"input_file\",");
            match &media.source {
                MediaSource::File { id, .. } => field("file_id", id, out)?,
                MediaSource::Url(url) => field("file_url", url, out)?,
                MediaSource::Base64(_) => {
                    field("filename", media.name.as_deref().unwrap_or("document"), out)?;
                    out.push(b',');
                    field("file_data", &address(media, "application/pdf"), out)?;
                }
            }
        }
    }

    out.push(b'}');
    Ok(())
}

fn field(name: &str, text: &str, out: &mut Vec<u8>) -> Result<()> {
    write(out, name)?;
    out.push(b':');
    write(out, text)
}
