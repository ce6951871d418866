//! What a model has written, as people see it: nothing of it commands their terminal.

use std::fmt::Write as _;

use agentcore::serde_json::Value;
use agentcore::{ToolCall, text};

/// The longest line about a call, in characters.
const MAX_LINE: usize = 160;
/// The argument that says most about a call, the first that there is.
const TELLING: [&str; 9] = [
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

/// The text in one line, with what turns the order of characters around escaped as well.
pub(crate) fn line(text: &str) -> String {
    let turns = |c| matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    escaped(text, |c| c.is_control() || turns(c))
}

/// The first line with something in it, cut where it is long.
pub(crate) fn first_line(text: &str) -> String {
    let first = text.lines().find(|line| !line.trim().is_empty());
    cut(first.unwrap_or_default().trim())
}

/// A call as `Bash(cargo test)`.
pub(crate) fn call(call: &ToolCall) -> String {
    let told = TELLING
        .iter()
        .find_map(|name| call.args.get(name)?.as_str());
    let told = match (told, &*call.args) {
        (Some(told), _) => told.to_owned(),
        (None, Value::Object(args)) if args.is_empty() => String::new(),
        (None, args) => args.to_string(),
    };
    cut(&format!("{}({})", call.name, told.trim()))
}

/// The text in one line, cut where it is long.
pub(crate) fn cut(text: &str) -> String {
    // Escaping makes it longer, so it is cut after.
    let (head, _) = text::head(text, MAX_LINE + 1);
    text::truncate(&line(head), MAX_LINE).into_owned()
}

fn escaped(text: &str, is_escaped: impl Fn(char) -> bool) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_escaped(c) {
            let _ = write!(shown, "{}", c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}
