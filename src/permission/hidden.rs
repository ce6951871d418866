//! Commands that may hide what a rule to deny or to ask is about.

use std::cell::LazyCell;
use std::ops::Deref;

use super::call_accesses::{CallAccesses, Command};
use super::decide::Policy;
use super::explanation::Explanation;
use super::matching::governs_writes;
use super::pattern::{CommandPattern, PatternWord};
use super::programs::{KnownFiles, wraps};
use super::repository::is_own;
use super::rule::{Behavior, Rule, RuleKind};
use super::shell::{Analysis, Reason, SHELLS, SimpleCommand, Use, Weight};

impl Policy<'_> {
    /// Returns the question about a command that may hide what one of the rules is about.
    pub(super) fn hidden<'s>(
        &'s self,
        call: &CallAccesses<'_>,
        rules: impl Iterator<Item = &'s Rule>,
    ) -> Option<Explanation> {
        let rules: Vec<&Rule> = rules.filter(|rule| restricts_commands(rule)).collect();
        let first_rule = *rules.first()?;
        let write_rule = rules.iter().find(|rule| governs_writes(rule)).copied();
        let (rule, reason) = call.commands().find_map(|command| {
            let analysis = &command.analysis;
            let mut reasons = analysis.opaque.iter();
            let hidden = reasons.find_map(|reason| {
                let mut rules = rules.iter().filter(|rule| !is_about_runner(reason, rule));
                let is_hidden = reason.weight() >= Weight::Script;
                Some((*rules.next().filter(|_| is_hidden)?, reason.to_string()))
            });
            let other_repository = || Some((first_rule, self.other_repository(command)?));
            let hidden = hidden.or_else(other_repository);
            let hidden = hidden.filter(|_| !self.names_scripts(call, analysis));
            // A rule may be about files that a command changes without naming them.
            let mut reasons = analysis.opaque.iter();
            let effect = reasons.find(|reason| reason.weight() == Weight::Effect);
            let effect = write_rule.zip(effect.map(Reason::to_string));
            hidden
                .or_else(|| self.unmodeled(call, analysis, &rules))
                .or(effect)
        })?;
        let text = format!("{reason}, so rule {rule} may apply");
        Some(Explanation::new(Behavior::Ask, text).with_rule(rule))
    }

    /// Returns the first command that may do what one of the rules is about without naming it,
    /// unless a rule to allow names the command: what a program that is not modeled starts, reads
    /// and writes, what a builder reads and writes, and what other subcommands do is not known.
    fn unmodeled<'s>(
        &'s self,
        call: &CallAccesses<'_>,
        analysis: &Analysis,
        rules: &[&'s Rule],
    ) -> Option<(&'s Rule, String)> {
        let patterns = rules.iter().map(|rule| match &rule.kind {
            RuleKind::Command(pattern) => (*rule, pattern.spellings()),
            _ => (*rule, Vec::new()),
        });
        let patterns: Vec<_> = patterns.collect();
        // In a folder outside of the workspace, the project is another one.
        let leaves_workspace = LazyCell::new(|| {
            call.commands().any(|command| {
                let mut folders = command.paths.used(&[Use::Directory]);
                folders.any(|folder| !self.is_inside(command, folder))
            })
        });
        let mut commands = analysis.commands.iter();
        commands.find_map(|command| {
            let runner = command.runner.map(|(index, _)| &analysis.commands[index]);
            let named = runner.unwrap_or(command);
            let files = LazyCell::new(|| files_of(command, &leaves_workspace));
            let is_open = |(rule, patterns): &&(&Rule, Vec<CommandPattern>)| match &patterns[..] {
                [pattern, ..]
                    if pattern.may_be_about_alike(command) && !self.is_named(call, named, 2) =>
                {
                    true
                }
                [] => !self.names_files(*files, rule) && !self.is_named(call, named, 1),
                patterns if command.is_unmodeled() => {
                    let is_named = self.is_named(call, named, 1);
                    let mut patterns = patterns.iter();
                    patterns.any(|pattern| pattern.may_be_started_by(command, is_named))
                }
                patterns => {
                    let mut patterns = patterns.iter();
                    let count = patterns.find_map(|pattern| pattern.may_be_done_by(command));
                    count.is_some_and(|count| !self.is_named(call, named, count))
                }
            };
            let (rule, _) = patterns.iter().find(is_open)?;
            let reason = if command.is_unmodeled() {
                "is not modeled"
            } else {
                "may do more than its words name"
            };
            Some((*rule, format!("`{command}` {reason}")))
        })
    }

    /// Returns `true` if a command works with no file that a rule may be about but those that its
    /// words name, or reads what it builds.
    fn names_files(&self, files: Option<KnownFiles>, rule: &Rule) -> bool {
        let Some(files) = files else {
            return false;
        };
        let is_elsewhere = match &rule.kind {
            RuleKind::Path(pattern) => !pattern.may_lie_in_project(self.context),
            _ => true,
        };
        files.is_inside && is_elsewhere
            || (files.names_reads || !rule.name.matches("Read"))
                && (files.names_writes || !governs_writes(rule))
    }

    /// Returns `true` if a rule to allow that is about some commands, and names them by at least
    /// `count` words, covers this one.
    fn is_named(&self, call: &CallAccesses<'_>, command: &SimpleCommand, count: usize) -> bool {
        self.allowing(call).any(|rule| {
            let matcher = self.matcher(rule, call);
            matcher.names_commands(count) && matcher.allows_command(command)
        })
    }

    /// Returns `true` if nothing but scripts is unknown, and rules that name each command allow
    /// them.
    fn names_scripts(&self, call: &CallAccesses<'_>, analysis: &Analysis) -> bool {
        analysis.weight() <= Some(Weight::Script)
            && analysis
                .covered()
                .all(|command| self.is_named(call, command, 1))
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

/// Returns `true` if the reason is that a program such as `docker exec` runs in a container what is
/// not known, and the rule is about this program, which the command names itself.
fn is_about_runner(reason: &Reason, rule: &Rule) -> bool {
    let (Reason::Exec(name), RuleKind::Command(pattern)) = (reason, &rule.kind) else {
        return false;
    };
    let program = pattern.words().first().map(PatternWord::text);
    program.as_ref() == Some(name)
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

/// Returns what is known of the files of a command; `None` if it may work with any. What others run
/// is looked at by itself.
fn files_of(
    command: &SimpleCommand,
    leaves_workspace: &impl Deref<Target = bool>,
) -> Option<KnownFiles> {
    let name = command.program().unwrap_or_default();
    let is_judged = command.guessed
        || command.argv.is_empty()
        || command.is_about_itself()
        || SHELLS.contains(&&*name)
        || wraps(&name);
    if is_judged && !command.is_unmodeled() {
        return Some(KnownFiles::ALL_NAMED);
    }
    let files = command.known_files()?;
    Some(KnownFiles {
        is_inside: files.is_inside && !**leaves_workspace,
        ..files
    })
}
