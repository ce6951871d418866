//! Rules against a call.

use serde_json::Value;

use super::facts::{Facts, Touch};
use super::glob::{Match, matches, tokens};
use super::named::{Named, NamedPaths};
use super::parse::{Family, family};
use super::paths::{PathOf, PathPattern, Places};
use super::rule::{Behavior, Kind, Rule};
use super::shell::{SimpleCommand, Word};
use super::url::Url;

/// Matches a deny or ask rule against everything the call does, or may do.
pub(super) fn catches(rule: &Rule, facts: &Facts<'_>, places: &Places) -> Match {
    let by_name = names_tool(rule, facts.tool);
    match &rule.kind {
        Kind::Whole => (by_name || facts.touches.iter().any(|touch| governs(rule, touch))).into(),
        Kind::Command(pattern) => {
            let mut commands = facts.commands().peekable();
            if commands.peek().is_none() {
                return by_name.into();
            }
            if !governs_commands(rule, facts.tool) {
                return Match::No;
            }
            commands
                .flat_map(|command| &command.analysis.commands)
                .map(|command| pattern.catches(command))
                .max()
                .unwrap_or(pattern.is_any().into())
        }
        Kind::Path(pattern) => paths(rule, by_name, pattern, facts, places),
        Kind::Url(pattern) => {
            let mut has_touch = false;
            let mut best_match = Match::No;
            for touch in &facts.touches {
                if let Touch::Url(url) = touch {
                    has_touch = true;
                    if by_name || rule.name.matches("WebFetch") {
                        // What is no plain address may lead anywhere.
                        let hit = Url::parse(url).is_none_or(|url| pattern.matches(&url));
                        best_match = best_match.max(hit.into());
                    }
                }
            }
            if has_touch {
                best_match
            } else {
                by_name.into()
            }
        }
        Kind::Named(pattern) if by_name => match name_argument(facts.args) {
            Some(name) => pattern.catches(&words_of(name)),
            None => Match::Yes,
        },
        Kind::Argument(argument, value) if by_name => match facts.args.get(argument) {
            Some(given) => fits(value, given).into(),
            None if facts.args.is_object() => Match::No,
            None => Match::Yes,
        },
        Kind::Named(_) | Kind::Argument(..) => Match::No,
    }
}

fn paths(
    rule: &Rule,
    by_name: bool,
    pattern: &PathPattern,
    facts: &Facts<'_>,
    places: &Places,
) -> Match {
    let covers_reads = rule.name.matches("Read");
    let covers_writes = governs_writes(rule);
    let mut has_touch = false;
    let mut best_match = Match::No;
    for touch in &facts.touches {
        match touch {
            Touch::Read(path) | Touch::Write(path) => {
                has_touch = true;
                let is_read = matches!(touch, Touch::Read(_));
                if by_name || (is_read && covers_reads) || (!is_read && covers_writes) {
                    let path = PathOf::of_text(path, places);
                    best_match = best_match.max(pattern.catches(&path, places));
                }
            }
            Touch::Command(command) => {
                if covers_reads {
                    best_match = best_match.max(read_by(&command.names, pattern, places));
                }
                if covers_writes {
                    best_match = best_match.max(written_by(&command.names, pattern, places));
                }
            }
            Touch::Url(_) => {}
        }
    }
    if by_name && !has_touch {
        Match::Yes
    } else {
        best_match
    }
}

/// Matches the pattern against the files the command reads, by its words.
fn read_by(names: &NamedPaths, pattern: &PathPattern, places: &Places) -> Match {
    let hit = |named: &Named| caught(names, named, pattern, places);
    let read_hits = names.read.iter().map(hit);
    let words = names.words.iter().map(|word| match hit(&word.named) {
        Match::Maybe if word.speaks => Match::No,
        hit => hit,
    });
    let best_match = read_hits.chain(words).max().unwrap_or(Match::No);
    let is_above = |named: &Named| {
        let mut paths = names.paths(named, places);
        paths.any(|path| pattern.lies_beneath(&path, places))
    };
    match names.deep.iter().any(is_above) {
        true => best_match.max(Match::Maybe),
        false => best_match,
    }
}

/// Matches the pattern against the files the command writes: redirections, and words of programs
/// that do more than read.
fn written_by(names: &NamedPaths, pattern: &PathPattern, places: &Places) -> Match {
    let words = names.words.iter().filter(|word| !word.only_reads);
    let written_paths = names.written.iter().chain(words.map(|word| &word.named));
    let hits = written_paths.map(|named| caught(names, named, pattern, places));
    hits.max().unwrap_or(Match::No)
}

fn caught(names: &NamedPaths, named: &Named, pattern: &PathPattern, places: &Places) -> Match {
    let paths = names.paths(named, places);
    let hits = paths.map(|path| pattern.catches(&path, places));
    hits.max().unwrap_or(Match::No)
}

/// Returns `true` if an allow rule covers every call of the tool.
pub(super) fn allows_all(rule: &Rule, facts: &Facts<'_>) -> bool {
    matches!(rule.kind, Kind::Whole) && names_tool(rule, facts.tool)
}

/// Returns `true` if an allow rule covers this one touch.
pub(super) fn allows(rule: &Rule, facts: &Facts<'_>, touch: &Touch, places: &Places) -> bool {
    let by_name = names_tool(rule, facts.tool);
    match (&rule.kind, touch) {
        (Kind::Whole, touch) => by_name || governs(rule, touch),
        (Kind::Path(pattern), Touch::Read(path)) if by_name || rule.name.matches("Read") => {
            path_allowed(pattern, path, places)
        }
        (Kind::Path(pattern), Touch::Write(path)) if by_name || governs_writes(rule) => {
            path_allowed(pattern, path, places)
        }
        (Kind::Url(pattern), Touch::Url(url)) if by_name || rule.name.matches("WebFetch") => {
            Url::parse(url).is_some_and(|url| pattern.matches(&url))
        }
        _ => false,
    }
}

fn path_allowed(pattern: &PathPattern, path: &str, places: &Places) -> bool {
    pattern.covers(&PathOf::of_text(path, places), places)
}

/// Returns `true` if an allow rule about a name or an argument covers the call.
pub(super) fn allows_argument(rule: &Rule, facts: &Facts<'_>) -> bool {
    if !names_tool(rule, facts.tool) {
        return false;
    }
    match &rule.kind {
        Kind::Named(pattern) => {
            name_argument(facts.args).is_some_and(|name| pattern.allows(&words_of(name)))
        }
        Kind::Argument(argument, value) => facts
            .args
            .get(argument)
            .is_some_and(|given| fits(value, given)),
        _ => false,
    }
}

/// Returns `true` if an allow rule covers every command of any shell tool.
pub(super) fn allows_commands(rule: &Rule, facts: &Facts<'_>) -> bool {
    let is_any = match &rule.kind {
        Kind::Whole => true,
        Kind::Command(pattern) => pattern.is_any(),
        _ => false,
    };
    is_any && governs_commands(rule, facts.tool)
}

/// Returns `true` if an allow rule covers this simple command.
pub(super) fn allows_command(rule: &Rule, facts: &Facts<'_>, command: &SimpleCommand) -> bool {
    match &rule.kind {
        Kind::Command(pattern) => governs_commands(rule, facts.tool) && pattern.allows(command),
        _ => false,
    }
}

/// Returns `true` if an allow rule covers writing to this redirection's target.
pub(super) fn allows_redirection(rule: &Rule, path: &PathOf, places: &Places) -> bool {
    let is_covered = match &rule.kind {
        Kind::Whole => true,
        Kind::Path(pattern) => pattern.covers(path, places),
        _ => false,
    };
    is_covered && governs_writes(rule)
}

/// Returns `true` if the rule is about this tool by its name.
pub(super) fn names_tool(rule: &Rule, tool: &str) -> bool {
    rule.name.matches(tool) || is_server_of(rule.tool(), tool)
}

/// Returns `true` if the rule is about commands that this tool runs: `Bash` applies to every shell
/// tool.
fn governs_commands(rule: &Rule, tool: &str) -> bool {
    names_tool(rule, tool) || rule.name.matches("Bash")
}

/// Returns `true` if the rule is about all tools that write files.
fn governs_writes(rule: &Rule) -> bool {
    rule.name.matches("Write") || rule.name.matches("Edit")
}

/// `mcp__server` is every tool of the server.
fn is_server_of(rule: &str, tool: &str) -> bool {
    rule.strip_prefix("mcp__")
        .is_some_and(|server| !server.is_empty() && !server.contains("__"))
        && tool
            .strip_prefix(rule)
            .is_some_and(|rest| rest.starts_with("__"))
}

/// Returns `true` if a rule without a specifier is about all calls with this touch.
fn governs(rule: &Rule, touch: &Touch) -> bool {
    // A pattern such as `*` names tools; a family's own name stands for what its tools do.
    let names = rule.name.names().unwrap_or_default();
    let has_tool =
        |wanted: Family, name: &str| family(name) == wanted && names.iter().any(|n| n == name);
    match touch {
        Touch::Command(command) => {
            let names = &command.names;
            let has_reads = !command.analysis.reads.is_empty() || names.shows_some;
            let has_writes = !names.written.iter().all(Named::is_free) || names.changes_some;
            let has_access = has_tool(Family::Read, "Read") && has_reads
                || (has_tool(Family::Write, "Write") || has_tool(Family::Write, "Edit"))
                    && has_writes;
            has_tool(Family::Command, "Bash") || rule.behavior() != Behavior::Allow && has_access
        }
        Touch::Read(_) => has_tool(Family::Read, "Read"),
        Touch::Write(_) => has_tool(Family::Write, "Write") || has_tool(Family::Write, "Edit"),
        Touch::Url(_) => has_tool(Family::Url, "WebFetch"),
    }
}

fn name_argument(args: &Value) -> Option<&str> {
    ["subagent_type", "agent", "skill", "name", "command"]
        .iter()
        .find_map(|key| args.get(key)?.as_str())
}

fn words_of(text: &str) -> SimpleCommand {
    SimpleCommand {
        argv: text.split_whitespace().map(Word::from_text).collect(),
        ..SimpleCommand::default()
    }
}

fn fits(pattern: &str, given: &Value) -> bool {
    let text = match given {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    matches(&tokens(pattern), &text.chars().collect::<Vec<_>>())
}
