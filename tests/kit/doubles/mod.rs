//! Servers that refuse what the real ones refuse.

pub mod gemini;
pub mod responses;
