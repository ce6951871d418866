//! The result of a tool call.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::util::lenient::or_default;
use crate::util::secret;

use super::content::Content;
use super::part::ToolCall;

/// The text of a tool result without content: providers refuse empty ones.
pub(crate) const NO_OUTPUT: &str = "(no output)";

/// The content of a [suppressed](ToolResult::suppressed) result.
const SUPPRESSED: &str = "[output suppressed by hook]";

/// The result of one tool call: the content for the model, and the data for others.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ToolResult {
    /// The id of the call that has this result.
    pub tool_call_id: Arc<str>,
    /// The name of the tool that produced it.
    pub name: Arc<str>,
    /// The content for the model.
    pub content: Content,
    /// True if the call failed.
    pub is_error: bool,
    /// Structured data for programs; the model does not see it.
    pub details: Option<Value>,
    /// Text for the user instead of `content`.
    pub display: Option<String>,
    /// True if the result should not be shown to the user.
    pub silent: bool,
    /// True if the work continues and its outcome will arrive later.
    pub is_async: bool,
}

impl ToolResult {
    /// Creates a successful result.
    pub fn new(
        tool_call_id: impl Into<Arc<str>>,
        name: impl Into<Arc<str>>,
        content: impl Into<Content>,
    ) -> Self {
        Self {
            tool_call_id: tool_call_id.into(),
            name: name.into(),
            content: content.into(),
            ..Self::default()
        }
    }

    /// Creates a successful result of `call`.
    pub fn ok(call: &ToolCall, content: impl Into<Content>) -> Self {
        Self::new(call.id.clone(), call.name.clone(), content)
    }

    /// Creates a failed result of `call`. Its text begins with `Error: ` once, even if `text`
    /// begins with it.
    pub fn failed(call: &ToolCall, text: impl AsRef<str>) -> Self {
        let mut text = text.as_ref();
        // Tools often return the text of another failure, which already has this prefix.
        while let Some(suffix) = text.strip_prefix("Error:") {
            text = suffix.trim_start_matches(' ');
        }
        Self {
            is_error: true,
            ..Self::ok(call, format!("Error: {text}"))
        }
    }

    /// Returns the same result with `[output suppressed by hook]` as its content and without
    /// details and display; a failed result stays failed.
    ///
    /// A [`post_tool_use`](crate::hook::post_tool_use) hook returns it so that the model, readers,
    /// the store and traces do not receive the tool's output. Progress that the tool reported has
    /// been emitted before, and a [`FilesystemHook`](crate::hooks::FilesystemHook) may have written
    /// a long result into a file. To suppress a result before it is written, use a
    /// [`wrap_tool_call`](crate::hook::wrap_tool_call) hook that is added after the
    /// `FilesystemHook`.
    ///
    /// ```
    /// use agentcore::{ToolResult, hook};
    ///
    /// let quiet = hook::post_tool_use("quiet", |_cx, call, result: ToolResult| async move {
    ///     Ok(match &*call.name {
    ///         "read_mail" => result.suppressed(),
    ///         _ => result,
    ///     })
    /// });
    /// # let _ = quiet;
    /// ```
    #[must_use]
    pub fn suppressed(mut self) -> Self {
        self.content = SUPPRESSED.into();
        self.details = None;
        self.display = None;
        self
    }

    /// Returns the text of a successful result, or an empty text for a failed result.
    pub fn output(&self) -> String {
        if self.is_error {
            String::new()
        } else {
            self.content.text().into_owned()
        }
    }

    /// Returns the text of a failed result without its prefix `Error: `, or `None` for a successful
    /// result.
    pub fn error(&self) -> Option<String> {
        if !self.is_error {
            return None;
        }
        let text = self.content.text();
        Some(text.strip_prefix("Error: ").unwrap_or(&text).to_owned())
    }

    /// Redacts the registered secrets in all texts of the result.
    pub(crate) fn redact(&mut self) {
        self.content.redact();
        if let Some(details) = &mut self.details {
            secret::redact(details);
        }
        if let Some(display) = &mut self.display {
            secret::redact_text(display);
        }
    }

    /// Returns the result in its form with four fields, for peers that use this form.
    pub fn view(&self) -> ToolResultView {
        ToolResultView {
            tool_call_id: self.tool_call_id.clone(),
            name: self.name.clone(),
            output: self.output(),
            // An empty error would be parsed as a success.
            error: match self.error() {
                Some(error) if error.is_empty() => NO_OUTPUT.to_owned(),
                error => error.unwrap_or_default(),
            },
        }
    }
}

/// A result as `{"tool_call_id","name","output","error"?}`: `error` is absent on success, and
/// `output` is empty on failure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolResultView {
    /// The id of its call.
    #[serde(default)]
    pub tool_call_id: Arc<str>,
    /// The name of the tool that produced it.
    #[serde(default)]
    pub name: Arc<str>,
    /// The tool's output.
    #[serde(default)]
    pub output: String,
    /// The error; empty on success.
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub error: String,
}

impl From<ToolResultView> for ToolResult {
    fn from(view: ToolResultView) -> Self {
        let call = ToolCall::new(view.tool_call_id, view.name, Value::Null);
        if view.error.is_empty() {
            Self::ok(&call, view.output)
        } else {
            Self::failed(&call, view.error)
        }
    }
}
