//! The settings shared by all runs of an agent.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::backend::Backend;
use crate::message::{EstimateCounter, TokenCounter};
use crate::model::retry::RetryPolicy;
use crate::model::{Model, ResponseLimits};
use crate::tool::{AllowAll, Confirmer, Gates, PermissionMode};
use crate::trace::TraceRecorder;

use super::budget::BudgetLimits;
use super::granted_questions::GrantedQuestions;

/// The settings that all runs of an agent share.
#[derive(Clone)]
pub(crate) struct RunSettings {
    /// The agent's name.
    pub(crate) agent: Arc<str>,
    /// The id of the agent's template in a registry. Unlike the name, no two templates share it.
    pub(crate) agent_id: Option<Arc<str>>,
    /// The model and the permission mode of a run at its beginning.
    pub(crate) model: Arc<dyn Model>,
    pub(crate) mode: PermissionMode,
    pub(crate) budget: BudgetLimits,
    /// The maximum number of model calls at the same time, for a run and its child runs together.
    pub(crate) parallel_model_calls: usize,
    pub(crate) hook_timeout: Option<Duration>,
    pub(crate) cwd: Option<Arc<str>>,
    pub(crate) backend: Option<Arc<dyn Backend>>,
    pub(crate) trace: Option<Arc<dyn TraceRecorder>>,
    /// The gates for the calls of a run, as they are at its beginning. Hooks may add more.
    pub(crate) gates: Gates,
    /// The files that hooks keep as the agent's memory.
    pub(crate) memory_paths: Arc<[String]>,
    pub(crate) confirmer: Option<Arc<dyn Confirmer>>,
    pub(crate) ask_timeout: Option<Duration>,
    /// For failed model calls.
    pub(crate) retry: RetryPolicy,
    pub(crate) response_limits: ResponseLimits,
    /// True if the stream has the pieces of a response.
    pub(crate) partial_messages: bool,
    pub(crate) counter: Arc<dyn TokenCounter>,
    /// The tools whose calls need no question of the permission mode. Rules and hooks can still
    /// ask.
    pub(crate) allowed_tools: BTreeSet<Arc<str>>,
    /// The questions of hooks that need not be asked again.
    pub(crate) granted_questions: GrantedQuestions,
}

impl RunSettings {
    pub(crate) fn new(model: Arc<dyn Model>) -> Self {
        Self {
            agent: "agent".into(),
            agent_id: None,
            model,
            mode: PermissionMode::Default,
            budget: BudgetLimits::default(),
            parallel_model_calls: 16,
            hook_timeout: Some(Duration::from_secs(60)),
            cwd: None,
            backend: None,
            trace: None,
            gates: Gates::one(AllowAll),
            memory_paths: Arc::default(),
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

    /// Removes the grants of a session, because a new one begins with its id.
    pub(crate) fn forget_grants(&self, session_id: &str) {
        self.granted_questions.forget(session_id);
        self.gates.forget_after(0, session_id);
    }

    /// Copies the settings of another agent for hooks, the workspace, retries, responses, traces
    /// and tokens. The name, the model, the budget, the number of parallel model calls, the
    /// permissions and the questions stay as they are.
    pub(crate) fn inherit(&mut self, settings: &Self) {
        self.hook_timeout = settings.hook_timeout;
        self.cwd = settings.cwd.clone();
        self.backend = settings.backend.clone();
        self.trace = settings.trace.clone();
        self.retry = settings.retry.clone();
        self.response_limits = settings.response_limits;
        self.partial_messages = settings.partial_messages;
        self.counter = settings.counter.clone();
    }
}
