//! The search for the secrets of this process by exact match.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;

use super::escape::Escape;
use super::known::{self, Patterns};
use super::matcher::Matcher;
use super::redact::{redact_with, with_places_redacted, with_places_redacted_after};

/// The maximum number of forms of a JSON text that are searched: the text, and what it becomes each
/// time that it is unescaped. Arguments of a call are JSON in a string, and may have JSON in their
/// own strings.
const MAX_FORMS: usize = 4;

/// The search for the secrets that this process had at one moment, as they are and as JSON writes
/// them.
#[derive(Clone)]
pub(crate) struct ExactSearch(Arc<Patterns>);

impl ExactSearch {
    /// Creates the search for the present secrets; `None` if there are none.
    pub(crate) fn of_now() -> Option<Self> {
        known::patterns().map(Self)
    }

    pub(super) fn matcher(&self) -> &Matcher {
        self.0.exact()
    }

    /// Returns `text` without the secrets; `None` if there are none in it.
    pub(crate) fn try_redact(&self, text: &str) -> Option<String> {
        let mut places = Vec::new();
        self.matcher().find(text.as_bytes(), &mut places);
        with_places_redacted(text, places)
    }

    /// Removes the secrets from all texts in `value`. Returns `true` if there was one.
    pub(crate) fn redact(&self, value: &mut Value) -> bool {
        redact_with(value, &|text| self.try_redact(text))
    }

    /// Returns `true` if a text in `value` holds a secret.
    pub(crate) fn is_in_value(&self, value: &Value) -> bool {
        match value {
            Value::String(text) => self.try_redact(text).is_some(),
            Value::Array(items) => items.iter().any(|item| self.is_in_value(item)),
            Value::Object(members) => members
                .iter()
                .any(|(name, member)| self.try_redact(name).is_some() || self.is_in_value(member)),
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }

    /// Returns `true` if a JSON text holds a secret, in any escaping of its strings, and of JSON
    /// texts in its strings.
    pub(crate) fn is_in_json(&self, json: &str) -> bool {
        let mut places = Vec::new();
        let mut text = Cow::Borrowed(json.as_bytes());
        for _ in 0..MAX_FORMS {
            self.matcher().find(&text, &mut places);
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
        self.matcher().find(json.as_bytes(), &mut places);
        if let Some(unescaped_json) = Escape::Backslash.undo(json.as_bytes()) {
            let mut inner = Vec::new();
            self.matcher().find(&unescaped_json, &mut inner);
            places.extend(Escape::Backslash.origins(json.as_bytes(), &inner));
        }

        with_places_redacted_after(json, passed, places)
    }
}
