//! The metadata of a backend's files.

use std::fmt;
#[cfg(all(feature = "fs", unix))]
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hasher};
#[cfg(feature = "fs")]
use std::io;
use std::time::SystemTime;

/// An entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct DirEntry {
    /// Its name in the folder. Bytes that are not UTF-8 are shown escaped, as in `a\xff`.
    pub name: String,
    /// The kind of the entry.
    pub kind: EntryKind,
    /// The size of a file in bytes, 0 for anything else.
    pub size: u64,
}

impl DirEntry {
    /// Creates an entry; `size` is 0 for anything but a file.
    pub fn new(name: impl Into<String>, kind: EntryKind, size: u64) -> Self {
        Self {
            name: name.into(),
            kind,
            size,
        }
    }
}

/// The number of bytes that every backend can read at once.
#[cfg(all(feature = "fs", unix))]
const PIECE: u64 = 1024 * 1024;

/// Returns the length of the range to read for a request of `len` bytes, which is in memory like a
/// whole file.
#[cfg(all(feature = "fs", unix))]
pub(super) fn range_length(len: usize, max_read: u64) -> usize {
    usize::try_from(max_read.max(PIECE)).map_or(len, |max| len.min(max))
}

/// Returns a name as text, with the bytes escaped that are not UTF-8.
#[cfg(all(feature = "fs", unix))]
pub(super) fn escape_name(name: &[u8]) -> String {
    let mut text = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

/// The kind of a [`DirEntry`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum EntryKind {
    /// A file.
    File,
    /// A folder.
    Dir,
    /// A symbolic link.
    Symlink,
    /// Any other kind, such as a FIFO, a socket or a device. It can be listed, but not opened.
    Other,
}

impl EntryKind {
    /// Returns `file`, `dir`, `symlink` or `other`.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Dir => "dir",
            Self::Symlink => "symlink",
            Self::Other => "other",
        }
    }
}

impl fmt::Display for EntryKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The metadata of a file or folder, known without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metadata {
    /// The kind, symbolic links followed.
    pub kind: EntryKind,
    /// The size of a file in bytes, 0 for anything else.
    pub size: u64,
    /// The time the content last changed, if the backend reports it.
    pub modified: Option<SystemTime>,
    /// The permissions to read, write and run it, as the nine bits of Unix, where the backend has
    /// them.
    pub mode: Option<u32>,
}

impl Metadata {
    /// Creates metadata without a time and a mode.
    pub fn new(kind: EntryKind, size: u64) -> Self {
        Self {
            kind,
            size,
            modified: None,
            mode: None,
        }
    }

    /// Sets the time of the last change.
    #[must_use]
    pub fn with_modified(mut self, modified: SystemTime) -> Self {
        self.modified = Some(modified);
        self
    }

    /// Sets the permission bits.
    #[must_use]
    pub fn with_mode(mut self, mode: u32) -> Self {
        self.mode = Some(mode);
        self
    }
}

/// A fingerprint of a file's content, to detect a change made in between.
///
/// It is valid within one process: it is neither stored nor a defense against an attacker who
/// searches for collisions.
///
/// ```
/// use agentcore::backend::ContentHash;
///
/// assert_eq!(ContentHash::of(b"a"), ContentHash::of(b"a"));
/// assert_ne!(ContentHash::of(b"a"), ContentHash::of(b"b"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ContentHash {
    len: u64,
    sum: u64,
}

impl ContentHash {
    /// Creates the fingerprint of `content`.
    pub fn of(content: &[u8]) -> Self {
        let mut hasher = DefaultHasher::new();
        hasher.write(content);
        Self {
            len: content.len() as u64,
            sum: hasher.finish(),
        }
    }

    /// Creates the fingerprint of the content that `reader` gives, read piece by piece.
    #[cfg(feature = "fs")]
    pub(super) fn of_reader(mut reader: impl io::Read) -> io::Result<Self> {
        let mut hasher = DefaultHasher::new();
        let mut len = 0;
        let mut piece = vec![0; 64 * 1024];
        loop {
            match reader.read(&mut piece) {
                Ok(0) => break,
                Ok(read) => {
                    hasher.write(&piece[..read]);
                    len += read as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }

        let sum = hasher.finish();
        Ok(Self { len, sum })
    }

    /// Returns the size of the content in bytes.
    #[cfg(all(feature = "fs", unix))]
    pub(crate) fn size(&self) -> u64 {
        self.len
    }
}

#[cfg(all(test, feature = "fs"))]
mod tests {
    use super::ContentHash;

    #[test]
    fn content_read_piece_by_piece_has_the_same_fingerprint() {
        for len in [0, 1, 65_535, 65_536, 200_001] {
            let content: Vec<u8> = (0..len).map(|n: u32| n as u8).collect();
            let hash = ContentHash::of_reader(&content[..]).unwrap();
            assert_eq!(hash, ContentHash::of(&content), "{len}");
        }
    }
}
