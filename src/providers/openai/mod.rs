//! Chat Completions: OpenAI's API, and what many servers speak.

mod auto;
mod body;
mod call_ids;
mod decode;
mod dialect;
pub(in crate::providers) mod family;
mod messages;
mod model;
mod rules;
mod thinking;
mod wire;

pub use auto::OpenAiAuto;
pub use dialect::Dialect;
pub(in crate::providers) use dialect::key_header_of;
pub use model::{OpenAi, decode};
use wire::PROVIDER;
