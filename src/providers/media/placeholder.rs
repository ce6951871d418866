//! Texts in place of media.

use crate::message::{Media, MediaSource, Part};

/// The text in place of media that an API has no form for: the content of a document of text under
/// its name, else the kind and the name. `None` for a part that is no media.
pub(in crate::providers) fn placeholder(part: &Part) -> Option<String> {
    let (kind, media) = media_of(part)?;
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

/// The media of a part, and its kind.
pub(super) fn media_of(part: &Part) -> Option<(&'static str, &Media)> {
    match part {
        Part::Image(media) => Some(("image", media)),
        Part::Document(media) => Some(("document", media)),
        Part::Audio(media) => Some(("audio", media)),
        _ => None,
    }
}

/// The content of a document of text, which every API takes.
pub(super) fn text_of(part: &Part) -> Option<String> {
    match part {
        Part::Document(media) => media.text(),
        _ => None,
    }
}
