//! Rules to offer together with a question.

use super::call_accesses::{CallAccess, CallAccesses};
use super::rule::{Behavior, Rule};
use super::shell::{Analysis, Word};
use super::url::Url;

/// Returns rules to allow that would have covered this call and nothing broader, if there are any.
pub(super) fn suggest(call: &CallAccesses<'_>) -> Vec<Rule> {
    let mut rules = Vec::new();
    if call.is_guessed {
        // A rule about the access alone would be about other tools.
        return rules;
    }

    for access in &call.accesses {
        match access {
            CallAccess::Command(command) => match command_rules(&command.analysis) {
                Some(command_rules) => rules.extend(command_rules),
                None => return Vec::new(),
            },
            CallAccess::Read(path) => rules.extend(path_rule("Read", path)),
            CallAccess::Write(path) => rules.extend(path_rule("Edit", path)),
            CallAccess::Url(url) => {
                if let Some(url) = Url::parse(url) {
                    rules.extend(rule(&format!("WebFetch(domain:{})", url.host)));
                }
            }
            CallAccess::Agent(name) => {
                let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
                let name = Some(name).filter(|name| name.chars().all(is_plain));
                rules.extend(name.and_then(|name| rule(&format!("Agent({name})"))));
            }
        }
    }

    rules.dedup();
    rules
}

/// A rule for each command; `None` when one of them is not fully understood.
fn command_rules(analysis: &Analysis) -> Option<Vec<Rule>> {
    if !analysis.opaque.is_empty() {
        return None;
    }

    let mut rules = Vec::new();
    for command in &analysis.commands {
        let words: Vec<String> = command.argv.iter().map(word).collect::<Option<_>>()?;
        if words.is_empty() {
            return None;
        }

        rules.extend(rule(&format!("Bash({})", words.join(" "))));
    }

    Some(rules)
}

fn rule(text: &str) -> Option<Rule> {
    Rule::new(Behavior::Allow, text).ok()
}

fn path_rule(tool: &str, path: &str) -> Option<Rule> {
    // A rule about a folder is also about all in it.
    let name = path.rsplit('/').next().unwrap_or_default();
    let is_folder = name.trim().is_empty() || matches!(name, "." | ".." | "~");
    if is_folder || path.contains(['*', '?']) {
        return None;
    }
    // A name without a slash would match at any depth.
    let path = if path.contains('/') {
        path.to_owned()
    } else {
        format!("./{path}")
    };
    rule(&format!("{tool}({path})"))
}

/// Returns the word as a pattern that matches it alone.
fn word(word: &Word) -> Option<String> {
    let text = word.literal()?;
    let is_plain = !text.is_empty()
        && text
            .chars()
            .all(|c| c.is_alphanumeric() || "-_./=:@%+,~^".contains(c));
    if is_plain {
        return Some(text);
    }
    let quotable = !text.contains(['\'', ')', '(']) && !text.chars().any(char::is_control);
    quotable.then(|| format!("'{text}'"))
}
