//! Detecting whether JSON text that arrives in pieces is a whole value.

use serde::de::IgnoredAny;

use crate::util::json::has_more_values;

/// The maximum length, in bytes, of a number or a literal that is recognized as a whole value.
const SCALAR_LIMIT: usize = 64;

/// The progress of scanning a growing text. Each byte is scanned once, for any number of checks.
#[derive(Debug, Default)]
pub(super) struct Wholeness {
    read: usize,
    depth: usize,
    in_string: bool,
    escaped: bool,
    state: State,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Only whitespace so far.
    #[default]
    Blank,
    /// An unfinished object, array or string.
    Open,
    /// A number or a literal.
    Scalar,
    /// A complete value, and whether it is valid.
    Ended(bool),
}

impl Wholeness {
    /// Returns `true` if `text`, which extends the text of earlier calls, is blank or one whole
    /// value. A value with more than `max_values` inside is not parsed and never whole.
    pub(super) fn check(&mut self, text: &str, max_values: usize) -> bool {
        let bytes = text.as_bytes();
        while let Some(byte) = bytes.get(self.read) {
            self.read += 1;
            self.next(*byte);
            if self.state == State::Open && self.depth == 0 && !self.in_string {
                let value = bytes.get(..self.read).unwrap_or_default();
                let is_valid = !has_more_values(value, max_values)
                    && serde_json::from_slice::<IgnoredAny>(value).is_ok();
                self.state = State::Ended(is_valid);
            }
        }

        match self.state {
            State::Blank => true,
            State::Open => false,
            State::Scalar => {
                text.len() <= SCALAR_LIMIT && serde_json::from_str::<IgnoredAny>(text).is_ok()
            }
            State::Ended(is_valid) => is_valid,
        }
    }

    fn next(&mut self, byte: u8) {
        if self.in_string {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }

            return;
        }

        match (self.state, byte) {
            (_, b' ' | b'\t' | b'\n' | b'\r') | (State::Scalar, _) => {}
            (State::Ended(_), _) => self.state = State::Ended(false),
            (State::Blank, b'{' | b'[') => (self.state, self.depth) = (State::Open, 1),
            (State::Blank, b'"') => (self.state, self.in_string) = (State::Open, true),
            (State::Blank, _) => self.state = State::Scalar,
            (State::Open, b'"') => self.in_string = true,
            (State::Open, b'{' | b'[') => self.depth += 1,
            (State::Open, b'}' | b']') => self.depth -= 1,
            (State::Open, _) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wholeness_agrees_with_a_parser_on_every_prefix() {
        for text in [
            r#" {"a":"}\"","b":[1,{}]} "#,
            r#"{"a":1}}"#,
            r#"{"a":1}{"b":2}"#,
            r#"{a:1}"#,
            r#"[[],[{"]":"["}]]"#,
            r#""te\\\"xt" "#,
            "12 ",
            "true",
            "]",
            "{]",
            "nul",
        ] {
            let mut wholeness = Wholeness::default();
            for end in 0..=text.len() {
                let prefix = &text[..end];
                let expected =
                    prefix.trim().is_empty() || serde_json::from_str::<IgnoredAny>(prefix).is_ok();
                assert_eq!(wholeness.check(prefix, usize::MAX), expected, "{prefix}");
            }
        }
    }
}
