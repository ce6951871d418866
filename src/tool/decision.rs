//! The decision of a hook or a gate about a tool call.

use serde_json::Value;

/// The verdict on a tool call, weakest first. If there are several, the strongest applies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// No decision. Other hooks, gates and the permission mode decide.
    #[default]
    Continue,
    /// The call needs no question. The verdict of a hook answers a question of the mode, but no
    /// question of a rule or of another hook.
    Allow,
    /// A person has to answer this question first.
    Ask {
        /// The question.
        question: String,
        /// The origin of the question.
        origin: AskOrigin,
    },
    /// The call does not run, and the model reads the reason.
    Deny(String),
    /// The call does not run, and the run ends: with
    /// [`HookStopped`](crate::ExitReason::HookStopped) if a hook returns the verdict, with
    /// [`Interrupted`](crate::ExitReason::Interrupted) if a gate does.
    Stop(String),
}

/// The origin of a question about a call, weakest first. If a call has several questions, only the
/// strongest is asked, and its answer applies to all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum AskOrigin {
    /// A gate asks because nothing allows the call. A hook's [`Verdict::Allow`] answers it.
    #[default]
    Mode,
    /// A hook asks. A hook that returns the origin `Mode` counts as `Hook`.
    Hook,
    /// A rule asks.
    Rule,
}

impl Verdict {
    /// Returns the stronger of two verdicts, or `self` if they are equally strong.
    #[must_use]
    pub fn combine(self, other: Self) -> Self {
        if other.is_stronger_than(&self) {
            other
        } else {
            self
        }
    }

    pub(super) fn is_stronger_than(&self, other: &Self) -> bool {
        self.strength() > other.strength()
    }

    fn strength(&self) -> (u8, AskOrigin) {
        match self {
            Self::Continue => (0, AskOrigin::Mode),
            Self::Allow => (1, AskOrigin::Mode),
            Self::Ask { origin, .. } => (2, *origin),
            Self::Deny(_) => (3, AskOrigin::Mode),
            Self::Stop(_) => (4, AskOrigin::Mode),
        }
    }
}

/// The decision that [`Hook::pre_tool_use`](crate::Hook::pre_tool_use) and
/// [`PermissionGate::check`](super::PermissionGate::check) return.
///
/// ```
/// use agentcore::ToolDecision;
///
/// let decision = ToolDecision::proceed().with_args(serde_json::json!({"dry_run": true}));
/// # let _ = decision;
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "a decision does something only when the hook or gate returns it"]
#[non_exhaustive]
pub struct ToolDecision {
    /// The verdict on the call.
    pub verdict: Verdict,
    /// The arguments that replace the arguments of the call, if there are any.
    pub args: Option<Value>,
    /// A text for the model that is added to the result of the call, if there is one.
    pub context: Option<String>,
    /// The verdict of a gate and the [explanation](super::PermissionGate::explain) that the gate
    /// gave with it. The explanation is valid while the verdict is the same. Without one, the gate
    /// is asked for it.
    explanation: Option<(Verdict, String)>,
}

impl ToolDecision {
    /// Makes no decision: other hooks, gates and the permission mode decide. Most hooks return this
    /// for most calls.
    pub fn proceed() -> Self {
        Self::default()
    }

    /// Allows the call without a question. Use it for calls that you have checked. It never
    /// overrides a deny or ask rule, nor another hook or gate that asks or denies.
    pub fn allow() -> Self {
        Self::of(Verdict::Allow)
    }

    /// Denies the call. The model receives `Error: ` and the message as the call's result.
    pub fn deny(message: impl Into<String>) -> Self {
        Self::of(Verdict::Deny(message.into()))
    }

    /// Asks a person before the call runs. A hook may answer the question of a gate; use
    /// [`ask_by_rule`](Self::ask_by_rule) for a question that no hook may answer.
    pub fn ask(question: impl Into<String>) -> Self {
        Self::ask_from(question.into(), AskOrigin::default())
    }

    /// Asks a person before the call runs, because a rule requires it: no hook can allow the call
    /// instead.
    pub fn ask_by_rule(question: impl Into<String>) -> Self {
        Self::ask_from(question.into(), AskOrigin::Rule)
    }

    /// Denies the call with this reason and ends the run.
    pub fn stop(reason: impl Into<String>) -> Self {
        Self::of(Verdict::Stop(reason.into()))
    }

    /// Sets the arguments that replace the arguments of the call.
    pub fn with_args(mut self, args: Value) -> Self {
        self.args = Some(args);
        self
    }

    /// Sets a text for the model, which is added to the result.
    pub fn with_context(mut self, text: impl Into<String>) -> Self {
        self.context = Some(text.into());
        self
    }

    /// Sets the explanation of the verdict.
    pub(crate) fn with_explanation(mut self, explanation: Option<String>) -> Self {
        self.explanation = explanation.map(|text| (self.verdict.clone(), text));
        self
    }

    /// Takes the explanation, unless the verdict was changed since.
    pub(crate) fn take_explanation(&mut self) -> Option<String> {
        let (verdict, text) = self.explanation.take()?;
        (verdict == self.verdict).then_some(text)
    }

    fn ask_from(question: String, origin: AskOrigin) -> Self {
        Self::of(Verdict::Ask { question, origin })
    }

    pub(super) fn of(verdict: Verdict) -> Self {
        Self {
            verdict,
            ..Self::default()
        }
    }
}

// The explanation gives the reason for a decision, and is not a part of it.
impl PartialEq for ToolDecision {
    fn eq(&self, other: &Self) -> bool {
        self.verdict == other.verdict && self.args == other.args && self.context == other.context
    }
}
