//! One run, from its request to its result.

use std::sync::Arc;

use futures::FutureExt;
use serde_json::Value;
use uuid::Uuid;

use crate::error::{Error, ErrorKind, Result};
use crate::message::Messages;
use crate::model::ModelResponse;
use crate::run::{
    Budget, ContextParts, ExitReason, MAX_DEPTH, OutputFormat, ParentCall, Run, RunContext,
    RunOutput, Shared, Stop,
};
use crate::state::AgentState;
use crate::tool::{TaskScope, check_name};
use crate::util::sync::lock;
use crate::util::{Cancellation, Values, panic};

use super::call_host::Parent;
use super::closing::close_unopened;
use super::config::Config;
use super::decision::Decisions;
use super::history::History;
use super::opening::open;
use super::parent_gate::ParentGate;
use super::repeats::RepeatDetector;
use super::request::RequestBuilder;
use super::tool_catalog::ToolCatalog;

/// The request for a run.
pub(crate) struct RunRequest {
    pub(crate) config: Arc<Config>,
    pub(crate) session_id: Arc<str>,
    pub(crate) input: Messages,
    pub(crate) input_id: Option<Arc<str>>,
    pub(crate) user_id: Option<Arc<str>>,
    pub(crate) values: Values,
    pub(crate) decisions: Option<Decisions>,
    /// The number of messages of the history that the run continues from.
    pub(crate) rewind_to: Option<usize>,
    /// True if the session stays in the agent's own store after the run.
    pub(crate) is_kept: bool,
    /// True if a missing session is an error.
    pub(crate) must_exist: bool,
    pub(crate) parent: Option<Parent>,
}

/// Makes the run of a request. Nothing happens until it is polled.
pub(crate) fn start(request: RunRequest) -> Run {
    let parent = request.parent.as_ref();
    let call = parent.map(|parent| ParentCall::new(&parent.cx, parent.call_id.clone()));
    let parent_id = call.as_ref().map(|call| call.tool_use_id.clone());
    let shared = Arc::new(Shared::new(request.session_id.clone(), parent_id));
    let tasks = TaskScope::limited(request.config.limits.max_result_bytes);
    // Boxed, for every future that is handed it on would have room for it.
    let driving = drive(
        Box::new(request),
        call.map(Box::new),
        shared.clone(),
        tasks.clone(),
    );
    Run::new(shared, tasks, driving.boxed())
}

/// Drives a run to its end. Exactly one result message is sent in every case.
async fn drive(
    request: Box<RunRequest>,
    call: Option<Box<ParentCall>>,
    shared: Arc<Shared>,
    tasks: TaskScope,
) -> Result<RunOutput> {
    let cx = context(&request, call, shared, tasks);
    // Background work ends with the run.
    let _cancel = cx.cancellation().guard();
    let opened = panic::caught(begin(&cx, request)).await;
    let opened = opened.unwrap_or_else(|text| Err(panicked(&text)));
    match opened {
        Ok(Some(Opened {
            mut run,
            first_step,
        })) => {
            cx.open();
            let end = panic::caught(run.work(first_step)).await;
            let end = end.unwrap_or_else(|text| Err(panicked(&text)));
            run.close(end).boxed().await
        }
        Ok(None) => close_unopened(&cx, Ok(cx.shared().stop())).boxed().await,
        Err(error) => close_unopened(&cx, Err(error)).boxed().await,
    }
}

fn context(
    request: &RunRequest,
    call: Option<Box<ParentCall>>,
    shared: Arc<Shared>,
    tasks: TaskScope,
) -> RunContext {
    let config = &request.config;
    let parent = request.parent.as_ref().map(|parent| &parent.cx);
    let state = AgentState::new(shared.session_id().clone());
    let parts = ContextParts {
        shared,
        settings: config.settings.clone(),
        run_id: Uuid::now_v7().to_string().into(),
        budget: Budget::new(
            config.settings.budget,
            config.settings.parallel_model_calls,
            parent.map(RunContext::budget),
        ),
        parent: call,
        parent_run: parent.cloned(),
        ask_parent: request.parent.as_ref().map(Parent::ask),
        cancellation: Cancellation::default(),
    };
    let cx = RunContext::new(
        parts,
        config.settings.model.clone(),
        config.settings.mode,
        state,
        tasks,
    );
    if let Some(parent) = parent {
        cx.add_gate(ParentGate(parent.clone()));
    }
    cx
}

/// Opens the session; `None` when the run is stopped meanwhile.
async fn begin(cx: &RunContext, request: Box<RunRequest>) -> Result<Option<Opened>> {
    check_depth(&request.config, cx)?;
    let format = lock(&cx.shared().control).output.take();
    if let Some(format) = &format {
        check_name(&format.name).map_err(|error| error.context("output schema"))?;
    }
    if let Some(deadline) = cx.budget().deadline() {
        cx.shared().stop_at(deadline);
    }
    let opening = open(cx.clone(), request, format).boxed();
    cx.shared().unless_stopped(opening).await.transpose()
}

fn check_depth(config: &Config, cx: &RunContext) -> Result<()> {
    let limit = config.limits.max_depth.min(MAX_DEPTH);
    let depth = cx.depth();
    if depth <= limit {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Config,
        format!("subagents may nest {limit} deep; this run would be at depth {depth}"),
    ))
}

fn panicked(text: &str) -> Error {
    Error::new(ErrorKind::Other, format!("the run panicked: {text}"))
}

/// A run whose session is open, and its first step.
pub(super) struct Opened {
    // Boxed, so that it is moved as a pointer.
    pub(super) run: Box<ActiveRun>,
    pub(super) first_step: FirstStep,
}

/// The first step of a run whose session is open.
pub(super) enum FirstStep {
    /// The model is called.
    Turns,
    /// Calls that waited for approval are answered.
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
    /// The form that the caller asked for.
    pub(super) format: Option<OutputFormat>,
    pub(super) outcome: Outcome,
}

/// The parts of the result message that are known so far.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) last_answer: Option<Arc<ModelResponse>>,
    pub(super) structured: Option<Box<Value>>,
    /// The reasons why the run ended, for the result's `errors`.
    pub(super) notes: Vec<String>,
    /// True if the run was stopped while tools were running.
    pub(super) stopped_in_tools: bool,
}

impl Outcome {
    /// Notes that the run was stopped, and returns its exit reason.
    pub(super) fn note_stop(&mut self, stop: Stop) -> ExitReason {
        let exit = stop.exit_reason();
        self.notes.push(match stop {
            Stop::Deadline => "the time limit of the run is reached".into(),
            _ => format!("the run was stopped: {exit}"),
        });
        exit
    }
}

impl ActiveRun {
    /// Works until there is a reason to end.
    async fn work(&mut self, first_step: FirstStep) -> Result<ExitReason> {
        match first_step {
            FirstStep::End(exit) => return Ok(exit),
            FirstStep::Turns => {}
            FirstStep::Decisions(decisions) => {
                if let Some(exit) = self.resume(&decisions).boxed().await? {
                    return Ok(exit);
                }
            }
        }
        self.turns().await
    }

    /// The exit reason, if a caller or a hook has stopped the run.
    pub(super) fn halted(&mut self) -> Option<ExitReason> {
        let stop = self.cx.shared().stop();
        if stop != Stop::None {
            return Some(self.outcome.note_stop(stop));
        }
        let reason = self.cx.stop_reason()?;
        self.outcome.notes.push(reason);
        Some(ExitReason::HookStopped)
    }
}
