//! The metadata of files in the container, read without opening them.

use std::time::{Duration, SystemTime};

use crate::error::{Error, ErrorKind};
use crate::util::path::short_path;

use super::super::entry::{DirEntry, EntryKind, Metadata, escape_name};

pub(super) fn unreadable(path: &str) -> Error {
    let path = short_path(path);
    let text = format!("{path:?}: the report of the container about it cannot be read");
    Error::new(ErrorKind::Protocol, text)
}

/// The metadata of a file: kind, size, and the seconds of its last change where they are known.
pub(super) fn metadata(data: &[u8]) -> Option<Metadata> {
    let text = std::str::from_utf8(data).ok()?;
    let mut words = text.split_whitespace();
    let kind = kind(words.next()?.bytes().next()?)?;
    let metadata = Metadata::new(kind, words.next()?.parse().ok()?);
    let seconds = words.next().and_then(|word| word.parse().ok());
    let modified_time = seconds
        .and_then(|seconds| SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds)));
    Some(match modified_time {
        Some(time) => metadata.with_modified(time),
        None => metadata,
    })
}

fn kind(letter: u8) -> Option<EntryKind> {
    Some(match letter {
        b'f' => EntryKind::File,
        b'd' => EntryKind::Dir,
        b'l' => EntryKind::Symlink,
        b'o' => EntryKind::Other,
        _ => return None,
    })
}

/// A listing: kind and name of each entry, each with a NUL at its end, a NUL, the sizes of the
/// files. `None` when they do not match, for a file was created or removed meanwhile.
pub(super) fn entries(data: &[u8]) -> Option<Vec<DirEntry>> {
    let end = match data.first() {
        Some(0) => 0,
        _ => memchr::memmem::find(data, b"\0\0")? + 1,
    };

    let names = &data[..end];
    let sizes = &data[end + 1..];
    let sizes = std::str::from_utf8(sizes).ok()?;
    let mut sizes = sizes.lines().map(|size| size.parse::<u64>().ok());
    let mut entries = Vec::new();
    for entry in names
        .split(|byte| *byte == 0)
        .filter(|entry| !entry.is_empty())
    {
        let (letter, name) = entry.split_first()?;
        let kind = kind(*letter)?;
        let size = match kind {
            EntryKind::File => sizes.next()??,
            _ => 0,
        };

        entries.push(DirEntry::new(escape_name(name), kind, size));
    }

    entries.sort();
    sizes.next().is_none().then_some(entries)
}
