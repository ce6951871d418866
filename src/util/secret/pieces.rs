//! The redaction of a text that arrives in pieces.

use std::ops::Range;

use super::exact_search::ExactSearch;
use super::redact::merged;
use super::secret::REDACTED;

/// The minimum length, in bytes, of a beginning of a secret that is held back. A shorter one
/// reveals nothing, and many words end like it, so holding it back would delay most texts.
const MIN_HELD_BACK: usize = 4;

/// One text that arrives in pieces. A beginning of a secret at the end of a piece is held back
/// until its continuation is known.
#[derive(Default)]
pub(crate) struct Pieces {
    /// The end of the text so far that may be the beginning of a secret.
    open: String,
    /// The length of the part of `open` that was passed on.
    passed: usize,
    /// True if that part belongs to a secret that was replaced.
    is_replaced: bool,
}

impl Pieces {
    /// Takes the next piece. Returns the part that may be passed on, which may be empty.
    pub(crate) fn push(&mut self, search: &ExactSearch, piece: String) -> String {
        let matcher = search.matcher();
        let mut places = Vec::new();
        if self.open.is_empty() {
            matcher.find(piece.as_bytes(), &mut places);
            let open_start = matcher.partial_suffix_start(piece.as_bytes());
            // Most pieces have no secret: they are returned as they are, without a copy.
            if places.is_empty() && piece.len() - open_start < MIN_HELD_BACK {
                self.open.push_str(&piece[open_start..]);
                self.passed = self.open.len();
                self.is_replaced = false;
                return piece;
            }

            return self.advance(&piece, places, open_start);
        }

        let mut text = std::mem::take(&mut self.open);
        text.push_str(&piece);
        matcher.find(text.as_bytes(), &mut places);
        let open_start = matcher.partial_suffix_start(text.as_bytes());
        self.advance(&text, places, open_start)
    }

    /// Returns the next part of `text` without the secrets at `places`. `text` begins with the open
    /// part; from `open_start` on, it may be the beginning of a secret.
    fn advance(&mut self, text: &str, places: Vec<Range<usize>>, open_start: usize) -> String {
        let mut out = String::new();
        for place in merged(places) {
            if place.end <= self.passed {
                continue;
            }

            if place.start >= self.passed {
                out.push_str(&text[self.passed..place.start]);
                out.push_str(REDACTED);
            } else if !self.is_replaced {
                // Its first bytes were emitted with an earlier piece.
                out.push_str(REDACTED);
            }

            self.passed = place.end;
            self.is_replaced = true;
        }

        // A short beginning is passed on and stays in `open`: the next piece may complete a secret.
        let passed_end = if text.len() - open_start < MIN_HELD_BACK {
            text.len()
        } else {
            open_start
        };

        if passed_end > self.passed {
            out.push_str(&text[self.passed..passed_end]);
            self.passed = passed_end;
            self.is_replaced = false;
        }

        self.passed = self.passed.saturating_sub(open_start);
        self.open = text[open_start..].to_owned();
        out
    }

    /// Ends a part of the text. Returns its end that was held back. The next part may complete a
    /// secret that begins there, because readers join the parts.
    pub(crate) fn end_part(&mut self) -> String {
        let held_back = self.open[self.passed..].to_owned();
        if !held_back.is_empty() {
            self.passed = self.open.len();
            self.is_replaced = false;
        }
        held_back
    }

    /// Ends the text. Returns the part that was held back, which was no secret.
    pub(crate) fn finish(&mut self) -> String {
        let state = std::mem::take(self);
        state.open[state.passed..].to_owned()
    }

    /// Ends the text. Returns its end that may be the beginning of a secret, and the number of
    /// bytes of it that were passed on.
    pub(crate) fn take_open(&mut self) -> (String, usize) {
        let state = std::mem::take(self);
        (state.open, state.passed)
    }

    /// Ends a text that was cut off. Returns the replacement for the beginning of a secret, or an
    /// empty text.
    pub(crate) fn cut_off(&mut self) -> &'static str {
        let state = std::mem::take(self);
        if state.passed < state.open.len() {
            REDACTED
        } else {
            ""
        }
    }
}
