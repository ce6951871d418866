//! The steps of a run, independent of the format.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;

use crate::message::{Content, ToolCall};
use crate::sdk::{ResultMessage, SdkMessage};

/// One step of a run, by the agent itself or by a subagent.
#[derive(Debug)]
pub(super) struct Step<'a> {
    /// The id of the subagent's run; `None` for the agent itself.
    pub(super) subagent: Option<Arc<str>>,
    pub(super) kind: StepKind<'a>,
}

/// The author of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Author {
    Assistant,
    User,
}

/// The kinds of steps.
#[derive(Debug)]
pub(super) enum StepKind<'a> {
    RunStarted,
    TurnStarted(u32),
    TurnFinished(u32),
    TextStart(Arc<str>, Author),
    TextDelta(Arc<str>, &'a str),
    TextEnd(Arc<str>),
    ThinkingStart(Arc<str>),
    ThinkingDelta(Arc<str>, ThinkingText<'a>),
    ThinkingEnd(Arc<str>),
    /// The start of a call: its id, its tool, and the id of its message.
    CallStart(Arc<str>, Arc<str>, Arc<str>),
    CallDelta(Arc<str>, CallText<'a>),
    CallEnd(Arc<str>),
    /// The complete arguments of a call.
    CallReady(Arc<str>, &'a ToolCall),
    /// The restart of the response, after the ends of its blocks.
    Restarted,
    /// A change of messages that were shown already.
    Replaced,
    Progress(CallProgress<'a>),
    CallResult(CallResult<'a>),
    StateChanged {
        todos: bool,
        files: bool,
    },
    SubagentStarted(Subagent),
    SubagentFinished(SubagentEnd),
    /// A message that has no step of its own, with its name.
    Other(&'a str, &'a SdkMessage),
    Finished(&'a ResultMessage),
}

/// A piece of reasoning, streamed or from a complete response.
#[derive(Debug)]
pub(super) enum ThinkingText<'a> {
    Piece(&'a str),
    Whole(String),
}

impl ThinkingText<'_> {
    pub(super) fn as_str(&self) -> &str {
        match self {
            Self::Piece(text) => text,
            Self::Whole(text) => text,
        }
    }
}

/// A streamed piece of a call's arguments, or all of them.
#[derive(Debug)]
pub(super) enum CallText<'a> {
    Piece(&'a str),
    Whole(&'a ToolCall),
}

impl CallText<'_> {
    pub(super) fn to_text(&self) -> Cow<'_, str> {
        match self {
            Self::Piece(text) => Cow::Borrowed(text),
            Self::Whole(call) => args_text(call),
        }
    }
}

/// Returns the arguments of a call as JSON, as the model wrote them if that text exists.
pub(super) fn args_text(call: &ToolCall) -> Cow<'_, str> {
    match &call.raw_args {
        Some(text) if !text.trim().is_empty() => Cow::Borrowed(text),
        _ => Cow::Owned(call.args.to_string()),
    }
}

/// The tool's own data about the progress of a call.
#[derive(Debug)]
pub(super) struct CallProgress<'a> {
    pub(super) id: Arc<str>,
    pub(super) data: &'a Value,
    /// The call, if the conversation has it and the reader has not been shown it.
    pub(super) earlier: Option<ToolCall>,
    /// True if the reader has not been shown the call, and the conversation does not have it.
    pub(super) is_unknown: bool,
}

/// The result of a call, once per call.
#[derive(Debug)]
pub(super) struct CallResult<'a> {
    pub(super) id: Arc<str>,
    pub(super) output: Output<'a>,
    pub(super) is_error: bool,
    /// True if the call was not allowed to run.
    pub(super) is_denied: bool,
    /// The call, if it is one of an earlier run that the reader has not been shown.
    pub(super) earlier: Option<ToolCall>,
}

/// The output of a call.
#[derive(Debug)]
pub(super) enum Output<'a> {
    Value(&'a Value),
    Content(&'a Content),
}

impl Output<'_> {
    pub(super) fn to_text(&self) -> String {
        match self {
            Self::Value(Value::String(text)) => text.clone(),
            Self::Value(value) => value.to_string(),
            Self::Content(content) => content.text().into_owned(),
        }
    }
}

/// The start of a subagent's run.
#[derive(Debug)]
pub(super) struct Subagent {
    pub(super) name: Arc<str>,
    pub(super) description: String,
    /// The id of the call that started the run, as the reader is shown it.
    pub(super) call: Arc<str>,
    /// The id of the run that made the call, if that is the run of a subagent.
    pub(super) parent: Option<Arc<str>>,
}

/// The end of a subagent's run.
#[derive(Debug)]
pub(super) enum SubagentEnd {
    Success(Option<String>),
    /// Some of its calls are pending.
    Suspended,
    /// The text and the class of the failure.
    Failed(String, Arc<str>),
}
