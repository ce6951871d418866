//! The filter for files that a call may show in its results.

use std::collections::HashMap;
use std::sync::Mutex;

use serde_json::Value;

use crate::backend::PathFilter;
use crate::util::sync::lock;

use super::facts::{Facts, Touch};
use super::glob::Match;
use super::links::destination;
use super::matching;
use super::paths::Places;
use super::rule::{Behavior, Kind, Rule};

/// The rules that may keep a file from being shown, and the call they are about.
///
/// A search names its folder, not the files it will find there; its own path may be allowed and a
/// file beneath it not.
pub(super) struct Readable {
    rules: Vec<Rule>,
    places: Places,
    tool: String,
    args: Value,
    /// The targets of links in the folders of the files shown so far.
    folders: Mutex<HashMap<String, Option<String>>>,
}

impl Readable {
    /// `None` when no rule can keep anything back.
    pub(super) fn of(rules: &[Rule], places: &Places, facts: &Facts<'_>) -> Option<Self> {
        let keeps_back = |rule: &&Rule| match rule.behavior() {
            Behavior::Allow => false,
            Behavior::Deny => true,
            // What was asked about the call itself has been answered.
            Behavior::Ask => matching::catches(rule, facts, places) == Match::No,
        };
        let rules: Vec<Rule> = rules
            .iter()
            .filter(|rule| matches!(rule.kind, Kind::Path(_)))
            .filter(keeps_back)
            .cloned()
            .collect();
        (!rules.is_empty()).then(|| Self {
            rules,
            places: places.clone(),
            tool: facts.tool.to_owned(),
            args: facts.args.clone(),
            folders: Mutex::default(),
        })
    }

    pub(super) fn into_filter(self) -> PathFilter {
        PathFilter::new(move |path| self.shows(path))
    }

    fn shows(&self, path: &str) -> bool {
        let target = self.led(path).map(Touch::Read);
        let facts = Facts {
            tool: &self.tool,
            args: &self.args,
            read_only: true,
            guessed: false,
            touches: target
                .into_iter()
                .chain([Touch::Read(path.to_owned())])
                .collect(),
        };
        self.rules
            .iter()
            .all(|rule| matching::catches(rule, &facts, &self.places) == Match::No)
    }

    /// The other path that links lead to. A search passes through them only on its way to the
    /// folder it begins at, so that it is enough to ask about folders.
    fn led(&self, path: &str) -> Option<String> {
        if !self.places.follows_links {
            return None;
        }
        let (folder, name) = path.rsplit_once('/')?;
        let mut folders = lock(&self.folders);
        let target = match folders.get(folder) {
            Some(target) => target,
            None => folders
                .entry(folder.to_owned())
                .or_insert_with(|| destination(folder, &self.places)),
        };
        target.as_ref().map(|folder| format!("{folder}/{name}"))
    }
}
