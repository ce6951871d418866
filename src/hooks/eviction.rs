//! Moving long results of tools out of the conversation.

use std::collections::BTreeSet;

use crate::backend::{Backend, is_not_found};
use crate::error::Result;
use crate::message::{Content, Part, ToolCall};
use crate::util::hash::fnv1a;
use crate::util::text;

use super::place::absolute;

/// Their output is bounded by themselves, or is what brings a moved result back.
const SPARED: [&str; 6] = ["ls", "glob", "grep", "read_file", "edit_file", "write_file"];
/// So much of an id is part of a file's name.
const MAX_ID_CHARS: usize = 64;

/// Which results are moved, and what stays of them.
#[derive(Clone, Debug)]
pub(super) struct Eviction {
    /// Results of more characters are moved.
    pub(super) over: usize,
    pub(super) head: usize,
    pub(super) tail: usize,
    /// Where they go.
    pub(super) folder: String,
    /// Tools whose results stay.
    pub(super) spared: BTreeSet<String>,
}

impl Default for Eviction {
    fn default() -> Self {
        Self {
            over: 80_000,
            head: 2_000,
            tail: 2_000,
            folder: ".agentcore/tool-results".to_owned(),
            spared: SPARED.map(str::to_owned).into(),
        }
    }
}

impl Eviction {
    /// The text of a result that is too long, if it is.
    pub(super) fn text_of(&self, tool: &str, content: &Content) -> Option<String> {
        // As many bytes hold at most as many characters.
        if self.spared.contains(tool) || content.text_len() <= self.over {
            return None;
        }
        let text = content.text();
        let is_long = text::head(&text, self.over).1 > 0;
        let leaves_something = text::head(&text, self.head.saturating_add(self.tail)).1 > 0;
        (is_long && leaves_something).then(|| text.into_owned())
    }

    /// Where the result of a call goes. The hash tells results apart whose ids differ only in
    /// letters that a name cannot have, in case, or not at all.
    pub(super) fn path(
        &self,
        backend: &dyn Backend,
        session: &str,
        call: &ToolCall,
        text: &str,
    ) -> String {
        let hash = fnv1a([session, &call.id, text].map(str::as_bytes));
        let (session, id) = (file_name(session), file_name(&call.id));
        let folder = self.folder(backend);
        format!("{folder}/{session}/{id}-{hash:016x}.txt")
    }

    pub(super) fn folder(&self, backend: &dyn Backend) -> String {
        absolute(backend, &self.folder)
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

    /// Puts the beginning and the end of `text` in place of the text of `content`.
    pub(super) fn cut(&self, content: &mut Content, text: &str, path: &str) {
        let cut = text::head_tail(text, self.head, self.tail, |omitted| {
            format!("\n\n... (truncated {omitted} characters; full result: {path}) ...\n\n")
        });
        let mut cut = Some(cut.into_owned());
        content.parts_mut().retain_mut(|part| match part {
            Part::Text(own) => match cut.take() {
                Some(cut) => {
                    *own = cut;
                    true
                }
                None => false,
            },
            _ => true,
        });
    }
}

/// An id as a part of a path: letters, digits, `-` and `_`.
fn file_name(id: &str) -> String {
    let safe = |c: char| match c {
        'A'..='Z' | 'a'..='z' | '0'..='9' | '-' | '_' => c,
        _ => '_',
    };
    match id.is_empty() {
        true => "_".to_owned(),
        false => id.chars().take(MAX_ID_CHARS).map(safe).collect(),
    }
}
