//! The capture of the current state of a file before it changes.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use bytes::Bytes;
use tokio::sync::MutexGuard;

use crate::backend::{Backend, EntryKind, io_kind, is_not_found};
use crate::error::{Error, ErrorKind, Result};
use crate::message::Messages;
use crate::util::blocking::{blocking, blocking_if_large};
use crate::util::hash::fnv1a;

use super::active_runs::{ActiveRun, Maker};
use super::file_checkpoints::{FileCheckpoints, Inner};
use super::index::SessionIndex;
use super::record::{ChangeRecord, FileContent, Fingerprint, Fingerprinter, Origin, PriorState};
use super::storage::RecordWrite;

/// The size in bytes of the chunks in which a file is read.
const CHUNK: usize = 1024 * 1024;

/// The number of bytes of a file that are always read to recognize its content, even if
/// [`Limits::file`](super::limits::Limits::file) is lower.
const MIN_RECOGNIZED: u64 = 32 * 1024 * 1024;

/// The resolved path of a file.
#[derive(Clone, Debug)]
pub(super) struct ResolvedPath {
    /// The path for the backend.
    pub(super) path: String,
    /// The path relative to the root.
    pub(super) relative: Arc<str>,
    /// True if the link itself is meant.
    pub(super) is_link: bool,
}

/// A change of a file that is about to be made.
pub(super) struct PendingChange<'a> {
    pub(super) session: &'a Arc<str>,
    pub(super) maker: Maker,
    pub(super) file: &'a ResolvedPath,
    /// The content that the file is about to get.
    pub(super) after: FileContent,
}

/// The entries of a session's index about a file that is about to change.
#[derive(Default)]
struct IndexedFile {
    /// True if its state at the last user message is stored.
    is_captured: bool,
    /// True if a record has the content that the file is about to get.
    has_write: bool,
    /// The bytes of the session's records, with their contents.
    session_bytes: u64,
}

/// Returns the path of a file relative to a root, as the agent names it.
pub(super) fn join_root(root: &str, relative: &str) -> String {
    format!("{}/{relative}", root.trim_end_matches('/'))
}

impl FileCheckpoints {
    /// Runs `work` on the index of a session, brought up to date.
    pub(super) async fn with_index<T: Send + 'static>(
        &self,
        session: &str,
        work: impl FnOnce(&Inner, &SessionIndex) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let inner = self.inner.clone();
        let session = Arc::<str>::from(session);
        blocking(move || {
            inner.with_cached_index(&session, |inner, index| {
                inner.storage.update(&session, index)?;
                work(inner, index)
            })
        })
        .await
    }

    /// Locks a file against other changes.
    pub(super) async fn lock_path(&self, file: &ResolvedPath) -> MutexGuard<'_, ()> {
        let hash = fnv1a([file.relative.as_bytes()]);
        let path_locks = &self.inner.path_locks;
        path_locks[(hash % path_locks.len() as u64) as usize]
            .lock()
            .await
    }

    /// Stores the current state of a file for each run that a change belongs to. When this returns
    /// `Ok`, the change may proceed.
    pub(super) async fn capture_for_runs(
        &self,
        runs: &[Arc<ActiveRun>],
        file: &ResolvedPath,
        after: FileContent,
    ) -> Result<()> {
        for run in runs {
            self.capture(PendingChange {
                session: &run.session,
                maker: Maker::Run(run.clone()),
                file,
                after,
            })
            .await?;
        }
        Ok(())
    }

    /// Stores the current state of a file, unless the index has it, and the fingerprint of the
    /// content that it is about to get.
    pub(super) async fn capture(&self, change: PendingChange<'_>) -> Result<()> {
        while !self.try_capture(&change).await? {}
        Ok(())
    }

    /// Does the same as [`capture`](Self::capture). Returns `false`, and stores nothing, if the run
    /// has continued with another message meanwhile and the state of the file since that message
    /// is not stored.
    async fn try_capture(&self, change: &PendingChange<'_>) -> Result<bool> {
        let indexed = self.indexed_file(change).await?;

        // If something else has written the file since its state was captured, the state is stored
        // again.
        let is_captured =
            indexed.is_captured && self.is_own_content(change.session, change.file).await?;
        if is_captured && indexed.has_write {
            return Ok(true);
        }

        // Held until the content is stored.
        let capture_permit = self.inner.captures.acquire().await;
        let _capture_permit = capture_permit.map_err(|error| Error::other(error.to_string()))?;
        let (prior_state, content) = if is_captured {
            (None, Bytes::new())
        } else {
            let state = self.read_state(change.file, indexed.session_bytes);
            let (prior_state, content) = state.await?;
            (Some(prior_state), content)
        };

        self.store_change(change, prior_state, content).await
    }

    /// Stores the record of a change. It has no `prior_state` if the index has that already;
    /// returns `false`, and stores nothing, if the index no longer has it.
    async fn store_change(
        &self,
        change: &PendingChange<'_>,
        prior_state: Option<PriorState>,
        content: Bytes,
    ) -> Result<bool> {
        let inner = self.inner.clone();
        let id = change.session.clone();
        let path = change.file.relative.clone();
        let (maker, after) = (change.maker.clone(), change.after);
        let limits = self.limits;
        blocking(move || {
            inner.with_cached_index(&id, |inner, index| {
                // Determined while the index is locked: other changes may have been recorded, and
                // a record with an earlier message than theirs would count as a replacement of the
                // history.
                let position = maker.position(index);
                let origin = maker.origin();
                if prior_state.is_none() && !index.is_captured(position.message, origin, &path) {
                    return Ok(false);
                }

                let has_title = index.last_title() == Some(position.message);
                let record = ChangeRecord {
                    message: position.message,
                    title: position.title.filter(|_| !has_title),
                    rewound: origin == Origin::Rewind,
                    unchanged_messages: None,
                    root: Some(inner.root.clone()),
                    path,
                    before: prior_state,
                    after,
                    len: content.len() as u64,
                };

                // If a record without content is lost, the file counts as changed by others, but no
                // content is lost.
                let is_durable = record.before.is_some();
                let write = RecordWrite {
                    session: &id,
                    record,
                    content: &content,
                    is_durable,
                    limits: &limits,
                };
                inner.storage.write(index, write)?;
                Ok(true)
            })
        })
        .await
    }

    /// Looks up the file of a change in the index.
    async fn indexed_file(&self, change: &PendingChange<'_>) -> Result<IndexedFile> {
        let inner = self.inner.clone();
        let id = change.session.clone();
        let relative = change.file.relative.clone();
        let (maker, after) = (change.maker.clone(), change.after);
        blocking(move || {
            inner.with_cached_index(&id, |inner, index| match inner.storage.update(&id, index) {
                // The next record moves the damaged file away and must not depend on it.
                Err(error) if error.kind() == ErrorKind::Corrupt => Ok(IndexedFile::default()),
                Err(error) => Err(error),
                Ok(()) => {
                    let message = maker.position(index).message;
                    Ok(IndexedFile {
                        is_captured: index.is_captured(message, maker.origin(), &relative),
                        has_write: index.has_write(&relative, after),
                        session_bytes: index.end,
                    })
                }
            })
        })
        .await
    }

    /// Returns `true` if the session wrote the file's current content.
    async fn is_own_content(&self, session: &Arc<str>, file: &ResolvedPath) -> Result<bool> {
        if file.is_link {
            return Ok(false);
        }
        let content = self.fingerprint(&file.path, &[]).await?;
        let inner = self.inner.clone();
        let id = session.clone();
        let relative = file.relative.clone();
        blocking(move || {
            inner.with_cached_index(&id, |_, index| Ok(index.wrote(&relative, content)))
        })
        .await
    }

    /// Records that a run begins, if a rewind came before it or the history differs from the
    /// recorded messages. Returns the damage of the records so far.
    pub(super) async fn record_run_start(
        &self,
        run: &Arc<ActiveRun>,
        messages: Messages,
    ) -> Result<Option<Arc<str>>> {
        let inner = self.inner.clone();
        let id = run.session.clone();
        let run = run.clone();
        let limits = self.limits;
        blocking(move || {
            inner.with_cached_index(&id, |inner, index| {
                inner.storage.update(&id, index)?;
                let damage = index.damage.clone();
                let unchanged_count = index.unchanged_prefix(&messages);
                if unchanged_count.is_none() && !index.is_rewound() {
                    run.begin_in(index);
                    return Ok(damage);
                }

                let record = ChangeRecord {
                    message: messages.len(),
                    title: None,
                    rewound: false,
                    unchanged_messages: unchanged_count,
                    root: Some(inner.root.clone()),
                    path: "".into(),
                    before: None,
                    after: FileContent::Absent,
                    len: 0,
                };

                let write = RecordWrite {
                    session: &id,
                    record,
                    content: &[],
                    is_durable: false,
                    limits: &limits,
                };
                inner.storage.write(index, write)?;
                run.begin_in(index);
                Ok(damage)
            })
        })
        .await
    }

    /// Reads the current state, and the content if it can be stored in a session with this many
    /// bytes.
    async fn read_state(
        &self,
        file: &ResolvedPath,
        session_bytes: u64,
    ) -> Result<(PriorState, Bytes)> {
        let reject = |reason: String| Ok((PriorState::NotStored(reason), Bytes::new()));
        if file.is_link {
            return reject("it was a symbolic link".to_owned());
        }

        let metadata = match self.inner.backend.stat(&file.path).await {
            Ok(metadata) => metadata,
            Err(error) if is_not_found(&error) => return Ok((PriorState::Absent, Bytes::new())),
            Err(error) => return Err(error),
        };

        if metadata.kind != EntryKind::File {
            return reject(format!("it was a {}", metadata.kind));
        }

        if metadata.size > self.limits.file {
            let size = metadata.size;
            let max_size = self.limits.file;
            return reject(format!(
                "it had {size} bytes, more than the {max_size} that are kept"
            ));
        }

        let inner = self.inner.clone();
        let (size, limits) = (metadata.size, self.limits);
        let refusal = blocking(move || inner.storage.refusal(session_bytes, size, &limits));
        if let Some(refusal) = refusal.await?.filter(|_| size > 0) {
            return reject(refusal);
        }

        let content = self.content(&file.path).await;
        let content = content.map_err(|error| error.context("its content could not be kept"))?;
        let Some(content) = content else {
            let max_size = self.limits.file;
            return reject(format!(
                "it grew to more than the {max_size} bytes that are kept while it was read"
            ));
        };
        let shared_content = content.clone();
        let hash = move || Fingerprint::of(&shared_content);
        let prior_state = PriorState::Stored {
            mode: metadata.mode,
            fingerprint: blocking_if_large(content.len(), hash).await?,
        };

        Ok((prior_state, content))
    }

    /// Returns the content of a file, in chunks if it is too large for one read of the backend.
    /// Returns `None` if the file has grown over the limit meanwhile.
    pub(super) async fn content(&self, path: &str) -> Result<Option<Bytes>> {
        match self.inner.backend.read(path).await {
            Ok(content) => {
                let is_within_limit = content.len() as u64 <= self.limits.file;
                Ok(is_within_limit.then_some(content))
            }
            Err(error) if io_kind(&error) == Some(io::ErrorKind::FileTooLarge) => {
                self.content_in_chunks(path).await
            }
            Err(error) => Err(error),
        }
    }

    async fn content_in_chunks(&self, path: &str) -> Result<Option<Bytes>> {
        let backend = &self.inner.backend;
        let mut content = Vec::new();
        loop {
            let offset = content.len() as u64;
            if offset > self.limits.file {
                return Ok(None);
            }
            let room = (self.limits.file - offset).saturating_add(1);
            let len = usize::try_from(room).map_or(CHUNK, |room| room.min(CHUNK));
            let chunk = backend.read_range(path, offset, len).await?;
            content.extend_from_slice(&chunk);
            if chunk.len() < len {
                return Ok(Some(content.into()));
            }
        }
    }

    /// Returns the fingerprint of a file's content with `more` appended to it. A file that is too
    /// large to be stored is not read to its end: its size and its modification time replace the
    /// rest of its content.
    pub(super) async fn fingerprint(&self, path: &str, more: &[u8]) -> Result<FileContent> {
        let max_size = self.limits.file.max(MIN_RECOGNIZED);
        let mut fingerprinter = Fingerprinter::default();
        let mut offset = 0;
        while offset <= max_size {
            let chunk = match self.inner.backend.read_range(path, offset, CHUNK).await {
                Ok(chunk) => chunk,
                Err(error) if is_not_found(&error) => return Ok(FileContent::Absent),
                Err(error) => return Err(error),
            };

            fingerprinter.push(&chunk);
            offset += chunk.len() as u64;
            if chunk.len() < CHUNK {
                fingerprinter.push(more);
                return Ok(FileContent::Is(fingerprinter.finish()));
            }
        }

        let metadata = self.inner.backend.stat(path).await?;
        let time = metadata
            .modified
            .and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let time = time.map_or_else(
            // Without a time, the fingerprint must differ from all others, because the content may
            // have changed.
            || RandomState::new().hash_one(()).into(),
            |time| time.as_nanos(),
        );
        fingerprinter.push_unread(metadata.size.saturating_sub(offset), &time.to_le_bytes());
        fingerprinter.push(more);
        Ok(FileContent::Is(fingerprinter.finish()))
    }

    /// Resolves the links in a path.
    pub(super) async fn resolve(&self, path: &str) -> Result<ResolvedPath> {
        let path = self.inner.backend.real_path(path).await?;
        let root = self.inner.backend.root().trim_end_matches('/');
        let relative = path.strip_prefix(root).unwrap_or(&path);
        let relative = relative.trim_start_matches('/').into();
        Ok(ResolvedPath {
            path,
            relative,
            is_link: false,
        })
    }
}
