//! Behaviour of the crate through its public API, one module a subject.

#[cfg(feature = "http")]
mod fake_server;
#[cfg(feature = "http")]
mod provider_anthropic;
#[cfg(feature = "http")]
mod provider_anthropic_requests;
#[cfg(feature = "http")]
mod provider_fallback;
#[cfg(feature = "http")]
mod provider_http;
#[cfg(feature = "http")]
mod provider_sse;
