//! The capture of the current content before it changes.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::MutexGuard;

use crate::backend::{Backend, EntryKind, io_kind, is_not_found};
use crate::error::{ErrorKind, Result};
use crate::message::Messages;
use crate::util::blocking::blocking;
use crate::util::hash::fnv1a;
use crate::util::sync::lock;

use super::book::Book;
use super::file_checkpoints::{FileCheckpoints, Inner, Shared};
use super::record::{After, Before, Record, Sum, Summing};
use super::runs::{At, Live};

/// The size of the pieces in which a file is read to compare it with another.
const PIECE: usize = 1024 * 1024;

/// The number of sessions whose records are held in memory, not counting those in use.
const MOST_BOOKS: usize = 256;

/// A file by its own name.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// The path for the backend.
    pub(super) path: String,
    /// The path beneath the root.
    pub(super) name: Arc<str>,
    /// True if the link itself is meant.
    pub(super) is_link: bool,
}

/// A file beneath the root as the agent sees it.
pub(super) fn full(root: &str, name: &str) -> String {
    format!("{}/{name}", root.trim_end_matches('/'))
}

impl FileCheckpoints {
    /// Runs `work` on the index of a session, brought up to date.
    pub(super) async fn with_book<T: Send + 'static>(
        &self,
        session: &str,
        work: impl FnOnce(&Inner, &Book) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (inner, session) = (self.inner.clone(), Arc::<str>::from(session));
        blocking(move || {
            inner.on_book(&session, |inner, book| {
                inner.shelf.read(&session, book)?;
                work(inner, book)
            })
        })
        .await
    }

    pub(super) async fn turn(&self, place: &Place) -> MutexGuard<'_, ()> {
        let hash = fnv1a([place.name.as_bytes()]);
        let turns = &self.inner.turns;
        turns[(hash % turns.len() as u64) as usize].lock().await
    }

    /// Keeps the current content for each run that a change belongs to. When this returns `Ok`, the
    /// change may proceed.
    pub(super) async fn keep_for(
        &self,
        runs: &[Arc<Live>],
        place: &Place,
        after: After,
    ) -> Result<()> {
        for run in runs {
            self.keep(&run.session, run.at(), false, place, after)
                .await?;
        }
        Ok(())
    }

    pub(super) async fn keep(
        &self,
        session: &Arc<str>,
        at: At,
        rewound: bool,
        place: &Place,
        after: After,
    ) -> Result<()> {
        let (inner, id) = (self.inner.clone(), session.clone());
        let (message, name) = (at.message, place.name.clone());
        let lookup = blocking(move || {
            inner.on_book(&id, |inner, book| match inner.shelf.read(&id, book) {
                // It is put aside with the next record, which must not build on it.
                Err(error) if error.kind() == ErrorKind::Corrupt => Ok((false, false)),
                Err(error) => Err(error),
                Ok(()) => Ok((
                    book.keeps(message, rewound, &name),
                    book.knows(&name, after),
                )),
            })
        });
        let (is_kept, is_known) = lookup.await?;
        // What somebody else has made of it since is kept, too, and told from the session's own.
        let is_kept = is_kept && self.is_own(session, place).await?;
        if is_kept && is_known {
            return Ok(());
        }
        let (old_state, content) = match is_kept {
            true => (None, Vec::new()),
            false => {
                let (old_state, content) = self.look(place).await?;
                (Some(old_state), content)
            }
        };
        let (inner, id, path) = (self.inner.clone(), session.clone(), place.name.clone());
        blocking(move || {
            inner.on_book(&id, |inner, book| {
                let is_first = book.said().is_none_or(|said| said.message != at.message);
                let record = Record {
                    message: at.message,
                    title: at.title.filter(|_| is_first),
                    rewound,
                    still: None,
                    root: Some(inner.root.clone()),
                    path,
                    before: old_state,
                    after,
                    len: content.len() as u64,
                };
                // Without its latest names a file is taken for somebody else's, never lost.
                let is_durable = record.before.is_some();
                inner.shelf.write(&id, book, record, &content, is_durable)
            })
        })
        .await
    }

    /// Returns `true` if the session wrote the file's current content.
    async fn is_own(&self, session: &Arc<str>, place: &Place) -> Result<bool> {
        if place.is_link {
            return Ok(false);
        }
        let now = self.sum(&place.path, &[]).await?;
        let (inner, id, name) = (self.inner.clone(), session.clone(), place.name.clone());
        blocking(move || inner.on_book(&id, |_, book| Ok(book.owns(&name, now)))).await
    }

    /// Records an upcoming message, if this separates it from a rewind before it, or if the
    /// messages before it differ from the recorded ones.
    pub(super) async fn note_message(&self, run: &Live, messages: Messages) -> Result<()> {
        let (inner, id) = (self.inner.clone(), run.session.clone());
        blocking(move || {
            inner.on_book(&id, |inner, book| {
                inner.shelf.read(&id, book)?;
                let unchanged_count = book.still(&messages);
                if unchanged_count.is_none() && !book.is_rewound() {
                    return Ok(());
                }
                let record = Record {
                    message: messages.len(),
                    title: None,
                    rewound: false,
                    still: unchanged_count,
                    root: Some(inner.root.clone()),
                    path: "".into(),
                    before: None,
                    after: After::Absent,
                    len: 0,
                };
                inner.shelf.write(&id, book, record, &[], false)
            })
        })
        .await
    }

    /// Reads the current state, and the content if it can be kept.
    async fn look(&self, place: &Place) -> Result<(Before, Vec<u8>)> {
        let reject = |why: String| Ok((Before::NotKept(why), Vec::new()));
        if place.is_link {
            return reject("it was a symbolic link".to_owned());
        }
        let metadata = match self.inner.backend.stat(&place.path).await {
            Ok(metadata) => metadata,
            Err(error) if is_not_found(&error) => return Ok((Before::Absent, Vec::new())),
            Err(error) => return Err(error),
        };
        if metadata.kind != EntryKind::File {
            return reject(format!("it was a {}", metadata.kind));
        }
        if metadata.size > self.largest {
            let (size, max_size) = (metadata.size, self.largest);
            return reject(format!(
                "it had {size} bytes, more than the {max_size} that are kept"
            ));
        }
        let content = self.content(&place.path).await;
        let content = content.map_err(|error| error.context("its content could not be kept"))?;
        let old_state = Before::Kept {
            mode: metadata.mode,
            sum: Sum::of(&content),
        };
        Ok((old_state, content.into()))
    }

    /// The content of a file, also of one that the backend does not read at once.
    pub(super) async fn content(&self, path: &str) -> Result<Bytes> {
        let backend = &self.inner.backend;
        match backend.read(path).await {
            Err(error) if io_kind(&error) == Some(io::ErrorKind::FileTooLarge) => {}
            done => return done,
        }
        let mut content = Vec::new();
        loop {
            let offset = content.len() as u64;
            let piece = backend.read_range(path, offset, PIECE).await?;
            content.extend_from_slice(&piece);
            if piece.len() < PIECE {
                return Ok(content.into());
            }
        }
    }

    /// The sum of a file of any size, followed by `more`; `None` when there is no file.
    pub(super) async fn sum(&self, path: &str, more: &[u8]) -> Result<Option<Sum>> {
        let mut sum = Summing::default();
        let mut offset = 0;
        loop {
            let piece = match self.inner.backend.read_range(path, offset, PIECE).await {
                Ok(piece) => piece,
                Err(error) if is_not_found(&error) => return Ok(None),
                Err(error) => return Err(error),
            };
            sum.push(&piece);
            offset += piece.len() as u64;
            if piece.len() < PIECE {
                sum.push(more);
                return Ok(Some(sum.done()));
            }
        }
    }

    /// The file that a path means.
    pub(super) async fn place(&self, path: &str) -> Result<Place> {
        let path = self.inner.backend.real_path(path).await?;
        let root = self.inner.backend.root().trim_end_matches('/');
        let name = path.strip_prefix(root).unwrap_or(&path);
        let name = name.trim_start_matches('/').into();
        Ok(Place {
            path,
            name,
            is_link: false,
        })
    }
}

impl Inner {
    pub(super) fn book(&self, session: &Arc<str>) -> Shared {
        let mut books = lock(&self.books);
        if books.len() >= MOST_BOOKS && !books.contains_key(session) {
            // Those that nobody works on are read again when they are asked for.
            books.retain(|_, book| Arc::strong_count(book) > 1);
        }
        books.entry(session.clone()).or_default().clone()
    }

    /// Runs `work` on this process's index of a session.
    fn on_book<T>(
        &self,
        session: &Arc<str>,
        work: impl FnOnce(&Self, &mut Book) -> Result<T>,
    ) -> Result<T> {
        let shared = self.book(session);
        let mut slot = lock(&shared);
        let book = match &mut *slot {
            Some(book) => book,
            slot => slot.insert(self.shelf.open(session, self.root.clone())?),
        };
        work(self, book)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::MemoryBackend;

    #[tokio::test]
    async fn records_of_many_sessions_take_bounded_memory() {
        let files = FileCheckpoints::new(MemoryBackend::new());
        for n in 0..1_000 {
            files.checkpoints(&n.to_string()).await.unwrap();
            assert!(lock(&files.inner.books).len() <= MOST_BOOKS);
        }
    }
}
