//! SQLite's errors, and the advice on them.

use std::path::Path;

use rusqlite::ErrorCode;

use crate::error::{Error, ErrorKind};

/// A write that failed, and its error.
pub(super) enum FailedWrite {
    /// The transaction could not begin, so any other would have failed as well.
    NotBegun(Error),
    /// The transaction was undone: none of it will be there after a crash.
    Undone(Error),
    /// The commit failed. The contents of the disk are unknown until it is read again.
    Unknown(Error),
}

impl FailedWrite {
    pub(super) fn error(&self) -> &Error {
        match self {
            Self::NotBegun(error) | Self::Undone(error) | Self::Unknown(error) => error,
        }
    }

    /// Returns `true` if the write may be there after a crash.
    pub(super) fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown(_))
    }
}

impl From<FailedWrite> for Error {
    fn from(failure: FailedWrite) -> Self {
        match failure {
            FailedWrite::NotBegun(error)
            | FailedWrite::Undone(error)
            | FailedWrite::Unknown(error) => error,
        }
    }
}

/// Returns `true` if a commit that failed with this error did not write the end of its transaction,
/// so that the transaction has no effect.
/// After any other error, the contents of the disk are unknown until it is read again.
pub(super) fn is_undone(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DiskFull | ErrorCode::DatabaseBusy | ErrorCode::ConstraintViolation)
    )
}

/// Converts an error of SQLite, and adds advice. `what` names the operation.
pub(super) fn database_error(what: &str, path: &Path, error: rusqlite::Error) -> Error {
    let (kind, advice) = match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => (
            ErrorKind::Io,
            "; make room on its disk and run the session again",
        ),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => (
            ErrorKind::Io,
            " for too long by another writer; end that and run the session again",
        ),
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => (
            ErrorKind::Io,
            "; give this user the right to write it and to make files in its folder",
        ),
        // SQLite reports some reads that its disk failed as damage.
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => (
            ErrorKind::Corrupt,
            "; run the session again, and if the error stays, restore it from a backup, or save \
             what can be read with `sqlite3 FILE .recover`",
        ),
        // A value has the wrong type.
        None => (
            ErrorKind::Corrupt,
            "; restore it from a backup, or save what can be read with `sqlite3 FILE .recover`",
        ),
        Some(ErrorCode::TooBig) => (
            ErrorKind::Corrupt,
            ", for a row is larger than any that this program writes; restore it from a backup, or \
             remove that row",
        ),
        Some(ErrorCode::OperationInterrupted) => (
            ErrorKind::Corrupt,
            ", for it took more work than any database that this program wrote; restore it from a \
             backup, or use several databases",
        ),
        Some(ErrorCode::SystemIoFailure) => (
            ErrorKind::Io,
            "; look after its disk and run the session again",
        ),
        _ => (ErrorKind::Io, ""),
    };

    let path = path.display();
    let code = error.sqlite_error().map_or(0, |error| error.extended_code);
    let text = format!("could not {what} session database {path}: {error} ({code}){advice}");
    Error::new(kind, text).with_source(error)
}
