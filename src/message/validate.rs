//! The rules of a history.

use std::fmt;
use std::sync::Arc;

use super::check::ModelCheck;
use super::message::Message;
use super::messages::Messages;
use super::part::{Part, ToolCall};
use super::role::Role;
use crate::error::{Error, ErrorKind};

/// The first problem of a history, and its position.
///
/// The text of the error begins with the position: `message[2]: tool message missing tool_call_id`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ValidationError {
    index: Option<usize>,
    call: Option<usize>,
    problem: Problem,
}

/// A problem of a message or a history.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The history has no messages.
    #[error("messages must not be empty")]
    NoMessages,
    /// Messages of this role may not come from outside.
    #[error(r#"role "{0}" not allowed (must be "user" or "system")"#)]
    RoleNotAllowed(Role),
    /// A message from outside has no content.
    #[error("content must not be empty")]
    EmptyContent,
    /// A message of this role has no content.
    #[error("{}", empty_message(*.0))]
    EmptyMessage(Role),
    /// A tool message has no id of its call.
    #[error("tool message missing tool_call_id")]
    MissingToolCallId,
    /// A tool message has no tool name.
    #[error("tool message missing name")]
    MissingToolName,
    /// A call has no id.
    #[error("missing ID")]
    MissingCallId,
    /// A call has no tool name.
    #[error("missing name")]
    MissingCallName,
    /// One of several parts is an empty text.
    #[error("text part is empty")]
    EmptyText,
    /// A message of this role contains a call; only the assistant's may.
    #[error("{0} message holds a tool call")]
    CallNotAllowed(Role),
    /// The call's id was used before.
    #[error("ID {0:?} was used before")]
    DuplicateCallId(Arc<str>),
    /// The call has no result directly after its message.
    #[error("no result for {0:?} directly after its message")]
    Unanswered(Arc<str>),
    /// The call has a second result.
    #[error("second result for {0:?}")]
    AnsweredTwice(Arc<str>),
    /// A result for an id that the message before it does not call.
    #[error("result for {0:?}, which the message before does not call")]
    UnknownCall(Arc<str>),
    /// The history has system messages only.
    #[error("messages must not all be system messages")]
    NoConversation,
    /// The first message that is not the system's is not the user's.
    #[error("{0} message before the first user message")]
    UserNotFirst(Role),
    /// Two assistant messages are in a row.
    #[error("second assistant message in a row")]
    RepeatedAssistant,
}

impl ValidationError {
    pub(super) fn new(problem: Problem) -> Self {
        Self {
            index: None,
            call: None,
            problem,
        }
    }

    pub(super) fn at(index: usize, problem: Problem) -> Self {
        Self {
            index: Some(index),
            ..Self::new(problem)
        }
    }

    pub(super) fn at_call(index: usize, call: usize, problem: Problem) -> Self {
        Self {
            call: Some(call),
            ..Self::at(index, problem)
        }
    }

    /// Returns the index of the message, unless the problem is the history as a whole.
    pub fn index(&self) -> Option<usize> {
        self.index
    }

    /// Returns the index of the message's call, counted from 0, if the problem is in a call.
    pub fn call(&self) -> Option<usize> {
        self.call
    }

    /// Returns the problem.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }
}

fn empty_message(role: Role) -> String {
    match role {
        Role::Assistant => "assistant message has no content and no tool calls".to_owned(),
        role => format!("{role} message has empty content"),
    }
}

impl fmt::Display for ValidationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(index) = self.index {
            write!(f, "message[{index}]")?;
            if let Some(call) = self.call {
                write!(f, ".tool_calls[{call}]")?;
            }
            f.write_str(": ")?;
        }
        self.problem.fmt(f)
    }
}

impl From<ValidationError> for Error {
    fn from(error: ValidationError) -> Self {
        Self::new(ErrorKind::InvalidMessages, error.to_string()).with_source(error)
    }
}

impl Messages {
    /// Checks that every message is complete in itself.
    ///
    /// Tool messages name their call and tool, assistant messages have content or calls, calls have
    /// an id and a name, and user and system messages have content. An empty history is valid.
    ///
    /// # Errors
    ///
    /// Returns the first problem, with the index of its message.
    ///
    /// ```
    /// use agentcore::Messages;
    ///
    /// let error = Messages::new().human("Hi").tool("", "grep", "4").validate().unwrap_err();
    /// assert_eq!(error.to_string(), "message[1]: tool message missing tool_call_id");
    /// assert_eq!(error.index(), Some(1));
    /// ```
    pub fn validate(&self) -> Result<(), ValidationError> {
        self.iter()
            .enumerate()
            .try_for_each(|(index, message)| check_message(index, message))
    }

    /// Checks messages from outside: at least one, of the user or the system only, and none empty.
    ///
    /// # Errors
    ///
    /// Returns the first problem, with the index of its message.
    pub fn validate_user_input(&self) -> Result<(), ValidationError> {
        if self.is_empty() {
            return Err(ValidationError::new(Problem::NoMessages));
        }

        for (index, message) in self.iter().enumerate() {
            let role = message.role();
            if !role.is_user_input() {
                return Err(ValidationError::at(index, Problem::RoleNotAllowed(role)));
            }

            if message.content().is_empty() {
                return Err(ValidationError::at(index, Problem::EmptyContent));
            }

            check_calls_allowed(index, message)?;
        }

        Ok(())
    }

    /// Checks that every provider accepts the history as it is.
    ///
    /// In addition to [`validate`](Messages::validate): there is a conversation and the user begins
    /// it; no two assistant messages are in a row (two user messages may be: providers merge them);
    /// only assistant messages have calls; each call has one result, directly after the calling
    /// message, in any order among the results of that message; no id is used twice; no text part
    /// is empty, and no message is only whitespace or only thinking. System messages may be
    /// anywhere except between a call and its results.
    ///
    /// A history that fails can be [repaired](Messages::repair). To check a history again each time
    /// it grows, use a [`ModelCheck`], which is cheaper.
    ///
    /// # Errors
    ///
    /// Returns the first problem, with the index of its message.
    pub fn validate_for_model(&self) -> Result<(), ValidationError> {
        ModelCheck::once(self)
    }
}

/// Checks a message by the rules of [`Messages::validate`].
pub(super) fn check_message(index: usize, message: &Message) -> Result<(), ValidationError> {
    let reject = |problem| Err(ValidationError::at(index, problem));
    match message {
        Message::Tool(result) if result.tool_call_id.is_empty() => {
            reject(Problem::MissingToolCallId)
        }
        Message::Tool(result) if result.name.is_empty() => reject(Problem::MissingToolName),
        Message::Tool(_) => Ok(()),
        _ if lacks_content(message) => reject(Problem::EmptyMessage(message.role())),
        Message::Assistant(assistant) => assistant
            .tool_calls()
            .enumerate()
            .try_for_each(|(number, call)| check_call(index, number, call)),
        _ => Ok(()),
    }
}

/// Returns `true` if a message has only empty texts and citations. Calls count as content only in
/// assistant messages.
fn lacks_content(message: &Message) -> bool {
    let counts_calls = message.role() == Role::Assistant;
    message.content().parts().iter().all(|part| match part {
        Part::Text(text) => text.is_empty(),
        Part::ToolCall(_) => !counts_calls,
        Part::Annotations(_) => true,
        _ => false,
    })
}

fn check_call(index: usize, number: usize, call: &ToolCall) -> Result<(), ValidationError> {
    let reject = |problem| Err(ValidationError::at_call(index, number, problem));
    if call.id.is_empty() {
        reject(Problem::MissingCallId)
    } else if call.name.is_empty() {
        reject(Problem::MissingCallName)
    } else {
        Ok(())
    }
}

/// Checks that a message with calls is an assistant message.
pub(super) fn check_calls_allowed(index: usize, message: &Message) -> Result<(), ValidationError> {
    let role = message.role();
    if role != Role::Assistant && message.content().tool_calls().next().is_some() {
        return Err(ValidationError::at_call(
            index,
            0,
            Problem::CallNotAllowed(role),
        ));
    }
    Ok(())
}
