//! The content of user messages and of results.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::error::Result;
use crate::message::{Content, Media, MediaSource, Part};

use super::super::encode::Items;
use super::super::json::{write, write_text};
use super::super::media::{is_left_out, placeholder};
use super::contents::{Backend, ContentWire};

/// The server on which the files of the Gemini API are.
const FILE_SERVER: &str = "https://generativelanguage.googleapis.com/";

/// The types of images that models take.
const IMAGE_TYPES: &[&str] = &[
    "image/png",
    "image/jpeg",
    "image/jpg",
    "image/webp",
    "image/heic",
    "image/heif",
];

/// The media types that a result of a modern model may have.
const RESULT_TYPES: &[&str] = &[
    "image/png",
    "image/jpeg",
    "image/webp",
    "application/pdf",
    "text/plain",
];

/// A piece of content.
pub(super) enum ContentPiece<'a> {
    Text(Cow<'a, str>),
    /// Media, with the type to use if the media have none.
    Media(&'a Media, &'static str),
    /// A piece in the API's own format.
    Own(&'a RawValue),
}

impl ContentWire {
    /// Returns the pieces of `content`.
    pub(super) fn pieces<'a>(&self, content: &'a Content) -> Vec<ContentPiece<'a>> {
        let parts = content.parts().iter();
        let pieces = parts.filter_map(|part| match part {
            Part::Text(text) if text.is_empty() => None,
            Part::Text(text) => Some(ContentPiece::Text(text.into())),
            Part::Opaque(block) if block.provider.as_deref() == Some(self.backend.tag()) => {
                Some(ContentPiece::Own(&block.raw))
            }
            part => {
                let is_sent = self.backend.takes(part) && !is_left_out(part, self.takes_images);
                match media_with_default_type(part).filter(|_| is_sent) {
                    Some((media, kind)) => Some(ContentPiece::Media(media, kind)),
                    None => placeholder(part, self.takes_images)
                        .map(|text| ContentPiece::Text(text.into())),
                }
            }
        });
        pieces.collect()
    }
}

impl Backend {
    /// Returns `true` for media that the API has a form for.
    pub(super) fn takes(self, part: &Part) -> bool {
        // Documents of text are sent as text.
        if matches!(part, Part::Document(media) if media.text().is_some()) {
            return false;
        }

        media_with_default_type(part).is_some_and(|(media, _)| match &media.source {
            MediaSource::Base64(_) => is_known_type(&media.media_type),
            MediaSource::File { provider, .. } => **provider == *self.provider(),
            MediaSource::Url(url) => {
                let is_file = url.starts_with(FILE_SERVER) && url.contains("/files/");
                match self {
                    Self::GeminiApi => is_file || url.starts_with("gs://"),
                    Self::Vertex => !is_file,
                }
            }
        })
    }
}

/// Returns `true` for a type of data that models take: images, PDF, audio and video. Data without
/// a type has the usual one of its kind.
fn is_known_type(media_type: &str) -> bool {
    IMAGE_TYPES.contains(&media_type)
        || matches!(media_type, "" | "application/pdf")
        || media_type.starts_with("audio/")
        || media_type.starts_with("video/")
}

/// Returns the media of a part, and the type to use if it has none.
fn media_with_default_type(part: &Part) -> Option<(&Media, &'static str)> {
    match part {
        Part::Image(media) => Some((media, "image/png")),
        Part::Document(media) => Some((media, "application/pdf")),
        Part::Audio(media) => Some((media, "audio/wav")),
        _ => None,
    }
}

impl ContentPiece<'_> {
    /// Returns `true` for media that may be part of a result.
    pub(super) fn is_for_results(&self) -> bool {
        let ContentPiece::Media(media, default_type) = self else {
            return false;
        };
        let is_data = matches!(media.source, MediaSource::Base64(_));
        is_data && RESULT_TYPES.contains(&type_of(media, default_type))
    }

    /// Writes the piece as a part.
    pub(super) fn write(&self, backend: Backend, items: &mut Items<'_>) -> Result<()> {
        items.item(|out| match self {
            ContentPiece::Text(text) => {
                out.extend_from_slice(b"{\"text\":");
                write_text(out, text)?;
                out.push(b'}');
                Ok(())
            }
            ContentPiece::Own(raw) => {
                out.extend_from_slice(raw.get().as_bytes());
                Ok(())
            }
            ContentPiece::Media(media, default_type) => {
                write_media(media, default_type, backend, out)
            }
        })
    }
}

fn type_of<'a>(media: &'a Media, default_type: &'a str) -> &'a str {
    match &*media.media_type {
        "" => default_type,
        known => known,
    }
}

fn write_media(
    media: &Media,
    default_type: &str,
    backend: Backend,
    out: &mut Vec<u8>,
) -> Result<()> {
    match &media.source {
        MediaSource::Base64(data) => {
            out.extend_from_slice(b"{\"inlineData\":{\"mimeType\":");
            write(out, type_of(media, default_type))?;
            out.extend_from_slice(b",\"data\":");
            write(out, &**data)?;
        }
        MediaSource::Url(uri) | MediaSource::File { id: uri, .. } => {
            out.extend_from_slice(b"{\"fileData\":{");
            // The Gemini API has the types of its files.
            if !media.media_type.is_empty() || backend == Backend::Vertex {
                out.extend_from_slice(b"\"mimeType\":");
                write(out, type_of(media, default_type))?;
                out.push(b',');
            }

            out.extend_from_slice(b"\"fileUri\":");
            write(out, &**uri)?;
        }
    }

    out.extend_from_slice(b"}}");
    Ok(())
}
