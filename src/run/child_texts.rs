//! The texts of child runs that were stopped with their call.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex};

use crate::util::blocking::LARGE_TEXT;
use crate::util::secret::redact_text;
use crate::util::sync::lock;
use crate::util::text::cut_bytes;

use super::context::RunContext;

/// The texts of the child runs that were dropped when this run was stopped, by call.
#[derive(Default)]
pub(super) struct ChildTexts(Mutex<BTreeMap<Arc<str>, String>>);

impl RunContext {
    /// Keeps the text of a child run that was dropped, with secrets redacted, for the result of its
    /// call. The texts of a call are cut to [`LARGE_TEXT`] bytes together.
    pub(crate) fn keep_child_text(&self, call_id: Arc<str>, mut text: String) {
        // Redacted before it is cut, which may leave a part of a secret.
        redact_text(&mut text);
        let mut texts = lock(&self.0.child_texts.0);
        let call_text = match texts.entry(call_id) {
            Entry::Vacant(entry) => entry.insert(text),
            Entry::Occupied(entry) => {
                let call_text = entry.into_mut();
                call_text.push_str("\n\n");
                call_text.push_str(&text);
                call_text
            }
        };
        cut_bytes(call_text, 0, LARGE_TEXT, LARGE_TEXT);
    }

    /// Takes the texts of the child runs of a call.
    pub(crate) fn take_child_text(&self, call_id: &str) -> Option<String> {
        lock(&self.0.child_texts.0).remove(call_id)
    }

    /// Discards the texts of all child runs, once the calls that were stopped have a result.
    pub(crate) fn discard_child_texts(&self) {
        let texts = std::mem::take(&mut *lock(&self.0.child_texts.0));
        drop(texts);
    }
}
