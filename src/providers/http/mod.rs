//! One request, one streamed answer.
//!
//! [`Endpoint`] is a server with its headers and timeouts; [`Reply`] is an answer whose status
//! was a success, with its body as a stream. Everything else is an [`Error`](crate::Error).

mod body;
mod client;
mod endpoint;
mod failure;
mod secrets;

pub(crate) use body::{Body, ByteStream};
pub(crate) use endpoint::{Endpoint, Reply};
pub(crate) use secrets::Secrets;
