//! The filter for files that a call may show in its results.

use std::collections::HashMap;
use std::sync::Mutex;

use serde_json::Value;

use crate::backend::PathFilter;
use crate::util::sync::lock;

use super::call_accesses::{CallAccess, CallAccesses};
use super::disk::Disk;
use super::glob::Match;
use super::links::destination;
use super::matching::Matcher;
use super::paths::PathContext;
use super::rule::{Behavior, Rule, RuleKind};

/// The rules that may keep a file from being shown, and the call they are about.
///
/// A search names its folder, not the files it will find there; its own path may be allowed and a
/// file below it not.
pub(super) struct Readable {
    rules: Vec<Rule>,
    context: PathContext,
    tool: String,
    args: Value,
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
        let keeps_back = |rule: &&Rule| match rule.behavior() {
            Behavior::Allow => false,
            Behavior::Deny => true,
            // A question about the call itself has already been answered.
            Behavior::Ask => Matcher::new(rule, call, context, &disk).catches() == Match::No,
        };

        let rules: Vec<Rule> = rules
            .iter()
            .filter(|rule| matches!(rule.kind, RuleKind::Path(_)))
            .filter(keeps_back)
            .cloned()
            .collect();
        (!rules.is_empty()).then(|| Self {
            rules,
            context: context.clone(),
            tool: call.tool.to_owned(),
            args: call.args.clone(),
            folders: Mutex::default(),
        })
    }

    pub(super) fn into_filter(self) -> PathFilter {
        PathFilter::new(move |path| self.shows(path))
    }

    fn shows(&self, path: &str) -> bool {
        let target = self.link_target(path).map(CallAccess::Read);
        let call = CallAccesses {
            tool: &self.tool,
            args: &self.args,
            read_only: true,
            possible: Vec::new(),
            has_more: false,
            is_guessed: false,
            accesses: target
                .into_iter()
                .chain([CallAccess::Read(path.to_owned())])
                .collect(),
        };

        let disk = Disk::default();
        let mut rules = self.rules.iter();
        rules.all(|rule| Matcher::new(rule, &call, &self.context, &disk).catches() == Match::No)
    }

    /// The other path that links lead to. A search passes through them only on its way to the
    /// folder it begins at, so that it is enough to ask about folders.
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
