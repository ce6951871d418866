//! Regular files, opened without waiting for anything else that has their name.

use std::fs::{self, File, OpenOptions};
use std::io::{Error, ErrorKind, Read, Result};
use std::path::Path;
use std::string::FromUtf8Error;

/// The flag with which opening a pipe does not wait for its other end. The standard library has no
/// name for it.
#[cfg(unix)]
const NONBLOCK: i32 = if cfg!(any(target_os = "linux", target_os = "android")) {
    if cfg!(any(target_arch = "mips", target_arch = "mips64")) {
        0o200
    } else if cfg!(any(target_arch = "sparc", target_arch = "sparc64")) {
        0x4000
    } else {
        0o4000
    }
} else if cfg!(any(target_os = "solaris", target_os = "illumos")) {
    0x80
} else if cfg!(any(
    target_vendor = "apple",
    target_os = "freebsd",
    target_os = "netbsd",
    target_os = "openbsd",
    target_os = "dragonfly"
)) {
    4
} else {
    // Only the check before a file is opened remains.
    0
};

/// Opens a file, and checks afterwards that it is a regular one: between a check of the name and
/// the opening, a pipe may take the name, for which the thread would wait.
///
/// # Errors
///
/// Returns the errors of [`OpenOptions::open`], and [`ErrorKind::InvalidInput`] if the path is not
/// a regular file.
pub(crate) fn open_regular(options: &OpenOptions, path: &Path) -> Result<File> {
    let mut options = options.clone();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, NONBLOCK);
    let file = options.open(path)?;
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    let reason = "something that is not a regular file has its name; move it away";
    Err(Error::new(ErrorKind::InvalidInput, reason))
}

/// Reads a file of text.
///
/// # Errors
///
/// Returns an error if the file is not a regular one, has more than `max_bytes`, or cannot be read.
pub(crate) fn read_text(path: &Path, max_bytes: u64) -> Result<String> {
    // Before it is opened, for opening a device may have effects.
    if !fs::metadata(path)?.is_file() {
        let reason = "it is not a regular file; name a file of JSON";
        return Err(Error::new(ErrorKind::InvalidInput, reason));
    }

    let mut bytes = Vec::new();
    // A file may grow while it is read.
    let file = open_regular(File::options().read(true), path)?;
    let mut reader = file.take(max_bytes.saturating_add(1));
    let len = reader.read_to_end(&mut bytes)?;
    // Before the bytes are a text: the last character of a long file may be cut.
    if len as u64 > max_bytes {
        let reason = format!("it is longer than {max_bytes} bytes");
        return Err(Error::new(ErrorKind::FileTooLarge, reason));
    }
    // `FromUtf8Error` keeps the bytes, and its `Debug` prints them.
    let to_error = |error: FromUtf8Error| Error::new(ErrorKind::InvalidData, error.utf8_error());
    String::from_utf8(bytes).map_err(to_error)
}

#[cfg(all(test, unix))]
mod tests {
    use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};

    use super::*;

    #[test]
    fn flag_is_the_one_of_the_system() {
        assert_eq!(NONBLOCK.cast_unsigned(), OFlags::NONBLOCK.bits());
    }

    #[test]
    fn pipe_is_refused_without_waiting_for_its_other_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let mut options = File::options();
        for options in [options.read(true).clone(), options.append(true).clone()] {
            let error = open_regular(&options, &path).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        }
        assert!(read_text(&path, 10).is_err());

        let path = folder.path().join("file");
        fs::write(&path, "text").unwrap();
        let mut text = String::new();
        let mut file = open_regular(File::options().read(true), &path).unwrap();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "text");
        assert_eq!(read_text(&path, 4).unwrap(), "text");
    }

    #[test]
    fn text_that_is_cut_inside_a_character_is_too_long() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "te\u{e9}t").unwrap();
        let error = read_text(&path, 2).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FileTooLarge, "{error}");
        fs::write(&path, b"te\xe9t").unwrap();
        let error = read_text(&path, 4).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}");
        let debug = format!("{error:?}");
        assert!(!debug.contains("116, 101"), "{debug}");
    }
}
