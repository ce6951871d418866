//! The errors of the bus.

use std::fmt::Display;

use crate::error::{Error, ErrorKind};

/// Returns the error for a request that the server did not answer, or answered with an error.
pub(super) fn failed(action: &str, cause: impl Display) -> Error {
    Error::new(
        ErrorKind::Connect,
        format!("NATS: {action} failed: {cause}"),
    )
}

/// Returns the error for an option that is not valid.
pub(super) fn invalid(text: String) -> Error {
    Error::new(ErrorKind::Config, text)
}

/// Returns the error for a message that no attempt can publish.
pub(super) fn refused(text: String) -> Error {
    Error::new(ErrorKind::InvalidRequest, text)
}

pub(super) fn closed() -> Error {
    Error::new(ErrorKind::Cancelled, "the bus is closed")
}
