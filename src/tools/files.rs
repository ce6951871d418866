//! Listing folders and writing files: the bodies of the tools.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::backend::{Backend, DirEntry, EntryKind};
use crate::error::BoxError;
use crate::message::Part;
use crate::tool::ToolOutput;
use crate::util::path::{is_odd, push_escape, quote_path};

use super::args::{Args, PATH};
use super::find::withhold;

/// The note in a listing about entries that permission rules withhold.
const WITHHELD: &str = "\n(entries were withheld: permission rules deny reading them)";

/// The maximum number of entries of a listing.
const MAX_LISTED: usize = 10_000;
/// The maximum size of a listing's text, in bytes. Entries beyond it are omitted.
const MAX_TEXT: usize = 2 * 1024 * 1024;

/// Lists a folder as a JSON array of `{name, type, size}`.
pub(super) async fn list_json(
    backend: Arc<dyn Backend>,
    args: Args,
) -> Result<ToolOutput, BoxError> {
    let _permit = args.load_permit().await;
    let listing = Listing::read(&*backend, &args).await?;
    let mut text = String::from("[");
    let details = listing.show(&mut text, |text, entry| {
        if text.len() > 1 {
            text.push(',');
        }

        push_json(text, &json_of(entry));
    });

    text.push(']');
    let mut output = ToolOutput::new(text);

    // A separate part, so that the array stays valid JSON.
    if let Some(note) = listing.note(details.len()) {
        output.content.parts_mut().push(Part::Text(note));
    }

    Ok(output.with_details(details))
}

/// Lists a folder as lines of `DIR:  name` and `FILE: name`, with unusual names quoted.
pub(super) async fn list_text(
    backend: Arc<dyn Backend>,
    args: Args,
) -> Result<ToolOutput, BoxError> {
    let _permit = args.load_permit().await;
    let listing = Listing::read(&*backend, &args).await?;
    let mut text = String::new();
    let details = listing.show(&mut text, |text, entry| {
        let label = match entry.kind {
            EntryKind::Dir => "DIR:  ",
            _ => "FILE: ",
        };

        if !text.is_empty() {
            text.push('\n');
        }

        text.push_str(label);
        text.push_str(&quote_path(&entry.name));
    });

    match listing.note(details.len()) {
        Some(note) => text.push_str(&note),
        None if text.is_empty() => text.push_str("(empty folder)"),
        None => {}
    }

    Ok(ToolOutput::new(text).with_details(details))
}

/// The entries of a call's folder that it may show.
struct Listing {
    entries: Vec<DirEntry>,
    has_withheld: bool,
}

impl Listing {
    async fn read(backend: &dyn Backend, args: &Args) -> Result<Self, BoxError> {
        let path = args.folder().unwrap_or(".");
        let filter = args.readable(backend);
        let mut entries = backend.list(path).await?;
        let folder = path.to_owned();
        let path_of = move |entry: &DirEntry| format!("{folder}/{}", entry.name);
        let has_withheld = withhold(&mut entries, filter, path_of).await?;
        Ok(Self {
            entries,
            has_withheld,
        })
    }

    /// Adds the entries that fit to the text, each with `add`, and returns them as values.
    fn show(&self, text: &mut String, add: impl Fn(&mut String, &DirEntry)) -> Vec<Value> {
        let mut details = Vec::new();
        for entry in self.entries.iter().take(MAX_LISTED) {
            let len = text.len();
            add(text, entry);
            if text.len() > MAX_TEXT {
                text.truncate(len);
                break;
            }
            details.push(json_of(entry));
        }
        details
    }

    /// Returns the note about omitted entries, if the text shows `displayed` of them.
    fn note(&self, displayed: usize) -> Option<String> {
        let mut note = String::new();
        let total = self.entries.len();
        if displayed < total {
            note =
                format!("\n(truncated: only the first {displayed} of {total} entries are shown)");
        }
        if self.has_withheld {
            note.push_str(WITHHELD);
        }
        (!note.is_empty()).then_some(note)
    }
}

/// Adds JSON on one line, in which the characters that [`quote_path`] escapes are escaped, too. Its
/// value stays the same: they occur only in strings.
fn push_json(text: &mut String, json: &Value) {
    for c in json.to_string().chars() {
        if is_odd(c) {
            push_escape(text, c);
        } else {
            text.push(c);
        }
    }
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
    let bytes = content.len();
    let lines = content.lines().count();
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
