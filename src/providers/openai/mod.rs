//! Chat Completions: OpenAI's API, and what many servers speak.

mod auto;
mod body;
mod call_ids;
mod decode;
mod details;
mod dialect;
mod extra_content;
pub(in crate::providers) mod family;
mod messages;
mod model;
mod own_fields;
mod reasoning;
mod rules;
mod thinking;
mod user;
mod wire;

pub use auto::OpenAiAuto;
pub use dialect::Dialect;
pub(in crate::providers) use dialect::with_key_form_of_address;
pub use model::{OpenAi, decode};
pub(in crate::providers) use rules::IMAGE_TYPES;
use wire::PROVIDER;
