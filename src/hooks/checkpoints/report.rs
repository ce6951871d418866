//! The checkpoints of a session, and the outcome of rewinding to one.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use crate::util::path::quote_path;

/// A message after which files were changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Checkpoint {
    /// The position of the message in the session's history, from 0.
    pub message: usize,
    /// The beginning of the message.
    pub title: Option<Arc<str>>,
    /// The files that were changed after it and before the next one.
    pub files: Vec<String>,
}

/// The treatment of files that were changed from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RewindMode {
    /// No file is changed. The report lists the changes that would be made.
    DryRun,
    /// Files with changes or removals from outside, which a rewind would undo, are left unchanged
    /// and reported.
    SkipChanged,
    /// Files with changes from outside are rewound as well, and these changes are lost.
    Overwrite,
}

/// The changes that rewinding made, or would make, to files that differ.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
#[non_exhaustive]
pub struct Rewind {
    /// The changes, in the order of the paths.
    pub changes: Vec<FileChange>,
    /// A warning if the last record of the checkpoints is incomplete. It names the file of the
    /// checkpoints. The change of that record is not undone; after a crash it may not have been
    /// made. The warning is not serialized.
    #[serde(skip)]
    pub damage: Option<Arc<str>>,
}

impl Rewind {
    /// Returns `true` if all recorded changes are undone. Returns `false` if there are changes of
    /// files of other workspaces, or if a record is incomplete: [`damage`](Self::damage) is set
    /// until the next run puts that record aside.
    pub fn is_complete(&self) -> bool {
        let mut changes = self.changes.iter();
        self.damage.is_none() && changes.all(|change| change.outcome == RewindOutcome::Done)
    }
}

/// The change that rewinding makes to a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FileChange {
    /// The file, as the agent names it.
    pub path: String,
    /// The action on the file.
    pub action: FileAction,
    /// The outcome.
    pub outcome: RewindOutcome,
    /// The size before rewinding, in bytes; 0 if it was not read.
    pub bytes_now: u64,
    /// The size after rewinding, in bytes.
    pub bytes_then: u64,
    /// The number of lines that rewinding adds, if the file is text of at most 1 MiB before and
    /// after.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lines_added: Option<usize>,
    /// The number of lines that rewinding removes, if the file is text of at most 1 MiB before and
    /// after.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lines_removed: Option<usize>,
}

/// The action on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FileAction {
    /// The file was removed, and is created again.
    Create,
    /// The content or the mode of the file is restored.
    Change,
    /// The file was created, and is removed.
    Delete,
}

impl FileAction {
    /// Returns `create`, `change` or `delete`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Change => "change",
            Self::Delete => "delete",
        }
    }
}

/// The outcome of rewinding a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RewindOutcome {
    /// The file would be rewound: this is a dry run.
    Planned,
    /// The file was rewound.
    Done,
    /// The file was not rewound, because it was changed or removed from outside.
    Conflict,
    /// The file was not rewound, because it belongs to another workspace of the session.
    Elsewhere,
    /// The file cannot be rewound, because its earlier state was not stored, for this reason.
    NotKept(String),
    /// Rewinding the file failed, for this reason.
    Failed(String),
}

impl fmt::Display for Rewind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.changes
            .iter()
            .try_for_each(|change| writeln!(f, "{change}"))?;
        match &self.damage {
            Some(damage) => writeln!(f, "{damage}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for FileChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.action.as_str(), quote_path(&self.path))?;
        if self.outcome == RewindOutcome::Elsewhere {
            return f.write_str(": not of this workspace");
        }

        match (self.lines_added, self.lines_removed) {
            (Some(added), Some(removed)) => write!(f, " (+{added} -{removed} lines)")?,
            _ => write!(f, " ({} to {} bytes)", self.bytes_now, self.bytes_then)?,
        }

        match &self.outcome {
            RewindOutcome::Planned | RewindOutcome::Done | RewindOutcome::Elsewhere => Ok(()),
            RewindOutcome::Conflict => f.write_str(": another program has changed it"),
            RewindOutcome::NotKept(why) => write!(f, ": cannot be undone, {why}"),
            RewindOutcome::Failed(why) => write!(f, ": failed, {why}"),
        }
    }
}
