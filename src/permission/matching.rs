//! The comparison of a rule with a call.

use super::beneath::Beneath;
use super::call_accesses::{CallAccess, CallAccesses, Command};
use super::command_paths::{CommandPaths, PathWord};
use super::disk::Disk;
use super::glob::Match;
use super::line_paths::LinePaths;
use super::parse::{Family, family};
use super::paths::{PathContext, PathOf, PathPattern};
use super::pattern::CommandPattern;
use super::rule::{Behavior, Rule, RuleKind};
use super::shell::{Files, SimpleCommand, Use};
use super::url::{Url, UrlPattern};
use super::values::{fits, may_fit, name_arguments, words_of};
use super::walk::Walk;

/// A rule, and the call that it is compared with.
#[derive(Clone, Copy)]
pub(super) struct Matcher<'a> {
    pub(super) rule: &'a Rule,
    pub(super) call: &'a CallAccesses<'a>,
    pub(super) context: &'a PathContext,
    pub(super) disk: &'a Disk,
}

impl<'a> Matcher<'a> {
    /// Matches a deny or ask rule against everything the call does, or may do: `Maybe` if an
    /// argument, or a command that is known in part, may be what the rule is about.
    pub(super) fn matches(self) -> Match {
        match self.known_match() {
            Match::No if self.may_match() => Match::Maybe,
            known_match => known_match,
        }
    }

    /// Matches a deny or ask rule against everything the call does as far as it is known.
    pub(super) fn known_match(self) -> Match {
        let by_name = self.names_tool();
        let Self { rule, call, .. } = self;
        match &rule.kind {
            RuleKind::Tool => {
                (by_name || call.accesses.iter().any(|access| governs(rule, access))).into()
            }
            RuleKind::Command(pattern) => {
                let mut commands = call.commands().peekable();
                if commands.peek().is_none() {
                    return by_name.into();
                }

                if !self.governs_commands() {
                    return Match::No;
                }

                let patterns = pattern.spellings();
                let mut commands = commands.flat_map(|command| &command.analysis.commands);
                let catches = |command: &SimpleCommand| {
                    !command.may_be_evaluated() && patterns.iter().any(|p| p.catches(command))
                };
                (pattern.is_any() || commands.any(catches)).into()
            }
            RuleKind::Path(pattern) => self.path_match(pattern),
            RuleKind::Url(pattern) => self.url_match(pattern),
            RuleKind::Named(pattern) => self.name_match(pattern),
            RuleKind::Argument(argument, value) if by_name => match call.args.get(argument) {
                Some(given) => may_fit(value, given).into(),
                // A rule to ask is about the value; without one there may be a default.
                None if rule.behavior() == Behavior::Ask => Match::Maybe,
                None => Match::Yes,
            },
            RuleKind::Argument(..) => Match::No,
        }
    }

    /// Returns `true` if the call may be what a deny or ask rule is about: a command of it, or a
    /// text among its arguments, which may be a path, an address or a command.
    fn may_match(self) -> bool {
        let Self { rule, context, .. } = self;
        let mut accesses = self.call.possible.iter();
        match &rule.kind {
            RuleKind::Command(pattern) => {
                let is_about = !pattern.is_any() && self.governs_commands();
                if is_about && self.call.has_more {
                    return true;
                }
                let patterns = pattern.spellings();
                let may_be = |command: &Command| {
                    patterns.iter().any(|pattern| {
                        let commands = &command.analysis.commands;
                        let line = LinePaths::new(&command.paths, context, pattern, commands);
                        let mut commands = commands.iter();
                        commands.any(|command| pattern.may_be_about(command, &line))
                    })
                };
                let catches = |command: &Command| {
                    let mut commands = command.analysis.commands.iter();
                    commands.any(|command| pattern.catches(command))
                };
                let mut possible = accesses.filter_map(|access| match access {
                    CallAccess::Command(command) => Some(&**command),
                    _ => None,
                });
                is_about
                    && (self.call.commands().any(may_be)
                        || possible.any(|command| catches(command) || may_be(command)))
            }
            RuleKind::Path(_) | RuleKind::Url(_) if self.call.has_more => true,
            RuleKind::Path(pattern) => accesses.any(|access| match access {
                CallAccess::Read(path) | CallAccess::Write(path) if is_general(rule, access) => {
                    pattern.catches(&PathOf::of_text(path, context), context) != Match::No
                }
                _ => false,
            }),
            RuleKind::Url(pattern) => accesses.any(|access| match access {
                CallAccess::Url(url) if is_general(rule, access) => {
                    Url::possible(url).is_some_and(|url| pattern.matches(&url))
                }
                _ => false,
            }),
            _ => false,
        }
    }

    /// Matches the pattern against the agents that the call starts; without one, against the name
    /// among the arguments.
    fn name_match(self, pattern: &CommandPattern) -> Match {
        let mut agents = self.call.agents().peekable();
        if agents.peek().is_some() {
            let governs = self.names_tool() || governs_agents(self.rule);
            return (governs && agents.any(|name| pattern.catches(&words_of(name)))).into();
        }

        if !self.names_tool() {
            return Match::No;
        }

        let mut names = name_arguments(self.call.args).peekable();
        let is_match = names.peek().is_none() || names.any(|n| pattern.catches(&words_of(n)));
        is_match.into()
    }

    fn path_match(self, pattern: &PathPattern) -> Match {
        let by_name = self.names_tool();
        let covers_reads = self.rule.name.matches("Read");
        let covers_writes = governs_writes(self.rule);
        let mut has_access = false;
        let mut best_match = Match::No;
        for access in &self.call.accesses {
            match access {
                CallAccess::Read(path) | CallAccess::Write(path) => {
                    has_access = true;
                    if by_name || is_general(self.rule, access) {
                        let path = PathOf::of_text(path, self.context);
                        best_match = best_match.max(pattern.catches(&path, self.context));
                    }
                }
                CallAccess::Command(command) => {
                    if covers_reads {
                        best_match = best_match.max(self.read_match(&command.paths, pattern));
                    }

                    if covers_writes {
                        best_match = best_match.max(self.write_match(&command.paths, pattern));
                    }
                }
                CallAccess::Url(_) | CallAccess::Agent(_) => {}
            }
        }

        let governs_tool = match family(self.call.tool) {
            Family::Read => covers_reads,
            Family::Write => covers_writes,
            _ => false,
        };
        if (by_name || governs_tool) && !has_access {
            Match::Yes
        } else {
            best_match
        }
    }

    fn url_match(self, pattern: &UrlPattern) -> Match {
        let by_name = self.names_tool();
        let accesses = self.call.accesses.iter();
        let urls = accesses.filter_map(|access| match access {
            CallAccess::Url(url) => Some(url),
            _ => None,
        });
        let mut urls = urls.peekable();
        if urls.peek().is_none() {
            return by_name.into();
        }
        // An address that cannot be parsed may be any address.
        let is_match = |url: &String| Url::parse(url).is_none_or(|url| pattern.matches(&url));
        ((by_name || self.rule.name.matches("WebFetch")) && urls.any(is_match)).into()
    }

    /// Matches the pattern against the files the command reads.
    fn read_match(self, paths: &CommandPaths, pattern: &PathPattern) -> Match {
        let words = paths.words.iter();
        let words = words.filter(|(_, word_use)| word_use.files != Files::Unopened);
        let read_paths = paths.used(&[Use::Read, Use::Directory]);
        let read_paths = read_paths.chain(words.map(|(word, _)| word));
        let mut word_match = self.words_match(paths, read_paths, pattern);
        if !paths.is_alone {
            // Another command may read what a new link leads to.
            let links = self.words_match(paths, paths.used(&[Use::Linked]), pattern);
            word_match = word_match.max(links.min(Match::Maybe));
        }
        word_match.max(self.trees_match(paths, pattern, false, word_match))
    }

    /// Matches the pattern against the files the command writes: redirections, words of programs
    /// that do more than read, and folders that are changed with all that is in them.
    fn write_match(self, paths: &CommandPaths, pattern: &PathPattern) -> Match {
        let words = paths.words.iter();
        let words = words.filter(|(_, word_use)| word_use.is_changed);
        let targets = paths.targets(self.context, self.disk);
        let written_paths = paths.used(&[Use::Write, Use::Linked]).chain(targets);
        let written_paths = written_paths.chain(words.map(|(word, _)| word));
        let word_match = self.words_match(paths, written_paths, pattern);
        word_match.max(self.trees_match(paths, pattern, true, word_match))
    }

    /// Returns the best match of the paths that words may be. The words behind a certain match are
    /// not compared.
    fn words_match<'p>(
        self,
        paths: &CommandPaths,
        words: impl Iterator<Item = &'p PathWord>,
        pattern: &PathPattern,
    ) -> Match {
        let mut best_match = Match::No;
        for word in words {
            let path = paths.path_with_numbers(word, self.context);
            let certainty = Match::Maybe.max(word.is_certain.into());
            let word_match = pattern.catches(&path, self.context).min(certainty);
            best_match = best_match.max(word_match).max(word.lead.min(Match::Maybe));
            if best_match == Match::Yes {
                break;
            }
        }
        best_match
    }

    /// Returns `Maybe` if a path the pattern matches may lie in a folder that is read, or changed,
    /// with all that is in it. Nothing is looked up if the words of the command match already.
    fn trees_match(
        self,
        paths: &CommandPaths,
        pattern: &PathPattern,
        changes: bool,
        word_match: Match,
    ) -> Match {
        let may_find = word_match == Match::No
            && paths.trees(changes).any(|(tree, path_word)| {
                let walk = Walk {
                    pattern,
                    context: self.context,
                    disk: self.disk,
                    skips_hidden: tree.skips_hidden,
                    follows_links: tree.follows_links,
                };
                path_word.lead != Match::No || self.may_find(paths, path_word, walk)
            });
        if may_find { Match::Maybe } else { Match::No }
    }

    /// Returns `true` if a walk from the folder may come past a path of the pattern.
    fn may_find(self, paths: &CommandPaths, path_word: &PathWord, walk: Walk<'_>) -> bool {
        let context = self.context;
        let path = paths.path_with_numbers(path_word, context);
        match walk.pattern.beneath(&path, context, walk.skips_hidden) {
            Beneath::Possible => true,
            Beneath::Impossible if !walk.follows_links => false,
            Beneath::Impossible | Beneath::OnDisk => {
                !context.follows_links || {
                    let mut folders = path.0.iter();
                    folders.any(|folder| match self.disk.expand(folder, false) {
                        Some(folders) => folders.iter().any(|folder| walk.may_find(folder)),
                        None => true,
                    })
                }
            }
        }
    }

    /// Returns `true` if the rule is about every call of the tool.
    pub(super) fn is_about_all(self) -> bool {
        matches!(self.rule.kind, RuleKind::Tool) && self.names_tool()
    }

    /// Returns `true` if an allow rule covers this one access.
    pub(super) fn allows(self, access: &CallAccess) -> bool {
        let by_name = self.names_tool();
        let rule = self.rule;
        match (&rule.kind, access) {
            (RuleKind::Tool, access) => by_name || governs(rule, access),
            _ if !by_name && !is_general(rule, access) => false,
            (RuleKind::Path(pattern), CallAccess::Read(path) | CallAccess::Write(path)) => {
                pattern.covers(&PathOf::of_text(path, self.context), self.context)
            }
            (RuleKind::Url(pattern), CallAccess::Url(url)) => {
                Url::parse(url).is_some_and(|url| pattern.allows(&url))
            }
            (RuleKind::Named(pattern), CallAccess::Agent(name)) => pattern.allows(&words_of(name)),
            _ => false,
        }
    }

    /// Returns `true` if an allow rule about a name or an argument covers the call.
    pub(super) fn allows_argument(self) -> bool {
        if !self.names_tool() {
            return false;
        }

        match &self.rule.kind {
            // Each agent that the call starts is allowed separately.
            RuleKind::Named(_) if self.call.agents().next().is_some() => false,
            RuleKind::Named(pattern) => {
                let mut names = name_arguments(self.call.args).peekable();
                names.peek().is_some() && names.all(|name| pattern.allows(&words_of(name)))
            }
            RuleKind::Argument(argument, value) => self
                .call
                .args
                .get(argument)
                .is_some_and(|given| fits(value, given)),
            _ => false,
        }
    }

    /// Returns `true` if an allow rule covers every command of any shell tool.
    pub(super) fn allows_commands(self) -> bool {
        let is_any = match &self.rule.kind {
            RuleKind::Tool => true,
            RuleKind::Command(pattern) => pattern.is_any(),
            _ => false,
        };
        is_any && self.governs_commands()
    }

    /// Returns `true` if an allow rule covers this simple command.
    pub(super) fn allows_command(self, command: &SimpleCommand) -> bool {
        match &self.rule.kind {
            RuleKind::Command(pattern) => self.governs_commands() && pattern.allows(command),
            _ => false,
        }
    }

    /// Returns `true` if an allow rule covers writing to this redirection's target.
    pub(super) fn allows_redirection(self, path: &PathOf) -> bool {
        let is_covered = match &self.rule.kind {
            RuleKind::Tool => true,
            RuleKind::Path(pattern) => pattern.covers(path, self.context),
            _ => false,
        };
        is_covered && governs_writes(self.rule)
    }

    /// Returns `true` if the rule is about the call's tool by its name.
    pub(super) fn names_tool(self) -> bool {
        let tool = self.call.tool;
        self.rule.name.matches(tool) || is_server_of(self.rule.tool(), tool)
    }

    /// Returns `true` if the rule is about files that the tool reads.
    pub(super) fn governs_reads(self) -> bool {
        self.names_tool() || self.rule.name.matches("Read")
    }

    /// Returns `true` if the rule is about commands that the tool runs: `Bash` applies to every
    /// shell tool.
    fn governs_commands(self) -> bool {
        self.names_tool() || self.rule.name.matches("Bash")
    }
}

/// Returns `true` if the rule is about all tools that write files.
pub(super) fn governs_writes(rule: &Rule) -> bool {
    rule.name.matches("Write") || rule.name.matches("Edit")
}

/// Returns `true` if a rule with a specifier is about accesses of this kind by any tool.
fn is_general(rule: &Rule, access: &CallAccess) -> bool {
    match access {
        CallAccess::Command(_) => rule.name.matches("Bash"),
        CallAccess::Read(_) => rule.name.matches("Read"),
        CallAccess::Write(_) => governs_writes(rule),
        CallAccess::Url(_) => rule.name.matches("WebFetch"),
        CallAccess::Agent(_) => governs_agents(rule),
    }
}

/// Returns `true` if the rule is about all tools that start agents.
fn governs_agents(rule: &Rule) -> bool {
    let names = rule.name.names().unwrap_or_default();
    names.iter().any(|name| name == "Agent" || name == "Task")
}

/// Returns `true` if the rule names the server of the tool: `mcp__server` is about all its tools.
pub(super) fn is_server_of(rule: &str, tool: &str) -> bool {
    rule.strip_prefix("mcp__")
        .is_some_and(|server| !server.is_empty() && !server.contains("__"))
        && tool
            .strip_prefix(rule)
            .is_some_and(|rest| rest.starts_with("__"))
}

/// Returns `true` if a rule without a specifier is about all calls with this access.
fn governs(rule: &Rule, access: &CallAccess) -> bool {
    // A pattern such as `*` matches tool names only; the name of a family also covers the same
    // actions of other tools.
    let names = rule.name.names().unwrap_or_default();
    let has_tool =
        |wanted: Family, name: &str| family(name) == wanted && names.iter().any(|n| n == name);
    match access {
        CallAccess::Command(command) => {
            let paths = &command.paths;
            let has_reads = paths.used(&[Use::Read]).next().is_some() || paths.shows_files;
            let has_writes = !paths.used(&[Use::Write]).all(PathWord::is_discarded)
                || paths.changes_files
                || paths.trees(true).next().is_some()
                || paths.used(&[Use::Target]).next().is_some();
            let has_access = has_tool(Family::Read, "Read") && has_reads
                || (has_tool(Family::Write, "Write") || has_tool(Family::Write, "Edit"))
                    && has_writes;
            has_tool(Family::Command, "Bash") || rule.behavior() != Behavior::Allow && has_access
        }
        CallAccess::Read(_) => has_tool(Family::Read, "Read"),
        CallAccess::Write(_) => has_tool(Family::Write, "Write") || has_tool(Family::Write, "Edit"),
        CallAccess::Url(_) => has_tool(Family::Url, "WebFetch"),
        CallAccess::Agent(_) => governs_agents(rule),
    }
}
