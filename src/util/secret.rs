//! A string that never shows itself.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use serde_json::Value;

/// What stands in a text in place of a secret.
const REDACTED: &str = "[redacted]";
/// Shorter ones may be words of any text, as placeholders of local servers are.
const MIN_KNOWN: usize = 12;

/// The secrets alive in this process, and how many hold each.
static KNOWN: RwLock<BTreeMap<Box<str>, usize>> = RwLock::new(BTreeMap::new());

/// A key, token or password. `Debug` and `Display` print `[redacted]`; only
/// [`expose`](Secret::expose) gives the text. Clones share it.
///
/// As long as one of at least twelve bytes is alive, tool results, their progress and their
/// details do not hold it: a command that prints the environment does not give a key to the
/// model, to logs or to stored sessions. Only the exact text is found, neither a part of it nor
/// another spelling such as base64.
///
/// ```
/// let key = agentcore::Secret::new("sk-123");
/// assert_eq!(format!("{key:?} {key}"), "[redacted] [redacted]");
/// assert_eq!(key.expose(), "sk-123");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<Held>);

#[derive(PartialEq, Eq)]
struct Held(Arc<str>);

impl Held {
    fn new(text: Arc<str>) -> Self {
        if text.len() >= MIN_KNOWN {
            let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
            *known.entry((&*text).into()).or_default() += 1;
        }
        Self(text)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.0.len() < MIN_KNOWN {
            return;
        }
        let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(holders) = known.get_mut(&*self.0) {
            *holders -= 1;
            if *holders == 0 {
                known.remove(&*self.0);
            }
        }
    }
}

impl Secret {
    /// Takes a secret in.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(Arc::new(Held::new(text.into())))
    }

    /// The secret itself. Keep the result out of logs and messages.
    pub fn expose(&self) -> &str {
        &self.0.0
    }

    /// Replaces every occurrence of the secret in `text`, so that a peer that echoes a key
    /// does not put it into an error. Secrets shorter than four bytes are not searched for.
    #[cfg(any(feature = "http", feature = "postgres", feature = "redis"))]
    pub(crate) fn scrub(&self, text: &str) -> String {
        let secret = self.expose();
        if secret.len() < 4 || !text.contains(secret) {
            return text.to_owned();
        }
        text.replace(secret, REDACTED)
    }
}

/// `text` without the secrets this process holds.
pub(crate) fn redacted(text: &str) -> Cow<'_, str> {
    let known = KNOWN.read().unwrap_or_else(PoisonError::into_inner);
    let mut text = Cow::Borrowed(text);
    for secret in known.keys() {
        if text.contains(&**secret) {
            text = Cow::Owned(text.replace(&**secret, REDACTED));
        }
    }
    text
}

/// Removes the secrets this process holds from all texts in `value`, names of members included.
pub(crate) fn redact(value: &mut Value) {
    match value {
        Value::String(text) => redact_text(text),
        Value::Array(items) => items.iter_mut().for_each(redact),
        Value::Object(members) => {
            members.values_mut().for_each(redact);
            if members.keys().any(|name| is_redacted(name)) {
                let named = std::mem::take(members).into_iter();
                *members = named
                    .map(|(name, member)| (redacted(&name).into_owned(), member))
                    .collect();
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Removes the secrets this process holds from `text`.
pub(crate) fn redact_text(text: &mut String) {
    if let Cow::Owned(changed) = redacted(text) {
        *text = changed;
    }
}

fn is_redacted(text: &str) -> bool {
    matches!(redacted(text), Cow::Owned(_))
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}
