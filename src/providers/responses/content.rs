//! The content of user messages and of results.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::error::Result;
use crate::message::{Content, Media, MediaSource, Part};

use super::super::json::{write, write_text};
use super::super::media::{address, placeholder};

/// A piece of content.
pub(super) enum Piece<'a> {
    Text(Cow<'a, str>),
    Image(&'a Media),
    Document(&'a Media),
    /// A piece in the API's own format.
    Own(&'a RawValue),
}

impl Piece<'_> {
    pub(super) fn as_text(&self) -> Option<&str> {
        match self {
            Piece::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// Returns the pieces of `content`. Opaque parts with the name `tag` are pieces as they are.
pub(super) fn pieces_of<'a>(content: &'a Content, tag: &str, takes_images: bool) -> Vec<Piece<'a>> {
    let pieces = content.parts().iter().filter_map(|part| match part {
        Part::Text(text) if text.is_empty() => None,
        Part::Text(text) => Some(Piece::Text(text.into())),
        Part::Image(media) if takes_images && takes(part) => Some(Piece::Image(media)),
        Part::Document(media) if takes(part) => Some(Piece::Document(media)),
        Part::Opaque(block) if !tag.is_empty() && block.provider.as_deref() == Some(tag) => {
            Some(Piece::Own(&block.raw))
        }
        part => placeholder(part, takes_images).map(|text| Piece::Text(text.into())),
    });
    pieces.collect()
}

/// Returns `true` for media that the API has a form for.
pub(in crate::providers) fn takes(part: &Part) -> bool {
    match part {
        // Documents of text are sent as text.
        Part::Document(media) if media.text().is_some() => false,
        Part::Image(media) | Part::Document(media) => match &media.source {
            MediaSource::File { provider, .. } => &**provider == "openai",
            MediaSource::Base64(_) | MediaSource::Url(_) => true,
        },
        _ => false,
    }
}

/// Writes the list of pieces.
pub(super) fn write_pieces(pieces: &[Piece<'_>], out: &mut Vec<u8>) -> Result<()> {
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

fn write_piece(piece: &Piece<'_>, out: &mut Vec<u8>) -> Result<()> {
    match piece {
        Piece::Text(text) => {
            out.extend_from_slice(b"{\"type\":\"input_text\",\"text\":");
            write_text(out, text)?;
        }
        Piece::Own(raw) => {
            out.extend_from_slice(raw.get().as_bytes());
            return Ok(());
        }
        Piece::Image(media) => {
            out.extend_from_slice(b"{\"type\":\"input_image\",\"detail\":\"auto\",");
            match &media.source {
                MediaSource::File { id, .. } => field("file_id", id, out)?,
                _ => field("image_url", &address(media, "image/png"), out)?,
            }
        }
        Piece::Document(media) => {
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
