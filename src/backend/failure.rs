//! The errors backends have in common.

use std::error::Error as _;
use std::io;

use crate::error::{Error, ErrorKind, Result};
use crate::util::path::{MAX_PATH, short_path};

use super::entry::{EntryKind, Metadata};

/// Returns the error for a path that leaves the workspace.
pub(super) fn outside(path: &str, root: &str) -> Error {
    Error::new(
        ErrorKind::PermissionDenied,
        format!("path {:?} is outside workspace {root:?}", short_path(path)),
    )
}

/// Returns an error of the file system about a path: `"a/b" does not exist`.
pub(super) fn path_error(kind: io::ErrorKind, path: &str, what: &str) -> Error {
    io::Error::new(kind, format!("{:?} {what}", short_path(path))).into()
}

/// Checks the length of a path: work on it grows with its folders.
pub(super) fn check_path_len(path: &str) -> Result<()> {
    if path.len() <= MAX_PATH {
        return Ok(());
    }
    let what = format!(
        "has {} bytes, and a path has at most {MAX_PATH}",
        path.len()
    );
    Err(path_error(io::ErrorKind::InvalidFilename, path, &what))
}

/// Returns the error for a file whose content is not the expected one.
pub(super) fn conflict(path: &str) -> Error {
    let path = short_path(path);
    let text = format!("{path:?} has changed since it was read; read it again");
    Error::new(ErrorKind::Conflict, text)
}

/// Returns the error for a file that exists and was to be created.
pub(super) fn exists(path: &str) -> Error {
    let path = short_path(path);
    let text = format!("{path:?} exists; read it, and change it instead");
    Error::new(ErrorKind::Conflict, text)
}

/// Returns an error if `stat`, the outcome for `path`, is a file or an error other than "not
/// found". Entries of other kinds pass: the write refuses them.
pub(super) fn expect_no_file(path: &str, stat: Result<Metadata>) -> Result<()> {
    match stat {
        Ok(metadata) if metadata.kind == EntryKind::File => Err(exists(path)),
        Err(error) if !is_not_found(&error) => Err(error),
        _ => Ok(()),
    }
}

/// Returns the error for an unknown id of a background command.
pub(super) fn no_command(id: &str) -> Error {
    Error::new(
        ErrorKind::NotFound,
        format!("there is no background command {id:?}"),
    )
}

/// Returns the error for a command that was checked for bash where there is none: another shell
/// might run something else.
#[cfg(all(feature = "process", unix))]
pub(super) fn no_bash(place: &str) -> Error {
    Error::new(
        ErrorKind::Config,
        format!("the command was checked for bash, which {place} does not have"),
    )
}

/// Returns the error for an invalid search.
#[cfg(feature = "search")]
pub(super) fn invalid(text: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidRequest, text)
}

/// Returns the kind of the input or output error, if it is one.
pub(crate) fn io_kind(error: &Error) -> Option<io::ErrorKind> {
    let source = error.source()?.downcast_ref::<io::Error>()?;
    Some(source.kind())
}

pub(crate) fn is_not_found(error: &Error) -> bool {
    io_kind(error) == Some(io::ErrorKind::NotFound)
}
