//! A run's place below another.

use std::sync::Arc;

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
