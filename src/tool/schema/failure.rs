//! The failures of a call's arguments against their schema.

use std::error::Error as StdError;
use std::fmt::{self, Write as _};

use serde_json::Value;

use crate::util::secret::{Cut, redact_cut};

/// The maximum number of reported failures; more are only counted.
pub(super) const MAX_FAILURES: usize = 10;

/// The maximum number of allowed names or values that are listed.
pub(super) const MAX_NAMED: usize = 20;

/// The maximum length of a quoted value, in bytes.
pub(super) const MAX_QUOTE: usize = 80;

/// The maximum length of a quoted schema, in bytes; a longer schema is cut. The model has the whole
/// schema in the tool's definition.
const MAX_SCHEMA: usize = 16 * 1024;

/// The failures of a call's arguments: the path of each with its cause.
///
/// A path is a JSON pointer; `/` is the arguments as a whole. A key over 80 bytes is cut to its
/// beginning. `Display` prints one failure a line; after ten it prints the number of the others.
///
/// ```
/// use agentcore::tool::check_arguments;
/// use serde_json::json;
///
/// let schema = json!({
///     "type": "object",
///     "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
///     "required": ["city", "days"],
/// });
/// let error = check_arguments(&schema, &json!({"city": 5})).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "/days: required, but missing\n/city: expected string, got number"
/// );
/// assert_eq!(error.paths().collect::<Vec<_>>(), ["/days", "/city"]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgumentError {
    failures: Vec<Failure>,
    omitted: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) path: String,
    pub(super) text: String,
}

impl ArgumentError {
    pub(super) fn new(failures: Vec<Failure>, omitted: usize) -> Self {
        Self { failures, omitted }
    }

    /// Creates the failure at one path.
    #[cfg(feature = "schema")]
    pub(crate) fn at(path: String, text: String) -> Self {
        Self::new(vec![Failure { path, text }], 0)
    }

    /// Returns the paths that fail, as JSON pointers, at most ten.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.failures.iter().map(|failure| failure.path.as_str())
    }

    /// Returns the text that the model reads instead of the tool's result: the failures with their
    /// paths, and the schema.
    pub fn for_model(&self, tool_name: &str, schema: &Value) -> String {
        format!(
            "invalid arguments for tool {tool_name:?}:\n{self}\n{}",
            schema_hint(schema)
        )
    }
}

/// Returns the sentence that asks for arguments that match the schema, with the schema.
pub(super) fn schema_hint(schema: &Value) -> String {
    let mut text = String::from("The arguments must be a JSON object that matches this schema: ");
    let schema = schema.to_string();
    let head = clip(&schema, MAX_SCHEMA);
    text.push_str(head);
    if head.len() < schema.len() {
        let _ = write!(text, "... ({} bytes left out)", schema.len() - head.len());
    }
    text
}

/// Returns the first `max_len` bytes of `text`, or somewhat fewer so that no character is cut.
pub(super) fn clip(text: &str, max_len: usize) -> &str {
    if text.len() <= max_len {
        return text;
    }
    let cut_offset = (0..=max_len).rev().find(|end| text.is_char_boundary(*end));
    &text[..cut_offset.unwrap_or_default()]
}

/// Appends the step to the member `key` to a JSON pointer. A long key is cut to its beginning.
pub(in super::super) fn push_key(pointer: &mut String, key: &str) {
    let head = clip(key, MAX_QUOTE);
    let is_cut = head.len() < key.len();
    let mut head = head.to_owned();
    if is_cut {
        // Later, the part of a secret at the cut could not be recognized.
        redact_cut(&mut head, Cut::End);
    }
    pointer.push('/');
    pointer.push_str(&head.replace('~', "~0").replace('/', "~1"));
    if is_cut {
        pointer.push_str("...");
    }
}

/// Returns the beginning of a value, in time that does not depend on how large the value is.
pub(super) fn quote(value: &Value) -> String {
    let mut text = String::new();
    push_head(&mut text, value);
    if text.len() <= MAX_QUOTE {
        return text;
    }
    text.truncate(clip(&text, MAX_QUOTE).len());
    // Later, the part of a secret at the cut could not be recognized.
    redact_cut(&mut text, Cut::End);
    format!("{text}...")
}

/// Appends `value` as JSON until there is enough to quote. Each level adds a character first, so
/// that the recursion ends.
fn push_head(text: &mut String, value: &Value) {
    match value {
        Value::String(string) => push_string(text, string),
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                if text.len() > MAX_QUOTE {
                    return;
                }

                text.push_str(if index == 0 { "" } else { "," });
                push_head(text, item);
            }

            text.push(']');
        }
        Value::Object(members) => {
            text.push('{');
            for (index, (key, member)) in members.iter().enumerate() {
                if text.len() > MAX_QUOTE {
                    return;
                }

                text.push_str(if index == 0 { "" } else { "," });
                push_string(text, key);
                text.push(':');
                push_head(text, member);
            }

            text.push('}');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => text.push_str(&value.to_string()),
    }
}

fn push_string(text: &mut String, string: &str) {
    // Includes room for a character that the cut may drop.
    let head = clip(string, MAX_QUOTE + 4);
    text.push_str(&Value::from(head).to_string());
}

/// Returns the first values as JSON, with commas between them.
pub(super) fn list(values: &[Value]) -> String {
    let quoted: Vec<String> = values.iter().take(MAX_NAMED).map(quote).collect();
    let suffix = if values.len() > quoted.len() {
        ", ..."
    } else {
        ""
    };
    format!("{}{suffix}", quoted.join(", "))
}

impl fmt::Display for ArgumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, failure) in self.failures.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{}: {}", failure.path, failure.text)?;
        }
        if self.omitted > 0 {
            write!(f, "\nand {} more", self.omitted)?;
        }
        Ok(())
    }
}

impl StdError for ArgumentError {}
