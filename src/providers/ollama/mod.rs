//! Ollama's own chat API.

mod body;
mod decode;
mod messages;
mod model;
mod think;
mod wire;

pub use model::{Ollama, decode};
use wire::PROVIDER;
