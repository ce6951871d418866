//! A text file that is read whole.

use std::fs::{self, File};
use std::io::{Error, ErrorKind, Read, Result};
use std::path::Path;

/// Reads a file of text.
///
/// # Errors
///
/// If it is not a regular file, has more than `max_bytes`, or cannot be read.
pub(crate) fn read_text(path: &Path, max_bytes: u64) -> Result<String> {
    // Opening a pipe would wait for a writer.
    if !fs::metadata(path)?.is_file() {
        let reason = "it is not a regular file; name a file of JSON";
        return Err(Error::new(ErrorKind::InvalidInput, reason));
    }

    let mut text = String::new();
    // A file may grow while it is read.
    let mut reader = File::open(path)?.take(max_bytes.saturating_add(1));
    let len = reader.read_to_string(&mut text)?;
    if len as u64 > max_bytes {
        let reason = format!("it is longer than {max_bytes} bytes");
        return Err(Error::new(ErrorKind::FileTooLarge, reason));
    }
    Ok(text)
}
