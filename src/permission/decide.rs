//! The order in which rules, grants and modes decide.

use std::collections::HashSet;

use crate::tool::{PermissionMode, plan_mode_refusal};
use crate::util::path::short_path;
use crate::util::text::truncate;

use super::call_accesses::{CallAccess, CallAccesses, Command};
use super::call_size::excess;
use super::command_paths::{CommandPaths, PathWord};
use super::disk::Disk;
use super::explanation::{Explanation, rule_decision};
use super::glob::Match;
use super::matching::Matcher;
use super::parse::{Family, family};
use super::paths::{PathContext, PathOf};
use super::protected::{ProtectedPaths, may_be_of_git};
use super::rule::{Behavior, Rule, RuleKind};
use super::shell::{Analysis, Part, Reason, SimpleCommand, Use, Weight, Word};

/// The maximum length of a tool's name in a reason, in characters.
const MAX_NAME: usize = 64;

/// The rules and settings that decisions are based on.
pub(super) struct Policy<'a> {
    pub(super) rules: &'a [Rule],
    pub(super) context: &'a PathContext,
    pub(super) disk: &'a Disk,
    pub(super) protected_paths: ProtectedPaths<'a>,
    pub(super) mode: PermissionMode,
}

impl Policy<'_> {
    /// Returns the rules of this behavior.
    fn rules_of(&self, behavior: Behavior) -> impl Iterator<Item = &Rule> {
        self.rules
            .iter()
            .filter(move |rule| rule.behavior() == behavior)
    }

    /// Rules to allow. When the names of arguments are all that is known of a call, only those
    /// about its tool count.
    pub(super) fn allowing<'s>(
        &'s self,
        call: &CallAccesses<'_>,
    ) -> impl Iterator<Item = &'s Rule> {
        self.rules_of(Behavior::Allow)
            .filter(move |rule| !call.is_guessed || self.matcher(rule, call).names_tool())
    }

    pub(super) fn matcher<'s>(&'s self, rule: &'s Rule, call: &'s CallAccesses<'_>) -> Matcher<'s> {
        Matcher {
            rule,
            call,
            context: self.context,
            disk: self.disk,
        }
    }

    /// Returns the first rule of this behavior that matches the call. `possible_match` is set to
    /// the first rule that may match, unless it is set already.
    fn first_match<'s>(
        &'s self,
        behavior: Behavior,
        call: &CallAccesses<'_>,
        possible_match: &mut Option<&'s Rule>,
    ) -> Option<&'s Rule> {
        for rule in self.rules_of(behavior) {
            match self.matcher(rule, call).matches() {
                Match::Yes => return Some(rule),
                Match::Maybe => *possible_match = possible_match.or(Some(rule)),
                Match::No => {}
            }
        }

        None
    }

    /// Checks a call. `is_granted` is true if this session allows it already.
    pub(super) fn decide(&self, call: &CallAccesses<'_>, is_granted: bool) -> Explanation {
        // A rule about a tool as a whole needs no comparison, however large the call is.
        let mut denials = self.rules_of(Behavior::Deny);
        if let Some(rule) = denials.find(|rule| self.matcher(rule, call).is_about_all()) {
            return rule_decision(rule);
        }

        if let Some(question) = self.size_question(call) {
            return question;
        }

        let mut possible_match = None;
        if let Some(rule) = self.first_match(Behavior::Deny, call, &mut possible_match) {
            return rule_decision(rule);
        }

        if self.mode == PermissionMode::BypassPermissions
            && let Some(reason) = self.possible_denial(call, possible_match)
        {
            return reason;
        }

        if let Some(reason) = plan_mode_refusal(self.mode, call.read_only) {
            return Explanation::new(Behavior::Deny, reason);
        }

        if is_granted {
            return Explanation::new(Behavior::Allow, "allowed for this session");
        }

        if let Some(question) = self.required_question(call, possible_match) {
            return self.ask_or_deny(question);
        }

        let uncovered = match self.allows(call) {
            Ok(allowed) => return allowed,
            Err(uncovered) => uncovered,
        };

        self.by_mode(call, uncovered.as_deref())
    }

    /// Returns the question about a call that is too large to be compared with every rule: no rule
    /// is then known not to match, so bypassing permissions does not answer it.
    fn size_question(&self, call: &CallAccesses<'_>) -> Option<Explanation> {
        let excess = excess(call, self.rules)?;
        let rules = self.rules.len();
        let text = format!("it has {excess}, too many to compare each with {rules} rules");
        Some(self.ask_or_deny(self.unanswerable(text)))
    }

    /// Returns the question, or the denial in its place where no questions are asked.
    fn ask_or_deny(&self, mut question: Explanation) -> Explanation {
        if self.mode == PermissionMode::DontAsk {
            let why = question.why;
            question.why = format!("tool not explicitly allowed (dontAsk mode): {why}");
            question.decision = Behavior::Deny;
        }
        question
    }

    /// Returns the denial of a call that a deny rule may be about. In `bypassPermissions` it takes
    /// the place of the question.
    fn possible_denial(
        &self,
        call: &CallAccesses<'_>,
        possible_match: Option<&Rule>,
    ) -> Option<Explanation> {
        let mut denial = match possible_match {
            Some(rule) => self.possible_match_question(rule),
            None => self.hiding_question(call, self.rules_of(Behavior::Deny))?,
        };
        denial.decision = Behavior::Deny;
        Some(denial)
    }

    /// Returns the question that has to be answered regardless of allow rules.
    fn required_question<'s>(
        &'s self,
        call: &CallAccesses<'_>,
        mut possible_match: Option<&'s Rule>,
    ) -> Option<Explanation> {
        if let Some(rule) = self.first_match(Behavior::Ask, call, &mut possible_match) {
            return Some(rule_decision(rule));
        }

        if let Some(rule) = possible_match {
            return Some(self.possible_match_question(rule));
        }

        let mut reasons = call.commands().flat_map(|command| &command.analysis.opaque);
        if let Some(reason) = reasons.find(|reason| reason.weight() == Weight::Refused) {
            return Some(Explanation::new(Behavior::Ask, reason.to_string()).by_protection());
        }

        let restricting = self
            .rules
            .iter()
            .filter(|rule| rule.behavior() != Behavior::Allow);
        if let Some(question) = self.hiding_question(call, restricting) {
            return Some(question);
        }

        let text = match self.changed_protected_path(call) {
            Some(path) => format!("{} decides what runs later", short_path(&path)),
            None => self.unread_part(call)?.to_string(),
        };
        let question = Explanation::new(Behavior::Ask, text).by_protection();
        Some(self.limit_question().unwrap_or(question))
    }

    /// Returns the question about a call that a rule may be about.
    fn possible_match_question(&self, rule: &Rule) -> Explanation {
        let text = format!("rule {rule} may apply to it");
        let question = Explanation::new(Behavior::Ask, text).with_rule(rule);
        self.limit_question().unwrap_or(question)
    }

    /// Returns the question about a call that needs more work on the disk than one decision does:
    /// no rule is then known not to match, so bypassing permissions does not answer it.
    fn limit_question(&self) -> Option<Explanation> {
        let is_exhausted = self.disk.is_exhausted();
        is_exhausted.then(|| self.unanswerable(Disk::LIMIT.to_owned()))
    }

    /// A question that is a denial where permissions are bypassed.
    fn unanswerable(&self, text: String) -> Explanation {
        let decision = match self.mode {
            PermissionMode::BypassPermissions => Behavior::Deny,
            _ => Behavior::Ask,
        };
        Explanation::new(decision, text).by_protection()
    }

    /// Returns the first protected path that the call changes, as the call names it.
    fn changed_protected_path(&self, call: &CallAccesses<'_>) -> Option<String> {
        let possible = call.possible.iter().filter(|_| !call.read_only);
        let is_command = |access: &&CallAccess| matches!(access, CallAccess::Command(_));
        let accesses = call.accesses.iter();
        let mut accesses = accesses.chain(possible.filter(|access| !is_command(access)));
        accesses.find_map(|access| match access {
            CallAccess::Write(path) => {
                let is_protected = self
                    .protected_paths
                    .contain_or_are(&PathOf::of_text(path, self.context));
                is_protected.then(|| path.clone())
            }
            CallAccess::Command(command) => self.protected_word(&command.paths),
            CallAccess::Read(_) | CallAccess::Url(_) | CallAccess::Agent(_) => None,
        })
    }

    /// Returns the reason why a part of a command was not examined, which may write any protected
    /// path, or why it may be misread, if it has a piece of the name of such a path.
    fn unread_part<'c>(&self, call: &'c CallAccesses<'_>) -> Option<&'c Reason> {
        // Most texts in the arguments of an unknown tool are no commands.
        let mut commands = call.commands().filter(|_| !call.is_guessed);
        commands.find_map(|Command { text, analysis, .. }| {
            let unusual = analysis.unusual.as_ref();
            let may_hide = |_: &&Reason| self.protected_paths.may_be_in_pieces(text);
            analysis.unread.as_ref().or(unusual.filter(may_hide))
        })
    }

    /// Returns the first word of a command that names a protected path and may change it.
    fn protected_word(&self, paths: &CommandPaths) -> Option<String> {
        let protected_paths = &self.protected_paths;
        let path_of = |word: &PathWord| paths.path_of(word, self.context);
        let trees = || paths.trees(true).map(|(_, word)| word);
        let is_target = |word: &&PathWord| {
            let path = path_of(word).known();
            word.is_made
                || word.is_led()
                || protected_paths.contain_or_are(&path)
                || protected_paths.contain_made(&path)
        };
        let written_paths = paths.used(&[Use::Write]);
        let targets = paths.targets(self.context, self.disk).chain(trees());
        let links = paths.used(&[Use::Linked]);
        let work_folders = paths.work_folders.iter();
        let is_written = |word: &&PathWord| {
            let is_other = !word.word.is_of_new_names();
            is_target(word) || is_other && protected_paths.contain_or_are(&path_of(word))
        };
        let mut words = written_paths
            .filter(is_written)
            .chain(targets.filter(is_target))
            .chain(trees().filter(|word| protected_paths.has_own_path_in(&path_of(word))))
            // A link to a folder around the workspace leads to all protected paths.
            .chain(links.filter(|word| path_of(word).has_within(self.context)))
            .chain(self.protected_changes(paths))
            .chain(self.changes_of_git(paths))
            .chain(work_folders.filter(|word| protected_paths.contain(&path_of(word).known())));
        words.next().map(|word| word.word.to_string())
    }

    /// Returns the protected paths among the files that programs change.
    fn protected_changes<'p>(&self, paths: &'p CommandPaths) -> impl Iterator<Item = &'p PathWord> {
        let trees: HashSet<&Word> = paths.trees(true).map(|(_, tree)| &tree.word).collect();
        let words = paths.words.iter();
        let words = words.filter(move |(path_word, word_use)| {
            if !word_use.is_changed {
                return false;
            }
            let path = paths.path_of(path_word, self.context).known();
            if !word_use.is_replaced {
                return self.protected_paths.contain(&path);
            }

            // All that is in this folder may be changed, but the folder itself remains.
            let is_cut = trees.contains(&path_word.word) && !path_word.word.is(".");
            // A name that the command makes may be any name.
            word_use.is_written && (path_word.is_made || path_word.is_led())
                || is_cut && path.has_within(self.context)
                || self.protected_paths.contain_or_are(&path)
        });
        words.map(|(path_word, _)| path_word)
    }

    /// Returns the words that name files of git if their folder is the one of a repository, where
    /// that is not known.
    fn changes_of_git<'p>(&self, paths: &'p CommandPaths) -> impl Iterator<Item = &'p PathWord> {
        let may_run_anywhere = paths.may_run_anywhere();
        let words = paths.words.iter();
        let words = words.filter(|(_, word_use)| word_use.is_written && !word_use.is_git);
        let targets = paths.used(&[Use::Write, Use::Target, Use::TargetInFolder]);
        let files = words.map(|(path_word, _)| path_word).chain(targets);
        files.filter(move |file| {
            may_run_anywhere && !file.word.is_dynamic() && {
                let end = file.word.parts.last().and_then(Part::text);
                let is_folder = end.is_some_and(|text| text.ends_with('/'));
                may_be_of_git(&paths.path_of(file, self.context), is_folder)
            }
        })
    }

    /// Returns the decision of the rules that cover everything the call does, or what they leave
    /// uncovered, if that has a name.
    fn allows(&self, call: &CallAccesses<'_>) -> Result<Explanation, Option<String>> {
        let make_explanation = |rule: &Rule| {
            Explanation::new(Behavior::Allow, format!("allowed by rule {rule}")).with_rule(rule)
        };

        for rule in self.allowing(call) {
            let matcher = self.matcher(rule, call);
            if matcher.is_about_all() || matcher.allows_argument() {
                return Ok(make_explanation(rule));
            }
        }

        let mut last = None;
        for access in &call.accesses {
            let rule = match access {
                CallAccess::Command(command) => self.allows_command(call, command)?,
                access => self
                    .allowing(call)
                    .find(|rule| self.matcher(rule, call).allows(access))
                    .ok_or(None)?,
            };

            last = Some(rule);
        }

        last.map(make_explanation).ok_or(None)
    }

    fn allows_command(
        &self,
        call: &CallAccesses<'_>,
        command: &Command,
    ) -> Result<&Rule, Option<String>> {
        let analysis = &command.analysis;
        let mut rules = self.allowing(call);
        if let Some(rule) = rules.find(|rule| self.matcher(rule, call).allows_commands()) {
            return Ok(rule);
        }

        let mut last = None;
        for simple_command in analysis.covered() {
            let Some(rule) = self.allows_simple(call, simple_command, analysis) else {
                if self.is_harmless(command, simple_command) {
                    continue;
                }
                return Err(Some(format!("no rule allows `{simple_command}`")));
            };

            last = Some(rule);
        }

        let mut reasons = analysis.opaque.iter();
        if let Some(reason) = reasons.find(|reason| reason.weight() != Weight::Script) {
            return Err(Some(reason.to_string()));
        }

        let names_git = |command: &SimpleCommand| {
            let is_git = command.program().is_some_and(|name| name == "git");
            let mut rules = self.allowing(call).filter(|rule| match &rule.kind {
                RuleKind::Command(pattern) => pattern.words().len() == 1,
                _ => false,
            });
            !is_git || rules.any(|rule| self.matcher(rule, call).allows_command(command))
        };
        if let Some(reason) = self.other_repository(command)
            && !analysis.commands.iter().all(names_git)
        {
            return Err(Some(reason));
        }

        let mut folders = command.paths.projects();
        if let Some(folder) = folders.find(|folder| !self.allows_folder(call, command, folder)) {
            return Err(Some(format!("no rule allows working in {}", folder.word)));
        }

        let mut addresses = command.paths.used(&[Use::Address]);
        if let Some(address) = addresses.find(|address| !self.allows_word(call, command, address)) {
            return Err(Some(format!("no rule allows {}", address.word)));
        }

        // A link matters only in a command that also writes a file, which may lie behind the link.
        let is_writing = command.paths.used(&[Use::Write]).next().is_some();
        let written_paths = command.paths.used(&[Use::Write, Use::Linked]);
        let mut written_paths = written_paths.filter(|_| is_writing);
        if let Some(path) = written_paths.find(|path| !self.allows_written(call, command, path)) {
            return Err(Some(format!("no rule allows writing {}", path.word)));
        }

        last.ok_or(None)
    }

    /// Returns `true` if the folder is the workspace's, or if a rule spells it out.
    fn allows_folder(&self, call: &CallAccesses<'_>, command: &Command, folder: &PathWord) -> bool {
        let path = command.paths.path_at_run(folder, self.context);
        folder.is_discarded()
            || path.is_within(self.context)
            || self.allows_word(call, command, folder)
    }

    /// Returns `true` if each command that has the word is allowed by a rule that spells it out.
    fn allows_word(&self, call: &CallAccesses<'_>, command: &Command, word: &PathWord) -> bool {
        let path = word.word.to_string();
        let spells = |command: &SimpleCommand| {
            let mut rules = self.allowing(call).filter(|rule| rule.spells(&path));
            rules.any(|rule| self.matcher(rule, call).allows_command(command))
        };
        let names = |command: &&SimpleCommand| {
            let mut words = command.argv.iter();
            words.any(|word| word.to_string().ends_with(&path))
        };
        let analysis = &command.analysis;
        analysis.commands.iter().any(spells) && analysis.covered().filter(names).all(spells)
    }

    fn allows_simple(
        &self,
        call: &CallAccesses<'_>,
        command: &SimpleCommand,
        analysis: &Analysis,
    ) -> Option<&Rule> {
        let is_function = |name: String| analysis.functions.contains(&name);
        if command.argv.is_empty() || command.program().is_some_and(is_function) {
            return None;
        }
        self.allowing(call)
            .find(|rule| self.matcher(rule, call).allows_command(command))
    }

    /// Returns `true` for `break` and `continue`, and, if all of the whole is understood, for a
    /// command without a program that only sets variables whose names begin with a capital letter,
    /// or reads a file of the workspace.
    fn is_harmless(&self, whole: &Command, command: &SimpleCommand) -> bool {
        if command.argv.len() == 1 && (command.is("break") || command.is("continue")) {
            return true;
        }
        let is_upper = |name: &String| name.starts_with(|c: char| c.is_ascii_uppercase());
        let is_inside = |file: &Word| {
            let path = whole.paths.path_of_word(file, self.context);
            path.is_within(self.context)
        };
        command.argv.is_empty()
            && whole.analysis.opaque.is_empty()
            && command.assignments.iter().all(is_upper)
            && command.input_file.iter().all(is_inside)
    }

    fn allows_written(
        &self,
        call: &CallAccesses<'_>,
        command: &Command,
        path_word: &PathWord,
    ) -> bool {
        let is_allowed = |path: &PathOf| {
            self.allowing(call)
                .any(|rule| self.matcher(rule, call).allows_redirection(path))
        };

        let path = command.paths.path_of(path_word, self.context);
        let is_covered = self.mode == PermissionMode::AcceptEdits && path.is_below(self.context)
            || path.is_known() && is_allowed(&path);
        let may_be_other = path_word.word.is_glob() || path_word.is_led();
        path_word.is_discarded() || !may_be_other && is_covered
    }

    fn by_mode(&self, call: &CallAccesses<'_>, uncovered: Option<&str>) -> Explanation {
        match self.mode {
            PermissionMode::BypassPermissions => {
                Explanation::new(Behavior::Allow, "permissions are bypassed")
            }
            _ if call.read_only && call.commands().next().is_none() => {
                Explanation::new(Behavior::Allow, "it only reads")
            }
            PermissionMode::AcceptEdits if self.is_edit(call) => {
                Explanation::new(Behavior::Allow, "edits in the workspace are accepted")
            }
            _ => self.ask_or_deny(match uncovered {
                Some(uncovered) => Explanation::new(Behavior::Ask, uncovered),
                None => {
                    let tool = truncate(call.tool, MAX_NAME);
                    Explanation::new(Behavior::Ask, format!("no rule allows {tool}"))
                }
            }),
        }
    }

    fn is_edit(&self, call: &CallAccesses<'_>) -> bool {
        if call.accesses.is_empty() {
            // An argument whose name is not known may be the path.
            let has_arguments = call.args.as_object().is_some_and(|args| !args.is_empty());
            return family(call.tool) == Family::Write && !has_arguments;
        }
        !call.is_guessed
            && call.accesses.iter().all(|access| match access {
                CallAccess::Write(path) | CallAccess::Read(path) => {
                    PathOf::of_text(path, self.context).is_below(self.context)
                }
                CallAccess::Command(_) | CallAccess::Url(_) | CallAccess::Agent(_) => false,
            })
    }
}
