//! The metadata of files in the container, read without opening them.

use std::time::{Duration, SystemTime};

use crate::error::{Error, ErrorKind, Result};
use crate::util::path::short_path;

use super::super::entry::{DirEntry, EntryKind, Metadata, escape_name};
use super::super::folder_size::FolderSize;

pub(super) fn unreadable(path: &str) -> Error {
    let path = short_path(path);
    let text = format!("{path:?}: the report of the container about it cannot be read");
    Error::new(ErrorKind::Protocol, text)
}

/// Parses the metadata of a file: kind, size, and the seconds of its last change where they are
/// known.
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

/// Parses a listing. It has the kind and the name of each entry, with a NUL after each name; then
/// another NUL; then the sizes of the files. Returns `None` if they do not match, because a file
/// was created or removed meanwhile, and an error if the folder is too large.
pub(super) fn entries(path: &str, data: &[u8]) -> Option<Result<Vec<DirEntry>>> {
    let end = match data.first() {
        Some(0) => 0,
        _ => memchr::memmem::find(data, b"\0\0")? + 1,
    };

    let names = &data[..end];
    let size_lines = std::str::from_utf8(&data[end + 1..]).ok()?;
    let mut sizes = size_lines.lines().map(|size| size.parse::<u64>().ok());
    let mut entries = Vec::new();
    let mut folder_size = FolderSize::default();
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

        let name = escape_name(name);
        if let Err(error) = folder_size.count(path, &name) {
            return Some(Err(error));
        }

        entries.push(DirEntry::new(name, kind, size));
    }

    entries.sort();
    sizes.next().is_none().then_some(Ok(entries))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_text(data: &[u8]) -> String {
        entries("data", data).unwrap().unwrap_err().to_string()
    }

    #[test]
    fn listing_has_kinds_names_and_sizes() {
        assert!(entries("", b"db\0fa\0\0").is_none(), "a size is missing");
        let listing = entries("", b"db\0fa\0\x0012\n").unwrap().unwrap();
        let expected = [
            DirEntry::new("a", EntryKind::File, 12),
            DirEntry::new("b", EntryKind::Dir, 0),
        ];
        assert_eq!(listing, expected);
    }

    #[test]
    fn folder_of_too_many_entries_is_an_error() {
        let mut data = b"da\0".repeat(200_000);
        data.push(0);
        assert_eq!(entries("", &data).unwrap().unwrap().len(), 200_000);
        data.splice(..0, *b"da\0");
        let text = error_text(&data);
        assert!(text.contains("has more than 200000 entries"), "{text}");
    }

    #[test]
    fn folder_of_too_long_names_is_an_error() {
        let mut data = vec![0xff; 9 * 1024 * 1024];
        data[0] = b'd';
        data.extend([0, 0]);
        let text = error_text(&data);
        assert!(text.contains("bytes of names"), "{text}");
    }

    #[test]
    fn fuzzed_listings_are_read_without_panic() {
        let parts: [&[u8]; 9] = [
            b"d", b"f", b"l", b"a", b"\0", b"\0\0", b"12\n", b"\n", b"\xff",
        ];
        crate::util::fuzz::fuzz("listing of a container", 300, 1 << 20, |rng| {
            let mut data = Vec::new();
            for _ in 0..rng.usize(..2_000) {
                data.extend_from_slice(parts[rng.usize(..parts.len())]);
            }
            std::hint::black_box(entries("a", &data).is_some());
            std::hint::black_box(metadata(&data).is_some());
            data.len()
        });
    }
}
