//! Secrets, and the only redaction of them.
//!
//! [`known`] registers every living [`Secret`], and the keys in the [`environment`]. [`redacted`]
//! removes them from a text in all [spellings](spelling), [`Pieces`] from a text that arrives in
//! pieces, by exact match.

#[cfg(feature = "http")]
mod credentials;
mod environment;
mod escape;
mod exact_search;
mod joined;
mod known;
mod matcher;
mod pieces;
mod redact;
#[cfg(any(
    feature = "http",
    feature = "nats",
    feature = "postgres",
    feature = "redis"
))]
mod redactor;
#[expect(clippy::module_inception, reason = "the type has the module's name")]
mod secret;
mod spelling;

#[cfg(feature = "http")]
pub(crate) use credentials::credentials;
pub(crate) use exact_search::ExactSearch;
pub(crate) use joined::redact_joined;
pub(crate) use pieces::Pieces;
#[cfg(all(feature = "process", unix))]
pub(crate) use redact::partial_suffix_start;
#[cfg(any(feature = "http", feature = "nats"))]
pub(crate) use redact::percent_decoded;
pub(crate) use redact::{Cut, redact, redact_cut, redact_text, redacted};
#[cfg(any(
    feature = "http",
    feature = "nats",
    feature = "postgres",
    feature = "redis"
))]
pub(crate) use redactor::Redactor;
pub use secret::Secret;
