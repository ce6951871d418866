//! The recording of a model, and its replay.

#[expect(clippy::module_inception, reason = "the type has the module's name")]
mod cassette;
mod fingerprint;
mod record;
mod replay;
mod wire;

pub use cassette::Cassette;
