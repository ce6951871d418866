//! Recording a model once and replaying it.

mod fingerprint;
mod record;
mod replay;
mod tape;
mod wire;

pub use tape::Cassette;
