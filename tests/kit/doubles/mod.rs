//! Servers that refuse what the real ones refuse.

pub mod anthropic;
pub mod azure;
pub mod chat;
pub mod deepseek;
pub mod gemini;
pub mod responses;
mod script;
