//! Texts of a model for a terminal, with control characters escaped.

use std::fmt::Write as _;

use agentcore::serde_json::Value;
use agentcore::{ToolCall, text};

/// The maximum length of the line about a call, in characters.
const MAX_LINE: usize = 160;
/// The arguments that identify a call best, in the order of preference.
const MAIN_ARGUMENTS: [&str; 9] = [
    "command",
    "file_path",
    "path",
    "pattern",
    "url",
    "query",
    "expression",
    "question",
    "name",
];

/// The text with every control character escaped but the ends of lines and tabs.
pub(crate) fn text(text: &str) -> String {
    escaped(text, |c| c.is_control() && !matches!(c, '\n' | '\t'))
}

/// The text in one line, with characters escaped that change the direction of text as well.
pub(crate) fn line(text: &str) -> String {
    let changes_direction = |c| matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    escaped(text, |c| c.is_control() || changes_direction(c))
}

/// The first line that is not blank, cut if it is long.
pub(crate) fn first_line(text: &str) -> String {
    let first = text.lines().find(|line| !line.trim().is_empty());
    cut(first.unwrap_or_default().trim())
}

/// A call as `Bash(cargo test)`.
pub(crate) fn call(call: &ToolCall) -> String {
    let main_argument = MAIN_ARGUMENTS
        .iter()
        .find_map(|name| call.args.get(name)?.as_str());
    let argument = match (main_argument, &*call.args) {
        (Some(argument), _) => argument.to_owned(),
        (None, Value::Object(args)) if args.is_empty() => String::new(),
        (None, args) => args.to_string(),
    };
    cut(&format!("{}({})", call.name, argument.trim()))
}

/// The text in one line, cut if it is long.
pub(crate) fn cut(text: &str) -> String {
    // Escaping makes the text longer, so it is cut again.
    let (head, _) = text::head(text, MAX_LINE + 1);
    text::truncate(&line(head), MAX_LINE).into_owned()
}

fn escaped(text: &str, is_escaped: impl Fn(char) -> bool) -> String {
    let mut output = String::with_capacity(text.len());
    for c in text.chars() {
        if is_escaped(c) {
            let _ = write!(output, "{}", c.escape_default());
        } else {
            output.push(c);
        }
    }
    output
}
