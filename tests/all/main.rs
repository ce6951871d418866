//! Behaviour of the crate through its public API, one module a subject.

#[cfg(feature = "http")]
mod fault_server;
#[cfg(feature = "http")]
mod ollama;
#[cfg(feature = "http")]
mod openai;
#[cfg(feature = "http")]
mod recordings;
mod testing_kit;
