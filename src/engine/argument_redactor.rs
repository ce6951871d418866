//! The arguments of one call while they stream.

use crate::util::secret::{ExactSearch, Pieces};

/// The beginnings of an escape of an ASCII character.
const ESCAPE_BEGINNINGS: [&str; 4] = ["\\u00", "\\u0", "\\u", "\\"];

/// The arguments of one call. From the first escape of an ASCII character on (`\u0041`), which may
/// hide a secret, the arguments are buffered until they are complete; models rarely write such
/// escapes.
#[derive(Default)]
pub(super) struct ArgumentRedactor {
    pieces: Pieces,
    /// The beginning of an escape that the last piece ended with.
    begun: String,
    /// The text from that escape on, after text that may be the beginning of a secret.
    buffer: Option<Buffer>,
}

/// The end of the arguments, which is buffered.
struct Buffer {
    json: String,
    /// The number of its bytes that were passed on.
    passed: usize,
}

impl ArgumentRedactor {
    /// Takes the next piece; returns the part that may be shown, which may be empty.
    pub(super) fn push(&mut self, search: &ExactSearch, json: String) -> String {
        if let Some(buffer) = &mut self.buffer {
            buffer.json.push_str(&json);
            return String::new();
        }

        // Most pieces have no backslash and do not continue an escape.
        if self.begun.is_empty() && !json.contains('\\') {
            return self.pieces.push(search, json);
        }

        let mut json = std::mem::take(&mut self.begun) + &json;
        if has_ascii_escape(&json) {
            let (open, passed) = self.pieces.take_open();
            self.buffer = Some(Buffer {
                json: open + &json,
                passed,
            });
            return String::new();
        }

        let mut prefixes = ESCAPE_BEGINNINGS.iter();
        if let Some(prefix) = prefixes.find(|prefix| json.ends_with(**prefix)) {
            self.begun = json.split_off(json.len() - prefix.len());
        }

        self.pieces.push(search, json)
    }

    /// Ends the arguments; returns what was held back.
    pub(super) fn finish(mut self, search: &ExactSearch) -> String {
        match self.buffer {
            Some(buffer) => search.redacted_json_after(&buffer.json, buffer.passed),
            None => self.pieces.finish() + &self.begun,
        }
    }
}

fn has_ascii_escape(json: &str) -> bool {
    let bytes = json.as_bytes();
    memchr::memmem::find_iter(bytes, b"\\u00")
        .any(|at| matches!(bytes.get(at + 4), Some(b'2'..=b'7')))
}
