//! The values of arguments.

use serde_json::Value;

use super::glob::{matches, tokens};
use super::shell::{SimpleCommand, Word};

/// The arguments that may be the name of an agent or a skill.
pub(super) const NAME_ARGUMENTS: &[&str] = &["subagent_type", "agent", "skill", "name", "command"];

/// Returns the values of [`NAME_ARGUMENTS`].
pub(super) fn name_arguments(args: &Value) -> impl Iterator<Item = &str> {
    let names = NAME_ARGUMENTS.iter();
    names.filter_map(|name| args.get(*name)?.as_str())
}

/// Returns the words of a name.
pub(super) fn words_of(text: &str) -> SimpleCommand {
    SimpleCommand {
        argv: text.split_whitespace().map(Word::from_text).collect(),
        ..SimpleCommand::default()
    }
}

/// Returns `true` if the value, an element of it or another spelling of it fits.
pub(super) fn may_fit(pattern: &str, given: &Value) -> bool {
    let is_same_number = || {
        let number = pattern.parse::<f64>();
        number.is_ok_and(|number| given.as_f64() == Some(number))
    };
    let fits_otherwise = match given {
        Value::Array(items) => items.iter().any(|item| may_fit(pattern, item)),
        Value::String(text) => fits(pattern, &Value::String(text.trim().to_owned())),
        _ => is_same_number(),
    };
    fits_otherwise || fits(pattern, given)
}

/// Returns `true` if the value fits.
pub(super) fn fits(pattern: &str, given: &Value) -> bool {
    let text = match given {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    matches(&tokens(pattern), &text.chars().collect::<Vec<_>>())
}
