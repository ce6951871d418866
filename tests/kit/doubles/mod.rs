//! Servers that refuse the requests that the real servers refuse.

pub mod anthropic;
pub mod azure;
pub mod bedrock;
pub mod chat;
pub mod deepseek;
pub mod gemini;
pub mod gemini_chat;
pub mod groq;
pub mod mistral;
pub mod ollama;
pub mod openai_chat;
pub mod openrouter;
pub mod responses;
mod script;
pub mod template;
pub mod xai;
