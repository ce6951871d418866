//! An index of a session's changes without their contents.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::ops::Range;
use std::slice;
use std::sync::Arc;
#[cfg(unix)]
use std::time::SystemTime;

use crate::message::Messages;

use super::active_runs::Position;
use super::own_states::{OwnStates, may_be_absent};
#[cfg(unix)]
use super::record::Torn;
use super::record::{ChangeRecord, FileContent, Origin, PriorState, ReadRecord};

/// The maximum number of records of a session.
const MAX_RECORDS: usize = 100_000;
/// The maximum size of them in bytes, without the contents of files.
const MAX_RECORD_BYTES: u64 = 32 * 1024 * 1024;

/// A session's changes, oldest first, relative to one of its workspaces.
pub(super) struct SessionIndex {
    /// The root of that workspace.
    workspace: Arc<str>,
    entries: Vec<IndexEntry>,
    /// The bytes of the records, contents of files excepted.
    record_bytes: u64,
    /// The message of the last entry with a change.
    last_change: Option<usize>,
    /// The message of the last entry with a title, if the history still has it.
    last_title: Option<usize>,
    /// The offset of the next record.
    pub(super) end: u64,
    /// The text about a record after the last one, whose end is missing.
    pub(super) damage: Option<Arc<str>>,
    /// The end of the file after the last record, if that is the beginning of a record.
    #[cfg(unix)]
    pub(super) torn_end: Option<TornEnd>,
    /// The files of this workspace whose state was captured since the last message.
    captured: HashSet<Arc<str>>,
    /// The number of leading messages that stayed unchanged in each replacement of the history,
    /// oldest first. Earlier records that name later messages mean messages that were replaced.
    unchanged_prefixes: Vec<usize>,
}

/// The incomplete record at the end of a file, and the file's last change when it was read.
#[cfg(unix)]
pub(super) struct TornEnd {
    pub(super) torn: Torn,
    pub(super) modified: Option<SystemTime>,
}

struct IndexEntry {
    /// The number of replacements of the history before the entry.
    replacements: usize,
    /// The change. Its root is the root of another workspace, or `None`.
    record: ChangeRecord,
    start: u64,
    content_offset: u64,
    end: u64,
}

impl IndexEntry {
    fn is_change(&self) -> bool {
        !self.record.path.is_empty()
    }

    fn file(&self) -> FileKey<'_> {
        (self.record.root.as_deref(), &self.record.path)
    }
}

/// A file: the root of its workspace, or `None` for this one, and the path below the root.
type FileKey<'a> = (Option<&'a str>, &'a str);

/// The changes made after a message.
#[derive(Default)]
pub(super) struct MessageChanges {
    pub(super) title: Option<Arc<str>>,
    /// The files: the root of the workspace if it is another one, and the path below the root.
    pub(super) files: Vec<(Option<Arc<str>>, Arc<str>)>,
}

/// The content to which a file is restored.
pub(super) struct RewindTarget {
    /// The root of the file's workspace, if that is another workspace.
    pub(super) root: Option<Arc<str>>,
    pub(super) path: Arc<str>,
    pub(super) before: PriorState,
    pub(super) content_offset: u64,
    pub(super) len: u64,
    /// The states that may be overwritten.
    own_states: OwnStates,
    /// True if others changed the file in between, to another state than the target.
    pub(super) was_changed_outside: bool,
}

impl RewindTarget {
    /// Returns `true` if this content, or the absence of the file, is the session's own.
    pub(super) fn is_own_content(&self, content: FileContent) -> bool {
        !self.was_changed_outside && self.own_states.contains(content)
    }
}

impl SessionIndex {
    /// Creates an empty index.
    pub(super) fn new(workspace: Arc<str>) -> Self {
        Self {
            workspace,
            entries: Vec::new(),
            record_bytes: 0,
            last_change: None,
            last_title: None,
            end: 0,
            damage: None,
            #[cfg(unix)]
            torn_end: None,
            captured: HashSet::new(),
            unchanged_prefixes: Vec::new(),
        }
    }

    /// Removes all records.
    #[cfg(unix)]
    pub(super) fn clear(&mut self) {
        *self = Self::new(self.workspace.clone());
    }

    /// Adds a record that was read.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`check_room`](Self::check_room).
    pub(super) fn add(&mut self, read_record: ReadRecord) -> io::Result<()> {
        self.check_room(read_record.content_offset - read_record.start)?;
        self.push(read_record);
        Ok(())
    }

    /// Checks that a record of `len` bytes, its content excepted, may be added.
    ///
    /// # Errors
    ///
    /// Returns [`io::ErrorKind::FileTooLarge`], with the limit, if there is no room.
    pub(super) fn check_room(&self, len: u64) -> io::Result<()> {
        if self.entries.len() < MAX_RECORDS && self.record_bytes + len <= MAX_RECORD_BYTES {
            return Ok(());
        }
        let text = format!(
            "the checkpoints of a session have at most {MAX_RECORDS} records, of {MAX_RECORD_BYTES} \
             bytes together; remove them, or begin another session"
        );
        Err(io::Error::new(io::ErrorKind::FileTooLarge, text))
    }

    pub(super) fn push(&mut self, read_record: ReadRecord) {
        let ReadRecord {
            mut record,
            start,
            content_offset,
            end,
        } = read_record;
        record.root.take_if(|root| *root == self.workspace);
        if let Some(IndexEntry { record: last, .. }) = self.entries.last()
            && (record.unchanged_messages.is_some()
                || (record.message, record.rewound) != (last.message, last.rewound))
        {
            self.captured.clear();
        }

        // Records without a change are skipped, because they may name a later message than the
        // changes.
        let is_earlier = self.last_change.is_some_and(|last| record.message < last);
        if !record.path.is_empty() {
            self.last_change = Some(record.message);
        } else if let (Some(last), Some(count)) = (self.last_change, record.unchanged_messages) {
            // Changes after the removed messages count for the last message that is unchanged.
            self.last_change = Some(last.min(count.saturating_sub(1)));
        }
        let unchanged_count = record.unchanged_messages.or(is_earlier.then_some(0));
        self.unchanged_prefixes.extend(unchanged_count);
        if let Some(count) = unchanged_count {
            self.last_title.take_if(|message| *message >= count);
        }
        if record.title.is_some() {
            self.last_title = Some(record.message);
        }
        if record.before.is_some() && record.root.is_none() {
            self.captured.insert(record.path.clone());
        }

        self.end = end;
        self.record_bytes += content_offset - start;
        self.entries.push(IndexEntry {
            replacements: self.unchanged_prefixes.len(),
            record,
            start,
            content_offset,
            end,
        });
    }

    /// Returns the estimated memory of the index, in bytes.
    pub(super) fn memory(&self) -> usize {
        let texts = usize::try_from(self.record_bytes).unwrap_or(usize::MAX);
        texts.saturating_add(self.entries.capacity() * size_of::<IndexEntry>())
    }

    /// Returns the message of the last record, which may be a record without a change.
    pub(super) fn last_recorded_message(&self) -> Option<usize> {
        self.entries.last().map(|entry| entry.record.message)
    }

    /// Returns the number of replacements of the history so far.
    pub(super) fn replacement_count(&self) -> usize {
        self.unchanged_prefixes.len()
    }

    /// Returns the message of the last record with a change.
    pub(super) fn last_change(&self) -> Option<usize> {
        self.last_change
    }

    /// Returns the message of the last record with a title, if the history still has it.
    pub(super) fn last_title(&self) -> Option<usize> {
        self.last_title
    }

    /// Returns the number of leading messages that are still the recorded ones; `None` if the last
    /// recorded message is unchanged.
    pub(super) fn unchanged_prefix(&self, messages: &Messages) -> Option<usize> {
        let changes = self.messages().into_iter().rev();
        let mut positions = changes.map(|(message, changes)| Position {
            message,
            title: changes.title,
        });
        if positions.next()?.matches(messages) {
            return None;
        }
        let last = positions.find(|position| position.matches(messages));
        Some(last.map_or(0, |position| position.message + 1))
    }

    /// Returns `true` if the last recorded change was made by rewinding.
    pub(super) fn is_rewound(&self) -> bool {
        self.entries
            .last()
            .is_some_and(|entry| entry.record.rewound)
    }

    /// Returns `true` if the state of a file before its first change after `message`, by a run or
    /// by a rewind, is stored.
    pub(super) fn is_captured(&self, message: usize, origin: Origin, path: &str) -> bool {
        self.last_recorded_message() == Some(message)
            && self.is_rewound() == (origin == Origin::Rewind)
            && self.captured.contains(path)
    }

    /// Returns the entries of the current history, each with the last message before it.
    fn current_entries(&self) -> impl Iterator<Item = (&IndexEntry, usize)> {
        let mut current_entries: Vec<_> = self.newest_entries().collect();
        current_entries.reverse();
        current_entries.into_iter()
    }

    /// Returns the entries of the current history, the newest first.
    fn newest_entries(&self) -> NewestEntries<'_> {
        NewestEntries {
            entries: self.entries.iter(),
            unchanged_prefixes: &self.unchanged_prefixes,
            unchanged_count: usize::MAX,
            next_message: None,
        }
    }

    fn of_file(&self, path: &str) -> impl Iterator<Item = &ChangeRecord> {
        let is_of_file = move |entry: &&IndexEntry| entry.file() == (None, path);
        let entries = self.entries.iter().filter(is_of_file);
        entries.map(|entry| &entry.record)
    }

    /// Returns `true` if a record states that the session wrote this content to the file. An
    /// earlier removal does not count for a file that the session has written since.
    pub(super) fn has_write(&self, path: &str, after: FileContent) -> bool {
        self.of_file(path).any(|record| record.after == after)
            && (after != FileContent::Absent || may_be_absent(self.of_file(path)))
    }

    /// Returns `true` if the session wrote this content to the file, or found it there.
    pub(super) fn wrote(&self, path: &str, content: FileContent) -> bool {
        if content == FileContent::Absent {
            return may_be_absent(self.of_file(path));
        }
        self.of_file(path).any(|record| {
            let prior_content = record.before.as_ref().and_then(PriorState::file_content);
            record.after == content || prior_content == Some(content)
        })
    }

    /// Returns the messages with changes after them.
    pub(super) fn messages(&self) -> BTreeMap<usize, MessageChanges> {
        let mut messages = BTreeMap::<usize, MessageChanges>::new();
        let mut files = HashSet::new();
        let current_entries = self
            .current_entries()
            .filter(|(entry, position)| entry.record.message == *position);
        let records = current_entries.map(|(entry, _)| &entry.record);
        for record in records.filter(|record| !record.rewound && !record.path.is_empty()) {
            let change = messages.entry(record.message).or_default();
            if change.title.is_none() {
                change.title.clone_from(&record.title);
            }

            if files.insert((record.message, &record.root, &record.path)) {
                change
                    .files
                    .push((record.root.clone(), record.path.clone()));
            }
        }

        messages
    }

    /// Returns the earlier state of each file that was changed at or after `message`, by path.
    pub(super) fn targets(&self, message: usize) -> Vec<RewindTarget> {
        let undone_starts: HashSet<u64> = self
            .current_entries()
            .filter(|(_, position)| *position >= message)
            .map(|(entry, _)| entry.start)
            .collect();
        let mut targets = TargetFold::default();
        for entry in self.entries.iter().filter(|entry| entry.is_change()) {
            targets.add(entry);
            if undone_starts.contains(&entry.start) {
                targets.undo(entry);
            }
        }

        targets.finish()
    }

    /// Returns the ranges of the records that were written before `message` of the current history.
    pub(super) fn ranges_before(&self, message: usize) -> Vec<Range<u64>> {
        self.current_entries()
            .filter(|(_, position)| *position < message)
            .map(|(entry, _)| entry.start..entry.end)
            .collect()
    }
}

/// The entries of the current history, the newest first, each with the last message before it.
struct NewestEntries<'a> {
    /// The entries that were not returned yet.
    entries: slice::Iter<'a, IndexEntry>,
    /// The replacements of the history that were not counted yet.
    unchanged_prefixes: &'a [usize],
    /// The number of messages that stayed unchanged in all replacements after the last entry.
    unchanged_count: usize,
    /// The message of the last entry that is not a rewind.
    next_message: Option<usize>,
}

impl<'a> Iterator for NewestEntries<'a> {
    type Item = (&'a IndexEntry, usize);

    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.entries.next_back()?;
        let (earlier, later) = self.unchanged_prefixes.split_at(entry.replacements);
        self.unchanged_prefixes = earlier;
        self.unchanged_count = later.iter().copied().fold(self.unchanged_count, usize::min);
        let last_unchanged = self.unchanged_count.checked_sub(1)?;
        if entry.record.rewound {
            // A rewind comes after everything else before the next message.
            let next = self.next_message;
            let message = next.map_or(usize::MAX, |next| next.saturating_sub(1));
            return Some((entry, message));
        }

        // Changes after a message that was removed from the history count for the last message
        // that remains.
        let message = entry.record.message.min(last_unchanged);
        self.next_message = Some(message);
        Some((entry, message))
    }
}

/// The targets of a rewind, collected from the changes of all files, oldest first.
#[derive(Default)]
struct TargetFold<'a> {
    targets: BTreeMap<FileKey<'a>, RewindTarget>,
    /// The states that each file had, or got from this session, up to the last change.
    own_states: HashMap<FileKey<'a>, OwnStates>,
}

impl<'a> TargetFold<'a> {
    /// Adds the states of a change. A foreign state before it marks the target of its file.
    fn add(&mut self, entry: &'a IndexEntry) {
        let record = &entry.record;
        let own_states = self.own_states.entry(entry.file()).or_default();
        let prior_content = record.before.as_ref().and_then(PriorState::file_content);

        // A rewind overwrites foreign content only if the caller requested it.
        if let Some(target) = self.targets.get_mut(&entry.file())
            && !record.rewound
            && let Some(content) = prior_content
        {
            // Nothing is lost where others made the state of the target.
            let is_target = target.before.file_content() == Some(content);
            target.was_changed_outside |= !is_target && !own_states.contains(content);
        }

        own_states.add(record);
    }

    /// Makes the state before this change the target of its file, unless the file has one.
    fn undo(&mut self, entry: &'a IndexEntry) {
        let record = &entry.record;
        let Some(prior_state) = &record.before else {
            return;
        };
        self.targets
            .entry(entry.file())
            .or_insert_with(|| RewindTarget {
                root: record.root.clone(),
                path: record.path.clone(),
                before: prior_state.clone(),
                content_offset: entry.content_offset,
                len: record.len,
                own_states: OwnStates::default(),
                was_changed_outside: false,
            });
    }

    /// Returns the targets by path, each with the states of its file.
    fn finish(mut self) -> Vec<RewindTarget> {
        let targets = self.targets.into_iter().map(|(file, mut target)| {
            target.own_states = self.own_states.remove(&file).unwrap_or_default();
            target
        });
        targets.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hooks::checkpoints::cached_index::MAX_INDEX_BYTES;

    fn read_record(start: u64, end: u64) -> ReadRecord {
        ReadRecord {
            record: ChangeRecord {
                message: 1,
                title: None,
                rewound: false,
                unchanged_messages: None,
                root: None,
                path: "a".into(),
                before: None,
                after: FileContent::Absent,
                len: 0,
            },
            start,
            content_offset: end,
            end,
        }
    }

    #[test]
    fn records_are_limited_in_number_and_bytes() {
        let mut index = SessionIndex::new("/w".into());
        for number in 0..MAX_RECORDS as u64 {
            index.add(read_record(number, number + 1)).unwrap();
        }
        let error = index.add(read_record(0, 1)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert!(error.to_string().contains("at most 100000 records"));
        assert!(index.memory() + MAX_RECORD_BYTES as usize <= MAX_INDEX_BYTES);

        let mut index = SessionIndex::new("/w".into());
        index.add(read_record(0, MAX_RECORD_BYTES)).unwrap();
        assert!(index.add(read_record(0, 1)).is_err());
        assert_eq!(index.last_recorded_message(), Some(1));
    }
}
