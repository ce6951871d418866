//! A string that never shows itself.

use std::fmt;
use std::sync::Arc;

/// A key, token or password. `Debug` and `Display` print `[redacted]`; only
/// [`expose`](Secret::expose) gives the text. Clones share it.
///
/// ```
/// let key = agentcore::Secret::new("sk-123");
/// assert_eq!(format!("{key:?} {key}"), "[redacted] [redacted]");
/// assert_eq!(key.expose(), "sk-123");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Takes a secret in.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// The secret itself. Keep the result out of logs and messages.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Replaces every occurrence of the secret in `text`, so that a peer that echoes a key
    /// does not put it into an error. Secrets shorter than four bytes are not searched for.
    #[cfg(feature = "http")]
    pub(crate) fn scrub(&self, text: &str) -> String {
        if self.0.len() < 4 || !text.contains(&*self.0) {
            return text.to_owned();
        }
        text.replace(&*self.0, "[redacted]")
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
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
