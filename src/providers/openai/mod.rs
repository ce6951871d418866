//! Chat Completions: OpenAI's API, and what many servers speak.

mod body;
mod decode;
mod messages;
mod model;
mod wire;

pub use model::{OpenAi, decode};
use wire::PROVIDER;
