//! The permission gate, its requests, and the answers of people.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use crate::backend::{DeniedPath, PathFilter};
use crate::error::Result;
use crate::message::ToolCall;
use crate::sdk::PermissionRequest;

use super::asking::Asking;
use super::decision::ToolDecision;
use super::permission_mode::PermissionMode;
use super::tool::Tool;

/// The call that a gate checks, and its circumstances.
#[derive(Clone)]
#[non_exhaustive]
pub struct GateRequest {
    /// The call with its final arguments.
    pub call: ToolCall,
    /// The tool that the call would run.
    pub tool: Arc<dyn Tool>,
    /// The current permission mode.
    pub mode: PermissionMode,
    /// The session, for grants that last as long as the session.
    pub session_id: Arc<str>,
    /// The absolute paths of files that the agent may write although such files are protected,
    /// because the program made them its memory
    /// ([`Hook::memory_paths`](crate::Hook::memory_paths)).
    pub memory_paths: Arc<[String]>,
}

impl GateRequest {
    pub(crate) fn new(
        call: ToolCall,
        tool: Arc<dyn Tool>,
        mode: PermissionMode,
        session_id: Arc<str>,
        memory_paths: Arc<[String]>,
    ) -> Self {
        Self {
            call,
            tool,
            mode,
            session_id,
            memory_paths,
        }
    }
}

impl fmt::Debug for GateRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GateRequest")
            .field("call", &self.call)
            .field("mode", &self.mode)
            .field("session_id", &self.session_id)
            .finish_non_exhaustive()
    }
}

/// A gate that decides whether a call may run. It is the last check before the call runs, on its
/// final arguments.
///
/// ```
/// use agentcore::tool::{GateRequest, PermissionGate};
/// use agentcore::{Result, ToolDecision, async_trait};
///
/// struct AskBeforeChanges;
///
/// #[async_trait]
/// impl PermissionGate for AskBeforeChanges {
///     async fn check(&self, request: &GateRequest) -> Result<ToolDecision> {
///         if request.tool.side_effect().is_read_only() {
///             return Ok(ToolDecision::allow());
///         }
///         Ok(ToolDecision::ask(format!("May `{}` run?", request.call.name)))
///     }
/// }
/// ```
#[async_trait]
pub trait PermissionGate: Send + Sync + 'static {
    /// Checks a call. If the decision changes the arguments, they are checked against the schema
    /// again, and the other gates check the changed call.
    ///
    /// # Errors
    ///
    /// An error or a panic denies the call, with its text as the reason.
    ///
    /// # Cancel safety
    ///
    /// The future is dropped when the run is dropped or stopped, for example by an interrupt.
    async fn check(&self, request: &GateRequest) -> Result<ToolDecision>;

    /// Returns the filter for files that a permitted call may show in searches and listings. The
    /// filter excludes files whose reading is denied or needs a question. Defaults to all files.
    fn readable(&self, _request: &GateRequest) -> PathFilter {
        PathFilter::all()
    }

    /// Returns the paths that no command of a permitted call may access, even where the command
    /// does not show them. A tool that runs commands passes them to its backend, which enforces
    /// them if it can. Defaults to none.
    fn denied_paths(&self, _request: &GateRequest) -> Vec<DeniedPath> {
        Vec::new()
    }

    /// Returns the reason why [`check`](Self::check) does not allow a call, in more detail than in
    /// the message for the model: the deciding rule and its source. It is for programs and people.
    /// Defaults to `None`.
    fn explain(&self, _request: &GateRequest) -> Option<String> {
        None
    }

    /// Compares the gate with the tools of an agent when the agent is built. `names` are the names
    /// of the agent's own tools and of the tools that its hooks announce. `has_sources` is `true`
    /// if the agent has [sources](super::ToolSource), whose tools are not known at that time.
    ///
    /// # Errors
    ///
    /// Returns [`Config`](crate::ErrorKind::Config) if the gate refuses a tool that the agent does
    /// not have, which is most often a misspelled name. The provided method returns `Ok`.
    fn check_tools(&self, _names: &[&str], _has_sources: bool) -> Result<()> {
        Ok(())
    }

    /// Stores the answer [`Answer::AllowForSession`] to a question about this call, so that calls
    /// like it need no question in this session. The provided method stores nothing.
    ///
    /// # Errors
    ///
    /// An error or a panic becomes a warning, and the call still runs.
    ///
    /// # Cancel safety
    ///
    /// The future is dropped when the run is dropped or stopped; the call then does not run.
    async fn grant(&self, _request: &GateRequest) -> Result<()> {
        Ok(())
    }

    /// Removes the grants of a session, because a new session begins with its id: the old one was
    /// deleted, or its store has dropped it. It must not block. The provided method does nothing; a
    /// gate that passes [`grant`](Self::grant) on to another one passes this on as well.
    fn forget(&self, _session_id: &str) {}
}

/// A gate that allows every call. It is the default gate of an agent.
#[derive(Clone, Copy, Debug, Default)]
pub struct AllowAll;

#[async_trait]
impl PermissionGate for AllowAll {
    async fn check(&self, _request: &GateRequest) -> Result<ToolDecision> {
        Ok(ToolDecision::allow())
    }
}

/// A person's answer to a question about a call: in the stream
/// ([`Responder::respond`](crate::Responder::respond)), through a [`Confirmer`], or later, in the
/// [`Decision`](crate::Decision) about a call that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Answer {
    /// The call is allowed once.
    Allow,
    /// The call is allowed, and calls like it for the rest of the session: those that the
    /// [gate](PermissionGate::grant) considers like it, or, for the question of a hook, calls with
    /// the same question and the same arguments.
    ///
    /// [`PermissionRules`](crate::permission::PermissionRules) and agents store these grants in
    /// memory, at most 256 for a session: beyond that, and after a restart of the process, the
    /// question is asked again. A session that begins with the id of one that was deleted, or that
    /// its store has dropped, has none of its grants.
    AllowForSession,
    /// The call is allowed once, with these arguments instead of its own. They are checked like the
    /// arguments of any call: the schema, the hooks, the mode and the gate may refuse them, but ask
    /// no further question. The history still has the arguments that the model wrote. In answer to
    /// a question of a tool ([`ToolContext::ask`](crate::ToolContext::ask)), the tool interprets
    /// the arguments.
    Edit(Value),
    /// The call is denied. The model reads the reason, up to 10,000 characters.
    Deny(String),
    /// A reply in the person's own words, which is the result of the call: the tool does not run.
    /// In answer to a question of a tool ([`ToolContext::ask`](crate::ToolContext::ask)), the tool
    /// interprets it.
    Reply {
        /// The reply.
        text: String,
        /// The positions of the options that were picked, from 0, if there were options to pick
        /// from.
        picked: Vec<usize>,
    },
    /// The question has no answer.
    Unanswered,
}

impl Answer {
    /// Creates a reply in the person's own words.
    pub fn reply(text: impl Into<String>) -> Self {
        Self::Reply {
            text: text.into(),
            picked: Vec::new(),
        }
    }
}

/// A callback that answers questions, for example by a dialog, a chat or a policy service.
///
/// [`AgentBuilder::ask_timeout`](crate::AgentBuilder::ask_timeout) limits the time of an answer.
/// The future is dropped when that time is up and when the run is stopped or dropped. A panic
/// denies the call.
///
/// ```
/// use agentcore::tool::{Asking, Confirmer};
/// use agentcore::{Answer, PermissionRequest, async_trait};
///
/// struct OnlyNotes;
///
/// #[async_trait]
/// impl Confirmer for OnlyNotes {
///     async fn confirm(&self, request: &PermissionRequest, _asking: &Asking) -> Answer {
///         match &*request.tool_name {
///             "write_note" => Answer::Allow,
///             _ => Answer::Unanswered,
///         }
///     }
/// }
/// ```
#[async_trait]
pub trait Confirmer: Send + Sync + 'static {
    /// Answers the question in `request`. `asking` has the call and the run that ask it.
    /// [`Answer::Unanswered`] passes the question on to a responder, if there is one.
    async fn confirm(&self, request: &PermissionRequest, asking: &Asking) -> Answer;
}
