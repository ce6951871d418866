//! [`MemoryBackend`], a workspace in memory.

use std::collections::BTreeMap;
use std::io;
use std::mem;
use std::ops::Bound;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};

use crate::error::{Error, Result};
use crate::util::blocking::blocking_if_large;
use crate::util::sync::lock;

use super::backend::Backend;
use super::entry::{ContentHash, DirEntry, EntryKind, Metadata};
use super::failure::{self, check_path_len, path_error};

const ROOT: &str = "/workspace";

/// The default maximum size of all files together, in bytes.
const MAX_BYTES: usize = 64 * 1024 * 1024;
/// The memory of a file without its path and content, in bytes.
const FILE_OVERHEAD: usize = 256;

/// Files in memory, for tests and for agents that need no more. It runs no commands.
///
/// Its root is `/workspace`. Folders exist as long as a file lies below them. Clones share the
/// files. A path has at most 4,096 bytes, and all files together at most 64 MiB, unless
/// [`with_max_bytes`](Self::with_max_bytes) sets another limit.
///
/// ```
/// use agentcore::backend::{Backend, MemoryBackend};
///
/// # async fn example() -> agentcore::Result<()> {
/// let files = MemoryBackend::new().with_max_bytes(1_000_000);
/// files.write("notes.md", b"mine\n").await?;
/// assert!(files.write("large", &[0; 1_000_000]).await.is_err());
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone, Debug, Default)]
pub struct MemoryBackend {
    files: Arc<Mutex<MemoryFiles>>,
}

#[derive(Debug)]
struct MemoryFiles {
    /// The contents by path below the root, without a leading slash.
    contents: BTreeMap<String, Bytes>,
    /// The memory that they take.
    bytes: usize,
    max_bytes: usize,
}

impl Default for MemoryFiles {
    fn default() -> Self {
        Self {
            contents: BTreeMap::new(),
            bytes: 0,
            max_bytes: MAX_BYTES,
        }
    }
}

impl MemoryBackend {
    /// Creates an empty workspace.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the maximum size of all files together, in bytes. Defaults to 64 MiB. The size of a
    /// file is its content, its path and 256 bytes. A change over the limit fails and leaves the
    /// files unchanged. Clones share the limit.
    #[must_use]
    pub fn with_max_bytes(self, bytes: usize) -> Self {
        lock(&self.files).max_bytes = bytes;
        self
    }

    /// Returns all files with their content, by path below the root.
    pub fn files(&self) -> BTreeMap<String, Bytes> {
        lock(&self.files).contents.clone()
    }
}

#[async_trait]
impl Backend for MemoryBackend {
    fn root(&self) -> &str {
        ROOT
    }

    async fn read(&self, path: &str) -> Result<Bytes> {
        let key = resolve(path)?;
        let files = lock(&self.files);
        match files.contents.get(&key) {
            Some(content) => Ok(content.clone()),
            None => Err(files.no_file(&key, path)),
        }
    }

    async fn stat(&self, path: &str) -> Result<Metadata> {
        let key = resolve(path)?;
        let files = lock(&self.files);
        match files.contents.get(&key) {
            Some(content) => Ok(Metadata::new(EntryKind::File, content.len() as u64)),
            None if files.is_folder(&key) => Ok(Metadata::new(EntryKind::Dir, 0)),
            None => Err(files.no_file(&key, path)),
        }
    }

    async fn write(&self, path: &str, content: &[u8]) -> Result<()> {
        let key = resolve(path)?;
        lock(&self.files).insert(key, path, content)
    }

    async fn create_new(&self, path: &str, content: &[u8]) -> Result<()> {
        let key = resolve(path)?;
        let mut files = lock(&self.files);
        if files.contents.contains_key(&key) {
            return Err(failure::exists(path));
        }
        files.insert(key, path, content)
    }

    async fn write_if_unchanged(
        &self,
        path: &str,
        expected: ContentHash,
        content: &[u8],
    ) -> Result<()> {
        let key = resolve(path)?;
        let old_content = self.read(path).await?;
        let hashed_content = old_content.clone();
        let hash = blocking_if_large(old_content.len(), move || ContentHash::of(&hashed_content));
        let is_expected = hash.await? == expected;
        let mut files = lock(&self.files);
        match files.contents.get(&key) {
            Some(current) if is_expected && is_same(current, &old_content) => {
                files.insert(key, path, content)
            }
            Some(_) => Err(failure::conflict(path)),
            None => Err(files.no_file(&key, path)),
        }
    }

    async fn append(&self, path: &str, content: &[u8]) -> Result<()> {
        let key = resolve(path)?;
        lock(&self.files).append(key, path, content)
    }

    async fn list(&self, path: &str) -> Result<Vec<DirEntry>> {
        let key = resolve(path)?;
        let files = lock(&self.files);
        if files.contents.contains_key(&key) {
            return Err(path_error(io::ErrorKind::NotADirectory, path, "is a file"));
        }

        if !files.is_folder(&key) {
            return Err(path_error(io::ErrorKind::NotFound, path, "does not exist"));
        }

        Ok(files.entries(&key))
    }

    async fn remove(&self, path: &str) -> Result<()> {
        let key = resolve(path)?;
        let mut files = lock(&self.files);
        match files.contents.remove(&key) {
            Some(content) => {
                files.bytes -= memory_of(&key, content.len());
                Ok(())
            }
            None => Err(files.no_file(&key, path)),
        }
    }
}

/// Returns the path below the root, `.` and `..` resolved; empty for the root itself.
fn resolve(path: &str) -> Result<String> {
    check_path_len(path)?;
    let make_error = || failure::outside(path, ROOT);
    let relative_path = match path.strip_prefix(ROOT) {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => rest,
        _ if path.starts_with('/') => return Err(make_error()),
        _ => path,
    };

    let mut parts: Vec<&str> = Vec::new();
    for part in relative_path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop().ok_or_else(make_error)?;
            }
            part => parts.push(part),
        }
    }

    Ok(parts.join("/"))
}

impl MemoryFiles {
    /// Returns the files below a folder, from `start` on. Their paths and `start` are relative to
    /// the folder.
    fn beneath<'a>(
        &'a self,
        folder: &str,
        start: &str,
    ) -> impl Iterator<Item = (&'a str, &'a Bytes)> + use<'a> {
        let prefix = match folder {
            "" => String::new(),
            folder => format!("{folder}/"),
        };
        self.contents
            .range(format!("{prefix}{start}")..)
            .map_while(move |(path, content)| Some((path.strip_prefix(&prefix)?, content)))
    }

    /// Returns the entries of a folder, sorted by name. The files in its folders are passed over:
    /// each folder takes one search.
    fn entries(&self, folder: &str) -> Vec<DirEntry> {
        let mut entries = Vec::new();
        let mut files = self.beneath(folder, "");
        while let Some((rest, content)) = files.next() {
            match rest.split_once('/') {
                None => entries.push(DirEntry::new(rest, EntryKind::File, content.len() as u64)),
                Some((name, _)) => {
                    entries.push(DirEntry::new(name, EntryKind::Dir, 0));
                    // `0` is the character after `/`.
                    files = self.beneath(folder, &format!("{name}0"));
                }
            }
        }
        entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        entries
    }

    /// The root is always a folder, any other path only while there is a file below it.
    fn is_folder(&self, key: &str) -> bool {
        key.is_empty() || self.beneath(key, "").next().is_some()
    }

    fn no_file(&self, key: &str, path: &str) -> Error {
        if self.is_folder(key) {
            path_error(io::ErrorKind::IsADirectory, path, "is a folder")
        } else {
            path_error(io::ErrorKind::NotFound, path, "does not exist")
        }
    }

    /// Returns `true` if there is a file at one of the folders of a path.
    fn is_beneath_a_file(&self, key: &str) -> bool {
        let mut folder = key.rsplit_once('/').map(|(folder, _)| folder);
        while let Some(path) = folder {
            let up_to = (Bound::Unbounded, Bound::Included(path));
            // A file at `path` or above it is not after `last`, so `last` begins with its path. The
            // search continues with the folders that both paths begin with.
            let Some((last, _)) = self.contents.range::<str, _>(up_to).next_back() else {
                return false;
            };
            if last == path {
                return true;
            }
            let common = last.bytes().zip(path.bytes()).take_while(|(a, b)| a == b);
            let common = &path.as_bytes()[..=common.count().min(path.len() - 1)];
            folder = memchr::memrchr(b'/', common).map(|end| &path[..end]);
        }
        false
    }

    /// Returns the memory of all files if the file `key` has `len` bytes.
    fn bytes_with(&self, key: &str, len: usize) -> usize {
        let old_content = self.contents.get(key);
        let old_bytes = old_content.map_or(0, |old| memory_of(key, old.len()));
        (self.bytes - old_bytes).saturating_add(memory_of(key, len))
    }

    /// Checks that a file may have this many bytes. A file may always become smaller.
    fn check_room(&self, key: &str, path: &str, len: usize) -> Result<()> {
        let bytes = self.bytes_with(key, len);
        if bytes <= self.max_bytes.max(self.bytes) {
            return Ok(());
        }
        let text = format!(
            "cannot have {len} bytes: the files in memory would take {bytes}, and {} at most; remove \
             files, or raise MemoryBackend::with_max_bytes",
            self.max_bytes
        );
        Err(path_error(io::ErrorKind::StorageFull, path, &text))
    }

    fn insert(&mut self, key: String, path: &str, content: &[u8]) -> Result<()> {
        if self.is_folder(&key) {
            return Err(path_error(io::ErrorKind::IsADirectory, path, "is a folder"));
        }

        if self.is_beneath_a_file(&key) {
            let kind = io::ErrorKind::NotADirectory;
            return Err(path_error(kind, path, "lies beneath a file"));
        }

        self.check_room(&key, path, content.len())?;
        self.bytes = self.bytes_with(&key, content.len());
        self.contents.insert(key, Bytes::copy_from_slice(content));
        Ok(())
    }

    fn append(&mut self, key: String, path: &str, content: &[u8]) -> Result<()> {
        let Some(old_content) = self.contents.get(&key) else {
            return self.insert(key, path, content);
        };
        let len = old_content.len().saturating_add(content.len());
        self.check_room(&key, path, len)?;
        self.bytes = self.bytes_with(&key, len);
        if let Some(stored) = self.contents.get_mut(&key) {
            *stored = appended(mem::take(stored), content);
        }
        Ok(())
    }
}

/// Appends to a content, in its memory unless a reader has it. Its memory grows by an eighth, so
/// that many short contents copy little.
fn appended(old_content: Bytes, content: &[u8]) -> Bytes {
    let len = old_content.len() + content.len();
    let copy = |old_content: &[u8]| {
        let mut buffer = BytesMut::with_capacity(len + len / 8);
        buffer.extend_from_slice(old_content);
        buffer
    };
    let mut buffer = match old_content.try_into_mut() {
        Ok(buffer) if buffer.capacity() >= len => buffer,
        Ok(buffer) => copy(&buffer),
        Err(shared) => copy(&shared),
    };
    buffer.extend_from_slice(content);
    buffer.freeze()
}

/// Returns the memory, in bytes, of a file with a path and this many bytes.
fn memory_of(key: &str, len: usize) -> usize {
    FILE_OVERHEAD.saturating_add(key.len()).saturating_add(len)
}

/// Returns `true` if the contents are equal. Both are held, so those at the same address are.
fn is_same(first: &Bytes, second: &Bytes) -> bool {
    (first.as_ptr(), first.len()) == (second.as_ptr(), second.len()) || first == second
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn short_contents_are_appended_in_place() {
        let backend = MemoryBackend::new();
        backend.write("a", &[b'x'; 1_024]).await.unwrap();
        let mut copies = 0;
        let mut address = 0;
        for _ in 0..1_024 {
            backend.append("a", b"y").await.unwrap();
            let new_address = lock(&backend.files).contents["a"].as_ptr().addr();
            copies += usize::from(new_address != address);
            address = new_address;
        }
        assert!(copies < 10, "{copies}");

        let read_content = backend.read("a").await.unwrap();
        backend.append("a", b"z").await.unwrap();
        assert_eq!(read_content.len(), 2_048);
        let content = backend.read("a").await.unwrap();
        assert!(content.starts_with(&read_content) && content.ends_with(b"yz"));
        let files = lock(&backend.files);
        assert_eq!(files.bytes, memory_of("a", 2_049));
    }
}
