//! Keeping keys out of errors.

use std::sync::Arc;

use crate::util::Secret;

/// The secrets of one endpoint, to be removed from whatever its server says.
#[derive(Clone, Debug, Default)]
pub(crate) struct Secrets(Arc<[Secret]>);

impl Secrets {
    pub(crate) fn with(&self, secret: Secret) -> Self {
        self.0.iter().cloned().chain([secret]).collect()
    }

    /// `text` without the secrets, and without anything that looks like the rest of a key:
    /// providers echo keys with their middle masked.
    pub(crate) fn scrub(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in self.0.iter() {
            text = secret.scrub(&text);
        }
        mask_keys(&text)
    }
}

impl FromIterator<Secret> for Secrets {
    fn from_iter<I: IntoIterator<Item = Secret>>(secrets: I) -> Self {
        Self(secrets.into_iter().collect())
    }
}

/// Replaces words that begin with `sk-`, the prefix of the keys of most providers.
fn mask_keys(text: &str) -> String {
    let is_key = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '*' | '.');
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("sk-") {
        let (before, key) = rest.split_at(at);
        let end = key.find(|c| !is_key(c)).unwrap_or(key.len());
        let inside_word = before.ends_with(|c: char| c.is_ascii_alphanumeric());
        out.push_str(before);
        out.push_str(if inside_word || end < 8 {
            &key[..end]
        } else {
            "[redacted]"
        });
        rest = &key[end..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_masked_or_cut_key_is_removed_too() {
        let secrets: Secrets = [Secret::new("tok-12345")].into_iter().collect();
        assert_eq!(
            secrets.scrub("bad tok-12345, sk-abc***wxyz. task-forces; sk-1"),
            "bad [redacted], [redacted] task-forces; sk-1"
        );
    }
}
