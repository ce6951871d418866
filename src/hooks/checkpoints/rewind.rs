//! The rewinding of files.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;

use crate::backend::{Backend, ContentHash, EntryKind, Metadata, is_not_found};
use crate::error::{Error, ErrorKind, Result};

use super::book::Target;
use super::file_checkpoints::FileCheckpoints;
use super::keep::{Place, full};
use super::record::{After, Before, Sum};
use super::report::{FileAction, FileChange, Rewind, RewindMode, RewindOutcome};
use super::runs::At;

/// The mode of what there is nothing to hide of.
const READ_BY_ALL: u32 = 0o444;

/// The current state of a file.
struct Now {
    found: Option<Metadata>,
    sum: Option<Sum>,
    /// `None` if it is too large to be read.
    content: Option<Bytes>,
}

/// The target state of a file: a content and a mode, or nothing.
type Then = Option<(Vec<u8>, Option<u32>)>;

impl FileCheckpoints {
    /// Restores the files that a session changed since the message at this position of its history
    /// to what they were before that message. Doing so twice changes nothing more. In a session
    /// that has changed no file there is nothing to do.
    ///
    /// Each file is rewound on its own; one that cannot be rewound is reported, and does not keep
    /// the others from it. Rewinding is a change like any other and is kept as well: it is possible
    /// to rewind to a later message later, and `usize::MAX` undoes rewinding since the last
    /// message. The conversation stays as it is; [`Session::fork_at`](crate::Session::fork_at)
    /// takes it back.
    ///
    /// # Errors
    ///
    /// [`SessionBusy`](ErrorKind::SessionBusy) while this process runs the session; hold the
    /// session's lease to keep other processes from running it. [`Io`](ErrorKind::Io) when the
    /// folder of the checkpoints cannot be read, and [`Corrupt`](ErrorKind::Corrupt) when they are
    /// damaged.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, the files rewound so far stay rewound, and are not reported.
    /// Rewind to the same message again to finish.
    pub async fn rewind(&self, session: &str, message: usize, mode: RewindMode) -> Result<Rewind> {
        if mode != RewindMode::DryRun && self.inner.runs.is_busy(session) {
            let text = format!("session {session:?} has a run going on; rewind when it has ended");
            return Err(Error::new(ErrorKind::SessionBusy, text));
        }
        let plan = self.with_book(session, move |_, book| {
            Ok((book.targets(message), book.last()))
        });
        let (mut targets, last) = plan.await?;
        // What stands in the way of a file that comes back goes first.
        targets.sort_by_key(|target| target.before != Before::Absent);
        let turn = At {
            message: last.unwrap_or(message),
            title: None,
        };
        let session = Arc::<str>::from(session);
        let mut changes = Vec::new();
        for target in &targets {
            changes.extend(match &target.root {
                Some(root) => Some(elsewhere(root, target)),
                None => self.rewind_file(&session, &turn, target, mode).await,
            });
        }
        changes.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Rewind { changes })
    }

    /// Rewinds one file; returns `None` when it is already in the target state.
    async fn rewind_file(
        &self,
        session: &Arc<str>,
        at: &At,
        target: &Target,
        mode: RewindMode,
    ) -> Option<FileChange> {
        let mut change = FileChange {
            path: full(self.inner.backend.root(), &target.path),
            action: FileAction::Change,
            outcome: RewindOutcome::Planned,
            bytes_now: 0,
            bytes_then: target.len,
            lines_added: None,
            lines_removed: None,
        };
        match self
            .try_rewind(session, at, target, mode, &mut change)
            .await
        {
            Ok(true) => return None,
            Ok(false) => {}
            Err(error) => change.outcome = RewindOutcome::Failed(error.to_string()),
        }
        Some(change)
    }

    /// Tries to rewind one file; returns `true` if nothing was to be done.
    async fn try_rewind(
        &self,
        session: &Arc<str>,
        at: &At,
        target: &Target,
        mode: RewindMode,
        change: &mut FileChange,
    ) -> Result<bool> {
        if let Before::NotKept(reason) = &target.before {
            change.outcome = RewindOutcome::NotKept(reason.clone());
            return Ok(false);
        }
        let place = self.place(&target.path).await?;
        if place.name != target.path {
            return Err(Error::other("a symbolic link has taken its place"));
        }
        let _turn = self.turn(&place).await;
        let now = self.now(&place).await?;
        let target_state = match &target.before {
            Before::Kept { sum, mode } => Some((*sum, *mode)),
            Before::Absent | Before::NotKept(_) => None,
        };
        let is_same = now.sum == target_state.map(|(sum, _)| sum);
        let has_mode = match (target_state.and_then(|(_, mode)| mode), &now.found) {
            (Some(mode), Some(found)) => found.mode.is_none_or(|own| own == mode),
            _ => true,
        };
        if is_same && has_mode {
            return Ok(true);
        }
        let next_content: Then = match target_state {
            None => None,
            Some((sum, mode)) => Some((self.kept(session, target, sum).await?, mode)),
        };
        describe(change, &now, &next_content);
        if mode != RewindMode::Overwrite && !is_same && !target.owns(now.sum) {
            change.outcome = RewindOutcome::Conflict;
            return Ok(false);
        }
        if mode == RewindMode::DryRun {
            return Ok(false);
        }
        let is_closed = now.found.is_none() && is_closed(&next_content);
        let steps = [
            // It has no content until others cannot read it.
            is_closed.then(|| After::Content(Sum::of(b""))),
            Some(target_state.map_or(After::Absent, |(sum, _)| After::Content(sum))),
        ];
        for after in steps.into_iter().flatten() {
            self.keep(session, at.clone(), true, &place, after).await?;
        }
        self.put(&place, &now, next_content, is_same).await?;
        change.outcome = RewindOutcome::Done;
        Ok(false)
    }

    async fn now(&self, place: &Place) -> Result<Now> {
        let backend = &self.inner.backend;
        let metadata = match backend.stat(&place.path).await {
            Ok(metadata) if metadata.kind == EntryKind::File => metadata,
            Ok(metadata) => {
                let text = format!("a {} has taken its place", metadata.kind);
                return Err(Error::other(text));
            }
            Err(error) if is_not_found(&error) => {
                return Ok(Now {
                    found: None,
                    sum: None,
                    content: None,
                });
            }
            Err(error) => return Err(error),
        };
        if metadata.size > self.largest {
            return Ok(Now {
                found: Some(metadata),
                sum: self.sum(&place.path, &[]).await?,
                content: None,
            });
        }
        let content = self.content(&place.path).await?;
        Ok(Now {
            found: Some(metadata),
            sum: Some(Sum::of(&content)),
            content: Some(content),
        })
    }

    /// The content that was kept.
    async fn kept(&self, session: &Arc<str>, target: &Target, sum: Sum) -> Result<Vec<u8>> {
        let (id, offset, len) = (session.clone(), target.content, target.len);
        let content = self.with_book(session, move |inner, _| {
            inner.shelf.content(&id, offset, len)
        });
        let content = content.await?;
        match Sum::of(&content) == sum {
            true => Ok(content),
            false => Err(Error::new(
                ErrorKind::Corrupt,
                "what was kept of it is damaged",
            )),
        }
    }

    /// Writes the target state, so that at no time more users can read the content than before or
    /// after.
    async fn put(&self, place: &Place, now: &Now, then: Then, is_same: bool) -> Result<()> {
        let (backend, path) = (&self.inner.backend, &place.path);
        let is_closed = is_closed(&then);
        let Some((content, mode)) = then else {
            return backend.remove(path).await;
        };
        let mut expected = now.content.as_ref().map(|old| ContentHash::of(old));
        if now.found.is_none() && is_closed {
            backend.write(path, b"").await?;
            expected = Some(ContentHash::of(b""));
        }
        if !is_same {
            if let Some(mode) = mode.filter(|_| is_closed) {
                // Its owner must be able to write it.
                self.set_mode(path, |own| own & (mode | 0o700)).await?;
            }
            match expected {
                Some(old) => backend.write_if_unchanged(path, old, &content).await?,
                None => backend.write(path, &content).await?,
            }
        }
        match mode {
            Some(mode) => self.set_mode(path, |_| mode).await,
            None => Ok(()),
        }
    }

    /// Changes the mode of a file, where it has one.
    async fn set_mode(&self, path: &str, change: impl FnOnce(u32) -> u32) -> Result<()> {
        let backend = &self.inner.backend;
        let Some(current_mode) = backend.stat(path).await?.mode else {
            return Ok(());
        };
        match change(current_mode) {
            mode if mode == current_mode => Ok(()),
            mode => backend.set_mode(path, mode).await,
        }
    }
}

/// Returns `true` if the target is a file that is not readable for all users.
fn is_closed(then: &Then) -> bool {
    let mode = then.as_ref().and_then(|(_, mode)| *mode);
    mode.is_some_and(|mode| mode & READ_BY_ALL != READ_BY_ALL)
}

/// A file that is not examined.
fn elsewhere(root: &str, target: &Target) -> FileChange {
    let action = match target.before {
        Before::Absent => FileAction::Delete,
        Before::Kept { .. } | Before::NotKept(_) => FileAction::Change,
    };
    FileChange {
        path: full(root, &target.path),
        action,
        outcome: RewindOutcome::Elsewhere,
        bytes_now: 0,
        bytes_then: target.len,
        lines_added: None,
        lines_removed: None,
    }
}

fn describe(change: &mut FileChange, now: &Now, then: &Then) {
    change.action = match (&now.found, then) {
        (_, None) => FileAction::Delete,
        (None, Some(_)) => FileAction::Create,
        (Some(_), Some(_)) => FileAction::Change,
    };
    change.bytes_now = now.found.map_or(0, |found| found.size);
    let old = match (&now.found, &now.content) {
        (None, _) => Some(&[][..]),
        (Some(_), content) => content.as_deref(),
    };
    let new = then.as_ref().map_or(&[][..], |(content, _)| content);
    if let Some((added_count, removed_count)) = old.and_then(|old| lines(old, new)) {
        (change.lines_added, change.lines_removed) = (Some(added_count), Some(removed_count));
    }
}

/// The number of lines only in `new`, and of those only in `old`; `None` when one is not text.
fn lines(old: &[u8], new: &[u8]) -> Option<(usize, usize)> {
    let (old, new) = (
        std::str::from_utf8(old).ok()?,
        std::str::from_utf8(new).ok()?,
    );
    let mut count = HashMap::<&str, isize>::new();
    for line in new.split_inclusive('\n') {
        *count.entry(line).or_default() += 1;
    }
    for line in old.split_inclusive('\n') {
        *count.entry(line).or_default() -= 1;
    }
    let sum_with = |sign: isize| {
        count
            .values()
            .map(|count| (count * sign).max(0))
            .sum::<isize>()
    };
    Some((sum_with(1).unsigned_abs(), sum_with(-1).unsigned_abs()))
}
