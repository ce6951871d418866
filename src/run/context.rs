//! The run as hooks see it.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::time::Instant;
use uuid::Uuid;

use crate::backend::Backend;
use crate::message::{TokenCounter, ToolCall};
use crate::model::{Model, ModelProfile, ModelResponse, RequestMemo, SystemPrompt};
use crate::sdk::{Envelope, Init, Level, PermissionRequest, SdkMessage, SystemEvent, SystemKind};
use crate::session::AgentState;
use crate::tool::{
    Answer, Confirmer, Gates, PermissionGate, PermissionMode, StateView, TaskScope, Tool, ToolMap,
};
use crate::trace::TraceRecorder;
use crate::usage::Usage;
use crate::util::panic;
use crate::util::secret::redact_text;
use crate::util::sync::lock;
use crate::util::{Cancellation, Values};

use super::budget::Budget;
use super::granted_questions::GrantedQuestions;
use super::parent::{AskParent, ParentCall};
use super::responder::Waiting;
use super::settings::RunSettings;
use super::shared::Shared;
use super::state_cell::StateCell;
use super::system::SystemSections;

/// The parts of a context at the beginning of a run.
pub(crate) struct ContextParts {
    pub(crate) shared: Arc<Shared>,
    pub(crate) settings: Arc<RunSettings>,
    pub(crate) run_id: Arc<str>,
    pub(crate) budget: Budget,
    pub(crate) parent: Option<Box<ParentCall>>,
    pub(crate) parent_run: Option<RunContext>,
    pub(crate) ask_parent: Option<AskParent>,
    pub(crate) cancellation: Cancellation,
}

/// The run as hooks see it. Cheap to clone, `'static`, usable from any thread.
#[derive(Clone)]
pub struct RunContext(Arc<Inner>);

struct Inner {
    parts: ContextParts,
    started: Instant,
    state: StateCell,
    turn: AtomicU32,
    asks: AtomicU32,
    attempts: AtomicU32,
    shown: Mutex<Option<Uuid>>,
    model: Mutex<Arc<dyn Model>>,
    mode: Mutex<PermissionMode>,
    gates: Mutex<Gates>,
    tools: Mutex<ToolMap>,
    system: Mutex<SystemPrompt>,
    stop: Mutex<Option<Box<str>>>,
    partial: Mutex<Option<Box<ModelResponse>>>,
    memo: RequestMemo,
    tasks: TaskScope,
}

impl RunContext {
    pub(crate) fn new(
        parts: ContextParts,
        model: Arc<dyn Model>,
        mode: PermissionMode,
        state: AgentState,
        tasks: TaskScope,
    ) -> Self {
        let gates = parts.settings.gates.clone();
        Self(Arc::new(Inner {
            parts,
            started: Instant::now(),
            state: StateCell::new(state),
            turn: AtomicU32::new(0),
            asks: AtomicU32::new(0),
            attempts: AtomicU32::new(0),
            shown: Mutex::default(),
            model: Mutex::new(model),
            mode: Mutex::new(mode),
            gates: Mutex::new(gates),
            tools: Mutex::default(),
            system: Mutex::default(),
            stop: Mutex::default(),
            partial: Mutex::default(),
            memo: RequestMemo::default(),
            tasks,
        }))
    }

    /// The session's id.
    pub fn session_id(&self) -> &Arc<str> {
        self.0.parts.shared.session_id()
    }

    /// This run's id.
    pub fn run_id(&self) -> &str {
        &self.0.parts.run_id
    }

    /// The agent's name.
    pub fn agent(&self) -> &str {
        &self.0.parts.settings.agent
    }

    /// The working directory the agent was given.
    pub fn cwd(&self) -> Option<&str> {
        self.0.parts.settings.cwd.as_deref()
    }

    /// The current turn: 1 during the first model call and the tool calls it asks for, 0 before.
    pub fn turn(&self) -> u32 {
        self.0.turn.load(Ordering::Relaxed)
    }

    /// The tokens of this run so far, without subagents.
    pub fn usage(&self) -> Usage {
        lock(&self.shared().stats).usage
    }

    /// The cost so far in USD, subagents included; `None` when some price is not known.
    pub fn cost(&self) -> Option<f64> {
        self.budget().spent_usd()
    }

    /// The run's budget.
    pub fn budget(&self) -> &Budget {
        &self.0.parts.budget
    }

    /// Limits, prices and abilities of the model in use.
    pub fn profile(&self) -> ModelProfile {
        *lock(&self.0.model).profile()
    }

    /// The model in use.
    pub fn model(&self) -> Arc<dyn Model> {
        lock(&self.0.model).clone()
    }

    /// The token counter, which estimates counts that the provider has not reported.
    pub fn token_counter(&self) -> &Arc<dyn TokenCounter> {
        &self.0.parts.settings.counter
    }

    /// The tools of this turn.
    pub fn tools(&self) -> ToolMap {
        lock(&self.0.tools).clone()
    }

    /// One tool of this turn.
    pub fn tool(&self, name: &str) -> Option<Arc<dyn Tool>> {
        lock(&self.0.tools).get(name)
    }

    /// The current permission mode.
    pub fn permission_mode(&self) -> PermissionMode {
        *lock(&self.0.mode)
    }

    /// Adds a gate that calls of this run have to pass in addition to the existing ones: a call
    /// that any gate denies is denied, and one that any asks about is asked about.
    pub fn add_gate(&self, gate: impl PermissionGate) {
        let mut gates = lock(&self.0.gates);
        *gates = gates.and(Arc::new(gate));
    }

    /// The sections of the system prompt.
    pub fn system(&self) -> SystemSections {
        SystemSections::new(self.clone())
    }

    /// The value of type `T` that the caller gave to the run, or a hook or tool put there.
    pub fn value<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.values().get()
    }

    /// Stores a value for other hooks and tools of this run.
    pub fn set_value<T: Send + Sync + 'static>(&self, value: T) {
        self.0.state.with(|state| state.values.insert(value));
    }

    /// All values of this run.
    pub fn values(&self) -> Values {
        self.0.state.with(|state| state.values.clone())
    }

    /// Runs `f` on the run's state: the history read-only, todos, files and values to change.
    ///
    /// # Panics
    ///
    /// When called inside another `with_state` on the same thread, which would wait for itself.
    pub fn with_state<R>(&self, f: impl FnOnce(StateView<'_>) -> R) -> R {
        let mut f = Some(f);
        let mut out = None;
        self.view_state(true, &mut |view| {
            if let Some(f) = f.take() {
                out = Some(f(view));
            }
        });
        out.expect("the closure is called once")
    }

    /// The trace recorder, if the agent has one.
    pub fn trace(&self) -> Option<&Arc<dyn TraceRecorder>> {
        self.0.parts.settings.trace.as_ref()
    }

    /// Sends a system message to the reader.
    pub fn emit(&self, kind: SystemKind) {
        let message = self.system_message(kind);
        self.shared().push(message);
    }

    /// Sends a warning to the reader.
    pub fn warn(&self, text: impl Into<String>) {
        let mut text = text.into();
        redact_text(&mut text);
        tracing::warn!(session = %self.session_id(), "{text}");
        self.emit(SystemKind::Informational {
            content: text,
            level: Level::Warning,
            tool_use_id: None,
        });
    }

    /// Cancelled when the run ends; for background work.
    pub fn cancellation(&self) -> &Cancellation {
        &self.0.parts.cancellation
    }

    /// Ends the run at the next step with [`ExitReason::HookStopped`](super::ExitReason).
    pub fn stop(&self, reason: impl Into<String>) {
        lock(&self.0.stop).get_or_insert(reason.into().into());
    }

    /// The backend that stores files and runs commands, if the agent has one.
    pub fn backend(&self) -> Option<&Arc<dyn Backend>> {
        self.0.parts.settings.backend.as_ref()
    }

    /// The call this run is a child of.
    pub fn parent(&self) -> Option<&ParentCall> {
        self.0.parts.parent.as_deref()
    }

    /// The run that the [parent](Self::parent) call belongs to, to look up what hooks left in its
    /// [values](Self::values).
    pub fn parent_run(&self) -> Option<&RunContext> {
        self.0.parts.parent_run.as_ref()
    }

    /// The background tasks of the run, which outlive a turn.
    pub fn tasks(&self) -> &TaskScope {
        &self.0.tasks
    }
}

/// The methods that only the engine needs.
impl RunContext {
    pub(crate) fn shared(&self) -> &Shared {
        &self.0.parts.shared
    }

    pub(crate) fn started(&self) -> Instant {
        self.0.started
    }

    pub(crate) fn depth(&self) -> u32 {
        self.parent().map_or(0, |parent| parent.depth)
    }

    pub(crate) fn settings(&self) -> &RunSettings {
        &self.0.parts.settings
    }

    pub(crate) fn memo(&self) -> &RequestMemo {
        &self.0.memo
    }

    /// Returns `true` if calls of this tool need no question of the mode.
    pub(crate) fn is_allowed(&self, tool: &str) -> bool {
        self.0.parts.settings.allowed_tools.contains(tool)
    }

    /// The questions of hooks that were answered for a session.
    pub(crate) fn granted_questions(&self) -> &GrantedQuestions {
        &self.0.parts.settings.granted_questions
    }

    /// The gates that calls of this run have to pass.
    pub(crate) fn gates(&self) -> Gates {
        lock(&self.0.gates).clone()
    }

    pub(super) fn system_slot(&self) -> &Mutex<SystemPrompt> {
        &self.0.system
    }

    pub(crate) fn set_turn(&self, turn: u32) {
        self.0.turn.store(turn, Ordering::Relaxed);
        lock(&self.shared().stats).turns = turn;
    }

    /// The number of this attempt to stream an answer in this turn, from 0.
    pub(crate) fn next_attempt(&self) -> u32 {
        self.0.attempts.fetch_add(1, Ordering::Relaxed)
    }

    /// Takes the emitted part of the answer as superseded; returns its first message and the number
    /// of the next attempt. `None` when nothing was shown.
    pub(crate) fn void_attempt(&self) -> Option<(u32, Uuid)> {
        let first = lock(&self.0.shown).take()?;
        Some((self.0.attempts.load(Ordering::Relaxed), first))
    }

    pub(crate) fn reset_attempts(&self) {
        self.0.attempts.store(0, Ordering::Relaxed);
        *lock(&self.0.shown) = None;
        *lock(&self.0.partial) = None;
    }

    /// The first message of the attempt of this turn that the reader saw last.
    pub(crate) fn shown_attempt(&self) -> Option<Uuid> {
        *lock(&self.0.shown)
    }

    pub(crate) fn set_shown_attempt(&self, first: Uuid) {
        *lock(&self.0.shown) = Some(first);
    }

    pub(crate) fn set_tools(&self, tools: ToolMap) {
        *lock(&self.0.tools) = tools;
    }

    pub(crate) fn set_model(&self, model: Arc<dyn Model>) {
        *lock(&self.0.model) = model;
    }

    pub(crate) fn set_mode(&self, mode: PermissionMode) {
        *lock(&self.0.mode) = mode;
    }

    /// Applies the mode that a handle requested last, if that has not happened yet.
    pub(crate) fn apply_requested_mode(&self) {
        if let Some(mode) = lock(&self.shared().control).mode.take() {
            self.set_mode(mode);
        }
    }

    pub(crate) fn set_system(&self, system: SystemPrompt) {
        *lock(&self.0.system) = system;
    }

    pub(crate) fn stop_reason(&self) -> Option<String> {
        lock(&self.0.stop).as_deref().map(str::to_owned)
    }

    pub(crate) fn put_partial(&self, partial: ModelResponse) {
        *lock(&self.0.partial) = Some(Box::new(partial));
    }

    pub(crate) fn take_partial(&self) -> Option<ModelResponse> {
        lock(&self.0.partial).take().map(|partial| *partial)
    }

    pub(crate) fn state<R>(&self, f: impl FnOnce(&mut AgentState) -> R) -> R {
        self.0.state.with(f)
    }

    pub(crate) fn view_state(&self, live: bool, f: &mut dyn FnMut(StateView<'_>)) {
        let changed = self.0.state.view(live, f);
        if !changed.todos && changed.files.is_empty() {
            return;
        }
        let kind = self.0.state.with(|state| SystemKind::StateChanged {
            todos: changed.todos.then(|| state.todos.to_vec()),
            files: (!changed.files.is_empty()).then_some(changed.files),
        });
        self.emit(kind);
    }

    pub(crate) fn system_message(&self, kind: SystemKind) -> SdkMessage {
        SdkMessage::System(SystemEvent::new(self.shared().envelope(), kind))
    }

    /// Sends `init`, before all messages emitted so far. Does nothing the second time.
    pub(crate) fn open(&self) {
        self.shared().open(|envelope: Envelope| {
            // Without `init`, nothing reaches the reader.
            let model = self.model();
            let id = panic::contained(|| model.id().to_owned()).unwrap_or_default();
            let cwd = self.cwd().unwrap_or_default();
            let mut init = Init::new(id, cwd, self.tools().names());
            init.permission_mode = self.permission_mode().as_str().into();
            SdkMessage::System(SystemEvent::new(envelope, SystemKind::Init(Box::new(init))))
        });
    }

    /// Asks a question: the confirmer first, then the holder of a responder.
    pub(crate) async fn ask(&self, call: &ToolCall, question: String) -> Answer {
        self.open();
        let number = self.0.asks.fetch_add(1, Ordering::Relaxed);
        let id: Arc<str> = format!("ask_{}_{number}", self.run_id()).into();
        let args: Arc<Value> = call.args.clone();
        let request = PermissionRequest::new(
            self.shared().envelope(),
            id.clone(),
            call.id.clone(),
            call.name.clone(),
            args,
            question,
        );
        self.answer(request).await
    }

    /// The answer to a question of this run or of one below it, within this run's time for it.
    pub(crate) async fn answer(&self, request: PermissionRequest) -> Answer {
        let answer = self.unbounded_answer(request);
        match self.0.parts.settings.ask_timeout {
            None => answer.await,
            Some(limit) => tokio::time::timeout(limit, answer)
                .await
                .unwrap_or(Answer::Unanswered),
        }
    }

    async fn unbounded_answer(&self, request: PermissionRequest) -> Answer {
        if let Some(confirmer) = &self.0.parts.settings.confirmer {
            match confirm(&**confirmer, &request).await {
                Answer::Unanswered => {}
                answer => return answer,
            }
        }
        // The desk is not kept: only responders may keep it open.
        let desk = lock(&self.shared().desk).upgrade();
        let receiver = desk.map(|desk| desk.open(request.id.clone()));
        let _waiting = Waiting {
            desk: lock(&self.shared().desk).clone(),
            id: request.id.clone(),
        };
        match (receiver, &self.0.parts.ask_parent) {
            (Some(receiver), _) => {
                self.shared()
                    .push(SdkMessage::PermissionRequest(Box::new(request)));
                receiver.await.unwrap_or(Answer::Unanswered)
            }
            (None, Some(ask_parent)) => ask_parent(request).await,
            (None, None) => Answer::Unanswered,
        }
    }
}

/// Asks a confirmer. A confirmer that panics counts as a denial.
async fn confirm(confirmer: &dyn Confirmer, request: &PermissionRequest) -> Answer {
    let confirm = panic::caught(confirmer.confirm(request)).await;
    confirm.unwrap_or_else(|text| Answer::Deny(format!("the one who was asked panicked: {text}")))
}

impl fmt::Debug for RunContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunContext")
            .field("session_id", self.session_id())
            .field("run_id", &self.run_id())
            .field("turn", &self.turn())
            .finish_non_exhaustive()
    }
}
