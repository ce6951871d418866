//! The eviction of long results of tools from the conversation.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::Value;

use crate::backend::{Backend, is_not_found};
use crate::error::Result;
use crate::message::{Content, Part, ToolCall, ToolResult};
use crate::util::hash::fnv1a;
use crate::util::text;

use super::evicted_files;
use super::paths::workspace_path;

/// Tools that limit their own output, and the one that reads a moved result.
const SPARED: [&str; 6] = ["ls", "glob", "grep", "read_file", "edit_file", "write_file"];
const OVER: usize = 80_000;

/// The approximate length of the marker between the two ends.
const MARKER: usize = 100;

/// The fewest and the most characters that stay at each end unless they are set.
const FEWEST: usize = 200;
const MOST: usize = 2_000;

/// The rule for moving results: which are moved, and how much of them stays.
#[derive(Clone, Debug)]
pub(super) struct Eviction {
    /// Results of more characters are moved.
    pub(super) over: usize,
    /// The number of characters that stay at the beginning and at the end; `None` derives them from
    /// `over`.
    pub(super) ends: Option<(usize, usize)>,
    /// The folder for moved results.
    pub(super) folder: String,
    /// Tools whose results stay.
    pub(super) spared: BTreeSet<String>,
}

impl Default for Eviction {
    fn default() -> Self {
        Self {
            over: OVER,
            ends: None,
            folder: ".agentcore/tool-results".to_owned(),
            spared: SPARED.map(str::to_owned).into(),
        }
    }
}

impl Eviction {
    /// The text of a result that is too long, if it is.
    pub(super) fn text_of(&self, tool: &str, content: &Content) -> Option<String> {
        // A text has at most as many characters as bytes.
        if self.spared.contains(tool) || content.text_len() <= self.over {
            return None;
        }
        let text = content.text();
        let is_long = text::head(&text, self.over).1 > 0;
        let (head, tail) = self.ends();
        let leaves_something = text::head(&text, head.saturating_add(tail)).1 > 0;
        (is_long && leaves_something).then(|| text.into_owned())
    }

    /// The number of characters that stay at the beginning and at the end.
    fn ends(&self) -> (usize, usize) {
        self.ends.unwrap_or_else(|| {
            let end_len = self.over.saturating_sub(MARKER) / 2;
            let end_len = end_len.clamp(FEWEST, MOST);
            (end_len, end_len)
        })
    }

    /// Returns `true` if the result has fewer characters when its text is moved to this path.
    pub(super) fn shortens(&self, text: &str, path: &str) -> bool {
        self.shortened(text, path).chars().count() < text.chars().count()
    }

    /// The path for the result of a call.
    pub(super) fn path(
        &self,
        backend: &dyn Backend,
        session: &str,
        call: &ToolCall,
        text: &str,
    ) -> String {
        let hash = fnv1a([session, &call.id, text].map(str::as_bytes));
        let folder = evicted_files::session_folder(&self.folder(backend), session);
        format!("{folder}/{}", evicted_files::file_name(&call.id, hash))
    }

    pub(super) fn folder(&self, backend: &dyn Backend) -> String {
        workspace_path(backend, &self.folder)
    }

    /// Writes a result, and keeps the folder out of version control.
    pub(super) async fn store(&self, backend: &dyn Backend, path: &str, text: &str) -> Result<()> {
        let ignore = format!("{}/.gitignore", self.folder(backend));
        match backend.stat(&ignore).await {
            Ok(_) => {}
            Err(error) if is_not_found(&error) => backend.write(&ignore, b"*\n").await?,
            Err(error) => return Err(error),
        }
        backend.write(path, text.as_bytes()).await
    }

    /// Replaces the text of a result by the beginning and the end of `text`. Its parts for programs
    /// and people are cut in the same way, and details that are still too long are left out: they
    /// would keep the whole text in the conversation.
    pub(super) fn cut(&self, result: &mut ToolResult, text: &str, path: &str) {
        let mut excerpt = Some(self.shortened(text, path).into_owned());
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
            if details.to_string().len() > self.over.max(OVER) {
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
