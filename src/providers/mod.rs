//! Models behind HTTP APIs.
//!
//! * [`resolve`] makes a model from a string such as `anthropic:claude-sonnet-5`, with its key
//!   from the environment; [`Anthropic`], [`OpenAi`], [`OpenAiResponses`] (and every server that
//!   speaks one of these APIs), [`Gemini`] and [`Ollama`] are built by hand where more is to be set.
//!   [`OpenAiAuto`] chooses between OpenAI's two APIs.
//! * [`FallbackModel`] asks another model when the first cannot answer.
//!
//! # Models
//!
//! | models | type | beyond text, tools, images and structured output | not supported |
//! |---|---|---|---|
//! | Claude 3.5 to 5.5, at Anthropic and compatible addresses | [`Anthropic`] | thinking in the form that each model takes, kept valid where a model binds it to its conversation; citations; web search, web pages and code execution by the server; PDF; prompt cache of 5 minutes or 1 hour; token counts | audio, batches |
//! | OpenAI's models from GPT-5 on | [`OpenAiResponses`], [`OpenAiAuto`] | encrypted reasoning, sent back unchanged; summaries as thinking; web search, code interpreter and file search by the server; PDF; token counts | audio, stop sequences, `seed`, `top_k`, answers stored by the server |
//! | other models of OpenAI, and servers that speak Chat Completions | [`OpenAi`] | reasoning of compatible servers, sent back as it came; PDF | token counts; tools together with reasoning of OpenAI's newer models, which need the Responses API |
//! | Gemini 2.5 and later, by API key or on Vertex AI | [`Gemini`] | thought signatures; levels and budgets of thinking; search, pages and code execution by the server; PDF and audio; token counts | cached contents; pages as media by the API, which takes uploaded files only |
//! | open models behind Ollama | [`Ollama`] | thinking, the context window | forced tools, PDF, audio, token counts |
//!
//! Every decoder is tested with recorded and documented streams, whole, cut at every byte and ended
//! after every byte. The requests of whole conversations go to servers that refuse what the real ones
//! refuse: thinking behind another conversation, reasoning without its item, missing signatures. The
//! requests to Gemini are compared with those of Google's own SDK. A history written by any of these
//! models is valid for any other. No test asks the providers' own servers unless a key is set.
//!
//! # Requests
//!
//! Providers send one request and decode one stream; they never follow a redirect, and never retry,
//! except once, with a body without the reasoning that a server refused.
//! All share one connection pool. Streams are limited by idleness, never by their whole length,
//! and an answer that is interrupted is an error, never a short answer. No key is part of an error, a
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
mod frames;
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
mod servers;
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
