//! The output of a tool.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;

use crate::error::BoxError;
use crate::message::{Content, MAX_JSON_DEPTH, ToolCall, ToolResult, dismantle, is_too_deep};

/// The output of a call, before the loop adds the call's id.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ToolOutput {
    /// The content for the model.
    pub content: Content,
    /// True if the call failed although the tool returned.
    pub is_error: bool,
    /// Structured data for programs; the model does not see it.
    pub details: Option<Value>,
    /// Text for the user instead of `content`.
    pub display: Option<String>,
    /// True if the output should not be shown to the user.
    pub silent: bool,
    /// True if the work continues and its outcome will arrive later.
    pub is_async: bool,
}

impl ToolOutput {
    /// Creates a successful output.
    pub fn new(content: impl Into<Content>) -> Self {
        Self {
            content: content.into(),
            ..Self::default()
        }
    }

    /// Creates the output of a failed call. Use it for a failure with a display text or with
    /// content other than text. For any other failure return an `Err`: a [`ToolError`] if there are
    /// details.
    pub fn error(content: impl Into<Content>) -> Self {
        Self {
            is_error: true,
            ..Self::new(content)
        }
    }

    /// Sets structured data for programs.
    #[must_use]
    pub fn with_details(mut self, details: impl Into<Value>) -> Self {
        self.details = Some(details.into());
        self
    }

    /// Sets a text for the user.
    #[must_use]
    pub fn with_display(mut self, display: impl Into<String>) -> Self {
        self.display = Some(display.into());
        self
    }

    /// Hides the output from the user.
    #[must_use]
    pub fn silent(mut self) -> Self {
        self.silent = true;
        self
    }

    /// Marks the output as a report on work that continues in the background.
    #[must_use]
    pub fn in_background(mut self) -> Self {
        self.is_async = true;
        self
    }

    pub(crate) fn into_result(self, call: &ToolCall) -> ToolResult {
        let mut result = if self.is_error {
            failed(call, self.content)
        } else {
            ToolResult::ok(call, self.content)
        };
        result.details = self.details;
        result.display = self.display;
        result.silent = self.silent;
        result.is_async = self.is_async;
        result
    }
}

/// Creates the result of a failed call. Content with parts other than text stays as it is; text
/// begins with `Error: `.
fn failed(call: &ToolCall, content: Content) -> ToolResult {
    if content.parts().iter().all(|part| part.as_text().is_some()) {
        return ToolResult::failed(call, content.text());
    }
    let mut result = ToolResult::ok(call, content);
    result.is_error = true;
    result
}

impl From<String> for ToolOutput {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl From<&str> for ToolOutput {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<Cow<'_, str>> for ToolOutput {
    fn from(text: Cow<'_, str>) -> Self {
        Self::new(text)
    }
}

impl From<Content> for ToolOutput {
    fn from(content: Content) -> Self {
        Self::new(content)
    }
}

impl From<Value> for ToolOutput {
    /// Converts a string to itself, and any other value to JSON text. A value nested deeper than
    /// 100 levels is an error.
    fn from(value: Value) -> Self {
        match value {
            Value::String(text) => Self::new(text),
            deep if is_too_deep(&deep) => {
                dismantle(deep);
                Self::error(format!(
                    "the tool returned JSON nested deeper than {MAX_JSON_DEPTH} levels"
                ))
            }
            other => Self::new(other.to_string()),
        }
    }
}

/// A serializable value that the model reads as JSON.
#[derive(Clone, Copy, Debug)]
pub struct Json<T>(pub T);

/// The types a tool closure may return: an output, or a `Result` of one.
#[diagnostic::on_unimplemented(
    message = "a tool closure cannot return `{Self}`",
    label = "return `String`, `&str`, `serde_json::Value`, `Json(value)`, `ToolOutput`, or `Result<_, BoxError>` of one",
    note = "the error type is always `agentcore::BoxError`: use `?`, `.into()` or `.map_err(BoxError::from)`"
)]
pub trait IntoToolResult {
    /// Converts the value into an output or an error.
    ///
    /// # Errors
    ///
    /// Returns the tool's error.
    fn into_tool_result(self) -> Result<ToolOutput, BoxError>;
}

macro_rules! plain {
    ($($type:ty),*) => {
        $(impl IntoToolResult for $type {
            fn into_tool_result(self) -> Result<ToolOutput, BoxError> {
                Ok(self.into())
            }
        })*
    };
}

plain!(String, &str, Cow<'_, str>, Content, Value, ToolOutput);

impl IntoToolResult for () {
    fn into_tool_result(self) -> Result<ToolOutput, BoxError> {
        Ok("done".into())
    }
}

impl<T: Serialize> IntoToolResult for Json<T> {
    fn into_tool_result(self) -> Result<ToolOutput, BoxError> {
        Ok(ToolOutput::new(serde_json::to_string(&self.0)?))
    }
}

impl<T: IntoToolResult> IntoToolResult for Result<T, BoxError> {
    fn into_tool_result(self) -> Result<ToolOutput, BoxError> {
        self?.into_tool_result()
    }
}

/// A tool's failure with a text for the model and details for programs.
///
/// Any error will do as a tool's error; this is one to construct, and to downcast to.
///
/// ```
/// use agentcore::{BoxError, ToolError};
///
/// let details = serde_json::json!({"code": 404});
/// let error: BoxError = ToolError::new("no such city").with_details(details).into();
/// assert_eq!(error.downcast_ref::<ToolError>().map(ToolError::text), Some("no such city"));
/// ```
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{text}")]
pub struct ToolError {
    text: String,
    details: Option<Value>,
    question: Option<UnansweredQuestion>,
}

/// A question of a tool that was not answered.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct UnansweredQuestion {
    pub(crate) text: String,
    /// `true` if the answer is a text, `false` if it allows or denies the call.
    pub(crate) expects_text: bool,
    /// Texts for the model that are added to the later answer.
    pub(crate) context: Vec<String>,
}

impl UnansweredQuestion {
    /// Creates a question whose answer allows or denies the call.
    pub(crate) fn permission(text: String) -> Self {
        Self {
            text,
            expects_text: false,
            context: Vec::new(),
        }
    }

    /// Returns the size of the texts in bytes.
    pub(crate) fn text_len(&self) -> usize {
        self.text.len() + self.context.iter().map(String::len).sum::<usize>()
    }
}

impl ToolError {
    /// Creates a failure with a text for the model.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            details: None,
            question: None,
        }
    }

    /// Sets data for programs, which becomes the result's `details`.
    #[must_use]
    pub fn with_details(mut self, details: impl Into<Value>) -> Self {
        self.details = Some(details.into());
        self
    }

    /// Sets the question that was not answered. With
    /// [`OnUnanswered::Park`](crate::OnUnanswered::Park), the call waits for the answer instead of
    /// failing, and `post_tool_use` hooks do not receive its failure. A later decision is applied
    /// as follows:
    ///
    /// * [`Decision::reply`](crate::Decision::reply): the reply is the result of the call.
    /// * [`Decision::allow`](crate::Decision::allow): the tool runs again from its beginning, and
    ///   [`ToolContext::ask`](crate::ToolContext::ask) returns
    ///   [`Answer::Allow`](crate::Answer::Allow) for the same question, once.
    ///
    /// The question is redacted and limited like a result.
    #[must_use]
    pub fn with_question(mut self, question: impl Into<String>) -> Self {
        self.question = Some(UnansweredQuestion::permission(question.into()));
        self
    }

    /// Sets the question like [`with_question`](Self::with_question), for a question whose answer
    /// is a text ([`ToolContext::ask_for_text`](crate::ToolContext::ask_for_text)).
    #[must_use]
    pub fn with_text_question(mut self, question: impl Into<String>) -> Self {
        self.question = Some(UnansweredQuestion {
            expects_text: true,
            ..UnansweredQuestion::permission(question.into())
        });
        self
    }

    /// Adds a text for the model to the later answer to the question, if there is a question.
    #[cfg(feature = "tools")]
    pub(crate) fn with_question_context(mut self, text: String) -> Self {
        if let Some(question) = &mut self.question {
            question.context.push(text);
        }
        self
    }

    /// Returns the question that was not answered, if there is one.
    pub fn question(&self) -> Option<&str> {
        self.question.as_ref().map(|question| &*question.text)
    }

    /// Returns the text for the model.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the data for programs.
    pub fn details(&self) -> Option<&Value> {
        self.details.as_ref()
    }

    /// Returns the size of the text in bytes.
    pub(crate) fn text_len(&self) -> usize {
        self.text.len()
    }

    pub(crate) fn into_parts(self) -> (String, Option<Value>) {
        (self.text, self.details)
    }

    pub(crate) fn take_question(&mut self) -> Option<UnansweredQuestion> {
        self.question.take()
    }
}
