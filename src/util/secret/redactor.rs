//! [`Redactor`], which also removes the secrets of one peer.

use std::borrow::Cow;
use std::sync::Arc;

use super::known;
use super::matcher::{Matcher, Needle};
#[cfg(feature = "http")]
use super::redact::{Cut, redact_cut, redact_cut_with};
use super::redact::{redacted, search, with_places_redacted};
use super::secret::{REDACTED, Secret};
use super::spelling;

/// The secrets of one peer. Texts of that peer are also searched for secrets that are too short to
/// be searched for everywhere.
#[derive(Clone, Default)]
pub(crate) struct Redactor {
    secrets: Arc<[Secret]>,
    /// Secrets that are not registered for the process. The search for them takes several
    /// kilobytes, so it is made when it is needed: a server may have tens of thousands of
    /// redactors.
    local: Arc<[String]>,
}

impl Redactor {
    /// The minimum length of a secret that is searched for, in bytes.
    const MIN_LEN: usize = 4;

    /// Returns the same with more secrets.
    #[cfg(feature = "http")]
    pub(crate) fn with(&self, secrets: impl IntoIterator<Item = Secret>) -> Self {
        Self {
            secrets: self.secrets.iter().cloned().chain(secrets).collect(),
            local: self.local.clone(),
        }
    }

    /// Creates a redactor of secrets that are searched for only in texts of the peer, as those that
    /// a user of a server gives: the texts of other users must not depend on them.
    #[cfg(feature = "server")]
    pub(crate) fn local(texts: &[String]) -> Self {
        let searched_texts = texts.iter().filter(|text| Self::is_searched(text));
        Self {
            secrets: Arc::default(),
            local: searched_texts.cloned().collect(),
        }
    }

    /// Returns the search for the spellings of the local secrets; `None` without any.
    fn local_matcher(&self) -> Option<Matcher> {
        if self.local.is_empty() {
            return None;
        }
        let needles = self.local.iter().flat_map(|text| {
            if known::is_registrable(text) {
                spelling::all(text)
            } else {
                vec![Needle::new(text.as_str())]
            }
        });
        Some(Matcher::new(needles.collect()))
    }

    fn is_searched(secret: &str) -> bool {
        secret.len() >= Self::MIN_LEN && !known::is_placeholder(secret)
    }

    /// Returns the secrets that are searched for, with those of proxies: a proxy may reply in the
    /// place of the peer.
    fn searched(&self) -> impl Iterator<Item = &str> {
        #[cfg(feature = "http")]
        let of_proxies = super::credentials::of_proxies();
        #[cfg(not(feature = "http"))]
        let of_proxies: &[Secret] = &[];
        let secrets = self.secrets.iter().chain(of_proxies);
        secrets
            .map(Secret::expose)
            .filter(|secret| Self::is_searched(secret))
    }

    /// Removes the secrets of the peer and of this process from a text that was cut before it could
    /// be redacted, including the part of a secret at the cut.
    #[cfg(feature = "http")]
    pub(crate) fn redact_cut(&self, text: &mut String, cut: Cut) {
        redact_cut(text, cut);
        if let Some(local) = self.local_matcher() {
            redact_cut_with(&local, text, cut);
        }

        // Short secrets are not among those of the process.
        let needles: Vec<_> = self
            .searched()
            .filter(|secret| !known::is_registrable(secret))
            .map(Needle::new)
            .collect();
        if !needles.is_empty() {
            redact_cut_with(&Matcher::new(needles), text, cut);
        }
    }

    /// Returns `text` without the secrets of the peer and of this process.
    pub(crate) fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut text = redacted(text);
        if let Some(local) = self.local_matcher() {
            let mut places = Vec::new();
            search(&local, text.as_bytes(), 0, &mut places);
            if let Some(changed) = with_places_redacted(&text, places) {
                text = Cow::Owned(changed);
            }
        }
        for secret in self.searched() {
            if text.contains(secret) {
                text = Cow::Owned(text.replace(secret, REDACTED));
            }
        }
        text
    }
}

impl FromIterator<Secret> for Redactor {
    fn from_iter<I: IntoIterator<Item = Secret>>(secrets: I) -> Self {
        Self {
            secrets: secrets.into_iter().collect(),
            local: Arc::default(),
        }
    }
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redactor").finish_non_exhaustive()
    }
}

#[cfg(all(test, feature = "http"))]
mod tests {
    use super::*;

    #[test]
    fn a_cut_leaves_no_part_of_a_short_secret() {
        let redactor = Redactor::from_iter([Secret::from("hunter2pass"), Secret::from("abc")]);
        for (text, cut, expected) in [
            ("not hunter2p", Cut::End, "not [redacted]"),
            ("not hunter2pass", Cut::End, "not [redacted]"),
            ("r2pass, no", Cut::Start, "[redacted], no"),
            ("abc, not hun", Cut::End, "abc, not hun"),
        ] {
            let mut redacted = text.to_owned();
            redactor.redact_cut(&mut redacted, cut);
            assert_eq!(redacted, expected);
        }
    }
}
