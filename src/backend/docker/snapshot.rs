//! A container's workspace for the time of a search.
//!
//! A call of the engine takes far longer than what it does, so the tree is listed with one, and
//! files are read many at a time.

use std::collections::BTreeMap;
use std::sync::Mutex;

use async_trait::async_trait;
use bytes::Bytes;

use crate::error::Result;
use crate::util::blocking::blocking;
use crate::util::sync::lock;

use super::super::backend::Backend;
use super::super::entry::{DirEntry, EntryKind, Metadata, escape_name};
use super::super::folder_size::MAX_ENTRIES;
use super::backend::DockerBackend;
use super::file_call::{FileCall, FileOp};
use super::reply;

/// The number of files of a folder that are read with one call.
const BATCH: usize = 256;
/// The number of bytes at which no further file is added to a call.
const BATCH_BYTES: u64 = 4 * 1024 * 1024;
/// The maximum number of bytes of prefetched files, including their paths.
const MAX_PREFETCHED: usize = 16 * 1024 * 1024;
/// The memory of a prefetched file, without its path and content.
const PREFETCHED_FILE: usize = 128;
/// The maximum number of files and folders of a tree that is kept, and of the bytes of their paths:
/// two concurrent searches hold two trees.
const MAX_TREE: usize = 250_000;
const MAX_TREE_BYTES: usize = 16 * 1024 * 1024;
/// The size at which the script cuts the listing of a tree, in bytes: each path has a `./` and a
/// NUL, so a listing that was cut has too many paths or bytes for a tree that is kept.
const MAX_TREE_LISTING: u64 = (MAX_TREE_BYTES + 3 * MAX_TREE + 1024) as u64;

/// The listing of a container's workspace, and the files that were read together with the last
/// one. It lives as long as one search and serves as its backend.
#[derive(Debug)]
pub(super) struct Snapshot {
    backend: DockerBackend,
    /// Folders and files by the path of the folder they lie in.
    folders: BTreeMap<String, Vec<DirEntry>>,
    /// The files that were read with an earlier one of their folder, and not requested yet.
    prefetched_files: Mutex<BTreeMap<String, Bytes>>,
}

impl Snapshot {
    /// Lists the workspace of a container.
    pub(super) async fn take(backend: &DockerBackend) -> Result<Self> {
        let arguments = [MAX_TREE_LISTING.to_string()];
        let call = FileCall::new(FileOp::Tree, "", MAX_TREE_LISTING).arguments(&arguments);
        let output = backend.call_files(call).await?;
        let root = backend.root().to_owned();
        let parse = move || Ok(folders(reply::data(&output, "", &root)?));
        Ok(Self {
            backend: backend.clone(),
            folders: blocking(parse).await?.unwrap_or_default(),
            prefetched_files: Mutex::default(),
        })
    }

    /// Reads a file and the files that follow it in its folder.
    async fn read_on(&self, path: &str) -> Result<Option<Bytes>> {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let Some(entries) = self.folders.get(folder) else {
            return Ok(None);
        };

        let files = entries.iter().filter(|entry| entry.kind == EntryKind::File);
        let names = files
            .map(|entry| entry.name.as_str())
            .skip_while(|other| *other != name)
            .take(BATCH);
        let end = format!("\n{}\n", uuid::Uuid::new_v4().simple());
        let mut arguments = vec![BATCH_BYTES.to_string(), end.trim().to_owned()];
        arguments.extend(names.clone().map(str::to_owned));
        let max_output = self.backend.max_read().saturating_add(2 * BATCH_BYTES);
        let call = FileCall::new(FileOp::ReadMany, folder, max_output).arguments(&arguments);
        let output = self.backend.call_files(call).await?;
        let data = reply::data(&output, path, self.root())?;
        let mut requested_content = None;
        let mut cache = lock(&self.prefetched_files);
        let file_bytes =
            |(path, content): (&String, &Bytes)| PREFETCHED_FILE + path.len() + content.len();
        if cache.iter().map(file_bytes).sum::<usize>() > MAX_PREFETCHED {
            cache.clear();
        }

        for (other, content) in names.zip(split_files(data, end.as_bytes())) {
            let Some(content) = content.map(Bytes::copy_from_slice) else {
                continue;
            };

            if other == name {
                requested_content = Some(content);
            } else {
                let key = path[..path.len() - name.len()].to_owned() + other;
                cache.insert(key, content);
            }
        }

        Ok(requested_content)
    }
}

/// Returns the content of each file of a reply to [`FileOp::ReadMany`], in which `end` follows each
/// file. A file that could not be read is `None`.
fn split_files<'a>(mut data: &'a [u8], end: &'a [u8]) -> impl Iterator<Item = Option<&'a [u8]>> {
    std::iter::from_fn(move || {
        let offset = memchr::memmem::find(data, end)?;
        let file = &data[..offset];
        data = &data[offset + end.len()..];
        // The first byte is `+` if the file could be read.
        Some(file.strip_prefix(b"+"))
    })
}

#[async_trait]
impl Backend for Snapshot {
    fn root(&self) -> &str {
        self.backend.root()
    }

    async fn read(&self, path: &str) -> Result<Bytes> {
        let cached_content = lock(&self.prefetched_files).remove(path);
        let content = match cached_content {
            Some(content) => Some(content),
            None => self.read_on(path).await?,
        };
        match content {
            Some(content) => Ok(content),
            // This read returns the error of the file.
            None => self.backend.read(path).await,
        }
    }

    async fn stat(&self, path: &str) -> Result<Metadata> {
        self.backend.stat(path).await
    }

    async fn write(&self, path: &str, content: &[u8]) -> Result<()> {
        self.backend.write(path, content).await
    }

    async fn list(&self, path: &str) -> Result<Vec<DirEntry>> {
        match self.folders.get(path) {
            Some(entries) => Ok(entries.clone()),
            None => self.backend.list(path).await,
        }
    }

    async fn remove(&self, path: &str) -> Result<()> {
        self.backend.remove(path).await
    }
}

/// Parses the listing of a tree: folders as `./a/b`, each with a NUL at its end, a NUL, files in
/// the same way, a NUL. `None` when it is incomplete or too large: its folders are then listed one
/// by one. So are folders without entries if a `!` is among the folders: they may be unreadable.
fn folders(data: &[u8]) -> Option<BTreeMap<String, Vec<DirEntry>>> {
    let offset = memchr::memmem::find(data, b"\0\0")? + 1;
    let dirs = &data[..offset];
    let files = &data[offset + 1..];
    let files = files.strip_suffix(b"\0")?;
    let mut folders: BTreeMap<String, Vec<DirEntry>> = BTreeMap::new();
    let mut path_count = 0;
    let mut path_bytes = 0;
    let mut is_partial = false;
    for (paths, kind) in [(dirs, EntryKind::Dir), (files, EntryKind::File)] {
        for path in paths.split(|byte| *byte == 0) {
            let Some(path) = path.strip_prefix(b"./") else {
                is_partial |= path == b"!";
                continue;
            };

            path_count += 1;
            path_bytes += path.len();
            if path_count > MAX_TREE || path_bytes > MAX_TREE_BYTES {
                return None;
            }

            // An escape is longer than the byte that it replaces.
            let bytes = path.len();
            let path = escape_name(path);
            path_bytes += path.len() - bytes;
            if path_bytes > MAX_TREE_BYTES {
                return None;
            }

            let (folder, name) = path.rsplit_once('/').unwrap_or(("", &path));
            let entries = folders.entry(folder.to_owned()).or_default();
            if entries.len() == MAX_ENTRIES {
                return None;
            }

            entries.push(DirEntry::new(name, kind, 0));
            if kind == EntryKind::Dir {
                folders.entry(path).or_default();
            }
        }
    }

    folders.entry(String::new()).or_default();
    if is_partial {
        folders.retain(|_, entries| !entries.is_empty());
    }
    folders.values_mut().for_each(|entries| entries.sort());
    Some(folders)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tree_has_the_entries_of_each_folder() {
        let tree = folders(b"./b\0\0./a\0./b/c\0\0").unwrap();
        let entry = |name: &str, kind| DirEntry::new(name, kind, 0);
        let top = [entry("a", EntryKind::File), entry("b", EntryKind::Dir)];
        assert_eq!(tree[""], top);
        assert_eq!(tree["b"], [entry("c", EntryKind::File)]);
    }

    #[test]
    fn folder_without_entries_is_not_kept_if_a_folder_could_not_be_read() {
        let tree = folders(b".\0./b!\0./c\0!\0\0./c/d\0\0").unwrap();
        assert_eq!(tree.keys().collect::<Vec<_>>(), ["", "c"]);
        let tree = folders(b".\0./b!\0\0\0").unwrap();
        assert_eq!(tree.keys().collect::<Vec<_>>(), ["", "b!"]);
    }

    #[test]
    fn files_of_a_reply_are_split_at_their_ends() {
        let files: Vec<_> = split_files(b"+one\nE\n-\nE\n+\nE\n+cut", b"\nE\n").collect();
        assert_eq!(files, [Some(&b"one"[..]), None, Some(&b""[..])]);
    }

    #[test]
    fn incomplete_tree_is_not_kept() {
        assert!(folders(b"./b\0\0./a\0./b/").is_none());
    }

    /// Folders `./0`, `./1` and so on with `files` files each.
    fn tree_of(dirs: usize, files: usize) -> Vec<u8> {
        let mut data = Vec::new();
        for dir in 0..dirs {
            data.extend(format!("./{dir}\0").bytes());
        }

        data.push(0);
        for dir in 0..dirs {
            data.extend(format!("./{dir}/a\0").repeat(files).bytes());
        }

        data.push(0);
        data
    }

    #[test]
    fn tree_of_too_many_entries_is_not_kept() {
        assert!(folders(&tree_of(5, 49_999)).is_some());
        assert!(folders(&tree_of(5, 50_000)).is_none());
        assert!(folders(&tree_of(1, 200_001)).is_none());
    }

    #[test]
    fn tree_of_too_long_paths_is_not_kept() {
        // An escaped byte takes four.
        for (byte, len, is_kept) in [(0xff, 3, true), (0xff, 5, false), (b'a', 15, true)] {
            let mut data = b"./a\0\0./".to_vec();
            data.resize(len * 1024 * 1024, byte);
            data.extend([0, 0]);
            assert_eq!(folders(&data).is_some(), is_kept, "{byte} {len}");
        }
        let path = "a/".repeat(2_000);
        let mut data = format!("./{path}\0").repeat(4_200);
        data.push('\0');
        assert!(folders(data.as_bytes()).is_none());
    }
}
