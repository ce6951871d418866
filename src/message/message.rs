//! One message.

use std::sync::Arc;

use super::content::Content;
use super::part::{Part, ToolCall};
use super::result::ToolResult;
use super::role::Role;

/// A message with instructions for the model.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct SystemMessage {
    /// The instructions.
    pub content: Content,
}

/// A message of the user.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct UserMessage {
    /// Text, images, documents and audio.
    pub content: Content,
}

/// A response of the model: text, thinking and tool calls.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct AssistantMessage {
    /// Text, thinking and calls, in the order the model gave them.
    pub content: Content,
}

impl AssistantMessage {
    /// Creates a message with this content.
    pub fn new(content: impl Into<Content>) -> Self {
        Self {
            content: content.into(),
        }
    }

    /// Returns the calls, in order.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.content.tool_calls()
    }
}

/// One message of a history.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Message {
    /// Instructions from the program.
    System(SystemMessage),
    /// A message of the user, or of the program on the user's behalf.
    User(UserMessage),
    /// A response of the model.
    Assistant(AssistantMessage),
    /// The result of one tool call.
    Tool(ToolResult),
}

impl Message {
    /// Creates a system message.
    pub fn system(content: impl Into<Content>) -> Self {
        Self::System(SystemMessage {
            content: content.into(),
        })
    }

    /// Creates a user message.
    pub fn human(content: impl Into<Content>) -> Self {
        Self::User(UserMessage {
            content: content.into(),
        })
    }

    /// Creates an assistant message.
    pub fn ai(content: impl Into<Content>) -> Self {
        Self::Assistant(AssistantMessage::new(content))
    }

    /// Creates an assistant message with tool calls after its text. An empty text adds no part.
    pub fn ai_calling(text: impl Into<String>, calls: impl IntoIterator<Item = ToolCall>) -> Self {
        let text = text.into();
        let mut content = Content::new();
        if !text.is_empty() {
            content.push(text);
        }
        content
            .parts_mut()
            .extend(calls.into_iter().map(Part::ToolCall));
        Self::ai(content)
    }

    /// Creates a tool message: the result of the call `id` of the tool `name`.
    pub fn tool(
        id: impl Into<Arc<str>>,
        name: impl Into<Arc<str>>,
        content: impl Into<Content>,
    ) -> Self {
        Self::Tool(ToolResult::new(id, name, content))
    }

    /// Returns the role of the sender.
    pub fn role(&self) -> Role {
        match self {
            Self::System(_) => Role::System,
            Self::User(_) => Role::User,
            Self::Assistant(_) => Role::Assistant,
            Self::Tool(_) => Role::Tool,
        }
    }

    /// Returns the content.
    pub fn content(&self) -> &Content {
        match self {
            Self::System(message) => &message.content,
            Self::User(message) => &message.content,
            Self::Assistant(message) => &message.content,
            Self::Tool(result) => &result.content,
        }
    }

    /// Returns the content, mutably.
    pub fn content_mut(&mut self) -> &mut Content {
        match self {
            Self::System(message) => &mut message.content,
            Self::User(message) => &mut message.content,
            Self::Assistant(message) => &mut message.content,
            Self::Tool(result) => &mut result.content,
        }
    }

    /// Returns the text parts, joined without a separator.
    pub fn text(&self) -> std::borrow::Cow<'_, str> {
        self.content().text()
    }

    /// Returns the tool calls, in order. Only assistant messages of a valid history have any.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.content().tool_calls()
    }

    /// Returns the tool result, or `None` for other messages.
    pub fn as_tool_result(&self) -> Option<&ToolResult> {
        match self {
            Self::Tool(result) => Some(result),
            _ => None,
        }
    }
}

impl From<&str> for Message {
    fn from(text: &str) -> Self {
        Self::human(text)
    }
}

impl From<String> for Message {
    fn from(text: String) -> Self {
        Self::human(text)
    }
}

impl From<AssistantMessage> for Message {
    fn from(message: AssistantMessage) -> Self {
        Self::Assistant(message)
    }
}

impl From<ToolResult> for Message {
    fn from(result: ToolResult) -> Self {
        Self::Tool(result)
    }
}
