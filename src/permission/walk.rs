//! The contents of folders at this moment.

use std::collections::{HashSet, VecDeque};
use std::path::Path;

use super::beneath::Beneath;
use super::disk::{Disk, DiskEntry, Listing, TreeQuestion};
use super::glob::Match;
use super::links::destination;
use super::paths::{PathContext, PathOf, PathPattern, Segment, best_match};

/// The maximum number of entries that are examined; a folder with more may contain any.
const MAX_ENTRIES: usize = 4096;
/// The maximum depth of folders that are examined.
const MAX_DEPTH: usize = 12;

/// A walk of a program through folders, past paths that a pattern may match.
#[derive(Clone, Copy)]
pub(super) struct Walk<'a> {
    pub(super) pattern: &'a PathPattern,
    pub(super) context: &'a PathContext,
    pub(super) disk: &'a Disk,
    /// True if names that begin with a dot are omitted.
    pub(super) skips_hidden: bool,
    /// True if the walk follows links.
    pub(super) follows_links: bool,
}

/// A folder of a walk.
struct Folder {
    /// Its path, through links.
    path: String,
    /// Its path without links; `None` if its path has none.
    real_path: Option<String>,
    depth: usize,
}

impl Walk<'_> {
    /// Returns `true` if a path the pattern matches lies below `folder`, or may lie there. A folder
    /// that this machine does not have holds nothing.
    pub(super) fn may_find(self, folder: &str) -> bool {
        // Nothing more is looked up or remembered for a decision that is a question already.
        if self.disk.is_exhausted() {
            return true;
        }

        if matches!(*self.disk.list(folder), Listing::Missing) {
            return false;
        }

        let question = TreeQuestion {
            folder: folder.to_owned(),
            pattern: self.pattern.text().to_owned(),
            skips_hidden: self.skips_hidden,
            follows_links: self.follows_links,
        };
        // The links of the folder are looked up for each pattern, even if it has no entries.
        self.disk
            .answer(question, || !self.disk.may_look() || self.find(folder))
    }

    fn find(self, folder: &str) -> bool {
        let pattern = self.pattern.compared(self.context);
        let real_path = destination(folder, self.context);
        let mut visited = HashSet::new();
        visited.insert(real_path.clone().unwrap_or_else(|| folder.to_owned()));
        let mut entry_count = 0;
        let mut folders = VecDeque::from([Folder {
            path: folder.to_owned(),
            real_path,
            depth: 0,
        }]);
        while let Some(folder) = folders.pop_front() {
            let listing = self.disk.list(&folder.path);
            let entries = match &*listing {
                Listing::Missing | Listing::Closed => continue,
                Listing::Unknown => return true,
                Listing::Entries(entries) => entries,
            };

            for entry in entries {
                entry_count += 1;
                if entry_count > MAX_ENTRIES || folder.depth > MAX_DEPTH || !self.disk.may_compare()
                {
                    return true;
                }

                let Some(name) = &entry.name else {
                    return true;
                };
                if self.skips_hidden && name.starts_with('.') {
                    continue;
                }

                let next_folder = folder.entry(name);
                if next_folder
                    .paths()
                    .any(|path| self.is_match(&pattern, path))
                {
                    return true;
                }

                match self.enter(&pattern, next_folder, entry, &mut visited) {
                    Ok(next_folder) => folders.extend(next_folder),
                    Err(Reached) => return true,
                }
            }
        }

        false
    }

    /// Returns the next folder to read: the entry itself, or what its link leads to. `None` if that
    /// is no folder, or was read before. [`Reached`] ends the walk.
    fn enter(
        self,
        pattern: &[Segment],
        mut folder: Folder,
        entry: &DiskEntry,
        visited: &mut HashSet<String>,
    ) -> Result<Option<Folder>, Reached> {
        if entry.is_folder {
            if self.follows_links {
                let path = folder.real_path.as_ref().unwrap_or(&folder.path);
                visited.insert(path.clone());
            }
            return Ok(Some(folder));
        }

        if !self.follows_links || !entry.is_link {
            return Ok(None);
        }

        if !self.disk.may_look() {
            return Err(Reached);
        }

        let Some(target) = destination(&folder.path, self.context) else {
            return Ok(None);
        };
        let path = PathOf::of_text(&target, self.context);
        let place = self.pattern.beneath(&path, self.context, self.skips_hidden);
        if self.is_match(pattern, &target) || place == Beneath::Possible {
            return Err(Reached);
        }

        let is_new = Path::new(&target).is_dir() && visited.insert(target.clone());
        folder.real_path = Some(target);
        Ok(is_new.then_some(folder))
    }

    fn is_match(self, pattern: &[Segment], path: &str) -> bool {
        let path = PathOf::of_text(path, self.context);
        best_match(pattern, &path.compared(self.context), true) != Match::No
    }
}

/// A path that the pattern may match was found, or may lie behind a link.
struct Reached;

impl Folder {
    /// Returns the entry with this name, as a folder.
    fn entry(&self, name: &str) -> Self {
        let real_path = self.real_path.as_ref();
        Self {
            path: format!("{}/{name}", self.path),
            real_path: real_path.map(|path| format!("{path}/{name}")),
            depth: self.depth + 1,
        }
    }

    fn paths(&self) -> impl Iterator<Item = &str> {
        [Some(&self.path), self.real_path.as_ref()]
            .into_iter()
            .flatten()
            .map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use std::{env, fs, process};

    use super::*;

    #[test]
    fn each_pattern_that_is_searched_in_a_folder_without_entries_counts_as_work() {
        let folder = env::temp_dir().join(format!("agentcore-trees-{}", process::id()));
        fs::create_dir_all(&folder).unwrap();
        let context = PathContext {
            follows_links: true,
            ..PathContext::default()
        };
        let disk = Disk::short();
        let is_found = (0..2_000).any(|number| {
            let pattern = PathPattern::new(&format!("**/x{number}")).unwrap();
            let walk = Walk {
                pattern: &pattern,
                context: &context,
                disk: &disk,
                skips_hidden: false,
                follows_links: false,
            };
            walk.may_find(folder.to_str().unwrap())
        });
        fs::remove_dir_all(&folder).unwrap();
        assert!(is_found && disk.is_exhausted());
    }
}
