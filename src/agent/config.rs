//! The configuration of an agent.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::hook::{Core, Hook, Phases};
use crate::model::{Compactor, Model, ModelRequest, ModelSettings, Prompter, ResponseLimits};
use crate::run::{BudgetLimits, Setting};
use crate::session::{SessionStore, ThreadStore};
use crate::tool::{PermissionMode, Tool, ToolSource};

use super::retry::RetryPolicy;

/// The handling of a question that cannot be answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Unanswered {
    /// The call is denied, and the model reads why.
    #[default]
    Deny,
    /// The run ends with `AwaitingApproval`; [`Session::resume`](super::Session::resume) continues
    /// it.
    Park,
}

/// The parts of an agent, shared by its clones and runs.
pub(super) struct Config {
    /// The settings that runs read as well.
    pub(super) setting: Arc<Setting>,
    pub(super) model: Arc<dyn Model>,
    pub(super) prompter: Arc<dyn Prompter>,
    pub(super) tools: Vec<Arc<dyn Tool>>,
    pub(super) disabled_tools: BTreeSet<Arc<str>>,
    pub(super) sources: Vec<Arc<dyn ToolSource>>,
    pub(super) hooks: Hooks,
    /// The centre of the model onion, the same in every run.
    pub(super) model_core: Core<ModelRequest>,
    pub(super) store: Arc<dyn SessionStore>,
    /// The same store, unless one was set.
    pub(super) default_store: Option<ThreadStore>,
    pub(super) mode: PermissionMode,
    /// `None` when there is none: then no tokens are counted for it either.
    pub(super) compactor: Option<Arc<dyn Compactor>>,
    pub(super) limits: Limits,
    pub(super) request: RequestOptions,
}

/// The store of an agent, and the same store again when it is the default one.
pub(super) fn or_default_store(
    store: Option<Arc<dyn SessionStore>>,
) -> (Arc<dyn SessionStore>, Option<ThreadStore>) {
    match store {
        Some(store) => (store, None),
        None => {
            let own = ThreadStore::of_agent();
            (Arc::new(own.clone()), Some(own))
        }
    }
}

/// Numbers that bound a run.
#[derive(Clone, Debug)]
pub(super) struct Limits {
    /// 0 is no limit.
    pub(super) max_turns: u32,
    pub(super) budget: BudgetLimits,
    pub(super) parallel_tools: usize,
    pub(super) max_result_bytes: usize,
    /// For a run and everything below it.
    pub(super) parallel_model_calls: usize,
    pub(super) tool_timeout: Duration,
    pub(super) hook_timeout: Option<Duration>,
    pub(super) unanswered: Unanswered,
    /// The time in which a parked question can be answered; `None` is no limit.
    pub(super) approval_expiry: Option<Duration>,
    pub(super) max_depth: u32,
    pub(super) loop_detection: bool,
    pub(super) heartbeat: Duration,
    pub(super) output_retries: u32,
    pub(super) retry: RetryPolicy,
    pub(super) response: ResponseLimits,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_turns: 100,
            budget: BudgetLimits::default(),
            parallel_tools: 8,
            max_result_bytes: 16 * 1024 * 1024,
            parallel_model_calls: 16,
            tool_timeout: Duration::from_secs(120),
            hook_timeout: Some(Duration::from_secs(60)),
            unanswered: Unanswered::Deny,
            approval_expiry: None,
            max_depth: 2,
            loop_detection: true,
            heartbeat: Duration::from_secs(5),
            output_retries: 2,
            retry: RetryPolicy::default(),
            response: ResponseLimits::default(),
        }
    }
}

/// The options of every request of the agent, and of the treatment of its answers.
#[derive(Clone, Debug, Default)]
pub(super) struct RequestOptions {
    pub(super) max_tokens: Option<u32>,
    pub(super) temperature: Option<f64>,
    pub(super) stop: Arc<[String]>,
    pub(super) settings: ModelSettings,
    pub(super) partial_messages: bool,
    pub(super) wrap_up: bool,
    pub(super) keep_refused: bool,
    pub(super) discard_interrupted: bool,
}

/// The hooks, sorted by phase once, so that an unused phase costs nothing.
pub(super) struct Hooks {
    pub(super) all: Vec<Arc<dyn Hook>>,
    pub(super) before_agent: Vec<Arc<dyn Hook>>,
    pub(super) modify_request: Vec<Arc<dyn Hook>>,
    pub(super) wrap_model_call: Arc<[Arc<dyn Hook>]>,
    pub(super) pre_tool_use: Vec<Arc<dyn Hook>>,
    pub(super) wrap_tool_call: Arc<[Arc<dyn Hook>]>,
    pub(super) post_tool_use: Vec<Arc<dyn Hook>>,
    pub(super) before_stop: Vec<Arc<dyn Hook>>,
    pub(super) after_agent: Vec<Arc<dyn Hook>>,
}

impl Hooks {
    pub(super) fn new(all: Vec<Arc<dyn Hook>>) -> Self {
        let of = |phase: Phases| -> Vec<Arc<dyn Hook>> {
            let takes_part = |hook: &&Arc<dyn Hook>| hook.phases().contains(phase);
            all.iter().filter(takes_part).cloned().collect()
        };
        Self {
            before_agent: of(Phases::BEFORE_AGENT),
            modify_request: of(Phases::MODIFY_REQUEST),
            wrap_model_call: of(Phases::WRAP_MODEL_CALL).into(),
            pre_tool_use: of(Phases::PRE_TOOL_USE),
            wrap_tool_call: of(Phases::WRAP_TOOL_CALL).into(),
            post_tool_use: of(Phases::POST_TOOL_USE),
            before_stop: of(Phases::BEFORE_STOP),
            after_agent: of(Phases::AFTER_AGENT),
            all,
        }
    }
}
