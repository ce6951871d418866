//! An index of a session's changes without their contents.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use crate::message::Messages;

use super::record::{After, Before, Found, Record, Sum};
use super::runs::At;

/// A session's changes, oldest first, as one of its workspaces sees them.
pub(super) struct Book {
    /// The root of that workspace.
    home: Arc<str>,
    entries: Vec<Entry>,
    /// The offset of the next record.
    pub(super) end: u64,
    /// The files here that are kept since the last message.
    kept: HashSet<Arc<str>>,
    /// The replacements of the history: for each, how many messages stayed unchanged; positions
    /// behind them referred to other messages before that.
    eras: Vec<usize>,
}

struct Entry {
    /// The number of replacements of the history before the entry.
    era: usize,
    /// Its root is that of another workspace, or none.
    record: Record,
    start: u64,
    content: u64,
    end: u64,
}

impl Entry {
    fn is_change(&self) -> bool {
        !self.record.path.is_empty()
    }

    fn file(&self) -> File<'_> {
        (self.record.root.as_deref(), &self.record.path)
    }
}

/// The root of another workspace, or none for this one, and the path beneath it.
type File<'a> = (Option<&'a str>, &'a str);

/// The changes made after a message.
#[derive(Default)]
pub(super) struct Changed {
    pub(super) title: Option<Arc<str>>,
    /// Each beneath the root of another workspace, or of this one.
    pub(super) files: Vec<(Option<Arc<str>>, Arc<str>)>,
}

/// The content to which a file is restored.
pub(super) struct Target {
    /// Of another workspace.
    pub(super) root: Option<Arc<str>>,
    pub(super) path: Arc<str>,
    pub(super) before: Before,
    /// The offset of the content.
    pub(super) content: u64,
    pub(super) len: u64,
    /// The contents that may be overwritten: those the session itself wrote, or the first one it
    /// replaced.
    own: HashSet<Option<Sum>>,
    /// The file was changed from outside in between.
    pub(super) was_foreign: bool,
}

impl Target {
    /// Returns `true` if the file has the session's own content; `None` is a file that does not
    /// exist.
    pub(super) fn owns(&self, now: Option<Sum>) -> bool {
        !self.was_foreign && self.own.contains(&now)
    }
}

impl Book {
    /// An empty index.
    pub(super) fn of(home: Arc<str>) -> Self {
        Self {
            home,
            entries: Vec::new(),
            end: 0,
            kept: HashSet::new(),
            eras: Vec::new(),
        }
    }

    /// Removes all records.
    #[cfg(unix)]
    pub(super) fn clear(&mut self) {
        *self = Self::of(self.home.clone());
    }

    pub(super) fn add(&mut self, found: Found) {
        let Found {
            mut record,
            start,
            content,
            end,
        } = found;
        record.root.take_if(|root| *root == self.home);
        if let Some(Entry { record: last, .. }) = self.entries.last()
            && (record.still.is_some()
                || (record.message, record.rewound) != (last.message, last.rewound))
        {
            self.kept.clear();
        }
        // A note that nothing was changed yet may stand behind the message that changes come after.
        let last = self.entries.iter().rfind(|entry| entry.is_change());
        let is_earlier = last.is_some_and(|last| record.message < last.record.message);
        let unchanged_count = record.still.or(is_earlier.then_some(0));
        self.eras.extend(unchanged_count);
        if record.before.is_some() && record.root.is_none() {
            self.kept.insert(record.path.clone());
        }
        self.end = end;
        self.entries.push(Entry {
            era: self.eras.len(),
            record,
            start,
            content,
            end,
        });
    }

    /// The last message with a change after it.
    pub(super) fn last(&self) -> Option<usize> {
        self.entries.last().map(|entry| entry.record.message)
    }

    /// The last message of the current history with a change by the session itself after it.
    pub(super) fn said(&self) -> Option<At> {
        let (message, change) = self.messages().pop_last()?;
        let title = change.title;
        Some(At { message, title })
    }

    /// The number of leading messages that still match the recorded ones; `None` when the last
    /// recorded one does.
    pub(super) fn still(&self, messages: &Messages) -> Option<usize> {
        let turns = self.messages().into_iter().rev();
        let mut turns = turns.map(|(message, changed)| At {
            message,
            title: changed.title,
        });
        if turns.next()?.is_in(messages) {
            return None;
        }
        let last = turns.find(|at| at.is_in(messages));
        Some(last.map_or(0, |at| at.message + 1))
    }

    /// Returns `true` if the last recorded change was made by rewinding.
    pub(super) fn is_rewound(&self) -> bool {
        self.entries
            .last()
            .is_some_and(|entry| entry.record.rewound)
    }

    /// Returns `true` if the file's state at `message`, or before it was rewound, is kept.
    pub(super) fn keeps(&self, message: usize, rewound: bool, path: &str) -> bool {
        self.last() == Some(message) && self.is_rewound() == rewound && self.kept.contains(path)
    }

    /// The entries of the current history, each with the last message before it.
    fn current(&self) -> impl Iterator<Item = (&Entry, usize)> {
        let mut message = usize::MAX;
        let (mut era, mut unchanged_count) = (self.eras.len(), usize::MAX);
        let mut current_entries: Vec<_> = self
            .entries
            .iter()
            .rev()
            .map_while(|entry| {
                let changes = &self.eras[entry.era..era];
                era = entry.era;
                unchanged_count = changes
                    .iter()
                    .fold(unchanged_count, |unchanged_count, one| {
                        unchanged_count.min(*one)
                    });
                Some((entry, unchanged_count.checked_sub(1)?))
            })
            .map(|(entry, last)| {
                if !entry.record.rewound {
                    // What came after a message that is not there any more stays changed.
                    message = entry.record.message.min(last);
                    return (entry, message);
                }
                // After all that was said before the next message.
                let next = match message {
                    usize::MAX => message,
                    next => next.saturating_sub(1),
                };
                (entry, next)
            })
            .collect();
        current_entries.reverse();
        current_entries.into_iter()
    }

    fn of_file(&self, path: &str) -> impl Iterator<Item = &Record> {
        let is_it = move |entry: &&Entry| entry.file() == (None, path);
        self.entries.iter().filter(is_it).map(|entry| &entry.record)
    }

    /// Returns `true` if it is already recorded that the session wrote this to the file.
    pub(super) fn knows(&self, path: &str, after: After) -> bool {
        self.of_file(path).any(|record| record.after == after)
    }

    /// Returns `true` if the session wrote this to the file, or has kept it.
    pub(super) fn owns(&self, path: &str, now: Option<Sum>) -> bool {
        self.of_file(path).any(|record| {
            let sum = record.before.as_ref().and_then(Before::found);
            record.after.sum() == now || sum == Some(now)
        })
    }

    /// The messages with changes after them.
    pub(super) fn messages(&self) -> BTreeMap<usize, Changed> {
        let mut messages = BTreeMap::<usize, Changed>::new();
        let current_entries = self
            .current()
            .filter(|(entry, said)| entry.record.message == *said);
        let records = current_entries.map(|(entry, _)| &entry.record);
        for record in records.filter(|record| !record.rewound && !record.path.is_empty()) {
            let change = messages.entry(record.message).or_default();
            if change.title.is_none() {
                change.title.clone_from(&record.title);
            }
            let file = (record.root.clone(), record.path.clone());
            if !change.files.contains(&file) {
                change.files.push(file);
            }
        }
        messages
    }

    /// The earlier state of each file that was changed at or after `message`, by path.
    pub(super) fn targets(&self, message: usize) -> Vec<Target> {
        let mut targets = BTreeMap::<File<'_>, Target>::new();
        // What each file was or was made by those before; others came from elsewhere.
        let mut own_sums = HashMap::<File<'_>, HashSet<Option<Sum>>>::new();
        let undone_starts: HashSet<u64> = self
            .current()
            .filter(|(_, said)| *said >= message)
            .map(|(entry, _)| entry.start)
            .collect();
        for entry in self.entries.iter().filter(|entry| entry.is_change()) {
            let record = &entry.record;
            let own_sums = own_sums.entry(entry.file()).or_default();
            let sum = record.before.as_ref().and_then(Before::found);
            // What rewinding found of others it only overwrote when it was told to.
            if let Some(target) = targets.get_mut(&entry.file())
                && !record.rewound
            {
                target.was_foreign |= sum.is_some_and(|sum| !own_sums.contains(&sum));
            }
            own_sums.extend(sum);
            own_sums.insert(record.after.sum());
            if let (true, Some(old_state)) = (undone_starts.contains(&entry.start), &record.before)
            {
                targets.entry(entry.file()).or_insert_with(|| Target {
                    root: record.root.clone(),
                    path: record.path.clone(),
                    before: old_state.clone(),
                    content: entry.content,
                    len: record.len,
                    own: HashSet::new(),
                    was_foreign: false,
                });
            }
        }
        let owned_targets = targets.into_iter().map(|(file, mut target)| {
            target.own = own_sums.remove(&file).unwrap_or_default();
            // A file that is gone can be put back without a loss.
            target.own.insert(None);
            target
        });
        owned_targets.collect()
    }

    /// The ranges of the records that were written before `message` of the current history.
    pub(super) fn until(&self, message: usize) -> Vec<Range<u64>> {
        let entries = self.current().filter(|(_, said)| *said < message);
        entries.map(|(entry, _)| entry.start..entry.end).collect()
    }
}
