//! The text of a child run that is stopped with its parent.

use std::fmt::Write as _;
use std::sync::Arc;

use crate::message::{Message, ToolCall};
use crate::run::RunContext;

/// A child run in progress. If it is dropped because its parent was stopped, its `Drop` keeps the
/// child's text for the result of the parent's call.
///
/// It must be dropped after the futures of the run: a dropped attempt at a model call keeps its
/// partial response, which may have the child's last text.
pub(super) struct StoppedChild<'a> {
    cx: &'a RunContext,
    /// True if the text of a partial response is kept.
    keeps_partial: bool,
    /// The number of messages before the first response; `None` before the session is open.
    initial_len: Option<usize>,
    has_ended: bool,
}

impl<'a> StoppedChild<'a> {
    pub(super) fn new(cx: &'a RunContext, keeps_partial: bool) -> Self {
        Self {
            cx,
            keeps_partial,
            initial_len: None,
            has_ended: false,
        }
    }

    /// Notes that the session is open and its history has the input.
    pub(super) fn begin(&mut self) {
        self.initial_len = Some(self.cx.state(|state| state.messages.len()));
    }

    /// Notes that the run has ended, so that its caller receives its output.
    pub(super) fn end(&mut self) {
        self.has_ended = true;
    }

    /// Returns the last text and the calls of the run so far; `None` if there are none.
    fn progress(&self) -> Option<String> {
        let initial_len = self.initial_len?;
        let messages = self.cx.state(|state| state.messages.clone());
        let new_messages = &messages.as_slice()[initial_len.min(messages.len())..];
        let partial = self.cx.take_partial().filter(|_| self.keeps_partial);
        let text = partial
            .map(|partial| partial.text().into_owned())
            .filter(|text| !text.trim().is_empty())
            .unwrap_or_else(|| last_text(new_messages));
        let calls = new_messages.iter().flat_map(|message| message.tool_calls());
        Some(progress_text(&text, calls)).filter(|text| !text.is_empty())
    }
}

impl Drop for StoppedChild<'_> {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        let (Some(call), Some(parent)) = (self.cx.parent(), self.cx.parent_run()) else {
            return;
        };
        // A call whose run continues has a result of its own.
        if !parent.shared().is_stopped() {
            return;
        }
        if let Some(progress) = self.progress() {
            let text = format!("the subagent was cut off{progress}");
            parent.keep_child_text(call.tool_use_id.clone(), text);
        }
    }
}

/// Returns the last text of the model that is not blank, or an empty text.
fn last_text(messages: &[Arc<Message>]) -> String {
    messages
        .iter()
        .rev()
        .filter(|message| matches!(***message, Message::Assistant(_)))
        .map(|message| message.text())
        .find(|text| !text.trim().is_empty())
        .unwrap_or_default()
        .into_owned()
}

/// Returns the part of a call's result about a child run that did not complete: its last text and
/// its calls. Returns an empty text if there are none.
pub(crate) fn progress_text<'a>(
    last_text: &str,
    calls: impl Iterator<Item = &'a ToolCall>,
) -> String {
    let mut text = String::new();
    if !last_text.trim().is_empty() {
        let _ = write!(text, "\n\nIts last text:\n{last_text}");
    }

    let names: Vec<_> = calls.map(|call| &*call.name).collect();
    if !names.is_empty() {
        let _ = write!(text, "\n\nIts calls: {}", names.join(", "));
    }
    text
}
