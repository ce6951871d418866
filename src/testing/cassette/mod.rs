//! The recording of a model, and its replay.

mod fingerprint;
mod record;
mod replay;
mod tape;
mod wire;

pub use tape::Cassette;
