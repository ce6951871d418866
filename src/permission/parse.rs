//! The text of a rule.

use crate::error::{Error, ErrorKind, Result};
use crate::util::text::truncate;

use super::call_accesses::{PATH_ARGUMENTS, URL_ARGUMENTS};
use super::glob::{NameGlob, alternatives};
use super::paths::PathPattern;
use super::pattern::CommandPattern;
use super::rule::{Behavior, Rule, RuleKind};
use super::url::UrlPattern;

/// The kind of a tool, which decides what a specifier of its rules is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    Command,
    Read,
    Write,
    Url,
    Named,
    Other,
}

/// The maximum length of a rule, which is that of a command, in bytes.
const MAX_RULE_BYTES: usize = 64 * 1024;

/// The number of characters of a rule that its error quotes.
const QUOTED_CHARS: usize = 200;

/// Tools that take no specifier at all.
const NO_SPECIFIER: &str =
    "WebSearch internet_search web_search TodoWrite write_todos AskUserQuestion current_datetime";

/// The arguments that are the command of a shell tool.
const COMMAND_ARGUMENTS: &[&str] = &["command", "cmd"];

/// The arguments that are the name of a skill.
const SKILL_ARGUMENTS: &[&str] = &["skill", "name", "command"];

/// The arguments that are the name of an agent.
const AGENT_NAMES: &[&str] = &["subagent_type", "agent", "name"];

/// Arguments of tools that start agents, other than the name of the agent.
const AGENT_ARGUMENTS: &[&str] = &[
    "description",
    "model",
    "prompt",
    "resume",
    "run_in_background",
];

/// Returns the family of the tool with this name.
pub(super) fn family(name: &str) -> Family {
    match name {
        "Bash" | "bash" | "execute" | "exec" | "shell" | "run_command" | "Shell" => Family::Command,
        "Read" | "Glob" | "Grep" | "LS" | "NotebookRead" | "read_file" | "read" | "grep"
        | "glob" | "ls" | "list_dir" | "view" => Family::Read,
        "Write" | "Edit" | "MultiEdit" | "NotebookEdit" | "write_file" | "edit_file"
        | "append_file" | "write" | "edit" | "create_file" | "FileWrite" | "CreateFile" => {
            Family::Write
        }
        "WebFetch" | "web_fetch" | "fetch" | "http_request" => Family::Url,
        "Agent" | "Task" | "task" | "Skill" | "subagent" | "spawn" => Family::Named,
        _ => Family::Other,
    }
}

/// Parses a rule with this behavior; without one, its prefix decides, or else it is one to allow.
///
/// # Errors
///
/// Returns [`ErrorKind::Config`] if the rule could never match.
pub(super) fn rule(behavior: Option<Behavior>, text: &str) -> Result<Rule> {
    read(behavior, text).map_err(|why| {
        let quoted = truncate(text, QUOTED_CHARS);
        let text = format!("permission rule {quoted:?}: {why}");
        Error::new(ErrorKind::Config, text)
    })
}

fn read(behavior: Option<Behavior>, text: &str) -> Result<Rule, String> {
    if text.len() > MAX_RULE_BYTES {
        return Err(format!(
            "it has more than {MAX_RULE_BYTES} bytes; write several rules"
        ));
    }

    let (prefix_behavior, text) = split_behavior(text.trim());
    let behavior = match (behavior, prefix_behavior) {
        (Some(wanted), Some(prefix_behavior)) if wanted != prefix_behavior => {
            return Err(format!(
                "the rule begins with `{prefix_behavior}:` but is in the list `{wanted}`; remove the prefix or move the rule"
            ));
        }
        (wanted, prefix_behavior) => wanted.or(prefix_behavior).unwrap_or(Behavior::Allow),
    };

    let (tool, specifier) = split_specifier(text)?;
    let name = tool_name(tool)?;
    let kind = match specifier {
        None => RuleKind::Tool,
        Some(specifier) if alternatives(specifier).is_none() => {
            return Err("its braces have too many alternatives; write several rules".to_owned());
        }
        Some("") => return Err(format!("empty specifier; write {tool} for every call")),
        Some(specifier) => kind(tool, &name, specifier)?,
    };

    Ok(Rule {
        behavior,
        tool: tool.to_owned(),
        specifier: specifier.map(str::to_owned),
        message: None,
        source: None,
        name,
        kind,
    })
}

/// Returns the behavior before the colon, if there is one, and the rest.
fn split_behavior(text: &str) -> (Option<Behavior>, &str) {
    let behaviors = [Behavior::Allow, Behavior::Deny, Behavior::Ask];
    let behavior_and_rest = behaviors.into_iter().find_map(|behavior| {
        let suffix = text.strip_prefix(behavior.as_str())?;
        Some((behavior, suffix.trim_start().strip_prefix(':')?))
    });
    match behavior_and_rest {
        Some((behavior, suffix)) => (Some(behavior), suffix.trim()),
        None => (None, text),
    }
}

/// Returns the tool, and what stands in the parentheses.
fn split_specifier(text: &str) -> Result<(&str, Option<&str>), String> {
    let Some((tool, remainder)) = text.split_once('(') else {
        return Ok((text, None));
    };
    match remainder.strip_suffix(')') {
        Some(specifier) => Ok((tool.trim(), Some(specifier.trim()))),
        None if remainder.contains(')') => {
            Err("nothing may follow the closing parenthesis".to_owned())
        }
        None => Err("the parenthesis is not closed; write Tool(specifier)".to_owned()),
    }
}

fn tool_name(tool: &str) -> Result<NameGlob, String> {
    let strange = |c: char| !(c.is_ascii_alphanumeric() || "_-*?{},.".contains(c));
    let reason = if tool.is_empty() {
        "it names no tool; write Tool or Tool(specifier)"
    } else if tool.contains(strange) {
        "a tool's name may contain letters, digits, `_`, `-` and the wildcards `*`, `?`, `{a,b}`"
    } else {
        let name = NameGlob::new(tool);
        return name.ok_or_else(|| "its braces expand to too many names".to_owned());
    };
    Err(reason.to_owned())
}

fn kind(tool: &str, name: &NameGlob, specifier: &str) -> Result<RuleKind, String> {
    let names = name.names().unwrap_or_default();
    let mut families = names.iter().map(|name| family(name)).collect::<Vec<_>>();
    families.dedup();
    let is_file = |family: &Family| matches!(family, Family::Read | Family::Write);
    let family = match families.as_slice() {
        [one] => *one,
        [_, ..] if families.iter().all(is_file) => Family::Read,
        _ => Family::Other,
    };

    let takes_none = |name: &String| NO_SPECIFIER.split(' ').any(|known| known == name);
    if names.iter().any(takes_none) {
        return Err(format!("{tool} takes no specifier; write {tool}"));
    }

    check_argument(tool, family, specifier)?;
    match family {
        Family::Command => CommandPattern::new(specifier).map(RuleKind::Command),
        Family::Read | Family::Write => PathPattern::new(specifier).map(RuleKind::Path),
        Family::Url => UrlPattern::new(specifier).map(RuleKind::Url),
        Family::Named => CommandPattern::new(specifier).map(RuleKind::Named),
        Family::Other => {
            let (argument, value) = specifier.split_once(':').unwrap_or_default();
            let (argument, value) = (argument.trim().to_owned(), value.trim().to_owned());
            let is_name = |b: u8| b.is_ascii_alphanumeric() || b"_-".contains(&b);
            if argument.is_empty() || value.is_empty() || !argument.bytes().all(is_name) {
                return Err(format!(
                    "{tool} has no specifier of this form; write {tool} for every call or {tool}(argument:value)"
                ));
            }
            Ok(RuleKind::Argument(argument, value))
        }
    }
}

/// Refuses a specifier that names an argument of the tool, where the specifier itself has another
/// meaning: the rule would never match.
fn check_argument(tool: &str, family: Family, specifier: &str) -> Result<(), String> {
    let Some((argument, given_value)) = specifier.split_once(':') else {
        return Ok(());
    };
    let (argument, value) = (argument.trim_end(), given_value.trim_start());
    // `cmd:*` is the beginning of a command, and the name of a skill may have a colon.
    let (arguments, has_prefixes) = match family {
        Family::Command => (COMMAND_ARGUMENTS, true),
        Family::Read | Family::Write => (PATH_ARGUMENTS, false),
        Family::Url => (URL_ARGUMENTS, false),
        Family::Named if tool == "Skill" => (SKILL_ARGUMENTS, true),
        Family::Named => (AGENT_NAMES, false),
        Family::Other => return Ok(()),
    };

    if arguments.contains(&argument) && !(has_prefixes && given_value == "*") {
        let rule = if matches!(value, "" | "*") {
            tool.to_owned()
        } else {
            format!("{tool}({value})")
        };
        return Err(format!(
            "`{argument}:` names the argument that the specifier is about anyway; write {rule}"
        ));
    }

    let is_of_agents = family == Family::Named && !has_prefixes;
    if is_of_agents && AGENT_ARGUMENTS.contains(&argument) {
        return Err(format!(
            "the specifier is the name of an agent, and `{argument}` is another argument; write \
             {tool}(name), or {tool} for every call"
        ));
    }
    Ok(())
}
