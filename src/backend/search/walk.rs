//! The order in which a tree is searched, and the entries omitted from the search.

use std::cmp::Reverse;

use ignore::Match;
use ignore::overrides::Override;
use ignore::types::Types;

use crate::util::Cancellation;

use super::super::entry::{DirEntry, EntryKind};
use super::rules::{Rules, absolute};

/// The maximum number of entries of a walk.
const MAX_ENTRIES: usize = 2_000_000;
/// The maximum depth of folders; deeper ones are not entered.
const MAX_DEPTH: usize = 512;
/// The maximum weight of the lines of all ignore files that apply in a folder: its own files and
/// its parents' files. A folder with more is not entered.
const MAX_WEIGHT: usize = 48 * 1024;
/// The maximum memory of the entries of all open folders, in bytes. A folder with more is not
/// entered, unless it is the first, whose entries are in memory already.
const MAX_OPEN_BYTES: usize = 64 * 1024 * 1024;

/// A walk through a tree of files, sorted by the bytes of their paths.
#[derive(Debug)]
pub(super) struct Walk {
    parent_rules: Vec<Rules>,
    folders: Vec<Folder>,
    filter: Filter,
    cancellation: Cancellation,
    visited: usize,
    truncated: bool,
}

/// The filter for files of a walk.
#[derive(Debug)]
pub(super) struct Filter {
    pub(super) hidden: bool,
    pub(super) overrides: Override,
    pub(super) types: Types,
}

#[derive(Debug)]
struct Folder {
    path: String,
    rules: Rules,
    /// The entries in reverse, so that the next one is the last.
    entries: Vec<DirEntry>,
    /// The memory of the entries when the folder was entered, in bytes.
    bytes: usize,
}

pub(super) enum WalkStep {
    /// The folder's entries are needed: [`Walk::enter`] it, or do not.
    Folder(String),
    File(String),
}

impl Walk {
    /// Creates a walk that ends, truncated, when `cancellation` is cancelled.
    pub(super) fn new(filter: Filter, cancellation: Cancellation) -> Self {
        Self {
            parent_rules: Vec::new(),
            folders: Vec::new(),
            filter,
            cancellation,
            visited: 0,
            truncated: false,
        }
    }

    pub(super) fn cancellation(&self) -> &Cancellation {
        &self.cancellation
    }

    /// Adds the rules of a folder above the first one entered; the outermost is first.
    pub(super) fn add_parent_rules(&mut self, rules: Rules) {
        self.parent_rules.push(rules);
    }

    pub(super) fn enter(&mut self, path: String, mut entries: Vec<DirEntry>, rules: Rules) {
        let folder_rules = self.folders.iter().map(|folder| &folder.rules);
        let in_force = self
            .parent_rules
            .iter()
            .chain(folder_rules)
            .map(Rules::weight);
        if in_force.sum::<usize>() + rules.weight() > MAX_WEIGHT {
            self.truncated = true;
            return;
        }

        let open_bytes: usize = self.folders.iter().map(|folder| folder.bytes).sum();
        let bytes = entries.iter().map(entry_bytes).sum();
        let is_inner = !self.folders.is_empty();
        if is_inner && open_bytes.saturating_add(bytes) > MAX_OPEN_BYTES {
            self.truncated = true;
            return;
        }

        // Paths of a folder's files start with its name and a slash; the order includes the slash.
        entries.sort_by_cached_key(|entry| Reverse(path_bytes(entry)));
        self.folders.push(Folder {
            path,
            rules,
            entries,
            bytes,
        });
    }

    /// Records that an entry was omitted that should have been examined.
    pub(super) fn mark_truncated(&mut self) {
        self.truncated = true;
    }

    pub(super) fn is_truncated(&self) -> bool {
        self.truncated
    }

    pub(super) fn next(&mut self) -> Option<WalkStep> {
        loop {
            let depth = self.folders.len();
            let folder = self.folders.last_mut()?;
            let Some(entry) = folder.entries.pop() else {
                self.folders.pop();
                continue;
            };

            self.visited += 1;
            if self.visited > MAX_ENTRIES || self.cancellation.is_cancelled() {
                self.truncated = true;
                return None;
            }

            let path = join(&folder.path, &entry.name);
            match entry.kind {
                EntryKind::Dir if !self.is_wanted(&path, &entry.name, true) => {}
                EntryKind::Dir if depth >= MAX_DEPTH => self.truncated = true,
                EntryKind::Dir => return Some(WalkStep::Folder(path)),
                EntryKind::File if self.is_wanted(&path, &entry.name, false) => {
                    return Some(WalkStep::File(path));
                }
                _ => {}
            }
        }
    }

    fn is_wanted(&self, path: &str, name: &str, is_dir: bool) -> bool {
        let path = absolute(path);
        match self.filter.overrides.matched(&path, is_dir) {
            Match::Ignore(_) => return false,
            Match::Whitelist(_) => return self.is_of_type(&path, is_dir),
            Match::None => {}
        }

        let folders = self.folders.iter().rev().map(|folder| &folder.rules);
        let ignored = folders
            .chain(self.parent_rules.iter().rev())
            .find_map(|rules| rules.is_ignored(&path, is_dir));
        let is_shown = match ignored {
            Some(ignored) => !ignored,
            None => (self.filter.hidden && name != ".git") || !name.starts_with('.'),
        };

        is_shown && self.is_of_type(&path, is_dir)
    }

    fn is_of_type(&self, path: &str, is_dir: bool) -> bool {
        !self.filter.types.matched(path, is_dir).is_ignore()
    }
}

/// Returns the memory of an entry, in bytes.
fn entry_bytes(entry: &DirEntry) -> usize {
    size_of::<DirEntry>() + entry.name.len()
}

fn path_bytes(entry: &DirEntry) -> Vec<u8> {
    let slash = (entry.kind == EntryKind::Dir).then_some(b'/');
    entry.name.bytes().chain(slash).collect()
}

pub(in super::super) fn join(dir: &str, name: &str) -> String {
    match dir {
        "" => name.to_owned(),
        dir => format!("{dir}/{name}"),
    }
}

#[cfg(test)]
mod tests {
    use ignore::overrides::Override;

    use super::*;

    #[test]
    fn entries_of_open_folders_take_bounded_memory() {
        let filter = Filter {
            hidden: false,
            overrides: Override::empty(),
            types: Types::empty(),
        };
        let mut walk = Walk::new(filter, Cancellation::default());
        let file = DirEntry::new("n".repeat(200), EntryKind::File, 0);
        let count = MAX_OPEN_BYTES / 10 / entry_bytes(&file);
        let mut entries = vec![file; count];
        entries.push(DirEntry::new("a", EntryKind::Dir, 0));
        walk.enter(String::new(), entries.clone(), Rules::default());
        let mut entered = 1;
        while let Some(WalkStep::Folder(path)) = walk.next() {
            assert!(entered < 20, "{entered} folders are open");
            walk.enter(path, entries.clone(), Rules::default());
            entered += 1;
        }
        assert!(walk.is_truncated());
        let open_bytes: usize = walk.folders.iter().map(|folder| folder.bytes).sum();
        assert!(open_bytes <= MAX_OPEN_BYTES);
        assert_eq!(walk.folders.len(), 9);
    }
}
