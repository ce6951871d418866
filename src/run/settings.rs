//! The settings shared by all runs of an agent.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::backend::Backend;
use crate::message::{EstimateCounter, TokenCounter};
use crate::model::ResponseLimits;
use crate::model::retry::RetryPolicy;
use crate::tool::{AllowAll, Confirmer, Gates};
use crate::trace::TraceRecorder;

use super::granted_questions::GrantedQuestions;

/// The settings that all runs of an agent share.
pub(crate) struct RunSettings {
    /// The agent's name.
    pub(crate) agent: Arc<str>,
    pub(crate) cwd: Option<Arc<str>>,
    pub(crate) backend: Option<Arc<dyn Backend>>,
    pub(crate) trace: Option<Arc<dyn TraceRecorder>>,
    /// The gates that calls of a run have to pass at its beginning.
    pub(crate) gates: Gates,
    pub(crate) confirmer: Option<Arc<dyn Confirmer>>,
    pub(crate) ask_timeout: Option<Duration>,
    /// For failed model calls.
    pub(crate) retry: RetryPolicy,
    pub(crate) response_limits: ResponseLimits,
    /// True if the stream has the pieces of an answer.
    pub(crate) partial_messages: bool,
    pub(crate) counter: Arc<dyn TokenCounter>,
    /// Tools that need no question of the mode's.
    pub(crate) allowed_tools: BTreeSet<Arc<str>>,
    /// The questions of hooks that need not be asked again.
    pub(crate) granted_questions: GrantedQuestions,
}

impl Default for RunSettings {
    fn default() -> Self {
        Self {
            agent: "agent".into(),
            cwd: None,
            backend: None,
            trace: None,
            gates: Gates::one(Arc::new(AllowAll)),
            confirmer: None,
            ask_timeout: None,
            retry: RetryPolicy::default(),
            response_limits: ResponseLimits::default(),
            partial_messages: false,
            counter: Arc::new(EstimateCounter),
            allowed_tools: BTreeSet::new(),
            granted_questions: GrantedQuestions::default(),
        }
    }
}
