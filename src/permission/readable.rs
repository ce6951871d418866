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

/// The rules that may keep a file from being shown.
///
/// A search names its folder, not the files it will find there; its own path may be allowed and a
/// file below it not.
pub(super) struct Readable {
    /// The patterns of the rules, as paths are compared with them.
    patterns: Vec<Vec<Segment>>,
    context: PathContext,
    /// The targets of links in the folders of the files shown so far.
    folders: Mutex<HashMap<String, Option<String>>>,
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
            let matcher = Matcher::new(rule, call, context, &disk);
            let withholds = match rule.behavior() {
                Behavior::Allow => false,
                Behavior::Deny => matcher.governs_reads(),
                // A question about the call itself has already been answered.
                Behavior::Ask => matcher.governs_reads() && matcher.certain_match() == Match::No,
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
                let mut path = PathOf::of_text(path, &self.context);
                if self.context.folds_case {
                    path = path.folded();
                }
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
        let target = match folders.get(folder) {
            Some(target) => target,
            None => folders
                .entry(folder.to_owned())
                .or_insert_with(|| destination(folder, &self.context)),
        };

        target.as_ref().map(|folder| format!("{folder}/{name}"))
    }
}
