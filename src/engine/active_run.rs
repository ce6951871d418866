//! One run, from its request to its result.

use std::sync::Arc;

use futures::FutureExt;
use serde_json::Value;

use crate::error::{Error, ErrorKind, Result};
use crate::model::ModelResponse;
use crate::run::{
    ExitReason, OutputFormat, Run, RunContext, RunOutput, RunShared, Stop, TIME_LIMIT_REACHED,
    TreeLimits, check_wrapping_hooks,
};
use crate::tool::{BackgroundTasks, check_name_of};
use crate::util::panic;
use crate::util::sync::lock;

use super::closing::close_unopened;
use super::config::Config;
use super::decision::Decisions;
use super::history::History;
use super::opening::open;
use super::parent_gate::ParentGate;
use super::repeats::RepeatDetector;
use super::request::RequestBuilder;
use super::result_limits::MIN_RESULT_BYTES;
use super::run_request::RunRequest;
use super::stopped_child::StoppedChild;
use super::tool_catalog::ToolCatalog;
use super::turn::Recoveries;

/// Creates the run of a request. Nothing happens until it is polled.
pub(crate) fn start(request: RunRequest) -> Run {
    let tool_use_id = request
        .options
        .parent
        .as_ref()
        .map(|parent| parent.call().tool_use_id.clone());
    let tree = tree_limits(&request);
    let outcome_bytes = MIN_RESULT_BYTES..=request.config.limits.max_result_bytes;
    let tasks = BackgroundTasks::limited(outcome_bytes, tree.histories.share());
    let shared = RunShared::new(request.session_id.clone(), tool_use_id, tasks, tree);
    let shared = Arc::new(shared);
    shared.connect_tasks();
    let outlives_parent = request.options.outlives_parent;
    let parent = request.options.parent.as_ref();
    let parent = parent.filter(|_| !outlives_parent);
    let parent_end = parent.map(|parent| parent.run().cancellation().clone());
    // Boxed: each future that takes it by value would reserve its size.
    let future = drive(Box::new(request), shared.clone());
    Run::new(shared, future.boxed(), parent_end)
}

/// Returns the limits that the run shares with its parent, or that it sets as the top of a tree.
fn tree_limits(request: &RunRequest) -> TreeLimits {
    let limits = &request.config.limits;
    let wrapping_hooks = request.config.hooks.most_wrapping();
    match &request.options.parent {
        Some(parent) => {
            let tree = &parent.run().shared().tree;
            tree.of_child(parent.call().depth, limits.max_depth, wrapping_hooks)
        }
        None => TreeLimits::new(limits.max_history_bytes, limits.max_depth, wrapping_hooks),
    }
}

/// Drives a run to its end. Exactly one result message is sent in every case.
async fn drive(request: Box<RunRequest>, shared: Arc<RunShared>) -> Result<RunOutput> {
    let mut settings = request.config.settings.clone();
    let options = &request.options;
    if let Some(trace) = &options.trace {
        Arc::make_mut(&mut settings).trace = Some(trace.clone());
    }
    let cx = RunContext::new(settings, shared, options.parent.clone());
    if let Some(parent) = &options.parent {
        cx.add_gate(ParentGate(parent.run().clone()));
    }

    // Created before the futures of the run, and so dropped after them.
    let mut stopped_child = StoppedChild::new(&cx, request.config.request.keep_interrupted);

    // Cancels background work when the run ends.
    let _cancel = cx.cancellation().guard();
    let opened = panic::catch_async(begin(&cx, request))
        .await
        .unwrap_or_else(|text| Err(panicked(&text)));
    let output = match opened {
        Ok(Some(opened)) => {
            stopped_child.begin();
            cx.emit_init();
            let mut run = opened.run;
            let end = panic::catch_async(run.run_to_end(opened.first_step))
                .await
                .unwrap_or_else(|text| Err(panicked(&text)));
            run.close(end).boxed().await
        }
        Ok(None) => close_unopened(&cx, Ok(cx.shared().stop())).boxed().await,
        Err(error) => close_unopened(&cx, Err(error)).boxed().await,
    };
    stopped_child.end();
    output
}

/// Checks the request, counts the run against its ancestors' limits of subagents, starts the time
/// limit and opens the session. Returns `None` if the run is stopped meanwhile.
async fn begin(cx: &RunContext, request: Box<RunRequest>) -> Result<Option<Opened>> {
    check_depth(cx)?;
    check_wrapping_hooks(cx.shared().tree.wrapping_hooks)?;
    cx.budget().count_subagent()?;
    let format = lock(&cx.shared().control).output.take();
    if let Some(format) = &format {
        check_name_of("a name of an output schema", ErrorKind::Tool, &format.name)?;
    }
    if let Some(deadline) = cx.budget().deadline() {
        cx.shared().stop_at(deadline);
    }
    let opening = open(cx.clone(), request, format).boxed();
    cx.shared().unless_stopped(opening).await.transpose()
}

fn check_depth(cx: &RunContext) -> Result<()> {
    let limit = cx.shared().tree.max_depth;
    let depth = cx.depth();
    if depth <= limit {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Config,
        format!(
            "subagents may nest {limit} deep; this run would be at depth {depth}; raise \
             `AgentBuilder::max_subagent_depth`"
        ),
    ))
}

fn panicked(text: &str) -> Error {
    Error::new(ErrorKind::Other, format!("the run panicked: {text}"))
}

/// A run whose session is open, and its first step.
pub(super) struct Opened {
    // Boxed, so that a move copies a pointer.
    pub(super) run: Box<ActiveRun>,
    pub(super) first_step: FirstStep,
}

/// The first step of a run whose session is open.
pub(super) enum FirstStep {
    /// The model is called.
    Turns,
    /// Pending calls are decided.
    Decisions(Decisions),
    /// There is nothing left to do: the input was sent before.
    End(ExitReason),
}

/// A run in progress: its session is leased, loaded and prepared.
pub(super) struct ActiveRun {
    pub(super) config: Arc<Config>,
    pub(super) cx: RunContext,
    pub(super) history: History,
    pub(super) tools: ToolCatalog,
    pub(super) requests: RequestBuilder,
    pub(super) repeats: RepeatDetector,
    pub(super) recoveries: Recoveries,
    /// The output format that the caller requested.
    pub(super) format: Option<OutputFormat>,
    pub(super) outcome: RunOutcome,
}

/// The parts of the result message that are known so far.
#[derive(Default)]
pub(super) struct RunOutcome {
    pub(super) last_response: Option<Arc<ModelResponse>>,
    pub(super) structured: Option<Box<Value>>,
    /// The texts of the result's `errors`: the reasons why the run ended.
    pub(super) error_texts: Vec<String>,
    /// True if the run was stopped while tools were running.
    pub(super) was_stopped_in_tools: bool,
}

impl RunOutcome {
    /// Adds a text to the errors of the result.
    pub(super) fn add_error_text(&mut self, text: String) {
        self.error_texts.push(text);
    }

    /// Returns the exit reason of a run that was stopped, and adds its text to the errors of the
    /// result.
    pub(super) fn record_stop(&mut self, stop: Stop) -> ExitReason {
        let exit = stop.exit_reason();
        self.add_error_text(match stop {
            Stop::Deadline => TIME_LIMIT_REACHED.into(),
            _ => format!("the run was stopped: {exit}"),
        });
        exit
    }
}

impl ActiveRun {
    /// Takes the first step, then turns, until there is a reason to end.
    async fn run_to_end(&mut self, first_step: FirstStep) -> Result<ExitReason> {
        match first_step {
            FirstStep::End(exit) => return Ok(exit),
            FirstStep::Turns => {}
            FirstStep::Decisions(decisions) => {
                if let Some(exit) = self.resume(&decisions).boxed().await? {
                    return Ok(exit);
                }
            }
        }
        self.take_turns().await
    }

    /// Returns the exit reason if a caller or a hook has stopped the run, and adds its text to the
    /// errors of the result.
    pub(super) fn check_stop(&mut self) -> Option<ExitReason> {
        let stop = self.cx.shared().stop();
        if stop != Stop::None {
            return Some(self.outcome.record_stop(stop));
        }
        let reason = self.cx.hook_stop_reason()?;
        self.outcome.add_error_text(reason);
        Some(ExitReason::HookStopped)
    }
}
