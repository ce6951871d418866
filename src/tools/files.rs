//! Listing and writing.

use serde_json::{Value, json};

use crate::backend::{Backend, DirEntry, EntryKind, PathFilter};
use crate::error::BoxError;
use crate::message::Part;
use crate::tool::ToolOutput;

/// A folder as a JSON array of `{name, type, size}`.
pub(super) async fn list_json(
    backend: &dyn Backend,
    path: &str,
    shown: &PathFilter,
) -> Result<ToolOutput, BoxError> {
    let (entries, withheld) = list(backend, path, shown).await?;
    let entries: Vec<Value> = entries.iter().map(json_of).collect();
    let entries = Value::from(entries);
    let mut output = ToolOutput::from(entries.clone()).with_details(entries);
    if withheld {
        // Beside the array, which stays one.
        output
            .content
            .parts_mut()
            .push(Part::Text(WITHHELD.to_owned()));
    }
    Ok(output)
}

/// What a listing says instead of what it leaves out.
const WITHHELD: &str = "\n(entries were withheld: permission rules deny reading them)";

/// The entries that may be shown, and whether there are others.
async fn list(
    backend: &dyn Backend,
    path: &str,
    shown: &PathFilter,
) -> Result<(Vec<DirEntry>, bool), BoxError> {
    let mut entries = backend.list(path).await?;
    let all = entries.len();
    entries.retain(|entry| shown.shows(&format!("{path}/{}", entry.name)));
    let withheld = entries.len() < all;
    Ok((entries, withheld))
}

fn json_of(entry: &DirEntry) -> Value {
    json!({"name": entry.name, "type": entry.kind.as_str(), "size": entry.size})
}

/// A folder as lines of `DIR:  name` and `FILE: name`.
pub(super) async fn list_text(
    backend: &dyn Backend,
    path: &str,
    shown: &PathFilter,
) -> Result<ToolOutput, BoxError> {
    let (entries, withheld) = list(backend, path, shown).await?;
    let lines = entries.iter().map(|entry| match entry.kind {
        EntryKind::Dir => format!("DIR:  {}", entry.name),
        _ => format!("FILE: {}", entry.name),
    });
    let lines: Vec<String> = lines.collect();
    let details: Vec<Value> = entries.iter().map(json_of).collect();
    let mut text = match lines.is_empty() {
        true if withheld => String::new(),
        true => "(empty folder)".to_owned(),
        false => lines.join("\n"),
    };
    if withheld {
        text.push_str(WITHHELD);
    }
    Ok(ToolOutput::new(text).with_details(details))
}

pub(super) async fn write(
    backend: &dyn Backend,
    path: &str,
    content: &str,
) -> Result<ToolOutput, BoxError> {
    backend.write(path, content.as_bytes()).await?;
    Ok(report("File written", path, content))
}

pub(super) async fn append(
    backend: &dyn Backend,
    path: &str,
    content: &str,
) -> Result<ToolOutput, BoxError> {
    backend.append(path, content.as_bytes()).await?;
    Ok(report("Appended to", path, content))
}

fn report(done: &str, path: &str, content: &str) -> ToolOutput {
    let (bytes, lines) = (content.len(), content.lines().count());
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    let text = format!(
        "{done}: {path} ({bytes} byte{}, {lines} line{})",
        plural(bytes),
        plural(lines)
    );
    ToolOutput::new(text).with_details(json!({
        "path": path,
        "bytes_written": bytes,
        "lines": lines,
    }))
}
