//! Models over HTTP, and tools that use the network.
#![allow(clippy::unwrap_used, unreachable_pub)]

#[path = "../kit/mod.rs"]
mod kit;

#[cfg(feature = "http")]
mod anthropic;
#[cfg(feature = "http")]
mod context_windows;
#[cfg(feature = "http")]
mod costs;
#[cfg(feature = "http")]
mod counts;
#[cfg(feature = "http")]
mod dialects;
#[cfg(feature = "http")]
mod fault_server;
#[cfg(feature = "http")]
mod faults_cancel;
#[cfg(all(feature = "http", target_os = "linux", target_env = "gnu"))]
mod faults_clock;
#[cfg(feature = "http")]
mod faults_kit;
#[cfg(feature = "http")]
mod faults_model;
#[cfg(feature = "http")]
mod faults_network;
#[cfg(feature = "http")]
mod faults_thinking;
#[cfg(all(feature = "http", feature = "tls"))]
mod from_env;
#[cfg(feature = "http")]
mod gemini;
#[cfg(all(feature = "tools", feature = "yaml", feature = "http"))]
mod hooks_prefix;
#[cfg(feature = "http")]
mod hosted_tools;
#[cfg(feature = "http")]
mod hostile_floods;
#[cfg(feature = "http")]
mod json_values_providers;
#[cfg(feature = "http")]
mod keys_servers;
#[cfg(feature = "http")]
mod media;
#[cfg(feature = "http")]
mod ollama;
#[cfg(feature = "http")]
mod openai;
#[cfg(feature = "http")]
mod own_blocks;
#[cfg(feature = "http")]
mod pictures;
#[cfg(feature = "http")]
mod provider_errors;
#[cfg(feature = "http")]
mod provider_fallback;
#[cfg(feature = "http")]
mod provider_http;
#[cfg(feature = "http")]
mod provider_sse;
#[cfg(feature = "http")]
mod real_servers;
#[cfg(feature = "http")]
mod recordings;
#[cfg(feature = "http")]
mod request_bytes;
#[cfg(feature = "http")]
mod response_limits_providers;
#[cfg(feature = "http")]
mod responses;
#[cfg(feature = "http")]
mod runtimes;
#[cfg(feature = "http")]
mod secrets;
#[cfg(feature = "web")]
mod ssrf_cases;
#[cfg(feature = "http")]
mod switching;
#[cfg(feature = "http")]
mod switching_rounds;
#[cfg(feature = "http")]
mod tool_http;
#[cfg(feature = "http")]
mod tool_http_policy;
#[cfg(feature = "web")]
mod web;
#[cfg(feature = "http")]
mod wire_texts;
