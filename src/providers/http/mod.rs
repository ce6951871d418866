//! A request and its streamed reply.
//!
//! [`Endpoint`] is a server with its headers and timeouts; a reply with a success status has its
//! body as a stream. Everything else is an [`Error`](crate::Error).

mod body;
mod client;
mod endpoint;
mod failure;
mod look_up;
mod secrets;

pub(crate) use body::ByteStream;
pub(crate) use endpoint::{Endpoint, REQUEST_ID_LIMIT, Reply, is_path_segment};
pub(crate) use secrets::Secrets;
