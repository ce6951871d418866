//! The request for a run, and its options.

use std::sync::Arc;

use crate::message::Messages;
use crate::run::Parent;
use crate::trace::TraceRecorder;
use crate::util::Values;

use super::config::Config;
use super::decision::Decisions;

/// The request for a run.
pub(crate) struct RunRequest {
    pub(crate) config: Arc<Config>,
    pub(crate) session_id: Arc<str>,
    pub(crate) input: Messages,
    pub(crate) decisions: Option<Decisions>,
    pub(crate) options: RunOptions,
}

/// The options of a run.
#[derive(Clone, Default)]
pub(crate) struct RunOptions {
    pub(crate) values: Values,
    pub(crate) input_id: Option<Arc<str>>,
    pub(crate) user_id: Option<Arc<str>>,
    /// The system messages of an earlier input that the run continues to answer.
    pub(crate) input_prompt: Option<Arc<str>>,
    /// The user to whom the session must belong, if it exists.
    pub(crate) owner: Option<Arc<str>>,
    /// The number of messages of the history that the run continues from.
    pub(crate) rewind_to: Option<usize>,
    /// True if the input is processed even if its id was sent before.
    pub(crate) is_input_replaced: bool,
    /// True if the agent's default store has the session only while calls of it are pending.
    pub(crate) is_temporary: bool,
    /// True if a missing session is an error.
    pub(crate) must_exist: bool,
    pub(crate) parent: Option<Arc<Parent>>,
    /// True if the run may continue after the end of its parent.
    pub(crate) outlives_parent: bool,
    /// The recorder of this run, instead of the agent's.
    pub(crate) trace: Option<Arc<dyn TraceRecorder>>,
}
