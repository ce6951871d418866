//! Agents over HTTP.
//!
//! A run is one task that appends every message to a bounded log. Each connection reads the log
//! with a cursor and an encoder of its own, in one of the formats of [`StreamFormat`].

// The routes use what these two make.
#[allow(
    dead_code,
    unused_imports,
    reason = "the routes are written against this module"
)]
mod runs;
#[allow(
    dead_code,
    unused_imports,
    reason = "the routes are written against this module"
)]
mod stream;

pub use runs::{OnDisconnect, RunLimits};
pub use stream::{Encoder, EncoderOptions, SseEvent, StreamFormat};
