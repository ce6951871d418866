//! The texts that replace media.

use crate::message::{Media, MediaSource, Part};
use crate::util::text::truncate;

/// The maximum length of a media type, or of the name of a provider, in a text, in characters.
pub(super) const MAX_TYPE: usize = 100;

/// Returns `true` for an image of a request to a model that accepts none: a text is sent in its
/// place, also where the API has a form for it.
pub(in crate::providers) fn is_left_out(part: &Part, takes_images: bool) -> bool {
    !takes_images && matches!(part, Part::Image(_))
}

/// Returns the text that replaces media that are not sent; `None` for a part that is no media.
///
/// For an image to a model that accepts none, it is a note with the type of the image. For a
/// document of text, it is the name and the content. For other media that the API has no form for,
/// it is the kind with the URL, the id or the name.
pub(in crate::providers) fn placeholder(part: &Part, takes_images: bool) -> Option<String> {
    let (kind, media) = media_of(part)?;
    if is_left_out(part, takes_images) {
        return Some(match &*media.media_type {
            "" => format!("[{kind} left out]"),
            known => format!("[{kind} left out: {}]", truncate(known, MAX_TYPE)),
        });
    }

    if let Some(text) = text_of(part) {
        return Some(match &media.name {
            Some(name) => format!("[document: {name}]\n{text}"),
            None => format!("[document]\n{text}"),
        });
    }

    Some(match (&media.source, &media.name) {
        (MediaSource::Url(place) | MediaSource::File { id: place, .. }, _) => {
            format!("[{kind}: {place}]")
        }
        (MediaSource::Base64(_), Some(name)) => format!("[{kind}: {name}]"),
        (MediaSource::Base64(_), None) => format!("[{kind}]"),
    })
}

/// Returns the media of a part, and its kind.
pub(super) fn media_of(part: &Part) -> Option<(&'static str, &Media)> {
    match part {
        Part::Image(media) => Some(("image", media)),
        Part::Document(media) => Some(("document", media)),
        Part::Audio(media) => Some(("audio", media)),
        _ => None,
    }
}

/// Returns the content of a document of text, which every API takes.
pub(super) fn text_of(part: &Part) -> Option<String> {
    match part {
        Part::Document(media) => media.text(),
        _ => None,
    }
}
