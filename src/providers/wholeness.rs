//! The check whether JSON text that arrives in pieces is a whole value.

use serde::de::IgnoredAny;

use crate::util::json::has_more_values;

/// The maximum length, in bytes, of a number or a literal that is recognized as a whole value.
const SCALAR_LIMIT: usize = 64;

/// The progress of scanning a growing text. Each byte is scanned once, for any number of checks.
#[derive(Debug, Default)]
pub(super) struct Wholeness {
    /// The number of bytes that were scanned.
    scanned_len: usize,
    /// The number of open objects and arrays.
    depth: usize,
    is_in_string: bool,
    /// True if the last byte was a backslash that escapes the next one.
    is_escaped: bool,
    state: ScanState,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ScanState {
    /// Only whitespace so far.
    #[default]
    Blank,
    /// An unfinished object, array or string.
    Open,
    /// A number or a literal.
    Scalar,
    /// A complete value; `true` if it is valid.
    Ended(bool),
}

impl Wholeness {
    /// Returns `true` if `text`, which extends the text of earlier calls, is blank or one whole
    /// value. A value with more than `max_values` inside is not parsed and never whole.
    pub(super) fn check(&mut self, text: &str, max_values: usize) -> bool {
        let bytes = text.as_bytes();
        while let Some(byte) = bytes.get(self.scanned_len) {
            self.scanned_len += 1;
            self.scan(*byte);
            if self.state == ScanState::Open && self.depth == 0 && !self.is_in_string {
                let value = bytes.get(..self.scanned_len).unwrap_or_default();
                let is_valid = !has_more_values(value, max_values)
                    && serde_json::from_slice::<IgnoredAny>(value).is_ok();
                self.state = ScanState::Ended(is_valid);
            }
        }

        match self.state {
            ScanState::Blank => true,
            ScanState::Open => false,
            ScanState::Scalar => {
                text.len() <= SCALAR_LIMIT && serde_json::from_str::<IgnoredAny>(text).is_ok()
            }
            ScanState::Ended(is_valid) => is_valid,
        }
    }

    fn scan(&mut self, byte: u8) {
        if self.is_in_string {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = true,
                b'"' => self.is_in_string = false,
                _ => {}
            }

            return;
        }

        match (self.state, byte) {
            (_, b' ' | b'\t' | b'\n' | b'\r') | (ScanState::Scalar, _) => {}
            (ScanState::Ended(_), _) => self.state = ScanState::Ended(false),
            (ScanState::Blank, b'{' | b'[') => (self.state, self.depth) = (ScanState::Open, 1),
            (ScanState::Blank, b'"') => (self.state, self.is_in_string) = (ScanState::Open, true),
            (ScanState::Blank, _) => self.state = ScanState::Scalar,
            (ScanState::Open, b'"') => self.is_in_string = true,
            (ScanState::Open, b'{' | b'[') => self.depth += 1,
            (ScanState::Open, b'}' | b']') => self.depth -= 1,
            (ScanState::Open, _) => {}
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
