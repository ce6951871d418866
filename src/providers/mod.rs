//! Models behind HTTP APIs.
//!
//! * [`resolve`] makes a model from a string such as `anthropic:claude-sonnet-5`, with its key
//!   from the environment; [`Anthropic`], [`OpenAi`], [`OpenAiResponses`] (and every server that
//!   speaks one of these APIs), [`Gemini`] and [`Ollama`] are built by hand where more is to be set.
//!   [`OpenAiAuto`] chooses between OpenAI's two APIs.
//! * [`FallbackModel`] asks another model when the first cannot answer.
//!
//! Providers send one request and decode one stream; they never follow a redirect, and never retry,
//! except once, with a body without the reasoning that a server refused.
//! All share one connection pool. Streams are limited by idleness, never by their whole length,
//! and an answer that breaks off is an error, never a short answer. No key is part of an error, a
//! log line or a `Debug` text.

pub mod anthropic;
mod ask;
mod buffer;
mod builder;
mod calls;
mod chat;
mod connection;
mod decode;
#[cfg(test)]
mod decode_tests;
mod encode;
pub(crate) mod env;
mod events;
mod fallback;
mod fields;
pub mod gemini;
mod hosted;
mod http;
mod json;
mod lenient;
mod lines;
mod media;
pub mod ollama;
pub mod openai;
mod repeated;
mod resolve;
pub mod responses;
mod schema;
pub mod sse;
mod status;
mod token_count;
mod wholeness;
mod window;

pub use anthropic::Anthropic;
pub use fallback::FallbackModel;
pub use gemini::Gemini;
pub use ollama::Ollama;
pub use openai::{OpenAi, OpenAiAuto};
pub use resolve::resolve;
pub use responses::OpenAiResponses;
