//! The text of a rule.

use crate::error::{Error, ErrorKind, Result};

use super::glob::NameGlob;
use super::paths::PathPattern;
use super::pattern::CommandPattern;
use super::rule::{Behavior, Kind, Rule};
use super::url::UrlPattern;

/// What a tool's specifier is about, by the tool's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    Command,
    Read,
    Write,
    Url,
    Named,
    Other,
}

const FAMILIES: &[(Family, &[&str])] = &[
    (
        Family::Command,
        &[
            "Bash",
            "bash",
            "execute",
            "exec",
            "shell",
            "run_command",
            "Shell",
        ],
    ),
    (
        Family::Read,
        &[
            "Read",
            "Glob",
            "Grep",
            "LS",
            "NotebookRead",
            "read_file",
            "read",
            "grep",
            "glob",
            "ls",
            "list_dir",
            "view",
        ],
    ),
    (
        Family::Write,
        &[
            "Write",
            "Edit",
            "MultiEdit",
            "NotebookEdit",
            "write_file",
            "edit_file",
            "append_file",
            "write",
            "edit",
            "create_file",
            "FileWrite",
            "CreateFile",
        ],
    ),
    (
        Family::Url,
        &["WebFetch", "web_fetch", "fetch", "http_request"],
    ),
    (
        Family::Named,
        &["Agent", "Task", "task", "Skill", "subagent", "spawn"],
    ),
];

/// Tools that take no specifier at all.
const PLAIN: [&str; 6] = [
    "WebSearch",
    "internet_search",
    "TodoWrite",
    "write_todos",
    "AskUserQuestion",
    "current_datetime",
];

pub(super) fn family(name: &str) -> Family {
    FAMILIES
        .iter()
        .find(|(_, names)| names.contains(&name))
        .map_or(Family::Other, |(family, _)| *family)
}

fn error(text: &str, why: &str) -> Error {
    Error::new(
        ErrorKind::Config,
        format!("permission rule {text:?}: {why}"),
    )
}

pub(super) fn rule(behavior: Option<Behavior>, text: &str) -> Result<Rule> {
    let whole = text;
    let mut text = text.trim();
    let mut said = None;
    for known in [Behavior::Allow, Behavior::Deny, Behavior::Ask] {
        if let Some(rest) = text
            .strip_prefix(known.as_str())
            .and_then(|rest| rest.trim_start().strip_prefix(':'))
        {
            said = Some(known);
            text = rest.trim();
            break;
        }
    }
    let behavior = match (behavior, said) {
        (Some(wanted), Some(said)) if wanted != said => {
            return Err(error(
                whole,
                &format!("a rule to {said} among rules to {wanted}"),
            ));
        }
        (wanted, said) => wanted.or(said).unwrap_or(Behavior::Allow),
    };
    let (tool, specifier) = match text.split_once('(') {
        Some((tool, rest)) => {
            let Some(specifier) = rest.strip_suffix(')') else {
                let why = if rest.contains(')') {
                    "nothing may follow the closing parenthesis"
                } else {
                    "the parenthesis is not closed; write Tool(specifier)"
                };
                return Err(error(whole, why));
            };
            (tool.trim(), Some(specifier.trim()))
        }
        None => (text, None),
    };
    if tool.is_empty() {
        return Err(error(
            whole,
            "it names no tool; write Tool or Tool(specifier)",
        ));
    }
    let strange = |c: char| !(c.is_ascii_alphanumeric() || "_-*?{},.".contains(c));
    if tool.contains(strange) {
        return Err(error(
            whole,
            "a tool's name holds letters, digits, `_`, `-` and the wildcards `*`, `?`, `{a,b}`",
        ));
    }
    let Some(name) = NameGlob::new(tool) else {
        return Err(error(whole, "its braces stand for too many names"));
    };
    let kind = match specifier {
        None => Kind::Whole,
        Some("") => {
            let why = format!("empty specifier; write {tool} for every call");
            return Err(error(whole, &why));
        }
        Some(specifier) => kind(tool, &name, specifier).map_err(|why| error(whole, &why))?,
    };
    let specifier = specifier.map(str::to_owned);
    Ok(Rule::from_parts(
        behavior,
        tool.to_owned(),
        specifier,
        name,
        kind,
    ))
}

fn kind(tool: &str, name: &NameGlob, specifier: &str) -> Result<Kind, String> {
    let names = name.names().unwrap_or_default();
    let mut families = names.iter().map(|name| family(name)).collect::<Vec<_>>();
    families.dedup();
    let family = match families.as_slice() {
        [one] => *one,
        [Family::Read | Family::Write, ..]
            if !families
                .iter()
                .any(|f| !matches!(f, Family::Read | Family::Write)) =>
        {
            Family::Read
        }
        _ => Family::Other,
    };
    if names.iter().any(|name| PLAIN.contains(&name.as_str())) {
        return Err(format!("{tool} takes no specifier; write {tool}"));
    }
    match family {
        Family::Command => {
            if let Some((argument @ ("command" | "cmd"), value)) = specifier.split_once(':')
                && value != "*"
            {
                return Err(format!(
                    "`{argument}:` names the argument that the specifier is about anyway; write {tool}({value})"
                ));
            }
            CommandPattern::new(specifier).map(Kind::Command)
        }
        Family::Read | Family::Write => PathPattern::new(specifier).map(Kind::Path),
        Family::Url => UrlPattern::new(specifier).map(Kind::Url),
        Family::Named => CommandPattern::new(specifier).map(Kind::Named),
        Family::Other => match specifier.split_once(':') {
            Some((argument, value))
                if !argument.trim().is_empty()
                    && !value.trim().is_empty()
                    && argument
                        .trim()
                        .bytes()
                        .all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b)) =>
            {
                Ok(Kind::Argument(
                    argument.trim().to_owned(),
                    value.trim().to_owned(),
                ))
            }
            _ => Err(format!(
                "nothing is known about a specifier of {tool}; write {tool} for every call or {tool}(argument:value)"
            )),
        },
    }
}
