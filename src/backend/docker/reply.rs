//! The replies of the scripts in the container.

use std::io;

use crate::error::{Error, ErrorKind, Result};

use super::super::failure;
use super::super::folder_size::MAX_ENTRIES;
use super::cli::{Called, refused};

const MARK: &str = "agentcore:";

/// Returns the data after the first line, if that reports success and the call did not fail later.
pub(super) fn data<'a>(called: &'a Called, path: &str, root: &str) -> Result<&'a [u8]> {
    let body = success(called, path, root)?;
    if called.status.success() {
        return Ok(body);
    }
    if called.stderr.is_empty() {
        let reason = format!("did not arrive whole: {}", called.status);
        let kind = io::ErrorKind::UnexpectedEof;
        return Err(failure::path_error(kind, path, &reason));
    }
    Err(error("failed", path, root, &called.stderr))
}

/// Returns what follows the first line, if that reports success. Of an operation that reports it at
/// its end, the exit status does not matter.
pub(super) fn success<'a>(called: &'a Called, path: &str, root: &str) -> Result<&'a [u8]> {
    let mut parts = called.stdout.splitn(2, |byte| *byte == b'\n');
    let first = parts.next().unwrap_or_default();
    let body = parts.next().unwrap_or_default();
    let word = std::str::from_utf8(first).unwrap_or_default();
    match word.strip_prefix(MARK) {
        Some("ok") => Ok(body),
        Some(word) => Err(error(word, path, root, &called.stderr)),
        // The script was not started.
        None => Err(refused("the container", called)),
    }
}

/// Returns the result of the first line of a script; `None` for any other line.
pub(super) fn first_line(line: &str, path: &str, root: &str) -> Option<Result<()>> {
    Some(match line.strip_prefix(MARK)? {
        "ok" => Ok(()),
        word => Err(error(word, path, root, "")),
    })
}

fn error(word: &str, path: &str, root: &str, stderr: &str) -> Error {
    let (word, detail) = word.split_once(' ').unwrap_or((word, ""));
    let make_error = |kind, reason: &str| failure::path_error(kind, path, reason);
    match word {
        "outside" => failure::outside(path, root),
        "missing" => make_error(io::ErrorKind::NotFound, "does not exist"),
        "folder" => make_error(io::ErrorKind::IsADirectory, "is a folder"),
        "not-folder" => make_error(
            io::ErrorKind::NotADirectory,
            "is a file, or lies beneath one",
        ),
        "not-file" => make_error(
            io::ErrorKind::InvalidInput,
            "is a FIFO, socket or device, not a file",
        ),
        "loop" => make_error(io::ErrorKind::Other, "has too many symbolic links"),
        "denied" => make_error(io::ErrorKind::PermissionDenied, "may not be written"),
        "many" => {
            let reason = format!(
                "has more than {MAX_ENTRIES} entries; name a folder in it, or list it with a \
                 command"
            );
            make_error(io::ErrorKind::FileTooLarge, &reason)
        }
        "cut" => make_error(
            io::ErrorKind::UnexpectedEof,
            "was not written: its content did not arrive whole",
        ),
        "large" => {
            let reason =
                format!("has {detail} bytes, more than are read at once; read a range of it");
            make_error(io::ErrorKind::FileTooLarge, &reason)
        }
        "gone" => Error::new(
            ErrorKind::Config,
            format!("the container has no folder {root:?} that can be entered"),
        ),
        "no-bash" => failure::no_bash("the container"),
        "no-setsid" => Error::new(
            ErrorKind::Config,
            "the container has no `setsid`, which commands need; install util-linux or busybox \
             in its image",
        ),
        _ => {
            let kind = if stderr.contains("ermission denied") {
                io::ErrorKind::PermissionDenied
            } else {
                io::ErrorKind::Other
            };

            let last = stderr.lines().last().unwrap_or("failed");
            make_error(kind, &format!("in the container: {last}"))
        }
    }
}
