//! The dialects of Chat Completions: requests to each server, and its answers.

mod azure;
mod bedrock;
mod conversation;
mod deepseek;
mod gemini;
mod groq;
mod media;
mod mistral;
mod openai;
mod openrouter;
mod requests;
#[cfg(feature = "tls")]
mod resolve;
mod templates;
mod usage;
mod xai;
