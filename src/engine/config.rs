//! The configuration of an agent.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::hook::Core;
use crate::model::{Compactor, HostedTool, ModelRequest, ModelSettings, Prompter};
use crate::run::RunSettings;
use crate::session::{SessionStore, ThreadStore};
use crate::tool::{Tool, ToolSource, TurnTools};

use super::hooks_by_phase::Hooks;
use super::live_runs::LiveRuns;

/// The handling of a question that cannot be answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnUnanswered {
    /// The call is denied, and the model reads why.
    #[default]
    Deny,
    /// The call stays pending, and the run ends with `AwaitingApproval`;
    /// [`Session::resume`](crate::Session::resume) continues it. A subagent has its own setting,
    /// `Deny` by default: with `Park`, the run of the subagent ends as well, and the call that
    /// started it does not wait for the decision.
    Park,
}

/// The handling of background tasks that have not ended when the model's response has no more
/// calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum UnfinishedTasks {
    /// The run ends, and the tasks with it.
    #[default]
    Stop,
    /// The run waits for the tasks, and the model is asked again with the outcome of each. A task
    /// that does not end on its own keeps the run from ending. A response that was truncated or
    /// refused, a hook that stops the run, and a limit of the run end it with its tasks.
    Await,
}

/// The parts of an agent, shared by its clones and runs.
pub(crate) struct Config {
    pub(crate) live: LiveRuns,
    /// The settings that runs read as well.
    pub(crate) settings: Arc<RunSettings>,
    pub(crate) prompter: Arc<dyn Prompter>,
    pub(crate) tools: Vec<Arc<dyn Tool>>,
    pub(crate) disabled_tools: BTreeSet<Arc<str>>,
    /// The tools of a turn, built from `tools` alone by the first run.
    pub(crate) own_tools: OnceLock<OwnTools>,
    pub(crate) sources: Vec<Arc<dyn ToolSource>>,
    pub(crate) hooks: Hooks,
    /// The innermost step of a model call, the same in every run.
    pub(crate) model_core: Core<ModelRequest>,
    pub(crate) store: Arc<dyn SessionStore>,
    /// The default store; `None` if the caller set a store.
    pub(crate) default_store: Option<ThreadStore>,
    /// `None` disables compaction, and the counting of tokens for it.
    pub(crate) compactor: Option<Arc<dyn Compactor>>,
    pub(crate) limits: Limits,
    pub(crate) request: RequestOptions,
}

/// The tools of a turn without tools of hooks or sources.
pub(crate) struct OwnTools {
    pub(crate) tools: TurnTools,
    /// The warnings about them.
    pub(crate) warnings: Vec<String>,
    /// Their names, sorted.
    pub(crate) names: Vec<String>,
}

impl Config {
    /// Returns the tools of a turn without tools of hooks or sources.
    pub(crate) fn own_tools(&self) -> &OwnTools {
        self.own_tools.get_or_init(|| {
            let (tools, warnings) =
                TurnTools::build(&self.tools, &[], Vec::new(), &self.disabled_tools);
            let names = tools.names().into_iter().map(str::to_owned).collect();
            OwnTools {
                tools,
                warnings,
                names,
            }
        })
    }
}

/// Returns the store of an agent: `store`, else the default store, which is also returned with its
/// own type. The default store is `default_store`, or a new one.
pub(crate) fn store_or_default(
    store: Option<Arc<dyn SessionStore>>,
    default_store: Option<ThreadStore>,
) -> (Arc<dyn SessionStore>, Option<ThreadStore>) {
    match store {
        Some(store) => (store, None),
        None => {
            let default_store = default_store.unwrap_or_else(ThreadStore::of_agent);
            (Arc::new(default_store.clone()), Some(default_store))
        }
    }
}

/// The limits of a run, and the handling of what is left open at its end.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    /// The maximum number of turns; 0 is no limit.
    pub(crate) max_turns: u32,
    /// The maximum number of calls of a turn that run at the same time.
    pub(crate) parallel_tools: usize,
    /// The limit of a tool result in bytes.
    pub(crate) max_result_bytes: usize,
    /// The limit for the histories of a run and its child runs together, in bytes.
    pub(crate) max_history_bytes: usize,
    /// The time that a tool call may run without progress.
    pub(crate) tool_timeout: Duration,
    /// The time within which each source of tools must answer.
    pub(crate) source_timeout: Duration,
    pub(crate) unanswered: OnUnanswered,
    pub(crate) unfinished_tasks: UnfinishedTasks,
    /// The time in which a pending call can be decided; `None` is no limit.
    pub(crate) approval_expiry: Option<Duration>,
    /// The maximum depth of child runs below the run.
    pub(crate) max_depth: u32,
    pub(crate) loop_detection: bool,
    /// The interval of the progress messages of a call that reports none itself.
    pub(crate) heartbeat: Duration,
    pub(crate) output_retries: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_turns: 100,
            parallel_tools: 8,
            max_result_bytes: 8 * 1024 * 1024,
            max_history_bytes: 24 * 1024 * 1024,
            tool_timeout: Duration::from_secs(120),
            source_timeout: Duration::from_secs(30),
            unanswered: OnUnanswered::Deny,
            unfinished_tasks: UnfinishedTasks::Stop,
            approval_expiry: None,
            max_depth: 2,
            loop_detection: true,
            heartbeat: Duration::from_secs(5),
            output_retries: 2,
        }
    }
}

/// The options of the agent's requests, and of the handling of responses.
#[derive(Clone, Debug)]
pub(crate) struct RequestOptions {
    pub(crate) max_output_tokens: Option<u32>,
    pub(crate) temperature: Option<f64>,
    pub(crate) stop: Arc<[String]>,
    pub(crate) settings: ModelSettings,
    pub(crate) hosted_tools: Arc<[HostedTool]>,
    pub(crate) wrap_up: bool,
    pub(crate) keep_refused: bool,
    pub(crate) keep_interrupted: bool,
}

impl Default for RequestOptions {
    fn default() -> Self {
        Self {
            max_output_tokens: None,
            temperature: None,
            stop: Arc::default(),
            settings: ModelSettings::default(),
            hosted_tools: Arc::default(),
            wrap_up: false,
            keep_refused: false,
            keep_interrupted: true,
        }
    }
}

impl RequestOptions {
    /// Checks that the temperature is a finite number of at least 0.
    pub(crate) fn check(&self) -> Result<()> {
        match self.temperature {
            Some(temperature) if !temperature.is_finite() || temperature < 0.0 => Err(Error::new(
                ErrorKind::Config,
                format!("temperature is {temperature}; it must be a number of at least 0"),
            )),
            _ => Ok(()),
        }
    }
}
