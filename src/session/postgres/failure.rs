//! The errors of a connection, classified for the next attempt.

use std::error::Error as _;
use std::fmt::Write as _;
use std::io;

use tokio_postgres::error::SqlState;

use crate::error::{Error, ErrorKind};
use crate::session::remote::Failure;

use super::address::Address;

/// The reason why there is no answer.
pub(super) enum Fault {
    Client(tokio_postgres::Error),
    /// There is no connection.
    Socket(io::Error),
}

impl From<tokio_postgres::Error> for Fault {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Client(error)
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Socket(error)
    }
}

/// Returns the failure of an answer that is not read further.
pub(super) fn refused_answer(address: &Address, problem: &str) -> Failure {
    let text = format!("{} {problem}", address.name);
    Failure::Refused(Error::new(ErrorKind::Protocol, text))
}

/// Classifies an error of the client for the next attempt.
pub(super) fn client_failure(address: &Address, error: &tokio_postgres::Error) -> Failure {
    let make_error = |kind| Error::new(kind, address.scrub(&describe(error)));
    if let Some(code) = error.code() {
        return server_failure(code, make_error);
    }

    #[cfg(feature = "tls")]
    if cause::<super::tls::Distrust>(error).is_some() {
        return Failure::Refused(make_error(ErrorKind::Tls));
    }

    let text = error.to_string();
    match cause::<io::Error>(error) {
        // The password is missing, or the server could not prove that it has it.
        _ if ["invalid configuration", "authentication error"].contains(&&*text) => {
            Failure::Refused(make_error(ErrorKind::Auth))
        }
        _ if error.is_closed() => Failure::Lost(make_error(ErrorKind::Connect)),
        Some(cause) if cause.kind() == io::ErrorKind::TimedOut => {
            Failure::Lost(make_error(ErrorKind::Timeout))
        }
        Some(_) => Failure::Lost(make_error(ErrorKind::Connect)),
        None if text.contains("TLS") => Failure::Refused(make_error(ErrorKind::Tls)),
        None => Failure::Refused(make_error(ErrorKind::Protocol)),
    }
}

/// Classifies an error of the server by its code, which the SQL standard or PostgreSQL defines.
fn server_failure(code: &SqlState, make_error: impl Fn(ErrorKind) -> Error) -> Failure {
    match code.code() {
        // The server is starting, stopping or full, a transaction was idle for too long, or this is
        // a standby that will be promoted.
        "57P01" | "57P02" | "57P03" | "57P05" | "25P03" | "53300" | "25006" => {
            Failure::Lost(make_error(ErrorKind::Connect))
        }
        // A serialization failure or a deadlock of two transactions.
        "40001" | "40P01" => Failure::Lost(make_error(ErrorKind::Server)),
        "28000" | "28P01" => Failure::Refused(make_error(ErrorKind::Auth)),
        "42501" => Failure::Refused(make_error(ErrorKind::PermissionDenied)),
        // The text has characters that the database's encoding does not support.
        "22021" | "22P05" => Failure::Refused(make_error(ErrorKind::InvalidRequest)),
        "3D000" | "3F000" => Failure::Refused(make_error(ErrorKind::Config)),
        other if other.starts_with("08") => Failure::Lost(make_error(ErrorKind::Connect)),
        _ => Failure::Refused(make_error(ErrorKind::Io)),
    }
}

/// Returns the first cause of this type.
fn cause<T: std::error::Error + 'static>(error: &tokio_postgres::Error) -> Option<&T> {
    let mut next = error.source();
    while let Some(error) = next {
        if let Some(source_error) = error.downcast_ref() {
            return Some(source_error);
        }
        next = error.source();
    }
    None
}

/// Returns the text of an error with its causes.
fn describe(error: &tokio_postgres::Error) -> String {
    if let Some(answer) = error.as_db_error() {
        return format!("{} ({})", answer.message(), answer.code().code());
    }

    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        let cause = error.to_string();
        if !text.contains(&cause) {
            let _ = write!(text, ": {cause}");
        }

        next = error.source();
    }

    text
}
