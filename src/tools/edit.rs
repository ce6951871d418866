//! Replacing text in a file.

use std::borrow::Cow;

use memchr::memmem;
use serde_json::json;

use crate::backend::{Backend, ContentHash};
use crate::error::BoxError;
use crate::tool::{ToolError, ToolOutput};
use crate::util::blocking::blocking;
use crate::util::secret::{Cut, redact_cut};
use crate::util::{large, text};

use super::diff;

/// The maximum number of line numbers in an error.
const MAX_LINES_NAMED: usize = 20;
/// The maximum length of a diff in the text for the model, in characters; a longer diff is cut.
const MAX_DIFF_CHARS: usize = 10_000;
/// The maximum length of a diff in the details, which are stored, in characters; a longer diff is
/// cut.
const MAX_DETAILS_CHARS: usize = 30_000;
/// The maximum size of a file after an edit, in bytes, unless it was larger before.
const MAX_RESULT: usize = 32 * 1024 * 1024;

/// The maximum size of a file, in bytes, that is searched for a text which differs in whitespace:
/// the search copies all lines.
const MAX_SIMILAR: usize = 1024 * 1024;

/// The maximum number of replaced occurrences: the work and the diff grow with them.
const MAX_REPLACED: usize = 2 * 1024 * 1024;
/// The maximum number of counted occurrences.
const MAX_COUNTED: usize = 4 * 1024 * 1024;

/// The occurrences of a text that an edit replaces.
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

/// Replaces `old` with `new`. All other bytes stay unchanged. In a file whose lines end with CR LF,
/// a line feed in `old` and `new` represents CR LF.
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
    let file = path.to_owned();
    let old = old.to_owned();
    let new = new.to_owned();

    // Not on the async thread: a large file takes a while.
    let edit = blocking(move || Ok(replace(&file, &content, &old, &new, policy))).await??;
    backend
        .write_if_unchanged(path, edit.old_hash, &edit.new_content)
        .await?;
    Ok(edit.report)
}

/// An edit that has not been written yet.
struct Edit {
    /// The hash of the content before the edit.
    old_hash: ContentHash,
    new_content: Vec<u8>,
    report: ToolOutput,
}

fn replace(
    path: &str,
    content: &[u8],
    old: &str,
    new: &str,
    policy: EditPolicy,
) -> Result<Edit, ToolError> {
    let (old, new) = with_line_ends_of(content, old, new);
    let finder = memmem::Finder::new(old.as_bytes());

    // One more than the limit, to detect that there are more.
    let matches = finder.find_iter(content).take(MAX_COUNTED + 1);
    let count = matches.count();
    let replacement_count = match (count, policy) {
        (0, _) => return Err(not_found(path, content, &old)),
        (_, EditPolicy::First) => 1,
        (1, EditPolicy::Unique) | (_, EditPolicy::All) => count,
        (_, EditPolicy::Unique) => {
            let offsets: Vec<usize> = finder.find_iter(content).take(MAX_LINES_NAMED).collect();
            return Err(ambiguous(path, content, &offsets, count));
        }
    };

    if replacement_count > MAX_REPLACED {
        let text = format!(
            "the text to replace is in {path} at {} places; an edit replaces at most {MAX_REPLACED}; \
             give more of the text, or change the file with a program",
            count_text(count)
        );
        return Err(ToolError::new(text));
    }

    let size = size_after(content.len(), replacement_count, old.len(), new.len());
    let limit = MAX_RESULT.max(content.len());
    let Some(size) = size.filter(|size| *size <= limit) else {
        let text = format!(
            "{replacement_count} replacements would make {path} larger than the {limit} bytes an edit may \
             leave; replace less at once"
        );
        return Err(ToolError::new(text));
    };

    let mut edited = large::buffer(size);
    let mut copied_end = 0;
    for offset in finder.find_iter(content).take(replacement_count) {
        edited.extend_from_slice(&content[copied_end..offset]);
        edited.extend_from_slice(new.as_bytes());
        copied_end = offset + old.len();
    }

    edited.extend_from_slice(&content[copied_end..]);
    Ok(Edit {
        old_hash: ContentHash::of(content),
        report: report(path, content, &edited, replacement_count),
        new_content: edited,
    })
}

fn count_text(count: usize) -> String {
    match count {
        0..=MAX_COUNTED => count.to_string(),
        _ => format!("more than {MAX_COUNTED}"),
    }
}

fn size_after(size: usize, replacements: usize, old: usize, new: usize) -> Option<usize> {
    let removed_len = replacements.checked_mul(old)?;
    let added_len = replacements.checked_mul(new)?;
    size.checked_sub(removed_len)?.checked_add(added_len)
}

fn report(path: &str, before: &[u8], after: &[u8], replacements: usize) -> ToolOutput {
    let diff = diff::unified(path, before, after);
    let plural = if replacements == 1 { "" } else { "s" };
    let shortened_diff = cut(&diff, MAX_DIFF_CHARS);
    let text = format!("Edited {path} ({replacements} replacement{plural})\n{shortened_diff}");
    let diff = cut(&diff, MAX_DETAILS_CHARS);
    let details = json!({"path": path, "replacements": replacements, "diff": diff});
    ToolOutput::new(text).with_details(details)
}

fn cut(diff: &str, max_chars: usize) -> Cow<'_, str> {
    match text::head(diff, max_chars) {
        (_, 0) => Cow::Borrowed(diff),
        (shown, cut) => {
            // Redacted now: the part of a secret at the cut could not be recognized later.
            let mut head = shown.to_owned();
            redact_cut(&mut head, Cut::End);
            format!("{head}\n... ({cut} more characters of the diff)").into()
        }
    }
}

/// Converts both texts to the line endings of the file: the model sees `\n` where the file has
/// `\r\n`.
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
        // Only the replacement may have line breaks. They follow the file if all of its lines end
        // with CRLF.
        let mut line_ends = memchr::memchr_iter(b'\n', content);
        return if line_ends.all(|at| at > 0 && content[at - 1] == b'\r') {
            (Cow::Borrowed(old), Cow::Owned(in_crlf(new)))
        } else {
            as_given
        };
    }

    let crlf_old = in_crlf(old);
    match memmem::find(content, crlf_old.as_bytes()) {
        Some(_) if memmem::find(content, old.as_bytes()).is_none() => {
            (Cow::Owned(crlf_old), Cow::Owned(in_crlf(new)))
        }
        _ => as_given,
    }
}

fn not_found(path: &str, content: &[u8], old: &str) -> ToolError {
    let mut text = format!("the text to replace was not found in {path}");
    if content.len().max(old.len()) <= MAX_SIMILAR
        && let Ok(file_text) = std::str::from_utf8(content)
        && let Some(line) = line_of_similar_text(file_text, old)
    {
        text.push_str(&format!("; line {line} differs from it only in whitespace"));
    }
    ToolError::new(text).with_details(json!({"matches": 0}))
}

/// Returns the number of the first line where `old` matches if whitespace around lines is ignored.
fn line_of_similar_text(content: &str, old: &str) -> Option<usize> {
    if old.trim().is_empty() {
        return None;
    }

    // A line feed around each line restricts the search to whole lines, in linear time.
    let lines = |text: &str| {
        let mut lines = String::with_capacity(text.len() + 2);
        lines.push('\n');
        for line in text.lines() {
            lines.push_str(line.trim());
            lines.push('\n');
        }

        lines
    };

    let content = lines(content);
    let offset = memmem::find(content.as_bytes(), lines(old.trim()).as_bytes())?;
    Some(memchr::memchr_iter(b'\n', &content.as_bytes()[..=offset]).count())
}

/// Returns the error for a text that occurs `count` times, first at `offsets`.
fn ambiguous(path: &str, content: &[u8], offsets: &[usize], count: usize) -> ToolError {
    let mut lines = Vec::new();
    let mut line = 1;
    let mut offset = 0;
    for next_offset in offsets {
        line += memchr::memchr_iter(b'\n', &content[offset..*next_offset]).count();
        offset = *next_offset;
        lines.push(line);
    }

    let line_numbers: Vec<String> = lines.iter().map(usize::to_string).collect();
    let is_all = count == lines.len();
    let suffix = if is_all { "" } else { ", ..." };
    let text = format!(
        "the text to replace was found {} times in {path} (lines {}{suffix}); \
         give more of the text around the place, or replace all",
        count_text(count),
        line_numbers.join(", ")
    );
    ToolError::new(text).with_details(json!({"matches": count, "lines": lines}))
}
