//! Errors that servers send: HTTP statuses, error bodies and errors inside a stream.
//!
//! The words and codes are taken from the Anthropic, OpenAI and Gemini API references and from the
//! sources of llama.cpp's server, vLLM and Ollama.

mod errors;
mod google;
mod kinds;
mod refusal;

pub(crate) use errors::{excerpt, from_event, from_response, has_code};
