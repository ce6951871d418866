//! Documents of text.

use base64::Engine as _;

use crate::message::{Media, MediaSource};

/// What a document in base64 says, if it is text.
pub(super) fn document_text(media: &Media, data: &str) -> Option<String> {
    if !media.media_type.starts_with("text/") {
        return None;
    }
    let bytes = base64::engine::general_purpose::STANDARD
        .decode(data)
        .ok()?;
    String::from_utf8(bytes).ok()
}

/// A document of text as a piece of text, for servers that take no such documents: what it says,
/// under its name.
pub(super) fn quoted(media: &Media) -> Option<String> {
    let MediaSource::Base64(data) = &media.source else {
        return None;
    };
    let text = document_text(media, data)?;
    Some(match &media.name {
        Some(name) => format!("[document: {name}]\n{text}"),
        None => format!("[document]\n{text}"),
    })
}
