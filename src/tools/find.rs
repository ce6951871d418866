//! Finding files and lines.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::backend::{Backend, GlobQuery, GrepFile, GrepMatches, GrepMode, GrepQuery};
use crate::error::BoxError;
use crate::tool::ToolOutput;

/// The note in a search about omitted files.
const WITHHELD: &str = "\n(some files were left out: permission rules deny reading them)";

/// Paths, one a line.
pub(super) async fn glob(backend: &dyn Backend, query: GlobQuery) -> Result<ToolOutput, BoxError> {
    let filter = query.filter.clone();
    let mut found = backend.glob(query).await?;
    found.withheld |= withhold(&mut found.files, |path| filter.shows(path));
    let mut text = found.files.join("\n");
    if found.truncated {
        let shown = found.files.len();
        let _ = write!(
            text,
            "\n(truncated: only the first {shown} files are shown)"
        );
    } else if found.files.is_empty() {
        text.push_str("No files found");
    }
    if found.withheld {
        text.push_str(WITHHELD);
    }
    let details = json!({"files": found.files, "truncated": found.truncated});
    Ok(ToolOutput::new(text).with_details(details))
}

/// Lines as ripgrep shows them: `path:12:a match`, `path-11-a line near it`.
pub(super) async fn grep(
    backend: &dyn Backend,
    query: GrepQuery,
    numbers: bool,
) -> Result<ToolOutput, BoxError> {
    let (mode, has_context) = (query.mode, query.before.max(query.after) > 0);
    let filter = query.filter.clone();
    let mut found = backend.grep(query).await?;
    found.withheld |= withhold(&mut found.files, |file| filter.shows(&file.path));
    let mut text = match mode {
        GrepMode::Files => joined(&found, |file| file.path.clone()),
        GrepMode::Count => joined(&found, |file| format!("{}:{}", file.path, file.count)),
        GrepMode::Lines => lines(&found, numbers, has_context),
    };
    if found.files.is_empty() {
        text.push_str("No matches found");
    }
    if found.withheld {
        text.push_str(WITHHELD);
    }
    if found.truncated {
        text.push_str("\n(truncated: there may be more)");
    }
    if found.skipped > 0 {
        let _ = write!(text, "\n({} files could not be searched)", found.skipped);
    }
    Ok(ToolOutput::new(text).with_details(details(&found)))
}

/// Removes the files that must not be shown, and returns whether there were any: a backend with its
/// own search may ignore filters.
fn withhold<T>(files: &mut Vec<T>, shows: impl Fn(&T) -> bool) -> bool {
    let all = files.len();
    files.retain(shows);
    files.len() < all
}

fn joined(found: &GrepMatches, line: impl Fn(&GrepFile) -> String) -> String {
    let lines: Vec<String> = found.files.iter().map(line).collect();
    lines.join("\n")
}

fn lines(found: &GrepMatches, numbers: bool, has_context: bool) -> String {
    let mut shown: Vec<String> = Vec::new();
    for file in &found.files {
        let mut next = None;
        for line in &file.lines {
            if has_context && !shown.is_empty() && next != Some(line.number) {
                shown.push("--".to_owned());
            }
            next = Some(line.number + 1);
            let mark = if line.is_match { ':' } else { '-' };
            let path = &file.path;
            shown.push(match numbers {
                true => format!("{path}{mark}{}{mark}{}", line.number, line.text),
                false => format!("{path}{mark}{}", line.text),
            });
        }
    }
    shown.join("\n")
}

fn details(found: &GrepMatches) -> Value {
    let matches = found.files.iter().flat_map(|file| {
        let lines = file.lines.iter().filter(|line| line.is_match);
        lines.map(|line| json!({"file": file.path, "line": line.number, "text": line.text}))
    });
    let matches: Vec<Value> = matches.collect();
    let files = found.files.iter();
    let files = files.map(|file| json!({"path": file.path, "count": file.count}));
    let files: Vec<Value> = files.collect();
    json!({"matches": matches, "files": files, "truncated": found.truncated})
}
