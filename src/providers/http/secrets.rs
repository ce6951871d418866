//! The redaction of keys in errors.

use crate::util::Secret;
use crate::util::secret::{Cut, Redactor};

/// The secrets of one endpoint, to be removed from what its server sends.
#[derive(Clone, Debug, Default)]
pub(crate) struct Secrets(Redactor);

impl Secrets {
    pub(crate) fn with(&self, secrets: impl IntoIterator<Item = Secret>) -> Self {
        Self(self.0.with(secrets))
    }

    /// `text` without the secrets, and without anything that looks like the rest of a key:
    /// providers echo keys with their middle masked.
    pub(crate) fn scrub(&self, text: &str) -> String {
        mask_keys(&self.0.redact(text))
    }

    /// Removes the secrets from a text that was cut, including the part of a secret at the cut.
    pub(crate) fn redact_cut(&self, text: &mut String, cut: Cut) {
        self.0.redact_cut(text, cut);
    }

    /// Returns the first `max_chars` characters of `text`, `…` after them if there are more.
    /// Secrets are removed before the cut, which else could leave a part of one.
    pub(crate) fn head(&self, text: &str, max_chars: usize) -> String {
        let text = self.scrub(text);
        let text = text.trim();
        match text.char_indices().nth(max_chars) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text.to_owned(),
        }
    }
}

/// Replaces words that begin with `sk-`, the prefix of the keys of most providers.
fn mask_keys(text: &str) -> String {
    let is_key = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '*' | '.');
    let mut out = String::with_capacity(text.len());
    let mut unread = text;
    while let Some(offset) = unread.find("sk-") {
        let (before, key) = unread.split_at(offset);
        let end = key.find(|c| !is_key(c)).unwrap_or(key.len());
        let inside_word = before.ends_with(|c: char| c.is_ascii_alphanumeric());
        out.push_str(before);
        out.push_str(if inside_word || end < 8 {
            &key[..end]
        } else {
            "[redacted]"
        });

        unread = &key[end..];
    }

    out.push_str(unread);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masked_and_cut_keys_are_redacted() {
        let secrets = Secrets::default().with([Secret::new("tok-12345")]);
        assert_eq!(
            secrets.scrub("bad tok-12345, sk-abc***wxyz. task-forces; sk-1"),
            "bad [redacted], [redacted] task-forces; sk-1"
        );
    }
}
