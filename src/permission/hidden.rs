//! Commands that may hide what a rule to deny or to ask is about.

use std::cell::LazyCell;

use super::call_accesses::{CallAccesses, Command};
use super::decide::Policy;
use super::explanation::Explanation;
use super::matching::{governs_writes, restricts_commands};
use super::pattern::{CommandPattern, PatternWord};
use super::repository::is_own;
use super::rule::{Behavior, Rule, RuleKind};
use super::shell::{Analysis, Reason, SimpleCommand, Weight};

impl Policy<'_> {
    /// The question about a command that may hide what one of the rules is about.
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

    /// The first command that may do what one of the rules is about without naming it, unless a
    /// rule to allow names the command: what a program that is not modeled starts, reads and
    /// writes, what a builder reads and writes, and what other subcommands do is not known.
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
        let mut commands = analysis.commands.iter();
        commands.find_map(|command| {
            let runner = command.runner.map(|(index, _)| &analysis.commands[index]);
            let named = runner.unwrap_or(command);
            let has_other_files = LazyCell::new(|| command.has_other_files());
            let is_open = |(_, patterns): &&(&Rule, Vec<CommandPattern>)| match &patterns[..] {
                [pattern, ..]
                    if pattern.may_be_about_alike(command) && !self.is_named(call, named, 2) =>
                {
                    true
                }
                [] => *has_other_files && !self.is_named(call, named, 1),
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

    /// The reason why git may work in another repository than the workspace's own.
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
