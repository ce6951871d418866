//! The replacement of a message's text.

use crate::message::{Message, Part};

/// Returns the message with `text` instead of all its text and their citations; its other parts
/// stay.
pub(super) fn with_text(message: &Message, text: String) -> Message {
    let mut message = message.clone();
    let parts = message.content_mut().parts_mut();
    parts.retain(|part| !matches!(part, Part::Text(_) | Part::Annotations(_)));
    parts.insert(0, Part::Text(text));
    message
}
