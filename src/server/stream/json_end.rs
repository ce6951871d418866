//! The end of a JSON value in a text that arrives in pieces.

/// Follows the pieces of one JSON value.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct JsonEnd {
    /// The number of open brackets.
    depth: usize,
    place: Place,
    is_empty: bool,
}

/// The place of the next byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Outside,
    InString,
    /// In a string, after a backslash.
    Escaped,
}

impl JsonEnd {
    pub(super) fn new() -> Self {
        Self {
            is_empty: true,
            ..Self::default()
        }
    }

    /// Adds the next piece.
    pub(super) fn push(&mut self, text: &str) {
        for byte in text.bytes() {
            self.is_empty &= byte.is_ascii_whitespace();
            match (self.place, byte) {
                (Place::Escaped, _) => self.place = Place::InString,
                (Place::InString, b'\\') => self.place = Place::Escaped,
                (Place::InString, b'"') => self.place = Place::Outside,
                (Place::InString, _) => {}
                (Place::Outside, b'"') => self.place = Place::InString,
                (Place::Outside, b'{' | b'[') => self.depth += 1,
                (Place::Outside, b'}' | b']') => self.depth = self.depth.saturating_sub(1),
                (Place::Outside, _) => {}
            }
        }
    }

    /// Returns `true` if nothing but whitespace has arrived.
    pub(super) fn is_empty(self) -> bool {
        self.is_empty
    }

    /// Returns `true` if the brackets and strings that have begun have ended.
    pub(super) fn is_complete(self) -> bool {
        !self.is_empty && self.depth == 0 && self.place == Place::Outside
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_in_pieces_is_complete_at_its_end() {
        let text = r#"{"a": ["}\"]", {"b": "\\"}]}"#;
        let mut end = JsonEnd::new();
        assert!(end.is_empty());
        for (index, piece) in text.char_indices() {
            end.push(&piece.to_string());
            assert_eq!(end.is_complete(), index + 1 == text.len(), "{index}");
        }
    }
}
