//! The Gemini API, also of Vertex AI.

mod answer;
mod body;
mod chunks;
mod contents;
mod decode;
mod grounding;
mod hosted;
mod model;
mod parts;
mod pieces;
mod raw_parts;
mod remedy;
mod signatures;
mod thinking;
mod usage;

pub use decode::decode;
pub use hosted::{code_execution, google_search, url_context};
pub use model::Gemini;
