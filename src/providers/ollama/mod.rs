//! Ollama's own chat API.

mod body;
mod decode;
mod messages;
mod model;
mod wire;

pub use model::{Ollama, decode};

/// The name of the wire format, which also marks its blocks.
const PROVIDER: &str = "ollama";
