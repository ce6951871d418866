//! Commands that may do what a rule to deny or to ask is about, without a word that shows it.
//!
//! The docs of the parent module define *builders*, and state which commands a rule to allow covers
//! next to such a rule. A program is *not modeled* if nothing is known of what it does with its
//! words, usually because `programs` has no row for it.

use std::cell::{LazyCell, OnceCell, RefCell};
use std::collections::HashMap;

use super::beneath::Beneath;
use super::call_accesses::{CallAccesses, Command};
use super::decide::Policy;
use super::explanation::Explanation;
use super::matching::governs_writes;
use super::paths::PathOf;
use super::pattern::{CommandPattern, PatternWord};
use super::programs::{KnownFiles, wraps};
use super::repository::is_own;
use super::rule::{Behavior, Rule, RuleKind};
use super::shell::{Analysis, Reason, SHELLS, SimpleCommand, Use, Weight};

/// A rule to deny or to ask, with results that are the same for all commands of a call.
struct Restriction<'s> {
    rule: &'s Rule,
    /// For a rule about commands, its spellings.
    patterns: Vec<CommandPattern>,
    /// True if it is about files outside of all [`Projects`], or of git in the workspace.
    is_elsewhere: OnceCell<bool>,
    /// For the lists of files that a command shows and changes: true if the rule may be about one
    /// of them.
    listed_files: RefCell<HashMap<[&'static str; 2], bool>>,
}

impl<'s> Restriction<'s> {
    fn new(rule: &'s Rule) -> Self {
        let patterns = match &rule.kind {
            RuleKind::Command(pattern) => pattern.spellings(),
            _ => Vec::new(),
        };
        Self {
            rule,
            patterns,
            is_elsewhere: OnceCell::new(),
            listed_files: RefCell::default(),
        }
    }
}

/// The folders of projects that builders may work on.
struct Projects {
    /// The paths of the workspace.
    workspace: PathOf,
    /// The folders outside of it that words of commands lead to.
    others: Vec<PathOf>,
}

impl Policy<'_> {
    /// Returns the question about a command that may hide what one of the rules is about.
    pub(super) fn hiding_question<'s>(
        &'s self,
        call: &CallAccesses<'_>,
        rules: impl Iterator<Item = &'s Rule>,
    ) -> Option<Explanation> {
        let rules: Vec<&Rule> = rules.filter(|rule| restricts_commands(rule)).collect();
        let first_rule = *rules.first()?;
        let write_rule = rules.iter().find(|rule| governs_writes(rule)).copied();
        let (rule, reason) = call.commands().find_map(|command| {
            let analysis = &command.analysis;
            hiding_part(analysis, &rules)
                .or_else(|| Some((first_rule, self.other_repository(command)?)))
                .filter(|_| !self.names_scripts(call, analysis))
                .or_else(|| self.unnamed_work(call, analysis, &rules))
                // A rule may be about files that a command changes without naming them.
                .or_else(|| write_rule.zip(effect_of(analysis)))
        })?;
        let text = format!("{reason}, so rule {rule} may apply");
        Some(Explanation::new(Behavior::Ask, text).with_rule(rule))
    }

    /// Returns a rule whose subject one of the commands may touch without a word that shows it, and
    /// the reason. The words do not show all work of a program that is not modeled, of a builder,
    /// and of another subcommand than the rule's. A rule to allow that names the command by enough
    /// words answers for it.
    fn unnamed_work<'s>(
        &'s self,
        call: &CallAccesses<'_>,
        analysis: &Analysis,
        rules: &[&'s Rule],
    ) -> Option<(&'s Rule, String)> {
        let restrictions: Vec<_> = rules.iter().map(|rule| Restriction::new(rule)).collect();
        let projects = LazyCell::new(|| Projects {
            workspace: self.context.workspace_folders(),
            others: self.other_projects(call),
        });
        let mut commands = analysis.commands.iter();
        commands.find_map(|command| {
            // A rule to allow names a program of a package by the command that starts it.
            let runner = command.runner.map(|(index, _)| &analysis.commands[index]);
            // Neither depends on the rule, of which there may be thousands.
            let named_count = LazyCell::new(|| self.named_count(call, runner.unwrap_or(command)));
            let files = LazyCell::new(|| files_of(command));
            let may_apply = |restriction: &&Restriction<'_>| match &restriction.patterns[..] {
                // A program with a similar name, or another one that may do the work. A rule to
                // allow has to name it, and one more word.
                [pattern, ..] if pattern.may_be_done_by_other(command) && *named_count < 2 => true,
                // The rule is about files. A rule to allow has to name the program.
                [] => !self.names_files(*files, restriction, &projects) && *named_count < 1,
                patterns if command.is_unmodeled() => {
                    let mut patterns = patterns.iter();
                    patterns.any(|pattern| pattern.may_be_started_by(command, *named_count > 0))
                }
                // Another subcommand. A rule to allow has to name it.
                patterns => {
                    let mut patterns = patterns.iter();
                    let count = patterns.find_map(|pattern| pattern.words_to_allow(command));
                    count.is_some_and(|count| *named_count < count)
                }
            };
            let rule = restrictions.iter().find(may_apply)?.rule;
            let reason = if command.is_unmodeled() {
                "is not modeled"
            } else {
                "may do more than its words name"
            };
            Some((rule, format!("`{command}` {reason}")))
        })
    }

    /// Returns `true` if a command uses no file that a rule may be about, but for those that its
    /// words name. `files` is `None` if it may use any. A rule without a path does not concern the
    /// files of the project that a builder uses by purpose.
    fn names_files(
        &self,
        files: Option<KnownFiles>,
        restriction: &Restriction<'_>,
        projects: &LazyCell<Projects, impl FnOnce() -> Projects>,
    ) -> bool {
        let Restriction { rule, .. } = restriction;
        let RuleKind::Path(pattern) = &rule.kind else {
            return files.is_some_and(|files| {
                files.is_inside || names_all(files, rule) && !has_settings(files, rule)
            });
        };
        let Some(files) = files else {
            return false;
        };
        let mut listed_files = restriction.listed_files.borrow_mut();
        let is_listed = || {
            let uses = [
                (rule.name.matches("Read"), files.shown),
                (governs_writes(rule), files.changed),
            ];
            let uses = uses.iter().filter(|(is_governed, _)| *is_governed);
            let mut names = uses.flat_map(|(_, list)| list.split(','));
            names.any(|name| !name.is_empty() && pattern.may_be_of(name, self.context))
        };
        if *listed_files
            .entry([files.shown, files.changed])
            .or_insert_with(is_listed)
        {
            return false;
        }
        let is_elsewhere = || {
            let may_lie_in =
                |project| pattern.beneath(project, self.context, false) != Beneath::Impossible;
            !pattern.may_lie_in_project(self.context, &projects.workspace)
                && !projects.others.iter().any(may_lie_in)
        };
        names_all(files, rule)
            || files.is_inside && *restriction.is_elsewhere.get_or_init(is_elsewhere)
    }

    /// Returns the folders of projects outside of the workspace that words of commands lead to, or
    /// that commands change to.
    fn other_projects(&self, call: &CallAccesses<'_>) -> Vec<PathOf> {
        let projects = call.commands().flat_map(|command| {
            let paths = command.paths.used(&[Use::Directory, Use::Project]);
            paths.filter_map(|path| {
                let path = command.paths.path_at_run(path, self.context);
                let is_outside = !path.is_within(self.context);
                is_outside.then(|| path.project_folders(self.context))
            })
        });
        projects.collect()
    }

    /// Returns the number of words by which a rule to allow names the command, the largest if
    /// several rules allow it; 0 if none does.
    fn named_count(&self, call: &CallAccesses<'_>, command: &SimpleCommand) -> usize {
        let counts = self.allowing(call).filter_map(|rule| match &rule.kind {
            RuleKind::Command(pattern) if self.matcher(rule, call).allows_command(command) => {
                Some(pattern.named_count())
            }
            _ => None,
        });
        counts.max().unwrap_or_default()
    }

    /// Returns `true` if only the content of scripts is unknown, and a rule to allow names each
    /// command.
    fn names_scripts(&self, call: &CallAccesses<'_>, analysis: &Analysis) -> bool {
        analysis.weight() <= Some(Weight::Script)
            && analysis
                .covered()
                .all(|command| self.named_count(call, command) > 0)
    }

    /// Returns the reason why git may work in another repository than the workspace's own.
    pub(super) fn other_repository(&self, command: &Command) -> Option<String> {
        let mut folders = command.paths.repositories();
        let folder = folders.find(|folder| {
            let path = command.paths.path_of(folder, self.context);
            !is_own(&path, self.context, self.disk)
        })?;
        Some(format!("{} may be another repository", folder.word))
    }
}

/// Returns the first part of a command that is not known, with a rule whose subject it may hide.
fn hiding_part<'s>(analysis: &Analysis, rules: &[&'s Rule]) -> Option<(&'s Rule, String)> {
    let parts = analysis.opaque.iter();
    let mut parts = parts.filter(|part| part.weight() >= Weight::Script);
    parts.find_map(|part| {
        let rule = rules.iter().find(|rule| may_hide(part, rule))?;
        Some((*rule, part.to_string()))
    })
}

/// Returns the first change of files that the words of a command do not name.
fn effect_of(analysis: &Analysis) -> Option<String> {
    let mut parts = analysis.opaque.iter();
    let effect = parts.find(|part| part.weight() == Weight::Effect);
    effect.map(Reason::to_string)
}

/// Returns `true` if the reason may hide what the rule is about. A program such as `docker exec`,
/// which runs an unknown command elsewhere, does not hide itself: the command names it. Some of
/// these programs hide no files of this machine either.
fn may_hide(reason: &Reason, rule: &Rule) -> bool {
    let Reason::Exec(name) = reason else {
        return true;
    };
    match &rule.kind {
        RuleKind::Command(pattern) => {
            let program = pattern.words().first().map(PatternWord::text);
            program.as_ref() != Some(name)
        }
        _ => !matches!(&**name, "ssh" | "mosh" | "kubectl" | "oc"),
    }
}

/// Returns `true` if hiding a command could get round the rule.
fn restricts_commands(rule: &Rule) -> bool {
    match rule.kind {
        RuleKind::Command(_) => true,
        RuleKind::Path(_) | RuleKind::Tool => {
            rule.name.matches("Read") || rule.name.matches("Write") || rule.name.matches("Edit")
        }
        _ => false,
    }
}

/// Returns `true` if the words of a command name all files that it uses in the way that the rule is
/// about.
fn names_all(files: KnownFiles, rule: &Rule) -> bool {
    (files.names_reads || !rule.name.matches("Read"))
        && (files.names_writes || !governs_writes(rule))
}

/// Returns `true` if the command uses settings of the system or the user, which its words do not
/// name, in the way that the rule is about.
fn has_settings(files: KnownFiles, rule: &Rule) -> bool {
    let is_setting = |file: &str| file.starts_with("/etc/") || file.starts_with("~/.config/");
    let has = |files: &str| files.split(',').any(is_setting);
    rule.name.matches("Read") && has(files.shown) || governs_writes(rule) && has(files.changed)
}

/// Returns the files of a command, as far as they are known; `None` if it may use any. A command
/// that a shell or a wrapper runs is itself in the analysis, so the shell has no files of its own.
fn files_of(command: &SimpleCommand) -> Option<KnownFiles> {
    let name = command.program().unwrap_or_default();
    let has_no_own_files = command.guessed
        || command.argv.is_empty()
        || command.is_about_itself()
        || SHELLS.contains(&&*name)
        || wraps(&name) && command.argv.len() > 1;
    if has_no_own_files && !command.is_unmodeled() {
        return Some(KnownFiles::ALL_NAMED);
    }
    command.known_files()
}
