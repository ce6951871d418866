//! The answers of the Gemini API.

mod chunks;
mod decode;
mod grounding;
mod parts;
mod usage;

pub use decode::decode;
