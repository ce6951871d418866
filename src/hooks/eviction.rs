//! The eviction of long results of tools from the conversation: the text of a result is moved into
//! a file, and its two ends stay.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use crate::backend::{Backend, is_not_found, workspace_path};
use crate::error::{Error, ErrorKind, Result};
use crate::message::{Content, Part, ToolCall, ToolResult};
use crate::util::hash::fnv1a;
use crate::util::text;

use super::evicted_files;

/// Tools that limit their own output, and the tool that reads a moved result. The model may replace
/// the memory that `read_memory` returns, so it must see all of it.
const EXEMPT_TOOLS: [&str; 7] = [
    "ls",
    "glob",
    "grep",
    "read_file",
    "edit_file",
    "write_file",
    "read_memory",
];

/// The default maximum length of a result that is not moved, in characters.
const MAX_CHARS: usize = 80_000;

/// The approximate length of the marker between the two ends, in characters.
const MARKER_CHARS: usize = 100;

/// The default minimum and maximum number of characters that stay at each end.
const MIN_END_CHARS: usize = 200;
const MAX_END_CHARS: usize = 2_000;

/// The file that keeps results out of version control, and its content.
const IGNORE_FILE: &str = ".gitignore";
const IGNORE: &[u8] = b"*\n";

/// The rule for moving results: which are moved, and how much of them stays.
#[derive(Clone, Debug)]
pub(super) struct Eviction {
    /// The maximum length of a result that is not moved, in characters.
    pub(super) max_chars: usize,
    /// The number of characters that stay at the beginning and at the end; `None` derives them from
    /// `max_chars`.
    pub(super) ends: Option<(usize, usize)>,
    /// The folder for moved results.
    pub(super) folder: String,
    /// The tools whose results are never moved.
    pub(super) exempt_tools: BTreeSet<String>,
}

impl Default for Eviction {
    fn default() -> Self {
        Self {
            max_chars: MAX_CHARS,
            ends: None,
            folder: ".agentcore/tool-results".to_owned(),
            exempt_tools: EXEMPT_TOOLS.map(str::to_owned).into(),
        }
    }
}

impl Eviction {
    /// Returns `true` if a result may be too long.
    pub(super) fn may_move(&self, tool: &str, content: &Content) -> bool {
        // A text has at most as many characters as bytes.
        !self.exempt_tools.contains(tool) && content.text_len() > self.max_chars
    }

    /// Cuts a result that is too long. Returns its whole text and the path of the file for it, or
    /// `None` if the result stays as it is. Takes time in proportion to the text. A text in one
    /// part is not copied.
    pub(super) fn split(&self, result: &mut ToolResult, place: &ResultPlace) -> Option<MovedText> {
        let text = result.content.text();
        if text::head(&text, self.max_chars).1 == 0 {
            return None;
        }

        let path = place.path(&text);
        let excerpt = match self.shortened(&text, &path) {
            Cow::Owned(excerpt) if excerpt.chars().count() < text.chars().count() => excerpt,
            _ => return None,
        };

        // Ends the borrow of the content, whose only text is taken if it was not joined.
        let joined_text = match text {
            Cow::Owned(text) => Some(text),
            Cow::Borrowed(_) => None,
        };

        let text = joined_text.unwrap_or_else(|| take_text(&mut result.content));
        self.cut(result, excerpt, &path);
        Some(MovedText { text, path })
    }

    /// Returns the number of characters that stay at the beginning and at the end.
    fn ends(&self) -> (usize, usize) {
        self.ends.unwrap_or_else(|| {
            let end_len = self.max_chars.saturating_sub(MARKER_CHARS) / 2;
            let end_len = end_len.clamp(MIN_END_CHARS, MAX_END_CHARS);
            (end_len, end_len)
        })
    }

    pub(super) fn folder(&self, backend: &dyn Backend) -> String {
        workspace_path(backend, &self.folder)
    }

    /// Writes a result, and keeps the folder out of version control.
    pub(super) async fn store(&self, backend: &dyn Backend, path: &str, text: &str) -> Result<()> {
        let folder = self.folder(backend);
        let ignore = format!("{folder}/{IGNORE_FILE}");
        if !is_ignore_file_intact(backend, &folder, &ignore).await? {
            replace_ignore_file(backend, &ignore).await?;
        }
        backend.write(path, text.as_bytes()).await
    }

    /// Replaces the text of a result by `excerpt`. Its `display` and the texts in its `details` are
    /// cut in the same way. Details that are still too long are omitted: they would keep the whole
    /// text in the conversation.
    fn cut(&self, result: &mut ToolResult, excerpt: String, path: &str) {
        let mut excerpt = Some(excerpt);
        result.content.parts_mut().retain_mut(|part| match part {
            Part::Text(own) => match excerpt.take() {
                Some(excerpt) => {
                    *own = excerpt;
                    true
                }
                None => false,
            },
            _ => true,
        });

        if let Some(display) = &mut result.display {
            self.cut_text(display, path);
        }

        if let Some(details) = &mut result.details {
            self.cut_texts(details, path);
            if details.to_string().len() > self.max_chars.max(MAX_CHARS) {
                result.details = None;
            }
        }
    }

    fn shortened<'a>(&self, text: &'a str, path: &str) -> Cow<'a, str> {
        let (head, tail) = self.ends();
        text::head_tail(text, head, tail, |omitted| {
            format!("\n\n... (truncated {omitted} characters; full result: {path}) ...\n\n")
        })
    }

    /// Cuts a text where that makes it shorter.
    fn cut_text(&self, text: &mut String, path: &str) {
        let excerpt = match self.shortened(text, path) {
            Cow::Owned(excerpt) if excerpt.len() < text.len() => excerpt,
            _ => return,
        };
        *text = excerpt;
    }

    fn cut_texts(&self, value: &mut Value, path: &str) {
        match value {
            Value::String(text) => self.cut_text(text, path),
            Value::Array(items) => items.iter_mut().for_each(|item| self.cut_texts(item, path)),
            Value::Object(members) => members
                .values_mut()
                .for_each(|member| self.cut_texts(member, path)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

/// Returns `true` if the ignore file has the expected content and is no link. An ignore file that
/// came with the workspace may have other content, and put the results into version control.
///
/// # Errors
///
/// Returns an error if the folder of results is a link, which may lead to a folder with an ignore
/// file of its own.
async fn is_ignore_file_intact(backend: &dyn Backend, folder: &str, ignore: &str) -> Result<bool> {
    let root = backend.root().trim_end_matches('/');
    let real_root = backend.real_path("").await?;
    let suffix = folder.strip_prefix(root).unwrap_or(folder);
    let real_folder = backend.real_path(folder).await?;
    if real_folder != format!("{}{suffix}", real_root.trim_end_matches('/')) {
        let text = format!("the folder of results {folder:?} is a link; remove it");
        return Err(Error::new(ErrorKind::PermissionDenied, text));
    }

    match backend.real_path(ignore).await {
        Ok(real_path) if real_path == format!("{real_folder}/{IGNORE_FILE}") => {}
        Ok(_) => return Ok(false),
        // A link that leads out of the workspace.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => return Ok(false),
        Err(error) => return Err(error),
    }

    match backend.read_range(ignore, 0, IGNORE.len() + 1).await {
        Ok(content) => Ok(content == IGNORE),
        Err(error) if is_not_found(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Writes the ignore file. What it replaces is removed first, because a link would be followed.
async fn replace_ignore_file(backend: &dyn Backend, ignore: &str) -> Result<()> {
    match backend.remove(ignore).await {
        Ok(()) => {}
        Err(error) if is_not_found(&error) => {}
        Err(error) => return Err(error),
    }
    backend.write(ignore, IGNORE).await
}

/// Returns the text of a content with one text, which is left empty.
fn take_text(content: &mut Content) -> String {
    let mut texts = content.parts_mut().iter_mut();
    texts
        .find_map(|part| match part {
            Part::Text(text) => Some(std::mem::take(text)),
            _ => None,
        })
        .unwrap_or_default()
}

/// A text that was moved out of a result.
pub(super) struct MovedText {
    pub(super) text: String,
    pub(super) path: String,
}

/// The parts of the path of a call's result that do not depend on its text.
pub(super) struct ResultPlace {
    folder: String,
    session: Arc<str>,
    call_id: Arc<str>,
}

impl ResultPlace {
    /// Creates the place of a call's result in `folder`, the folder of all results.
    pub(super) fn new(folder: String, session: &Arc<str>, call: &ToolCall) -> Self {
        Self {
            folder,
            session: session.clone(),
            call_id: call.id.clone(),
        }
    }

    fn path(&self, text: &str) -> String {
        let hash = fnv1a([&*self.session, &*self.call_id, text].map(str::as_bytes));
        let folder = evicted_files::session_folder(&self.folder, &self.session);
        format!("{folder}/{}", evicted_files::file_name(&self.call_id, hash))
    }
}
