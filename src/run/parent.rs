//! A run's place below another.

use std::sync::Arc;

use futures::future::BoxFuture;

use crate::sdk::PermissionRequest;
use crate::tool::Answer;

use super::context::RunContext;

/// The maximum nesting depth of child runs, regardless of an agent's own limit.
pub(crate) const MAX_DEPTH: u32 = 8;

/// The call a child run belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParentCall {
    /// The parent's session.
    pub session_id: Arc<str>,
    /// The parent's run.
    pub run_id: Arc<str>,
    /// The tool call the child runs in.
    pub tool_use_id: Arc<str>,
    /// The depth of the child: 1 for a child of a run that has no parent.
    pub depth: u32,
}

impl ParentCall {
    pub(crate) fn new(parent: &RunContext, tool_use_id: Arc<str>) -> Self {
        Self {
            session_id: parent.session_id().clone(),
            run_id: parent.run_id().into(),
            tool_use_id,
            depth: parent.depth() + 1,
        }
    }
}

/// The function through which a child run asks its parent's confirmer or responder.
pub(crate) type AskParent =
    Arc<dyn Fn(PermissionRequest) -> BoxFuture<'static, Answer> + Send + Sync>;
