//! A workspace that is nowhere but in memory.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;

use crate::error::{Error, Result};
use crate::util::sync::lock;

use super::backend::Backend;
use super::entry::{ContentHash, DirEntry, EntryKind, Metadata};
use super::failure::{self, path_error};

const ROOT: &str = "/workspace";

/// Files in memory, for tests and for agents that need no more. It runs no commands.
///
/// Its root is `/workspace`. Folders exist as long as a file lies beneath them. Clones share the
/// files.
#[derive(Clone, Debug, Default)]
pub struct MemoryBackend {
    /// The contents by path beneath the root, without a leading slash.
    files: Arc<Mutex<BTreeMap<String, Bytes>>>,
}

impl MemoryBackend {
    /// Creates an empty workspace.
    pub fn new() -> Self {
        Self::default()
    }

    /// All files with their content, by path beneath the root.
    pub fn files(&self) -> BTreeMap<String, Bytes> {
        lock(&self.files).clone()
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
        match files.get(&key) {
            Some(content) => Ok(content.clone()),
            None => Err(no_file(&files, &key, path)),
        }
    }

    async fn stat(&self, path: &str) -> Result<Metadata> {
        let key = resolve(path)?;
        let files = lock(&self.files);
        match files.get(&key) {
            Some(content) => Ok(Metadata::new(EntryKind::File, content.len() as u64)),
            None if is_folder(&files, &key) => Ok(Metadata::new(EntryKind::Dir, 0)),
            None => Err(no_file(&files, &key, path)),
        }
    }

    async fn write(&self, path: &str, content: &[u8]) -> Result<()> {
        let key = resolve(path)?;
        insert_file(&mut lock(&self.files), key, path, content)
    }

    async fn write_if_unchanged(
        &self,
        path: &str,
        expected: ContentHash,
        content: &[u8],
    ) -> Result<()> {
        let key = resolve(path)?;
        let mut files = lock(&self.files);
        match files.get(&key) {
            Some(old) if ContentHash::of(old) == expected => {
                insert_file(&mut files, key, path, content)
            }
            Some(_) => Err(failure::conflict(path)),
            None => Err(no_file(&files, &key, path)),
        }
    }

    async fn append(&self, path: &str, content: &[u8]) -> Result<()> {
        let key = resolve(path)?;
        let mut files = lock(&self.files);
        let mut full_content = files.get(&key).map_or_else(Vec::new, |old| old.to_vec());
        full_content.extend_from_slice(content);
        insert_file(&mut files, key, path, &full_content)
    }

    async fn list(&self, path: &str) -> Result<Vec<DirEntry>> {
        let key = resolve(path)?;
        let files = lock(&self.files);
        if files.contains_key(&key) {
            return Err(path_error(io::ErrorKind::NotADirectory, path, "is a file"));
        }

        if !is_folder(&files, &key) {
            return Err(path_error(io::ErrorKind::NotFound, path, "does not exist"));
        }

        let mut entries: BTreeMap<&str, DirEntry> = BTreeMap::new();
        for (rest, content) in beneath(&files, &key) {
            let (name, kind, size) = match rest.split_once('/') {
                Some((name, _)) => (name, EntryKind::Dir, 0),
                None => (rest, EntryKind::File, content.len() as u64),
            };

            if let Entry::Vacant(entry) = entries.entry(name) {
                entry.insert(DirEntry::new(name, kind, size));
            }
        }

        Ok(entries.into_values().collect())
    }

    async fn remove(&self, path: &str) -> Result<()> {
        let key = resolve(path)?;
        let mut files = lock(&self.files);
        match files.remove(&key) {
            Some(_) => Ok(()),
            None => Err(no_file(&files, &key, path)),
        }
    }
}

/// The path beneath the root, `.` and `..` resolved; empty for the root itself.
fn resolve(path: &str) -> Result<String> {
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

/// The files beneath a folder by what follows its path.
fn beneath<'a>(
    files: &'a BTreeMap<String, Bytes>,
    folder: &str,
) -> impl Iterator<Item = (&'a str, &'a Bytes)> {
    let prefix = match folder {
        "" => String::new(),
        folder => format!("{folder}/"),
    };
    files
        .range(prefix.clone()..)
        .map_while(move |(path, content)| Some((path.strip_prefix(&prefix)?, content)))
}

/// The root is always a folder, any other path only while there is a file beneath it.
fn is_folder(files: &BTreeMap<String, Bytes>, key: &str) -> bool {
    key.is_empty() || beneath(files, key).next().is_some()
}

fn no_file(files: &BTreeMap<String, Bytes>, key: &str, path: &str) -> Error {
    if is_folder(files, key) {
        path_error(io::ErrorKind::IsADirectory, path, "is a folder")
    } else {
        path_error(io::ErrorKind::NotFound, path, "does not exist")
    }
}

fn insert_file(
    files: &mut BTreeMap<String, Bytes>,
    key: String,
    path: &str,
    content: &[u8],
) -> Result<()> {
    if is_folder(files, &key) {
        return Err(path_error(io::ErrorKind::IsADirectory, path, "is a folder"));
    }

    let beneath_a_file = key
        .match_indices('/')
        .any(|(end, _)| files.contains_key(&key[..end]));
    if beneath_a_file {
        let kind = io::ErrorKind::NotADirectory;
        return Err(path_error(kind, path, "lies beneath a file"));
    }

    files.insert(key, Bytes::copy_from_slice(content));
    Ok(())
}
