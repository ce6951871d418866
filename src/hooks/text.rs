//! The replacement of a message's text.

use crate::message::{Message, Part};

/// Returns the message with `text` instead of all its text and their citations; its other parts
/// stay. An empty text adds no part.
pub(super) fn with_text(message: &Message, text: String) -> Message {
    let mut message = message.clone();
    let parts = message.content_mut().parts_mut();
    parts.retain(|part| !matches!(part, Part::Text(_) | Part::Annotations(_)));
    if !text.is_empty() {
        parts.insert(0, Part::Text(text));
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Media;

    #[test]
    fn empty_text_adds_no_part() {
        let image = Part::Image(Media::base64("image/png", "aGk="));
        let message = Message::tool("c", "look", image);
        assert_eq!(with_text(&message, String::new()), message);
    }
}
