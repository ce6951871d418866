//! The states of a file that a session may overwrite.

use std::collections::HashSet;

use super::record::{ChangeRecord, FileContent, PriorState};

/// The states of one file that are the session's own: those that it wrote or replaced, according to
/// its records so far. Other states are foreign.
#[derive(Default)]
pub(super) struct OwnStates {
    contents: HashSet<FileContent>,
    may_be_absent: bool,
}

impl OwnStates {
    pub(super) fn contains(&self, content: FileContent) -> bool {
        match content {
            FileContent::Absent => self.may_be_absent,
            FileContent::Is(_) => self.contents.contains(&content),
        }
    }

    /// Adds the states before and after a change, which is newer than all that were added.
    pub(super) fn add(&mut self, record: &ChangeRecord) {
        let prior_content = record.before.as_ref().and_then(PriorState::file_content);
        self.contents.extend(prior_content);
        self.contents.insert(record.after);
        self.may_be_absent = may_be_absent_after(self.may_be_absent, record);
    }
}

/// Returns `true` if the session may have left the file absent by these changes, oldest first.
pub(super) fn may_be_absent<'a>(records: impl Iterator<Item = &'a ChangeRecord>) -> bool {
    records.fold(false, may_be_absent_after)
}

/// Returns `true` if the session may have left the file absent by this change and those before it.
///
/// A change is recorded before it is made, and may fail or be interrupted: a file that was absent
/// before it may still be. An unfinished removal by a run may end after a rewind.
fn may_be_absent_after(was_absent: bool, record: &ChangeRecord) -> bool {
    match (&record.before, record.after) {
        (_, FileContent::Absent) | (Some(PriorState::Absent), _) => true,
        (Some(_), FileContent::Is(_)) if !record.rewound => false,
        _ => was_absent,
    }
}
