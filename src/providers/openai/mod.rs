//! Chat Completions: OpenAI's API, and what many servers speak.

mod auto;
mod body;
mod decode;
pub(in crate::providers) mod family;
mod messages;
mod model;
mod wire;

pub use auto::OpenAiAuto;
pub use model::{OpenAi, decode};
use wire::PROVIDER;
