//! Behaviour of the crate through its public API, one module a subject.

#[cfg(feature = "http")]
mod fake_server;
#[cfg(feature = "http")]
mod fault_server;
#[cfg(feature = "http")]
mod faults_network;
#[cfg(feature = "http")]
mod ollama;
#[cfg(feature = "http")]
mod openai;
#[cfg(feature = "http")]
mod provider_anthropic;
#[cfg(feature = "http")]
mod provider_fallback;
#[cfg(feature = "http")]
mod provider_http;
#[cfg(feature = "http")]
mod provider_sse;
#[cfg(feature = "http")]
mod recordings;
mod testing_kit;
