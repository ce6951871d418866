//! The files of evicted results: their names and their removal.

use std::time::SystemTime;

use tokio::time::{Instant, timeout_at};

use crate::backend::{Backend, DirEntry, EntryKind, is_not_found};
use crate::error::Result;
use crate::util::hash::fnv1a;

/// The maximum number of characters of an id in a name.
const MAX_ID_CHARS: usize = 64;
const HASH_CHARS: usize = 16;
const SUFFIX: &str = ".txt";

/// The maximum number of files, and of sessions, that one search for old results examines.
const MAX_SWEPT: usize = 1_000;

/// Returns the folder of a session's results.
///
/// A hash is added to an id that cannot be a name unchanged. Even on file systems that ignore case,
/// sessions share a folder only if the id of one is the name of the other with its hash.
pub(super) fn session_folder(folder: &str, session: &str) -> String {
    let name = file_name_part(session);
    let is_plain = name == session && !name.contains(|c: char| c.is_ascii_uppercase());
    if is_plain {
        format!("{folder}/{name}")
    } else {
        format!("{folder}/{name}-{:016x}", fnv1a([session.as_bytes()]))
    }
}

/// Returns the name of the file of a call's result.
///
/// The hash distinguishes results whose ids differ only in characters that a name cannot have, in
/// case, or not at all.
pub(super) fn file_name(id: &str, hash: u64) -> String {
    format!("{}-{hash:016x}{SUFFIX}", file_name_part(id))
}

/// Converts an id into a part of a path: letters, digits, `-` and `_`.
fn file_name_part(id: &str) -> String {
    let safe_char = |c: char| match c {
        'A'..='Z' | 'a'..='z' | '0'..='9' | '-' | '_' => c,
        _ => '_',
    };
    if id.is_empty() {
        "_".to_owned()
    } else {
        id.chars().take(MAX_ID_CHARS).map(safe_char).collect()
    }
}

/// Returns `true` if a file was written by this module; the folder may hold others.
fn is_result(entry: &DirEntry) -> bool {
    let parts = entry
        .name
        .strip_suffix(SUFFIX)
        .and_then(|name| name.rsplit_once('-'));
    let is_hash =
        |hash: &str| hash.len() == HASH_CHARS && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    entry.kind == EntryKind::File && parts.is_some_and(|(_, hash)| is_hash(hash))
}

/// Removes the results of one session, and returns how many there were.
pub(super) async fn remove_session(
    backend: &dyn Backend,
    folder: &str,
    session: &str,
) -> Result<usize> {
    let folder = session_folder(folder, session);
    let mut removed = 0;
    for path in result_paths(backend, &folder).await? {
        removed += usize::from(remove(backend, &path).await?);
    }
    Ok(removed)
}

/// Removes results of all sessions that were written before `limit`. A result whose modification
/// time is unknown stays, and so do those beyond the number of files that are examined.
///
/// The lists of sessions and of the results of each session are searched from the index `first`,
/// counted around their ends. So repeated searches with random indices examine all results.
pub(super) async fn remove_older(
    backend: &dyn Backend,
    folder: &str,
    limit: SystemTime,
    first: usize,
) -> Result<()> {
    let mut remaining = MAX_SWEPT;
    let mut sessions = list_or_empty(backend, folder).await?;
    sessions.retain(|entry| entry.kind == EntryKind::Dir);
    rotate(&mut sessions, first);
    for session in sessions.iter().take(MAX_SWEPT) {
        let session = format!("{folder}/{}", session.name);
        let mut paths = result_paths(backend, &session).await?;
        rotate(&mut paths, first);
        for path in paths {
            if remaining == 0 {
                return Ok(());
            }

            remaining -= 1;
            let metadata = backend.stat(&path).await.ok();
            let modified_time = metadata.and_then(|metadata| metadata.modified);
            if modified_time.is_some_and(|time| time < limit) {
                remove(backend, &path).await?;
            }
        }
    }

    Ok(())
}

/// Rotates the list so that it begins with the index `first`, counted around its end.
fn rotate<T>(list: &mut [T], first: usize) {
    list.rotate_left(first % list.len().max(1));
}

/// A file of a result.
#[derive(Debug)]
pub(super) struct StoredResult {
    pub(super) path: String,
    pub(super) bytes: u64,
}

/// Returns the results in the folder of the result at `path`, the oldest first.
///
/// A result that was not examined before `deadline`, or has no modification time, counts as the
/// oldest.
pub(super) async fn oldest_first(
    backend: &dyn Backend,
    path: &str,
    deadline: Instant,
) -> Result<Vec<StoredResult>> {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let entries = list_or_empty(backend, folder).await?;
    let mut results = Vec::new();
    for entry in entries.into_iter().filter(is_result) {
        let path = format!("{folder}/{}", entry.name);
        let metadata = if results.len() < MAX_SWEPT {
            // In a container, each is a program that is started.
            timeout_at(deadline, backend.stat(&path)).await.ok()
        } else {
            None
        };
        let metadata = metadata.and_then(Result::ok);
        let modified_time = metadata.and_then(|metadata| metadata.modified);
        let bytes = entry.size;
        results.push((modified_time, StoredResult { path, bytes }));
    }
    results.sort_by_key(|(modified_time, _)| *modified_time);
    Ok(results.into_iter().map(|(_, result)| result).collect())
}

/// Returns the paths of the results in a folder.
async fn result_paths(backend: &dyn Backend, folder: &str) -> Result<Vec<String>> {
    let entries = list_or_empty(backend, folder).await?;
    let results = entries.iter().filter(|entry| is_result(entry));
    Ok(results
        .map(|entry| format!("{folder}/{}", entry.name))
        .collect())
}

/// Removes a file. Returns `false` when another run has already removed it.
pub(super) async fn remove(backend: &dyn Backend, path: &str) -> Result<bool> {
    match backend.remove(path).await {
        Ok(()) => Ok(true),
        Err(error) if is_not_found(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

async fn list_or_empty(backend: &dyn Backend, folder: &str) -> Result<Vec<DirEntry>> {
    match backend.list(folder).await {
        Err(error) if is_not_found(&error) => Ok(Vec::new()),
        listed => listed,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;

    use super::*;
    use crate::backend::{MemoryBackend, Metadata};

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    /// A backend whose files named `old` were modified long before the others.
    #[derive(Debug)]
    struct Dated(MemoryBackend);

    #[async_trait::async_trait]
    impl Backend for Dated {
        fn root(&self) -> &str {
            self.0.root()
        }

        async fn read(&self, path: &str) -> Result<Bytes> {
            self.0.read(path).await
        }

        async fn stat(&self, path: &str) -> Result<Metadata> {
            let modified_time = if path.contains("/old-") {
                SystemTime::UNIX_EPOCH
            } else {
                SystemTime::UNIX_EPOCH + 2 * DAY
            };
            Ok(self.0.stat(path).await?.with_modified(modified_time))
        }

        async fn write(&self, path: &str, content: &[u8]) -> Result<()> {
            self.0.write(path, content).await
        }

        async fn list(&self, path: &str) -> Result<Vec<DirEntry>> {
            self.0.list(path).await
        }

        async fn remove(&self, path: &str) -> Result<()> {
            self.0.remove(path).await
        }
    }

    async fn put(files: &MemoryBackend, session: usize, name: &str) {
        let path = format!("results/s{session:04}/{}", file_name(name, 1));
        files.write(&path, b"x").await.unwrap();
    }

    /// Returns the number of old results after a search that begins with the number `first`.
    async fn old_results_after_search(files: &MemoryBackend, first: usize) -> usize {
        let limit = SystemTime::UNIX_EPOCH + DAY;
        let backend = Dated(files.clone());
        remove_older(&backend, "results", limit, first)
            .await
            .unwrap();
        let paths = files.files().into_keys();
        paths.filter(|path| path.contains("/old-")).count()
    }

    #[tokio::test]
    async fn search_that_begins_elsewhere_reaches_sessions_after_many_others() {
        let files = MemoryBackend::new();
        for session in 0..MAX_SWEPT {
            put(&files, session, "young").await;
        }
        put(&files, MAX_SWEPT, "old").await;
        assert_eq!(old_results_after_search(&files, 0).await, 1);
        assert_eq!(old_results_after_search(&files, MAX_SWEPT).await, 0);
    }

    #[tokio::test]
    async fn search_that_begins_elsewhere_reaches_results_after_many_others() {
        let files = MemoryBackend::new();
        for result in 0..MAX_SWEPT {
            put(&files, 0, &format!("a{result:04}")).await;
        }
        put(&files, 0, "old").await;
        assert_eq!(old_results_after_search(&files, 0).await, 1);
        let later_round = 2 * (MAX_SWEPT + 1) - 1;
        assert_eq!(old_results_after_search(&files, later_round).await, 0);
    }
}
