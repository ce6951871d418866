//! The decisions of hooks.

use serde_json::Value;

use crate::message::Message;

/// A hook's verdict on a tool call, weakest first: of several hooks the strongest counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// No opinion.
    #[default]
    Continue,
    /// The call needs no question. Never overrides a deny or ask rule.
    Allow,
    /// A person has to answer this question first.
    Ask(String),
    /// The call does not run, and the model reads the reason.
    Deny(String),
    /// The call does not run, and the run ends.
    Stop(String),
}

impl Verdict {
    fn strength(&self) -> u8 {
        match self {
            Self::Continue => 0,
            Self::Allow => 1,
            Self::Ask(_) => 2,
            Self::Deny(_) => 3,
            Self::Stop(_) => 4,
        }
    }

    /// The stronger of two; the first when they are equally strong.
    #[must_use]
    pub fn combine(self, other: Self) -> Self {
        if other.strength() > self.strength() {
            other
        } else {
            self
        }
    }
}

/// The decision that [`pre_tool_use`](super::Hook::pre_tool_use) returns.
///
/// ```
/// use agentcore::ToolDecision;
///
/// let decision = ToolDecision::proceed().with_args(serde_json::json!({"dry_run": true}));
/// # let _ = decision;
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[must_use = "a decision does something only when the hook returns it"]
#[non_exhaustive]
pub struct ToolDecision {
    /// The verdict on the call.
    pub verdict: Verdict,
    /// Arguments instead of the model's.
    pub args: Option<Value>,
    /// Text added to the result for the model.
    pub context: Option<String>,
}

impl ToolDecision {
    /// No opinion: other hooks, the permission gate and the permission mode decide. Most hooks
    /// return this for most calls.
    pub fn proceed() -> Self {
        Self::default()
    }

    /// The call needs no question: for a call the hook has checked itself. Never overrides a deny
    /// or ask rule, nor another hook that asks or denies.
    pub fn allow() -> Self {
        Verdict::Allow.into()
    }

    /// The call does not run; the model reads `Error: ` and the message as the call's result.
    pub fn deny(message: impl Into<String>) -> Self {
        Verdict::Deny(message.into()).into()
    }

    /// A person has to answer first.
    pub fn ask(question: impl Into<String>) -> Self {
        Verdict::Ask(question.into()).into()
    }

    /// The call does not run, and the run ends with this reason.
    pub fn stop(reason: impl Into<String>) -> Self {
        Verdict::Stop(reason.into()).into()
    }

    /// The same decision with other arguments for the call.
    pub fn with_args(mut self, args: Value) -> Self {
        self.args = Some(args);
        self
    }

    /// The same decision with text for the model, added to the result.
    pub fn with_context(mut self, text: impl Into<String>) -> Self {
        self.context = Some(text.into());
        self
    }
}

impl From<Verdict> for ToolDecision {
    fn from(verdict: Verdict) -> Self {
        Self {
            verdict,
            ..Self::default()
        }
    }
}

/// The decision that [`before_stop`](super::Hook::before_stop) returns.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum StopDecision {
    /// The run may end.
    Stop,
    /// The run continues with this message.
    GoOn(Message),
}

impl StopDecision {
    /// The run continues with this message.
    pub fn go_on(message: impl Into<Message>) -> Self {
        Self::GoOn(message.into())
    }
}
