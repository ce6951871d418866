//! Models behind HTTP APIs.

mod buffer;
mod decode;
mod http;
mod lines;
pub mod sse;
mod status;
