//! A complete response.

use std::borrow::Cow;
use std::sync::Arc;

use crate::message::{AssistantMessage, Content, ToolCall};
use crate::usage::Usage;

use super::card::ModelCard;
use super::stop_reason::StopReason;

/// The complete response of a model, made of the events of its stream.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ModelResponse {
    /// Text, thinking and calls, in the model's order.
    pub content: Content,
    /// The reason the model stopped; `None` if it was not reported.
    pub stop_reason: Option<StopReason>,
    /// The stop sequence that was generated.
    pub stop_sequence: Option<Arc<str>>,
    /// The tokens, as the provider reported them; zero if it reported none.
    pub usage: Usage,
    /// The provider's id of the response; may be empty.
    pub id: Arc<str>,
    /// The model that answered, as the provider names it; may be empty.
    pub model: Arc<str>,
    /// The provider's id of the request.
    pub request_id: Option<Arc<str>>,
    /// The model that answered, if it is not the requested model.
    pub answered_by: Option<Box<ModelCard>>,
    /// The tool names of the calls that were cut off at the output limit. These calls are not part
    /// of the content. Runs set this field.
    pub cut_calls: Vec<Arc<str>>,
}

impl ModelResponse {
    /// Creates a response with this content that ends the turn, such as a response that a hook
    /// returns instead of calling the model.
    pub fn new(content: impl Into<Content>) -> Self {
        Self {
            content: content.into(),
            stop_reason: Some(StopReason::EndTurn),
            ..Self::default()
        }
    }

    /// Returns this response with other content.
    pub(crate) fn with_content(&self, content: Content) -> Self {
        Self {
            content,
            stop_reason: self.stop_reason.clone(),
            stop_sequence: self.stop_sequence.clone(),
            usage: self.usage,
            id: self.id.clone(),
            model: self.model.clone(),
            request_id: self.request_id.clone(),
            answered_by: self.answered_by.clone(),
            cut_calls: self.cut_calls.clone(),
        }
    }

    /// Returns the text parts, joined without a separator.
    pub fn text(&self) -> Cow<'_, str> {
        self.content.text()
    }

    /// Returns the calls, in order.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.content.tool_calls()
    }

    /// Returns the message to store in the history.
    pub fn message(&self) -> AssistantMessage {
        AssistantMessage::new(self.content.clone())
    }
}
