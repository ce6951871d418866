//! The end of a JSON value in a text that arrives in pieces.

/// Follows the pieces of one JSON value.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct JsonEnd {
    depth: usize,
    is_in_string: bool,
    is_escaped: bool,
    is_empty: bool,
}

impl JsonEnd {
    pub(super) fn new() -> Self {
        Self {
            is_empty: true,
            ..Self::default()
        }
    }

    pub(super) fn push(&mut self, text: &str) {
        for byte in text.bytes() {
            self.is_empty &= byte.is_ascii_whitespace();
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' if self.is_in_string => self.is_escaped = true,
                b'"' => self.is_in_string = !self.is_in_string,
                _ if self.is_in_string => {}
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
    }

    /// Returns `true` if nothing but whitespace has arrived.
    pub(super) fn is_empty(self) -> bool {
        self.is_empty
    }

    /// Returns `true` if the brackets and strings that have begun have ended.
    pub(super) fn is_complete(self) -> bool {
        !self.is_empty && self.depth == 0 && !self.is_in_string
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
