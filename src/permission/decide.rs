//! The order in which rules, grants and modes decide.

use crate::tool::PermissionMode;

use super::explanation::Explanation;
use super::facts::{Command, Facts, Touch};
use super::glob::Match;
use super::matching;
use super::named::Named;
use super::parse::{Family, family};
use super::paths::{PathOf, Places};
use super::protected::{is_protected, is_repository};
use super::rule::{Behavior, Kind, Rule};
use super::shell::{Analysis, SimpleCommand, Weight};

/// The rules and settings that decisions are based on.
pub(super) struct Policy<'a> {
    pub(super) rules: &'a [Rule],
    pub(super) places: &'a Places,
    pub(super) own: &'a [String],
    pub(super) mode: PermissionMode,
}

impl Policy<'_> {
    fn of(&self, behavior: Behavior) -> impl Iterator<Item = &Rule> {
        self.rules
            .iter()
            .filter(move |rule| rule.behavior() == behavior)
    }

    /// Rules to allow. When the names of arguments are all that is known of a call, only those
    /// about its tool count.
    fn allowing<'s>(&'s self, facts: &Facts<'_>) -> impl Iterator<Item = &'s Rule> {
        self.of(Behavior::Allow)
            .filter(move |rule| !facts.guessed || matching::names_tool(rule, facts.tool))
    }

    /// Decides about a call. `granted` is true if this session allows it already.
    pub(super) fn decide(&self, facts: &Facts<'_>, granted: bool) -> Explanation {
        let mut unsure = None;
        for rule in self.of(Behavior::Deny) {
            match matching::catches(rule, facts, self.places) {
                Match::Yes => return denied(rule),
                Match::Maybe => unsure = unsure.or(Some(rule)),
                Match::No => {}
            }
        }
        let in_plan = self.mode == PermissionMode::Plan;
        if in_plan && !facts.read_only {
            return Explanation::new(
                Behavior::Deny,
                "only read-only tools are allowed in plan mode",
            );
        }
        if granted {
            return Explanation::new(Behavior::Allow, "allowed for this session");
        }
        let question = self.asks(facts, unsure).map(|question| match self.mode {
            PermissionMode::DontAsk => refused_instead(question),
            _ => question,
        });
        if let Some(question) = question {
            return question;
        }
        let gap = match self.allows(facts) {
            Ok(allowed) => return allowed,
            Err(gap) => gap,
        };
        self.by_mode(facts, gap.as_deref())
    }

    /// The question that has to be answered regardless of allow rules.
    fn asks<'s>(&'s self, facts: &Facts<'_>, mut unsure: Option<&'s Rule>) -> Option<Explanation> {
        for rule in self.of(Behavior::Ask) {
            match matching::catches(rule, facts, self.places) {
                Match::Yes => {
                    let text = match rule.message() {
                        Some(message) => message.to_owned(),
                        None => format!("rule {rule} asks"),
                    };
                    return Some(Explanation::new(Behavior::Ask, text).with_rule(rule));
                }
                Match::Maybe => unsure = unsure.or(Some(rule)),
                Match::No => {}
            }
        }
        if let Some(rule) = unsure {
            let text = format!("it may be what rule {rule} is about");
            return Some(Explanation::new(Behavior::Ask, text).with_rule(rule));
        }
        let restricted = self
            .rules
            .iter()
            .find(|rule| rule.behavior() != Behavior::Allow && restricts_commands(rule));
        for command in facts.commands() {
            let analysis = &command.analysis;
            let weight = match restricted {
                Some(_) => Weight::Script,
                None => Weight::Refused,
            };
            if let Some(reason) = analysis.reason(Weight::Refused) {
                return Some(Explanation::new(Behavior::Ask, reason.to_string()).strictly());
            }
            if let Some(rule) = restricted
                && !self.names_scripts(facts, analysis)
                && let Some(reason) = analysis.reason(weight)
            {
                let text = format!("{reason}, so it may hide what rule {rule} is about");
                return Some(Explanation::new(Behavior::Ask, text).with_rule(rule));
            }
        }
        self.protected(facts).map(|path| {
            let text = format!("{path} decides what runs later");
            Explanation::new(Behavior::Ask, text).strictly()
        })
    }

    /// Returns `true` if nothing but scripts is unknown, and rules that name each command allow
    /// them.
    fn names_scripts(&self, facts: &Facts<'_>, analysis: &Analysis) -> bool {
        let names = |command: &SimpleCommand| {
            self.allowing(facts).any(|rule| {
                !matching::allows_commands(rule, facts)
                    && matching::allows_command(rule, facts, command)
            })
        };
        let mut commands = analysis.commands.iter().filter(|c| !c.guessed);
        analysis.weight() == Some(Weight::Script) && commands.all(names)
    }

    fn protected(&self, facts: &Facts<'_>) -> Option<String> {
        let is_guarded = |path: &PathOf| is_protected(path, self.places, self.own);
        let is_write_protected =
            |path: &PathOf| is_guarded(path) || is_repository(path, self.places);
        for touch in &facts.touches {
            match touch {
                Touch::Write(path) => {
                    if is_write_protected(&PathOf::of_text(path, self.places)) {
                        return Some(path.clone());
                    }
                }
                Touch::Command(command) => {
                    let names = &command.names;
                    let has_match = |candidate: &&Named, is: &dyn Fn(&PathOf) -> bool| {
                        let mut paths = names.paths(candidate, self.places);
                        paths.any(|path| path.is_known() && is(&path))
                    };
                    let targets = || {
                        names
                            .targets
                            .iter()
                            .find(|candidate| has_match(candidate, &is_write_protected))
                    };
                    let changed_words = names.words.iter().filter(|word| !word.only_reads);
                    let protected_path = names
                        .written
                        .iter()
                        .find(|candidate| {
                            names
                                .paths(candidate, self.places)
                                .any(|path| is_write_protected(&path))
                        })
                        .or_else(targets)
                        .or_else(|| {
                            let mut words = changed_words.map(|word| &word.named);
                            words.find(|candidate| has_match(candidate, &is_guarded))
                        });
                    if let Some(candidate) = protected_path {
                        return Some(candidate.word.to_string());
                    }
                }
                Touch::Read(_) | Touch::Url(_) => {}
            }
        }
        None
    }

    /// The decision of the rules that cover everything the call does, or what they leave
    /// uncovered, if that has a name.
    fn allows(&self, facts: &Facts<'_>) -> Result<Explanation, Option<String>> {
        let make_explanation = |rule: &Rule| {
            Explanation::new(Behavior::Allow, format!("allowed by rule {rule}")).with_rule(rule)
        };
        for rule in self.allowing(facts) {
            if matching::allows_all(rule, facts) || matching::allows_argument(rule, facts) {
                return Ok(make_explanation(rule));
            }
        }
        let mut last = None;
        for touch in &facts.touches {
            let rule = match touch {
                Touch::Command(command) => self.allows_command(facts, command)?,
                touch => self
                    .allowing(facts)
                    .find(|rule| matching::allows(rule, facts, touch, self.places))
                    .ok_or(None)?,
            };
            last = Some(rule);
        }
        last.map(make_explanation).ok_or(None)
    }

    fn allows_command(&self, facts: &Facts<'_>, whole: &Command) -> Result<&Rule, Option<String>> {
        let analysis = &whole.analysis;
        let mut rules = self.allowing(facts);
        if let Some(rule) = rules.find(|rule| matching::allows_commands(rule, facts)) {
            return Ok(rule);
        }
        let mut last = None;
        for command in analysis.commands.iter().filter(|c| !c.guessed) {
            if is_harmless(command, analysis) {
                continue;
            }
            let Some(rule) = self.allows_simple(facts, command, analysis) else {
                return Err(Some(format!("no rule allows `{command}`")));
            };
            last = Some(rule);
        }
        let mut reasons = analysis.opaque.iter();
        if let Some(reason) = reasons.find(|reason| reason.weight() != Weight::Script) {
            return Err(Some(reason.to_string()));
        }
        let mut written_paths = whole.names.written.iter();
        if let Some(named_path) =
            written_paths.find(|named_path| !self.allows_written(facts, whole, named_path))
        {
            return Err(Some(format!("no rule allows writing {}", named_path.word)));
        }
        last.ok_or(None)
    }

    fn allows_simple(
        &self,
        facts: &Facts<'_>,
        command: &SimpleCommand,
        analysis: &Analysis,
    ) -> Option<&Rule> {
        let is_function = |name: String| analysis.functions.contains(&name);
        if command.argv.is_empty() || command.program().is_some_and(is_function) {
            return None;
        }
        self.allowing(facts)
            .find(|rule| matching::allows_command(rule, facts, command))
    }

    fn allows_written(&self, facts: &Facts<'_>, whole: &Command, named: &Named) -> bool {
        let is_allowed = |path: &PathOf| {
            self.allowing(facts)
                .any(|rule| matching::allows_redirection(rule, path, self.places))
        };
        let is_covered = |path: PathOf| {
            self.mode == PermissionMode::AcceptEdits && path.is_inside(self.places)
                || path.is_known() && !named.word.is_glob() && is_allowed(&path)
        };
        named.is_free() || whole.names.paths(named, self.places).all(is_covered)
    }

    fn by_mode(&self, facts: &Facts<'_>, gap: Option<&str>) -> Explanation {
        let needs = || match gap {
            Some(gap) => gap.to_owned(),
            None => format!("no rule allows {}", facts.tool),
        };
        match self.mode {
            PermissionMode::BypassPermissions => {
                Explanation::new(Behavior::Allow, "permissions are bypassed")
            }
            _ if facts.read_only && facts.commands().next().is_none() => {
                Explanation::new(Behavior::Allow, "it only reads")
            }
            PermissionMode::AcceptEdits if self.is_edit(facts) => {
                Explanation::new(Behavior::Allow, "edits in the workspace are accepted")
            }
            PermissionMode::DontAsk => refused_instead(Explanation::new(Behavior::Ask, needs())),
            _ => Explanation::new(Behavior::Ask, needs()),
        }
    }

    fn is_edit(&self, facts: &Facts<'_>) -> bool {
        if facts.touches.is_empty() || facts.guessed {
            return family(facts.tool) == Family::Write;
        }
        facts.touches.iter().all(|touch| match touch {
            Touch::Write(path) | Touch::Read(path) => {
                PathOf::of_text(path, self.places).is_inside(self.places)
            }
            Touch::Command(_) | Touch::Url(_) => false,
        })
    }
}

/// Returns `true` if the command only sets upper-case variables, and nothing of the whole is
/// unclear.
fn is_harmless(command: &SimpleCommand, analysis: &Analysis) -> bool {
    let is_upper = |name: &String| name.starts_with(|c: char| c.is_ascii_uppercase());
    command.argv.is_empty()
        && analysis.opaque.is_empty()
        && command.assignments.iter().all(is_upper)
}

/// Returns `true` if hiding a command could get round the rule.
fn restricts_commands(rule: &Rule) -> bool {
    match rule.kind {
        Kind::Command(_) => true,
        Kind::Path(_) => {
            rule.name.matches("Read") || rule.name.matches("Write") || rule.name.matches("Edit")
        }
        _ => false,
    }
}

fn denied(rule: &Rule) -> Explanation {
    let reason = match rule.message() {
        Some(message) => message.to_owned(),
        None => format!("denied by rule {rule}"),
    };
    Explanation::new(Behavior::Deny, reason).with_rule(rule)
}

fn refused_instead(asked: Explanation) -> Explanation {
    Explanation {
        decision: Behavior::Deny,
        why: format!("tool not explicitly allowed (dontAsk mode): {}", asked.why),
        ..asked
    }
}
