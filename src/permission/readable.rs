//! The filter for files that a call may show in its results.

use std::collections::HashMap;
use std::sync::Mutex;

use crate::backend::PathFilter;
use crate::util::sync::lock;

use super::call_accesses::CallAccesses;
use super::disk::Disk;
use super::glob::Match;
use super::links::destination;
use super::matching::Matcher;
use super::paths::{PathContext, PathOf, Segment, best_match};
use super::rule::{Behavior, Rule, RuleKind};

/// The maximum size of the remembered folders, in bytes. A walk shows the files of a folder one
/// after another, so that few folders are looked up again after they were dropped.
const MAX_SIZE: usize = 1024 * 1024;
/// The size of a folder in addition to its paths, in bytes.
const FOLDER_OVERHEAD: usize = 128;

/// The rules that may keep a file from being shown.
///
/// A search names its folder, not the files it will find there; its own path may be allowed and a
/// file below it not.
pub(super) struct Readable {
    /// The patterns of the rules, as paths are compared with them.
    patterns: Vec<Vec<Segment>>,
    context: PathContext,
    folders: Mutex<FolderTargets>,
}

/// The targets of links in the folders of the files shown last.
#[derive(Default)]
struct FolderTargets {
    targets: HashMap<String, Option<String>>,
    size: usize,
}

impl Readable {
    /// `None` if no rule can withhold a file.
    pub(super) fn of(
        rules: &[Rule],
        context: &PathContext,
        call: &CallAccesses<'_>,
    ) -> Option<Self> {
        let disk = Disk::default();
        let patterns = rules.iter().filter_map(|rule| {
            let RuleKind::Path(pattern) = &rule.kind else {
                return None;
            };
            let matcher = Matcher {
                rule,
                call,
                context,
                disk: &disk,
            };
            let withholds = match rule.behavior() {
                Behavior::Allow => false,
                Behavior::Deny => matcher.governs_reads(),
                // A question about the call itself has already been answered.
                Behavior::Ask => matcher.governs_reads() && matcher.known_match() == Match::No,
            };
            withholds.then(|| pattern.compared(context))
        });
        let patterns: Vec<Vec<Segment>> = patterns.collect();
        (!patterns.is_empty()).then(|| Self {
            patterns,
            context: context.clone(),
            folders: Mutex::default(),
        })
    }

    pub(super) fn into_filter(self) -> PathFilter {
        PathFilter::new(move |path| self.shows(path))
    }

    fn shows(&self, path: &str) -> bool {
        let target = self.link_target(path);
        [Some(path), target.as_deref()]
            .into_iter()
            .flatten()
            .all(|path| {
                let path = PathOf::of_text(path, &self.context);
                let path = path.compared(&self.context);
                let mut patterns = self.patterns.iter();
                patterns.all(|pattern| best_match(pattern, &path, true) == Match::No)
            })
    }

    /// Returns the other path that links lead to. A search passes through them only on its way to
    /// the folder it begins at, so that it is enough to ask about folders.
    fn link_target(&self, path: &str) -> Option<String> {
        if !self.context.follows_links {
            return None;
        }

        let (folder, name) = path.rsplit_once('/')?;
        let mut folders = lock(&self.folders);
        let target = folders.target(folder, || destination(folder, &self.context));
        target.map(|folder| format!("{folder}/{name}"))
    }
}

impl FolderTargets {
    /// Returns the target of a folder, which `look_up` finds if it is not remembered.
    fn target(&mut self, folder: &str, look_up: impl FnOnce() -> Option<String>) -> Option<&str> {
        if !self.targets.contains_key(folder) {
            let target = look_up();
            let target_len = target.as_ref().map_or(0, String::len);
            let size = folder.len() + target_len + FOLDER_OVERHEAD;
            if self.size + size > MAX_SIZE {
                self.targets.clear();
                self.size = 0;
            }
            self.size += size;
            self.targets.insert(folder.to_owned(), target);
        }
        self.targets.get(folder)?.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_a_large_tree_are_not_all_remembered() {
        let mut folders = FolderTargets::default();
        let mut max_count = 0;
        for number in 0..100_000 {
            let folder = format!("folder/{number}");
            let target = Some(format!("target/{number}"));
            assert_eq!(
                folders.target(&folder, || target.clone()),
                target.as_deref()
            );
            // The files of a folder look it up once.
            let again = folders.target(&folder, || unreachable!());
            assert_eq!(again, target.as_deref());
            max_count = max_count.max(folders.targets.len());
        }
        assert!(max_count > 1_000, "{max_count}");
        assert!(max_count <= MAX_SIZE / FOLDER_OVERHEAD, "{max_count}");
    }
}
