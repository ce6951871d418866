//! The secrets alive in this process.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use super::matcher::{Matcher, Needle};
use super::{environment, redact, spelling};

/// The minimum length of a registered secret, in bytes. Shorter ones may be words of any text, as
/// placeholders of local servers are.
const MIN_LEN: usize = 12;

/// The words that placeholders consist of.
const PLACEHOLDER_WORDS: &[&str] = &[
    "any",
    "anything",
    "api",
    "apikey",
    "change",
    "cpp",
    "default",
    "dummy",
    "empty",
    "example",
    "fake",
    "here",
    "ignored",
    "is",
    "key",
    "llama",
    "llamacpp",
    "lm",
    "lmstudio",
    "local",
    "localhost",
    "me",
    "necessary",
    "needed",
    "no",
    "none",
    "not",
    "null",
    "ollama",
    "placeholder",
    "required",
    "sample",
    "sk",
    "studio",
    "test",
    "token",
    "unused",
    "used",
    "vllm",
    "your",
];

/// The number of different secrets: most programs that ask have none.
static COUNT: AtomicUsize = AtomicUsize::new(0);

static KNOWN: RwLock<KnownSecrets> = RwLock::new(KnownSecrets {
    secrets: BTreeMap::new(),
    patterns: None,
});

struct KnownSecrets {
    /// Each with the number of its holders.
    secrets: BTreeMap<Box<str>, usize>,
    /// The patterns, made when they are first needed after a change.
    patterns: Option<Arc<Patterns>>,
}

/// The search patterns.
pub(super) struct Patterns {
    secrets: Vec<Box<str>>,
    exact: OnceLock<Matcher>,
    all: OnceLock<Matcher>,
}

impl Patterns {
    /// The secrets as they are, and as JSON writes them.
    pub(super) fn exact(&self) -> &Matcher {
        self.exact.get_or_init(|| self.matcher(spelling::exact))
    }

    /// The secrets in every spelling that is searched for as it is.
    pub(super) fn all(&self) -> &Matcher {
        self.all.get_or_init(|| self.matcher(spelling::all))
    }

    fn matcher(&self, spellings: fn(&str) -> Vec<Needle>) -> Matcher {
        let secrets = self.secrets.iter();
        Matcher::new(secrets.flat_map(|secret| spellings(secret)).collect())
    }
}

/// Registers one more holder of `secret`.
pub(super) fn add(secret: &str) {
    if !is_registrable(secret) {
        return;
    }
    crate::error::set_redaction(redact::try_redact);
    let mut secrets = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
    let holders = secrets.secrets.entry(secret.into()).or_default();
    *holders += 1;
    if *holders == 1 {
        secrets.patterns = None;
        COUNT.fetch_add(1, Ordering::Release);
    }
}

/// Removes one holder of `secret`.
pub(super) fn remove(secret: &str) {
    if !is_registrable(secret) {
        return;
    }

    let mut secrets = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
    let Some(holders) = secrets.secrets.get_mut(secret) else {
        return;
    };

    *holders -= 1;
    if *holders == 0 {
        secrets.secrets.remove(secret);
        secrets.patterns = None;
        COUNT.fetch_sub(1, Ordering::Release);
    }
}

/// The patterns of all secrets; `None` when there are none.
pub(super) fn patterns() -> Option<Arc<Patterns>> {
    environment::register();
    if COUNT.load(Ordering::Acquire) == 0 {
        return None;
    }

    if let Some(patterns) = &KNOWN
        .read()
        .unwrap_or_else(PoisonError::into_inner)
        .patterns
    {
        return Some(patterns.clone());
    }

    let mut known_secrets = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
    let secrets = known_secrets.secrets.keys().cloned().collect();
    let patterns = known_secrets.patterns.get_or_insert_with(|| {
        Arc::new(Patterns {
            secrets,
            exact: OnceLock::new(),
            all: OnceLock::new(),
        })
    });

    Some(patterns.clone())
}

/// Returns `true` if it is a placeholder for a key that a server does not ask for.
pub(super) fn is_placeholder(secret: &str) -> bool {
    let mut words = secret.split(['-', '_', ' ', '.']);
    words.all(|word| {
        let word = word.to_ascii_lowercase();
        PLACEHOLDER_WORDS.binary_search(&&*word).is_ok()
    })
}

/// Returns `true` if it is long enough to be searched for in all texts, and is no placeholder.
pub(super) fn is_registrable(secret: &str) -> bool {
    secret.len() >= MIN_LEN && !is_placeholder(secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholder_words_are_sorted() {
        assert!(PLACEHOLDER_WORDS.is_sorted());
    }
}
