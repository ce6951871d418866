//! Replacing text in a file.

use std::borrow::Cow;
use std::time::Duration;

use memchr::memmem;
use serde_json::json;
use similar::TextDiff;

use crate::backend::{Backend, ContentHash};
use crate::error::BoxError;
use crate::tool::{ToolError, ToolOutput};
use crate::util::text;

/// How many line numbers an error names.
const MAX_LINES_NAMED: usize = 20;
/// A longer diff is cut.
const MAX_DIFF_CHARS: usize = 10_000;
/// A diff that would take longer is coarser.
const DIFF_TIME: Duration = Duration::from_millis(500);

/// Which occurrences of a text an edit replaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum EditPolicy {
    /// The first one.
    First,
    /// The only one: several are an error.
    #[default]
    Unique,
    /// Every one.
    All,
}

/// Replaces `old` by `new`. Bytes outside the places replaced stay as they are; where a file's
/// lines end with CR LF, a line's end in `old` and `new` means that.
pub(super) async fn edit(
    backend: &dyn Backend,
    path: &str,
    old: &str,
    new: &str,
    policy: EditPolicy,
) -> Result<ToolOutput, BoxError> {
    if old.is_empty() {
        let text = "the text to replace is empty; write the file to fill it";
        return Err(ToolError::new(text).into());
    }
    if old == new {
        let text = "the text to replace and its replacement are the same";
        return Err(ToolError::new(text).into());
    }
    let content = backend.read(path).await?;
    let (old, new) = with_line_ends_of(&content, old, new);
    let places: Vec<usize> = memmem::find_iter(&content, old.as_bytes()).collect();
    let chosen = match (places.as_slice(), policy) {
        ([], _) => return Err(not_found(path, &content, &old).into()),
        (_, EditPolicy::First) => &places[..1],
        ([_], EditPolicy::Unique) | (_, EditPolicy::All) => &places[..],
        (_, EditPolicy::Unique) => return Err(ambiguous(path, &content, &places).into()),
    };
    let mut edited = Vec::with_capacity(content.len());
    let mut rest = 0;
    for place in chosen {
        edited.extend_from_slice(&content[rest..*place]);
        edited.extend_from_slice(new.as_bytes());
        rest = place + old.len();
    }
    edited.extend_from_slice(&content[rest..]);
    let before = ContentHash::of(&content);
    backend.write_if_unchanged(path, before, &edited).await?;
    Ok(report(path, &content, &edited, chosen.len()))
}

fn report(path: &str, before: &[u8], after: &[u8], replacements: usize) -> ToolOutput {
    let diff = diff(path, before, after);
    let plural = if replacements == 1 { "" } else { "s" };
    let (shown, cut) = text::head(&diff, MAX_DIFF_CHARS);
    let mut text = format!("Edited {path} ({replacements} replacement{plural})\n{shown}");
    if cut > 0 {
        text.push_str(&format!("\n... ({cut} more characters of the diff)"));
    }
    let details = json!({"path": path, "replacements": replacements, "diff": diff});
    ToolOutput::new(text).with_details(details)
}

/// A unified diff.
fn diff(path: &str, before: &[u8], after: &[u8]) -> String {
    let (before, after) = (
        String::from_utf8_lossy(before),
        String::from_utf8_lossy(after),
    );
    TextDiff::configure()
        .timeout(DIFF_TIME)
        .diff_lines(before.as_ref(), after.as_ref())
        .unified_diff()
        .context_radius(3)
        .header(&format!("a/{path}"), &format!("b/{path}"))
        .to_string()
}

/// Both texts with the line ends of the file: the model sees `\n` where the file has `\r\n`.
fn with_line_ends_of<'a>(
    content: &[u8],
    old: &'a str,
    new: &'a str,
) -> (Cow<'a, str>, Cow<'a, str>) {
    let as_given = (Cow::Borrowed(old), Cow::Borrowed(new));
    if old.contains('\r') || memmem::find(content, b"\r\n").is_none() {
        return as_given;
    }
    let in_crlf = |text: &str| text.replace("\r\n", "\n").replace('\n', "\r\n");
    if !old.contains('\n') {
        // A replacement with new lines in a file of which every line ends so.
        let mut ends = memchr::memchr_iter(b'\n', content);
        return match ends.all(|at| at > 0 && content[at - 1] == b'\r') {
            true => (Cow::Borrowed(old), Cow::Owned(in_crlf(new))),
            false => as_given,
        };
    }
    let converted = in_crlf(old);
    match memmem::find(content, converted.as_bytes()) {
        Some(_) if memmem::find(content, old.as_bytes()).is_none() => {
            (Cow::Owned(converted), Cow::Owned(in_crlf(new)))
        }
        _ => as_given,
    }
}

fn not_found(path: &str, content: &[u8], old: &str) -> ToolError {
    let mut text = format!("the text to replace was not found in {path}");
    let shown = String::from_utf8_lossy(content);
    if let Some(line) = near(&shown, old) {
        text.push_str(&format!(
            "; line {line} differs from it only in white space"
        ));
    }
    ToolError::new(text).with_details(json!({"matches": 0}))
}

/// The first line at which `old` would be found if white space at the ends of lines did not count.
fn near(content: &str, old: &str) -> Option<usize> {
    let wanted: Vec<&str> = old.trim().lines().map(str::trim).collect();
    let lines: Vec<&str> = content.lines().map(str::trim).collect();
    let at = lines
        .windows(wanted.len().max(1))
        .position(|window| window == wanted)?;
    Some(at + 1)
}

fn ambiguous(path: &str, content: &[u8], places: &[usize]) -> ToolError {
    let mut lines = Vec::new();
    let (mut line, mut seen) = (1, 0);
    for place in places.iter().take(MAX_LINES_NAMED) {
        line += memchr::memchr_iter(b'\n', &content[seen..*place]).count();
        seen = *place;
        lines.push(line);
    }
    let named: Vec<String> = lines.iter().map(usize::to_string).collect();
    let is_all = places.len() == lines.len();
    let more = if is_all { "" } else { ", ..." };
    let text = format!(
        "the text to replace was found {} times in {path} (lines {}{more}); \
         give more of the text around the place, or replace all",
        places.len(),
        named.join(", ")
    );
    ToolError::new(text).with_details(json!({"matches": places.len(), "lines": lines}))
}
