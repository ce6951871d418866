//! The redaction of a text that arrives in pieces.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use serde_json::Value;

use super::escape::Escape;
use super::known::{self, Patterns};
use super::redact::{merged, redact_with, with_places_redacted, with_places_redacted_after};
use super::secret::REDACTED;

/// A shorter beginning of a secret at the end of a piece is passed on at once: it reveals nothing,
/// and many words end like it, so holding it back would delay most texts.
const MIN_HELD: usize = 4;

/// The maximum number of forms of a JSON text that are searched: the text, and what it becomes each
/// time that it is unescaped. Arguments of a call are JSON in a string, and may have JSON in their
/// own strings.
const MAX_FORMS: usize = 4;

/// The exact search for the secrets that this process held at one moment.
#[derive(Clone)]
pub(crate) struct Exact(Arc<Patterns>);

impl Exact {
    /// Creates the search for the present secrets; `None` if there are none.
    pub(crate) fn of_now() -> Option<Self> {
        known::patterns().map(Self)
    }

    /// Returns `text` without the secrets; `None` if there are none in it.
    pub(crate) fn changed(&self, text: &str) -> Option<String> {
        let mut places = Vec::new();
        self.0.exact().find(text.as_bytes(), &mut places);
        with_places_redacted(text, places)
    }

    /// Removes the secrets from all texts in `value`. Returns `true` if there was one.
    pub(crate) fn redact(&self, value: &mut Value) -> bool {
        redact_with(value, &|text| self.changed(text))
    }

    /// Returns `true` if a text in `value` holds a secret.
    pub(crate) fn is_in_value(&self, value: &Value) -> bool {
        match value {
            Value::String(text) => self.changed(text).is_some(),
            Value::Array(items) => items.iter().any(|item| self.is_in_value(item)),
            Value::Object(members) => members
                .iter()
                .any(|(name, member)| self.changed(name).is_some() || self.is_in_value(member)),
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }

    /// Returns `true` if a JSON text holds a secret, in any escaping of its strings, and of JSON
    /// texts in its strings.
    pub(crate) fn is_in_json(&self, json: &str) -> bool {
        let mut places = Vec::new();
        let mut text = Cow::Borrowed(json.as_bytes());
        for _ in 0..MAX_FORMS {
            self.0.exact().find(&text, &mut places);
            if !places.is_empty() {
                return true;
            }
            match Escape::Backslash.undo(&text) {
                Some(unescaped_text) => text = unescaped_text.into(),
                None => return false,
            }
        }
        false
    }

    /// Returns a JSON text without the secrets, however its strings are escaped.
    pub(crate) fn redacted_json(&self, json: &str) -> String {
        self.redacted_json_after(json, 0)
    }

    /// Returns the part of a JSON text after its first `passed` bytes, without the secrets. One
    /// that begins in these bytes is replaced as well.
    pub(crate) fn redacted_json_after(&self, json: &str, passed: usize) -> String {
        let mut places = Vec::new();
        self.0.exact().find(json.as_bytes(), &mut places);
        if let Some(unescaped_json) = Escape::Backslash.undo(json.as_bytes()) {
            let mut inner = Vec::new();
            self.0.exact().find(&unescaped_json, &mut inner);
            places.extend(Escape::Backslash.origins(json.as_bytes(), &inner));
        }

        with_places_redacted_after(json, passed, places)
    }
}

/// One text that arrives in pieces. A beginning of a secret at the end of a piece is held back
/// until its continuation is known.
#[derive(Default)]
pub(crate) struct Pieces {
    /// The end of the text so far that may be the beginning of a secret.
    open: String,
    /// The length of the part of `open` that was passed on.
    passed: usize,
    /// True if that part was replaced, as part of a secret before.
    is_replaced: bool,
}

impl Pieces {
    /// Takes the next piece. Returns the part that may be passed on, which may be empty.
    pub(crate) fn push(&mut self, exact: &Exact, piece: String) -> String {
        let matcher = exact.0.exact();
        let mut places = Vec::new();
        if self.open.is_empty() {
            matcher.find(piece.as_bytes(), &mut places);
            let end = matcher.open_end(piece.as_bytes());
            if places.is_empty() && piece.len() - end < MIN_HELD {
                self.open.push_str(&piece[end..]);
                self.passed = self.open.len();
                self.is_replaced = false;
                return piece;
            }

            return self.advance(&piece, places, end);
        }

        let mut text = std::mem::take(&mut self.open);
        text.push_str(&piece);
        matcher.find(text.as_bytes(), &mut places);
        let end = matcher.open_end(text.as_bytes());
        self.advance(&text, places, end)
    }

    /// Passes on `text`, which begins with what was open, up to the beginning of a secret at `end`.
    fn advance(&mut self, text: &str, places: Vec<Range<usize>>, end: usize) -> String {
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

        let end_offset = if text.len() - end < MIN_HELD {
            text.len()
        } else {
            end
        };

        if end_offset > self.passed {
            out.push_str(&text[self.passed..end_offset]);
            self.passed = end_offset;
            self.is_replaced = false;
        }

        self.passed = self.passed.saturating_sub(end);
        self.open = text[end..].to_owned();
        out
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
