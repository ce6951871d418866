//! The rewinding of files.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;

use crate::backend::{Backend, ContentHash, EntryKind, Metadata, is_not_found};
use crate::error::{Error, ErrorKind, Result};
use crate::util::blocking::{blocking, blocking_if_large};

use super::active_runs::{Maker, Position};
use super::capture::{PendingChange, ResolvedPath, join_root};
use super::file_checkpoints::FileCheckpoints;
use super::index::RewindTarget;
use super::record::{FileContent, Fingerprint, PriorState};
use super::report::{FileAction, FileChange, Rewind, RewindMode, RewindOutcome};

/// The mode bits of a file that all users may read.
const WORLD_READABLE: u32 = 0o444;

/// The maximum size of a content whose lines are counted, in bytes: each line takes memory.
const MAX_COUNTED: usize = 1024 * 1024;

/// The current state of a file.
struct CurrentState {
    metadata: Option<Metadata>,
    file_content: FileContent,
    /// `None` if it is too large to be read, or there is none.
    hash: Option<ContentHash>,
    /// `None` if its lines are not counted.
    counted: Option<Bytes>,
}

/// The target state of a file: a content and a mode, or `None` for no file.
type TargetState = Option<(Bytes, Option<u32>)>;

/// The outcome of rewinding one file.
enum TargetOutcome {
    /// The file is in its target state already.
    Unchanged,
    Change(RewindOutcome),
}

impl FileCheckpoints {
    /// Restores the files that a session has changed since the message at position `message` of its
    /// history to their state before that message. Rewinding twice to the same message has no
    /// further effect, and a session that has changed no file has nothing to rewind.
    ///
    /// Each file is rewound on its own. A file that cannot be rewound is reported, and the other
    /// files are rewound. Rewinding is recorded like any other change, so you can rewind to a later
    /// message afterwards; `usize::MAX` undoes all rewinding since the last message. The
    /// conversation stays as it is; use [`Session::fork_at`](crate::Session::fork_at) to go back in
    /// it.
    ///
    /// A write that was in progress when its run was stopped may end after the run, and after a
    /// rewind directly behind it (see [`Backend`]). Rewind to the same message again then.
    ///
    /// # Errors
    ///
    /// Returns [`SessionBusy`](ErrorKind::SessionBusy) while this process runs the session, unless
    /// `mode` is [`DryRun`](RewindMode::DryRun); take the session's lease to prevent other
    /// processes from running it. Returns [`Io`](ErrorKind::Io) if the folder of the checkpoints
    /// cannot be read, [`Corrupt`](ErrorKind::Corrupt) if they are damaged, and
    /// [`InvalidRequest`](ErrorKind::InvalidRequest) if the id is empty or too long for a file
    /// name.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, the files rewound so far stay rewound, and are not reported.
    /// Rewind to the same message again to finish.
    pub async fn rewind(&self, session: &str, message: usize, mode: RewindMode) -> Result<Rewind> {
        if mode != RewindMode::DryRun && self.inner.runs.is_busy(session) {
            let text =
                format!("session {session:?} has a run in progress; rewind after it has ended");
            return Err(Error::new(ErrorKind::SessionBusy, text));
        }

        let plan = self.with_index(session, move |_, index| {
            let last = index.last_recorded_message();
            Ok((index.targets(message), last, index.damage.clone()))
        });

        let (mut targets, last, damage) = plan.await?;

        // Files to remove come first, because one may be in the way of a file that is restored.
        targets.sort_by_key(|target| target.before != PriorState::Absent);
        let position = Position {
            message: last.unwrap_or(message),
            title: None,
        };

        let session = Arc::<str>::from(session);
        let mut changes = Vec::new();
        for target in &targets {
            changes.extend(match &target.root {
                Some(root) => Some(other_workspace(root, target)),
                None => self.rewind_file(&session, &position, target, mode).await,
            });
        }

        changes.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Rewind { changes, damage })
    }

    /// Rewinds one file. Returns `None` if it is already in its target state.
    async fn rewind_file(
        &self,
        session: &Arc<str>,
        position: &Position,
        target: &RewindTarget,
        mode: RewindMode,
    ) -> Option<FileChange> {
        let mut change = FileChange {
            path: join_root(self.inner.backend.root(), &target.path),
            action: FileAction::Change,
            outcome: RewindOutcome::Planned,
            bytes_now: 0,
            bytes_then: target.len,
            lines_added: None,
            lines_removed: None,
        };

        let outcome = self
            .try_rewind(session, position, target, mode, &mut change)
            .await;
        change.outcome = match outcome {
            Ok(TargetOutcome::Unchanged) => return None,
            Ok(TargetOutcome::Change(outcome)) => outcome,
            Err(error) => RewindOutcome::Failed(error.to_string()),
        };

        Some(change)
    }

    /// Tries to rewind one file, and describes the change as far as it is known.
    async fn try_rewind(
        &self,
        session: &Arc<str>,
        position: &Position,
        target: &RewindTarget,
        mode: RewindMode,
        change: &mut FileChange,
    ) -> Result<TargetOutcome> {
        if let PriorState::NotStored(reason) = &target.before {
            return Ok(TargetOutcome::Change(RewindOutcome::NotKept(
                reason.clone(),
            )));
        }

        let file = self.resolve(&target.path).await?;
        if file.relative != target.path {
            return Err(Error::other("a symbolic link has taken its place"));
        }

        let _rewind_lock = self.inner.rewinding.lock().await;
        let _path_lock = self.lock_path(&file).await;
        let current = self.read_current(&file).await?;
        let target_content = target.before.file_content().unwrap_or(FileContent::Absent);
        let has_target_content = current.file_content == target_content;
        if has_target_content && has_target_mode(target, &current) {
            return Ok(TargetOutcome::Unchanged);
        }

        let target_state = self.read_target(session, target).await?;
        describe(change, &current, &target_state).await?;
        let may_overwrite = mode == RewindMode::Overwrite
            || has_target_content
            || target.is_own_content(current.file_content);
        if !may_overwrite {
            return Ok(TargetOutcome::Change(RewindOutcome::Conflict));
        }

        if mode == RewindMode::DryRun {
            return Ok(TargetOutcome::Change(RewindOutcome::Planned));
        }

        let is_new_private_file = current.metadata.is_none() && is_private(&target_state);
        let contents_to_write = [
            // `restore` creates a private file empty, and writes the content after the mode.
            is_new_private_file.then(|| FileContent::of(b"")),
            Some(target_content),
        ];
        for after in contents_to_write.into_iter().flatten() {
            self.capture(PendingChange {
                session,
                maker: Maker::Rewind(position.clone()),
                file: &file,
                after,
            })
            .await?;
        }

        self.restore(&file, &current, target_state, has_target_content)
            .await?;
        Ok(TargetOutcome::Change(RewindOutcome::Done))
    }

    async fn read_current(&self, file: &ResolvedPath) -> Result<CurrentState> {
        let backend = &self.inner.backend;
        let metadata = match backend.stat(&file.path).await {
            Ok(metadata) if metadata.kind == EntryKind::File => metadata,
            Ok(metadata) => {
                let text = format!("a {} has taken its place", metadata.kind);
                return Err(Error::other(text));
            }
            Err(error) if is_not_found(&error) => {
                return Ok(CurrentState {
                    metadata: None,
                    file_content: FileContent::Absent,
                    hash: None,
                    counted: Some(Bytes::new()),
                });
            }
            Err(error) => return Err(error),
        };

        let content = if metadata.size > self.limits.file {
            None
        } else {
            self.content(&file.path).await?
        };
        let Some(content) = content else {
            return Ok(CurrentState {
                metadata: Some(metadata),
                file_content: self.fingerprint(&file.path, &[]).await?,
                hash: None,
                counted: None,
            });
        };

        let hashed = content.clone();
        let hash = move || (FileContent::of(&hashed), ContentHash::of(&hashed));
        let (file_content, hash) = blocking_if_large(content.len(), hash).await?;
        Ok(CurrentState {
            metadata: Some(metadata),
            file_content,
            hash: Some(hash),
            counted: (content.len() <= MAX_COUNTED).then_some(content),
        })
    }

    async fn read_target(&self, session: &Arc<str>, target: &RewindTarget) -> Result<TargetState> {
        match &target.before {
            PriorState::Stored { mode, fingerprint } => {
                let content = self.stored_content(session, target, *fingerprint).await?;
                Ok(Some((content.into(), *mode)))
            }
            PriorState::Absent | PriorState::NotStored(_) => Ok(None),
        }
    }

    /// Reads the stored content of a file, and checks it.
    async fn stored_content(
        &self,
        session: &Arc<str>,
        target: &RewindTarget,
        fingerprint: Fingerprint,
    ) -> Result<Vec<u8>> {
        let id = session.clone();
        let offset = target.content_offset;
        let len = target.len;
        self.with_index(session, move |inner, _| {
            let content = inner.storage.content(&id, offset, len)?;
            if Fingerprint::of(&content) == fingerprint {
                return Ok(content);
            }
            let text = "its stored content is damaged";
            Err(Error::new(ErrorKind::Corrupt, text))
        })
        .await
    }

    /// Writes the target state, so that at no time more users can read the content than before or
    /// after.
    async fn restore(
        &self,
        file: &ResolvedPath,
        current: &CurrentState,
        target_state: TargetState,
        has_target_content: bool,
    ) -> Result<()> {
        let backend = &self.inner.backend;
        let path = &file.path;
        let is_private = is_private(&target_state);
        let Some((content, mode)) = target_state else {
            return backend.remove(path).await;
        };

        let mut expected = current.hash;
        if current.metadata.is_none() && is_private {
            backend.write(path, b"").await?;
            expected = Some(ContentHash::of(b""));
        }

        if !has_target_content {
            if let Some(mode) = mode.filter(|_| is_private) {
                // The owner needs write access for the next step.
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

/// Returns `true` if a file has the mode of its target state, as far as both are known.
fn has_target_mode(target: &RewindTarget, current: &CurrentState) -> bool {
    match (&target.before, &current.metadata) {
        (
            PriorState::Stored {
                mode: Some(mode), ..
            },
            Some(metadata),
        ) => metadata.mode.is_none_or(|own| own == *mode),
        _ => true,
    }
}

/// Returns `true` if the target is a file that is not readable for all users.
fn is_private(target_state: &TargetState) -> bool {
    let mode = target_state.as_ref().and_then(|(_, mode)| *mode);
    mode.is_some_and(|mode| mode & WORLD_READABLE != WORLD_READABLE)
}

/// Returns the change of a file of another workspace, which is not examined.
fn other_workspace(root: &str, target: &RewindTarget) -> FileChange {
    let action = match target.before {
        PriorState::Absent => FileAction::Delete,
        PriorState::Stored { .. } | PriorState::NotStored(_) => FileAction::Change,
    };

    FileChange {
        path: join_root(root, &target.path),
        action,
        outcome: RewindOutcome::Elsewhere,
        bytes_now: 0,
        bytes_then: target.len,
        lines_added: None,
        lines_removed: None,
    }
}

async fn describe(
    change: &mut FileChange,
    current: &CurrentState,
    target_state: &TargetState,
) -> Result<()> {
    change.action = match (&current.metadata, target_state) {
        (_, None) => FileAction::Delete,
        (None, Some(_)) => FileAction::Create,
        (Some(_), Some(_)) => FileAction::Change,
    };

    change.bytes_now = current.metadata.map_or(0, |metadata| metadata.size);
    let new = target_state
        .as_ref()
        .map(|(content, _)| content.clone())
        .unwrap_or_default();
    if let Some(old) = current.counted.clone()
        && new.len() <= MAX_COUNTED
    {
        let counts = blocking(move || Ok(lines(&old, &new))).await?;
        (change.lines_added, change.lines_removed) = counts.unzip();
    }
    Ok(())
}

/// Returns the number of lines only in `new`, and of those only in `old`; `None` when one is not
/// text.
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
