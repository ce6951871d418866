//! The listing of folders and the writing of files: the bodies of the tools.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::backend::{Backend, DirEntry, EntryKind};
use crate::error::BoxError;
use crate::message::Part;
use crate::tool::ToolOutput;

use super::args::{Args, PATH};
use super::find::shown;

/// The note in a listing about omitted entries.
const WITHHELD: &str = "\n(entries were withheld: permission rules deny reading them)";

/// A folder as a JSON array of `{name, type, size}`.
pub(super) async fn list_json(
    backend: Arc<dyn Backend>,
    args: Args,
) -> Result<ToolOutput, BoxError> {
    let (entries, has_hidden) = list(&*backend, &args).await?;
    let entries: Vec<Value> = entries.iter().map(json_of).collect();
    let entries = Value::from(entries);
    let mut output = ToolOutput::from(entries.clone()).with_details(entries);
    if has_hidden {
        // Beside the array, which stays one.
        output
            .content
            .parts_mut()
            .push(Part::Text(WITHHELD.to_owned()));
    }
    Ok(output)
}

/// A folder as lines of `DIR:  name` and `FILE: name`, odd names quoted.
pub(super) async fn list_text(
    backend: Arc<dyn Backend>,
    args: Args,
) -> Result<ToolOutput, BoxError> {
    let (entries, has_hidden) = list(&*backend, &args).await?;
    let lines = entries.iter().map(|entry| match entry.kind {
        EntryKind::Dir => format!("DIR:  {}", shown(&entry.name)),
        _ => format!("FILE: {}", shown(&entry.name)),
    });
    let lines: Vec<String> = lines.collect();
    let details: Vec<Value> = entries.iter().map(json_of).collect();
    let mut text = match lines.is_empty() {
        true if has_hidden => String::new(),
        true => "(empty folder)".to_owned(),
        false => lines.join("\n"),
    };
    if has_hidden {
        text.push_str(WITHHELD);
    }
    Ok(ToolOutput::new(text).with_details(details))
}

/// The entries of a call's folder that it may show, and whether there are others.
async fn list(backend: &dyn Backend, args: &Args) -> Result<(Vec<DirEntry>, bool), BoxError> {
    let path = args.some_text(&PATH).unwrap_or(".");
    let filter = args.readable(backend);
    let mut entries = backend.list(path).await?;
    let total = entries.len();
    entries.retain(|entry| filter.shows(&format!("{path}/{}", entry.name)));
    let has_hidden = entries.len() < total;
    Ok((entries, has_hidden))
}

fn json_of(entry: &DirEntry) -> Value {
    json!({"name": entry.name, "type": entry.kind.as_str(), "size": entry.size})
}

pub(super) async fn write(backend: Arc<dyn Backend>, args: Args) -> Result<ToolOutput, BoxError> {
    let (path, content) = (args.text(&PATH)?, args.text(&["content"])?);
    backend.write(path, content.as_bytes()).await?;
    Ok(report("File written", path, content))
}

pub(super) async fn append(backend: Arc<dyn Backend>, args: Args) -> Result<ToolOutput, BoxError> {
    let (path, content) = (args.text(&PATH)?, args.text(&["content"])?);
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
