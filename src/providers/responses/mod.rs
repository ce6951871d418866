//! The Responses API: OpenAI's, and of servers that speak it.

mod answer;
mod body;
mod content;
mod decode;
mod events;
mod hosted;
mod input;
mod items;
mod model;
mod remedy;
mod usage;

pub use decode::decode;
pub use hosted::{code_interpreter, file_search, web_search};
pub use model::OpenAiResponses;
pub(in crate::providers) use model::PROVIDER;
