//! The variants of Chat Completions: what each server is sent, and what is made of its answers.

mod azure;
mod deepseek;
mod requests;
#[cfg(feature = "tls")]
mod resolve;
mod usage;
