//! Documents of text.

use crate::message::Media;

/// A document of text as a piece of text, for servers that take no such documents: what it says,
/// under its name.
pub(super) fn quoted(media: &Media) -> Option<String> {
    let text = media.text()?;
    Some(match &media.name {
        Some(name) => format!("[document: {name}]\n{text}"),
        None => format!("[document]\n{text}"),
    })
}
