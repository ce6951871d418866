//! Searching for files and lines.

use std::fmt::{self, Write};
use std::mem;

use serde_json::{Value, json};

use crate::backend::{Backend, GlobQuery, GrepFile, GrepMatches, GrepMode, GrepQuery, PathFilter};
use crate::error::{BoxError, Result};
use crate::tool::ToolOutput;
use crate::util::blocking::blocking_until_dropped;
use crate::util::path::quote_path;

use super::args::Args;

/// The maximum number of files or lines of a result.
const MAX_FOUND: usize = 10_000;
/// The maximum size of a result's text, in bytes. Lines beyond it are omitted.
const MAX_TEXT: usize = 2 * 1024 * 1024;

/// The note in a search about omitted files.
const WITHHELD: &str = "\n(some files were left out: permission rules deny reading them)";

/// Returns paths, one per line; see [`quote_path`] for unusual ones.
pub(super) async fn glob(
    backend: &dyn Backend,
    query: GlobQuery,
    args: &Args,
) -> Result<ToolOutput, BoxError> {
    let _permit = args.load_permit().await;
    let filter = query.filter.clone();
    let mut matches = backend.glob(query).await?;
    matches.withheld |= withhold(&mut matches.files, filter, String::clone).await?;
    let files: Vec<_> = matches.files.iter().map(|path| quote_path(path)).collect();
    let mut text = files.join("\n");
    if matches.truncated {
        let count = matches.files.len();
        let _ = write!(
            text,
            "\n(truncated: only the first {count} files are shown)"
        );
    } else if matches.files.is_empty() {
        text.push_str("No files found");
    }

    if matches.withheld {
        text.push_str(WITHHELD);
    }

    let details = json!({"files": matches.files, "truncated": matches.truncated});
    Ok(ToolOutput::new(text).with_details(details))
}

/// Returns lines in the form of ripgrep: `path:12:a match`, `path-11-a line near it`.
pub(super) async fn grep(
    backend: &dyn Backend,
    mut query: GrepQuery,
    numbers: bool,
    args: &Args,
) -> Result<ToolOutput, BoxError> {
    let _permit = args.load_permit().await;
    let is_capped = query.limit > MAX_FOUND;
    query.limit = query.limit.min(MAX_FOUND);
    let mode = query.mode;
    let has_context = query.before.max(query.after) > 0;
    let filter = query.filter.clone();
    let mut matches = backend.grep(query).await?;
    matches.withheld |= withhold(&mut matches.files, filter, |file| file.path.clone()).await?;
    let mut text = match mode {
        GrepMode::Files => joined(&matches, |file| quote_path(&file.path).into_owned()),
        GrepMode::Count => joined(&matches, |file| {
            format!("{}:{}", quote_path(&file.path), file.count)
        }),
        GrepMode::Lines => lines(&matches, numbers, has_context),
    };

    let is_cut = cut_lines(&mut text, MAX_TEXT);
    if is_cut {
        text.shrink_to_fit();
        let _ = write!(text, "\n(cut: a result has at most {MAX_TEXT} bytes)");
    }

    add_grep_notes(&mut text, &matches, matches.truncated && !is_cut, is_capped);
    Ok(ToolOutput::new(text).with_details(details(&matches)))
}

/// Adds the notes about matches that a result does not show.
fn add_grep_notes(text: &mut String, matches: &GrepMatches, is_truncated: bool, is_capped: bool) {
    if matches.files.is_empty() {
        text.push_str("No matches found");
    }

    if matches.withheld {
        text.push_str(WITHHELD);
    }

    if is_truncated && is_capped {
        let _ = write!(
            text,
            "\n(truncated: a result has at most {MAX_FOUND} entries)"
        );
    } else if is_truncated {
        text.push_str("\n(truncated: there may be more)");
    }

    if matches.skipped > 0 {
        let _ = write!(text, "\n({} files could not be searched)", matches.skipped);
    }
}

/// Cuts the text after a line; returns `true` if it was too long.
fn cut_lines(text: &mut String, max_len: usize) -> bool {
    if text.len() <= max_len {
        return false;
    }
    let end = memchr::memrchr(b'\n', &text.as_bytes()[..max_len]);
    text.truncate(end.unwrap_or(0));
    true
}

/// Removes the items with a path that must not be shown, and returns `true` if there were any: a
/// backend with its own search may ignore filters. Rules compare each path with each pattern, which
/// may take seconds, so it is done on a thread for blocking work until the future is dropped.
pub(super) async fn withhold<T: Send + 'static>(
    items: &mut Vec<T>,
    filter: PathFilter,
    path: impl Fn(&T) -> String + Send + 'static,
) -> Result<bool> {
    if filter.is_all() || items.is_empty() {
        return Ok(false);
    }

    let total = items.len();
    let mut candidates = mem::take(items);
    *items = blocking_until_dropped(move |cancellation| {
        candidates.retain(|item| !cancellation.is_cancelled() && filter.shows(&path(item)));
        Ok(candidates)
    })
    .await?;
    Ok(items.len() < total)
}

fn joined(matches: &GrepMatches, line: impl Fn(&GrepFile) -> String) -> String {
    let mut rows = Rows::default();
    for file in &matches.files {
        rows.push(format_args!("{}", line(file)));
    }
    rows.0
}

/// The lines of a result. Only the first line beyond the limit is copied, to detect that the limit
/// is exceeded.
#[derive(Default)]
struct Rows(String);

impl Rows {
    fn push(&mut self, row: fmt::Arguments<'_>) {
        if self.0.len() > MAX_TEXT {
            return;
        }
        if !self.0.is_empty() {
            self.0.push('\n');
        }
        let _ = self.0.write_fmt(row);
    }
}

fn lines(matches: &GrepMatches, numbers: bool, has_context: bool) -> String {
    let mut rows = Rows::default();
    for file in &matches.files {
        let mut next = None;
        let path = quote_path(&file.path);
        for line in &file.lines {
            if has_context && !rows.0.is_empty() && next != Some(line.number) {
                rows.push(format_args!("--"));
            }

            next = Some(line.number + 1);
            let mark = if line.is_match { ':' } else { '-' };
            if numbers {
                rows.push(format_args!(
                    "{path}{mark}{}{mark}{}",
                    line.number, line.text
                ));
            } else {
                rows.push(format_args!("{path}{mark}{}", line.text));
            }
        }
    }

    rows.0
}

/// Returns the matches whose texts fit into a result, and all files.
fn details(matches: &GrepMatches) -> Value {
    let mut lines = Vec::new();
    let mut room = MAX_TEXT;
    let mut is_cut = false;
    for file in &matches.files {
        for line in file.lines.iter().filter(|line| line.is_match) {
            let Some(remaining) = room.checked_sub(file.path.len() + line.text.len()) else {
                is_cut = true;
                break;
            };

            room = remaining;
            lines.push(json!({"file": file.path, "line": line.number, "text": line.text}));
        }
    }

    let files: Vec<Value> = matches
        .files
        .iter()
        .map(|file| json!({"path": file.path, "count": file.count}))
        .collect();
    json!({"matches": lines, "files": files, "truncated": matches.truncated || is_cut})
}
