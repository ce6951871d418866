//! One run from its beginning to its result.

use std::sync::{Arc, Mutex};

use futures::FutureExt;
use serde_json::Value;
use uuid::Uuid;

use crate::error::{Error, ErrorKind, Result};
use crate::message::{Message, Messages, Todo};
use crate::model::ModelResponse;
use crate::run::{
    Budget, CLOSING_TIME, ContextParts, ExitReason, MAX_DEPTH, OutputFormat, ParentCall,
    RunContext, RunOutput, Shared, Stop,
};
use crate::session::{AgentState, Files, Lease, MessageInfo, Record, SessionStore, changed_files};
use crate::tool::{TaskScope, check_name};
use crate::util::sync::lock;
use crate::util::{Cancellation, Values, panic};

use super::call_host::Parent;
use super::call_ids::CallIds;
use super::compaction::{Context, Shown};
use super::config::Config;
use super::decision::Decisions;
use super::live_runs::Registration;
use super::parent_gate::Above;
use super::repeats::Repeats;
use super::request::Requests;
use super::tool_catalog::RunTools;

/// The input of a run.
pub(crate) struct Start {
    pub(crate) config: Arc<Config>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) tasks: TaskScope,
    pub(crate) input: Messages,
    pub(crate) input_id: Option<Arc<str>>,
    pub(crate) user_id: Option<Arc<str>>,
    pub(crate) values: Values,
    pub(crate) decisions: Option<Decisions>,
    /// The number of messages of the history that the run continues from.
    pub(crate) at: Option<usize>,
    /// True if the session stays in the agent's own store after the run.
    pub(crate) is_kept: bool,
    /// True if a missing session is an error.
    pub(crate) must_exist: bool,
    pub(crate) parent_call: Option<ParentCall>,
    pub(crate) parent: Option<Parent>,
}

/// The session's place in the store, held for the run.
pub(super) struct Keeper {
    store: Arc<dyn SessionStore>,
    lease: Lease,
    /// The stored state other than the history.
    beside: Mutex<Beside>,
}

/// The state other than the history that tools change.
#[derive(Clone)]
struct Beside {
    todos: Arc<Vec<Todo>>,
    files: Arc<Files>,
}

impl Beside {
    fn of(state: &AgentState) -> Self {
        Self {
            todos: state.todos.clone(),
            files: state.files.clone(),
        }
    }

    /// Appends the records that turn this state into `now`.
    fn until(&self, now: &Self, records: &mut Vec<Record>) {
        if !Arc::ptr_eq(&self.todos, &now.todos) && self.todos != now.todos {
            let todos = now.todos.clone();
            records.push(Record::Todos { todos });
        }
        if !Arc::ptr_eq(&self.files, &now.files) {
            let files = changed_files(&self.files, &now.files);
            records.extend(files.map(|(path, content)| Record::File {
                path: path.clone(),
                content: content.cloned(),
            }));
        }
    }
}

impl Keeper {
    pub(super) fn new(store: Arc<dyn SessionStore>, lease: Lease, state: &AgentState) -> Self {
        Self {
            store,
            lease,
            beside: Mutex::new(Beside::of(state)),
        }
    }

    /// Appends records within a call, without a limit of its own: calls run concurrently, each with its
    /// own waker, and a stop wakes only one of them.
    pub(super) async fn append(&self, records: Vec<Record>) -> Result<()> {
        let appended = panic::caught(self.store.append(&self.lease, records)).await;
        appended.unwrap_or_else(|text| Err(panicked(&text)))
    }

    /// Appends records, and the changes that tools have made to the other state since.
    pub(super) async fn append_with(
        &self,
        cx: &RunContext,
        mut records: Vec<Record>,
    ) -> Result<()> {
        let now = cx.state(|state| Beside::of(state));
        lock(&self.beside).until(&now, &mut records);
        bounded(cx, self.store.append(&self.lease, records)).await?;
        *lock(&self.beside) = now;
        Ok(())
    }

    pub(super) async fn save(&self, cx: &RunContext, state: &AgentState) -> Result<()> {
        bounded(cx, self.store.save(&self.lease, &state.stored())).await?;
        *lock(&self.beside) = Beside::of(state);
        Ok(())
    }
}

fn panicked(text: &str) -> Error {
    Error::new(
        ErrorKind::Other,
        format!("the session store panicked: {text}"),
    )
}

/// The outcome of a write. A store that panics has failed: what was to be stored is not lost with it.
/// One that is not done [`CLOSING_TIME`] after the run was stopped has failed as well.
async fn bounded(cx: &RunContext, work: impl Future<Output = Result<()>>) -> Result<()> {
    let mut grace = None;
    let work = panic::caught(work);
    match cx.shared().within_grace(&mut grace, work).await {
        Some(Ok(done)) => done,
        Some(Err(text)) => Err(panicked(&text)),
        None => Err(Error::new(
            ErrorKind::Timeout,
            format!(
                "the session store did not answer within {CLOSING_TIME:?} after the run was \
                 stopped; what it was given may not be stored"
            ),
        )),
    }
}

/// A run that is going on.
pub(super) struct Driver {
    pub(super) config: Arc<Config>,
    pub(super) cx: RunContext,
    /// `None` until the session is leased.
    pub(super) keeper: Option<Keeper>,
    /// True if the session's user or its directory is new, and stored with the input.
    pub(super) began: bool,
    /// Makes the run's handle available by session, once the run holds the session.
    pub(super) registered: Option<Registration>,
    pub(super) tools: RunTools,
    pub(super) requests: Requests,
    pub(super) repeats: Repeats,
    pub(super) ids: CallIds,
    pub(super) context: Context,
    pub(super) shown: Shown,
    pub(super) output: Option<OutputFormat>,
    pub(super) structured: Option<Box<Value>>,
    pub(super) last: Option<Arc<ModelResponse>>,
    /// The length of the history before this run.
    pub(super) first_new: usize,
    /// True if the run was stopped while tools were running.
    pub(super) stopped_in_tools: bool,
    /// True once the loop was reached, so that `after_agent` has to run.
    pub(super) looped: bool,
    /// The reasons why the run ended, for the result's `errors`.
    pub(super) notes: Vec<String>,
}

/// Drives a run to its end. Exactly one result message is sent in every case.
pub(crate) async fn drive(start: Box<Start>) -> Result<RunOutput> {
    let mut driver = Driver::new(&start);
    let _over = OnDrop(driver.cx.cancellation().clone());
    let body = panic::caught(driver.body(start)).await;
    let end = body.unwrap_or_else(|text| {
        Err(Error::new(
            ErrorKind::Other,
            format!("the run panicked: {text}"),
        ))
    });
    driver.end(end).boxed().await
}

/// Cancels background work when the run ends.
struct OnDrop(Cancellation);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

impl Driver {
    fn new(start: &Start) -> Self {
        let config = &start.config;
        let parent = start.parent.as_ref().map(|parent| &parent.cx);
        let parts = ContextParts {
            shared: start.shared.clone(),
            settings: config.settings.clone(),
            run_id: Uuid::now_v7().to_string().into(),
            budget: Budget::new(
                config.limits.budget,
                config.limits.parallel_model_calls,
                parent.map(RunContext::budget),
            ),
            parent: start.parent_call.clone().map(Box::new),
            parent_run: parent.cloned(),
            ask_parent: start.parent.as_ref().map(Parent::ask),
            cancellation: Cancellation::default(),
        };
        let state = AgentState::new(start.shared.session_id().clone());
        let tasks = start.tasks.clone();
        let cx = RunContext::new(parts, config.model.clone(), config.mode, state, tasks);
        if let Some(parent) = &start.parent {
            cx.add_gate(Above(parent.cx.clone()));
        }
        Self {
            config: start.config.clone(),
            cx,
            keeper: None,
            began: false,
            registered: None,
            tools: RunTools::default(),
            requests: Requests::default(),
            repeats: Repeats::default(),
            ids: CallIds::default(),
            context: Context::default(),
            shown: Shown::default(),
            output: None,
            structured: None,
            last: None,
            first_new: 0,
            stopped_in_tools: false,
            looped: false,
            notes: Vec::new(),
        }
    }

    async fn body(&mut self, start: Box<Start>) -> Result<ExitReason> {
        self.check_depth()?;
        self.output = lock(&start.shared.control).output.take();
        if let Some(output) = &self.output {
            check_name(&output.name).map_err(|error| error.context("output schema"))?;
        }
        let shared = start.shared.clone();
        if let Some(deadline) = self.cx.budget().deadline() {
            shared.stop_at(deadline);
        }
        let decisions = start.decisions.clone();
        let over = match shared.unless_stopped(self.open(start).boxed()).await {
            Some(opened) => opened?,
            None => {
                self.note_stop();
                return Ok(self.stopped());
            }
        };
        self.cx.open();
        self.looped = true;
        if let Some(exit) = over {
            return Ok(exit);
        }
        if let Some(decisions) = decisions
            && let Some(exit) = self.resume(&decisions).boxed().await?
        {
            return Ok(exit);
        }
        self.turns().await
    }

    fn check_depth(&self) -> Result<()> {
        let limit = self.config.limits.max_depth.min(MAX_DEPTH);
        let depth = self.cx.depth();
        if depth <= limit {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Config,
            format!("subagents may nest {limit} deep; this run would be at depth {depth}"),
        ))
    }

    /// The reason the run was stopped: by a caller, or by the time limit.
    pub(super) fn stopped(&self) -> ExitReason {
        match self.cx.shared().stop() {
            Stop::Abort => ExitReason::Aborted,
            Stop::Deadline => ExitReason::MaxBudget,
            _ => ExitReason::Interrupted,
        }
    }

    pub(super) fn keeper(&self) -> Result<&Keeper> {
        self.keeper.as_ref().ok_or_else(|| {
            Error::new(
                ErrorKind::SessionBusy,
                "the session is not held by this run",
            )
        })
    }

    /// Stores the whole state.
    pub(super) async fn save(&self, state: &AgentState) -> Result<()> {
        self.keeper()?.save(&self.cx, state).await
    }

    /// Stores messages, then adds them to the history.
    pub(super) async fn append(
        &mut self,
        messages: Vec<Arc<Message>>,
        mut input_id: Option<Arc<str>>,
    ) -> Result<()> {
        let records = messages.iter().map(|message| Record::Message {
            message: message.clone(),
            input_id: input_id.take(),
        });
        let records = self.began().into_iter().chain(records).collect();
        self.add(records, &messages, None).await
    }

    /// Stores an answer and its metadata, then adds it to the history.
    pub(super) async fn append_answer(
        &mut self,
        message: Arc<Message>,
        info: MessageInfo,
    ) -> Result<()> {
        let info = Arc::new(info);
        let said = Record::Message {
            message: message.clone(),
            input_id: None,
        };
        let came = Record::MessageInfo { info: info.clone() };
        let records = self.began().into_iter().chain([said, came]).collect();
        self.add(records, &[message], Some(info)).await
    }

    fn began(&mut self) -> Option<Record> {
        let is_new = std::mem::take(&mut self.began);
        is_new.then(|| self.cx.state(|state| Record::about(state)))
    }

    async fn add(
        &mut self,
        records: Vec<Record>,
        messages: &[Arc<Message>],
        info: Option<Arc<MessageInfo>>,
    ) -> Result<()> {
        self.keeper()?.append_with(&self.cx, records).await?;
        // First of all, for what is stored must not be missing here, also when a counter panics.
        self.cx.state(|state| {
            state.messages.extend(messages.iter().cloned());
            if let Some(info) = info {
                state.inform(info);
            }
        });
        self.context.add(&**self.cx.token_counter(), messages);
        Ok(())
    }

    /// Counts the tokens of the history again after it was replaced.
    pub(super) fn recount(&mut self, state: &AgentState) {
        let counter = &**self.cx.token_counter();
        let compaction = state.compaction.as_ref();
        self.context.restart(counter, &state.messages, compaction);
    }
}
