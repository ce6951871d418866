//! What is known of a session's changes without their contents.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use super::record::{After, Before, Found, Record, Sum};

/// A session's changes, oldest first.
#[derive(Default)]
pub(super) struct Book {
    entries: Vec<Entry>,
    /// Where the next record goes.
    pub(super) end: u64,
    /// The files that are kept since the last message.
    kept: HashSet<Arc<str>>,
    /// How often the history became shorter: before that, places in it meant other messages.
    era: u32,
}

struct Entry {
    era: u32,
    record: Record,
    start: u64,
    content: u64,
    end: u64,
}

/// What was changed after a message.
#[derive(Default)]
pub(super) struct Changed {
    pub(super) title: Option<Arc<str>>,
    pub(super) files: Vec<Arc<str>>,
}

/// What a file is to become again.
pub(super) struct Target {
    pub(super) path: Arc<str>,
    pub(super) before: Before,
    /// Where the content is.
    pub(super) content: u64,
    pub(super) len: u64,
    /// What may be overwritten: what the session itself made of the file, or found there first.
    own: HashSet<Option<Sum>>,
    /// Somebody else changed the file in between.
    pub(super) was_foreign: bool,
}

impl Target {
    /// Whether nobody else made the file what it is; `None` is a file that is not there.
    pub(super) fn owns(&self, now: Option<Sum>) -> bool {
        !self.was_foreign && self.own.contains(&now)
    }
}

impl Book {
    pub(super) fn add(&mut self, found: Found) {
        let Found {
            record,
            start,
            content,
            end,
        } = found;
        if let Some(Entry { record: last, .. }) = self.entries.last()
            && (record.message, record.rewound) != (last.message, last.rewound)
        {
            self.kept.clear();
        }
        // A note that nothing was changed yet may stand behind the message that changes come after.
        let changed = |entry: &&Entry| !entry.record.path.is_empty();
        if let Some(Entry { record: last, .. }) = self.entries.iter().rev().find(changed) {
            self.era += u32::from(record.message < last.message);
        }
        if record.before.is_some() {
            self.kept.insert(record.path.clone());
        }
        self.end = end;
        self.entries.push(Entry {
            era: self.era,
            record,
            start,
            content,
            end,
        });
    }

    /// The last message after which something was changed.
    pub(super) fn last(&self) -> Option<usize> {
        self.entries.last().map(|entry| entry.record.message)
    }

    /// Whether what rewinding changed is the last that is known of.
    pub(super) fn is_rewound(&self) -> bool {
        self.entries
            .last()
            .is_some_and(|entry| entry.record.rewound)
    }

    /// Whether the file's state at `message`, or before it was rewound, is kept.
    pub(super) fn keeps(&self, message: usize, rewound: bool, path: &str) -> bool {
        self.last() == Some(message) && self.is_rewound() == rewound && self.kept.contains(path)
    }

    /// The entries of the history as it is, each with the last message that it came after.
    fn current(&self) -> impl Iterator<Item = (&Entry, usize)> {
        let mut said = usize::MAX;
        let mut current: Vec<_> = self
            .entries
            .iter()
            .rev()
            .take_while(|entry| entry.era == self.era)
            .map(|entry| {
                if !entry.record.rewound {
                    said = entry.record.message;
                    return (entry, said);
                }
                // After all that was said before the next message.
                let next = match said {
                    usize::MAX => said,
                    next => next.saturating_sub(1),
                };
                (entry, next)
            })
            .collect();
        current.reverse();
        current.into_iter()
    }

    /// Whether it is known already that the session made this of the file.
    pub(super) fn knows(&self, path: &str, after: After) -> bool {
        let mut of_file = self
            .entries
            .iter()
            .filter(|entry| *entry.record.path == *path);
        of_file.any(|entry| entry.record.after == after)
    }

    /// The messages after which something was changed.
    pub(super) fn messages(&self) -> BTreeMap<usize, Changed> {
        let mut messages = BTreeMap::<usize, Changed>::new();
        let current = self.current().map(|(entry, _)| &entry.record);
        for record in current.filter(|record| !record.rewound && !record.path.is_empty()) {
            let changed = messages.entry(record.message).or_default();
            if changed.title.is_none() {
                changed.title.clone_from(&record.title);
            }
            if !changed.files.contains(&record.path) {
                changed.files.push(record.path.clone());
            }
        }
        messages
    }

    /// What each file that was changed at or after `message` was before, by path.
    pub(super) fn targets(&self, message: usize) -> Vec<Target> {
        let mut targets = BTreeMap::<&str, Target>::new();
        // What each file was or was made by those before; others came from elsewhere.
        let mut own = HashMap::<&str, HashSet<Option<Sum>>>::new();
        let undone: HashSet<u64> = self
            .current()
            .filter(|(_, said)| *said >= message)
            .map(|(entry, _)| entry.start)
            .collect();
        for entry in self
            .entries
            .iter()
            .filter(|entry| !entry.record.path.is_empty())
        {
            let record = &entry.record;
            let path = &*record.path;
            let own = own.entry(path).or_default();
            let found = match &record.before {
                Some(Before::Absent) => Some(None),
                Some(Before::Kept { sum, .. }) => Some(Some(*sum)),
                Some(Before::NotKept(_)) | None => None,
            };
            if let Some(target) = targets.get_mut(path) {
                target.was_foreign |= found.is_some_and(|found| !own.contains(&found));
            }
            own.extend(found);
            own.insert(match record.after {
                After::Absent => None,
                After::Content(sum) => Some(sum),
            });
            if let (true, Some(before)) = (undone.contains(&entry.start), &record.before) {
                targets.entry(path).or_insert_with(|| Target {
                    path: record.path.clone(),
                    before: before.clone(),
                    content: entry.content,
                    len: record.len,
                    own: HashSet::new(),
                    was_foreign: false,
                });
            }
        }
        let owned = |mut target: Target| {
            target.own = own.remove(&*target.path).unwrap_or_default();
            // A file that is gone can be put back without a loss.
            target.own.insert(None);
            target
        };
        targets.into_values().map(owned).collect()
    }

    /// Where the records are that were written before `message` of the history as it is.
    pub(super) fn until(&self, message: usize) -> Vec<Range<u64>> {
        let earlier = self.entries.iter().filter(|entry| entry.era < self.era);
        let current = self.current().filter(|(_, said)| *said < message);
        let kept = earlier.chain(current.map(|(entry, _)| entry));
        kept.map(|entry| entry.start..entry.end).collect()
    }
}
