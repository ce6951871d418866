//! The run as hooks see it.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use tokio::time::Instant;

use crate::backend::Backend;
use crate::message::{MAX_JSON_DEPTH, TokenCounter, dismantle, is_too_deep};
use crate::model::{Model, ModelProfile, ProviderCache, SystemPrompt};
use crate::sdk::{Init, Level, SystemKind};
use crate::session::AgentState;
use crate::tool::{
    BackgroundTasks, Gates, PermissionGate, PermissionMode, StateView, Tool, TurnTools, view_once,
};
use crate::trace::TraceRecorder;
use crate::usage::Usage;
use crate::util::secret::{redact_text, redacted};
use crate::util::sync::lock;
use crate::util::text::head;
use crate::util::values::drop_value;
use crate::util::{Cancellation, Values};

use super::attempts::Attempts;
use super::budget::Budget;
use super::child_texts::ChildTexts;
use super::parent::Parent;
use super::parent_call::ParentCall;
use super::result_watchers::ResultWatchers;
use super::settings::RunSettings;
use super::shared::RunShared;
use super::state_cell::StateCell;
use super::system_prompt::SystemPromptHandle;

/// The run as hooks see it. It is cheap to clone, `'static`, and usable from any thread. A hook
/// that wraps a call gets it from [`Next::context`](crate::Next::context). Tools receive a
/// [`ToolContext`](crate::ToolContext) instead.
///
/// It has
///
/// * the numbers of the run: [`turn`](Self::turn), [`usage`](Self::usage), [`cost`](Self::cost);
/// * its parts: [`model`](Self::model), [`tools`](Self::tools), [`backend`](Self::backend), the
///   sections of the [system prompt](Self::system);
/// * its state and its values: [`with_state`](Self::with_state), [`value`](Self::value),
///   [`set_value`](Self::set_value);
/// * messages to the reader: [`warn`](Self::warn), [`emit`](Self::emit);
/// * calls of a model outside the conversation: [`call_model`](Self::call_model);
/// * the end of the run: [`stop`](Self::stop), [`cancellation`](Self::cancellation).
///
/// ```
/// use agentcore::hook;
///
/// let frugal = hook::post_tool_use("frugal", |cx, _call, result| async move {
///     if cx.usage().output_tokens > 50_000 {
///         cx.stop("the run has written enough");
///     }
///     Ok(result)
/// });
/// # let _ = frugal;
/// ```
#[derive(Clone)]
pub struct RunContext(pub(super) Arc<Inner>);

pub(super) struct Inner {
    // Fixed for the run.
    pub(super) shared: Arc<RunShared>,
    pub(super) settings: Arc<RunSettings>,
    budget: Budget,
    /// The call of the parent run that this run is a child of.
    pub(super) parent: Option<Arc<Parent>>,
    cancellation: Cancellation,
    pub(super) started: Instant,
    /// The number of messages to which the stored history was cut.
    history_cut: OnceLock<usize>,

    // The progress of the run.
    pub(super) state: StateCell,
    pub(super) turn: AtomicU32,
    /// The number of questions that were asked, for their ids.
    pub(super) question_count: AtomicU32,
    pub(super) attempts: Attempts,
    pub(super) result_watchers: ResultWatchers,
    pub(super) child_texts: ChildTexts,
    pub(super) provider_cache: ProviderCache,

    // Changed by handles, hooks and the loop while the run is in progress.
    pub(super) model: Mutex<Arc<dyn Model>>,
    pub(super) mode: Mutex<PermissionMode>,
    pub(super) gates: Mutex<Gates>,
    pub(super) tools: Mutex<TurnTools>,
    pub(super) system: Mutex<SystemPrompt>,
    /// The reason that a hook gave for stopping the run.
    pub(super) hook_stop: Mutex<Option<Box<str>>>,
    /// The parts of `system/init` that hooks have described.
    pub(super) description: Mutex<Box<Init>>,
}

impl RunContext {
    pub(crate) fn new(
        settings: Arc<RunSettings>,
        shared: Arc<RunShared>,
        parent: Option<Arc<Parent>>,
    ) -> Self {
        let state = AgentState::new(shared.session_id().clone());
        let limits = settings.budget;
        let calls = settings.parallel_model_calls;
        let parent_budget = parent.as_ref().map(|parent| parent.run().budget());
        Self(Arc::new(Inner {
            budget: Budget::new(limits, calls, parent_budget),
            parent,
            cancellation: Cancellation::default(),
            started: Instant::now(),
            history_cut: OnceLock::new(),
            state: StateCell::new(state),
            turn: AtomicU32::new(0),
            question_count: AtomicU32::new(0),
            attempts: Attempts::default(),
            result_watchers: ResultWatchers::default(),
            child_texts: ChildTexts::default(),
            model: Mutex::new(settings.model.clone()),
            mode: Mutex::new(settings.mode),
            gates: Mutex::new(settings.gates.clone()),
            tools: Mutex::default(),
            system: Mutex::default(),
            hook_stop: Mutex::default(),
            description: Mutex::default(),
            provider_cache: ProviderCache::default(),
            shared,
            settings,
        }))
    }

    /// Returns the session's id.
    pub fn session_id(&self) -> &Arc<str> {
        self.0.shared.session_id()
    }

    /// Returns the id of the run.
    pub fn run_id(&self) -> &str {
        self.0.shared.run_id()
    }

    /// Returns the agent's name.
    pub fn agent(&self) -> &str {
        &self.0.settings.agent
    }

    /// Returns the working directory of the agent.
    pub fn cwd(&self) -> Option<&str> {
        self.0.settings.cwd.as_deref()
    }

    /// Returns the number of the current turn: 0 before the first turn, and 1 from its start, its
    /// `modify_request` hooks included.
    pub fn turn(&self) -> u32 {
        self.0.turn.load(Ordering::Relaxed)
    }

    /// Returns the tokens of this run so far, without subagents.
    pub fn usage(&self) -> Usage {
        lock(&self.shared().stats).usage
    }

    /// Returns the cost so far in USD, subagents included; `None` when some price is not known.
    pub fn cost(&self) -> Option<f64> {
        self.budget().spent_usd()
    }

    /// Returns the run's budget.
    pub fn budget(&self) -> &Budget {
        &self.0.budget
    }

    /// Returns the profile of the model in use: limits, prices, abilities.
    pub fn profile(&self) -> ModelProfile {
        *lock(&self.0.model).profile()
    }

    /// Returns the model in use.
    pub fn model(&self) -> Arc<dyn Model> {
        lock(&self.0.model).clone()
    }

    /// Returns the token counter, which estimates counts that the provider has not reported.
    pub fn token_counter(&self) -> &Arc<dyn TokenCounter> {
        &self.0.settings.counter
    }

    /// Returns the tools of this turn.
    pub fn tools(&self) -> TurnTools {
        lock(&self.0.tools).clone()
    }

    /// Returns the tool of this turn with this name.
    pub fn tool(&self, name: &str) -> Option<Arc<dyn Tool>> {
        lock(&self.0.tools).get(name)
    }

    /// Returns the current permission mode.
    pub fn permission_mode(&self) -> PermissionMode {
        *lock(&self.0.mode)
    }

    /// Adds a gate that calls of this run have to pass in addition to the existing ones: a call is
    /// denied if any gate denies it, and needs an answer if any gate asks. Unlike the agent's gate,
    /// it is not passed through [`PermissionGate::check_tools`].
    pub fn add_gate(&self, gate: impl PermissionGate) {
        let mut gates = lock(&self.0.gates);
        *gates = gates.and(Arc::new(gate));
    }

    /// Returns the sections of the system prompt.
    pub fn system(&self) -> SystemPromptHandle {
        SystemPromptHandle::new(self.clone())
    }

    /// Returns the value of type `T` that the caller gave to the run, or that a hook or tool
    /// stored.
    pub fn value<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.values().get()
    }

    /// Stores a value for other hooks and tools of this run. It replaces a value of the same type.
    pub fn set_value<T: Send + Sync + 'static>(&self, value: T) {
        let replaced = self.0.state.with(|state| state.values.insert(value));
        drop_value(replaced);
    }

    /// Returns all values of this run.
    pub fn values(&self) -> Values {
        self.0.state.with(|state| state.values.clone())
    }

    /// Runs `f` on the run's state: `f` can read the history, and change todos, files and values.
    ///
    /// # Panics
    ///
    /// Panics if called inside another `with_state` on the same thread, which would wait for
    /// itself. The same applies to [`value`](Self::value), [`set_value`](Self::set_value) and
    /// [`values`](Self::values) inside `f`: use [`StateView::values`] there.
    pub fn with_state<R>(&self, f: impl FnOnce(StateView<'_>) -> R) -> R {
        view_once(f, |f| self.view_state(true, f))
    }

    /// Adds descriptions to the run's `system/init` message, such as the names of skills and MCP
    /// servers. The loop itself sets the fields that it has the data for, such as the model and the
    /// tools. The message is emitted after the `before_agent` hooks; a later call has no effect.
    ///
    /// ```
    /// use agentcore::testing::ScriptedModel;
    /// use agentcore::{AgentBuilder, AgentState, Hook, Result, RunContext, async_trait};
    /// use agentcore::hook::Phases;
    ///
    /// struct Commands;
    ///
    /// #[async_trait]
    /// impl Hook for Commands {
    ///     fn name(&self) -> &str {
    ///         "commands"
    ///     }
    ///
    ///     fn phases(&self) -> Phases {
    ///         Phases::BEFORE_AGENT
    ///     }
    ///
    ///     async fn before_agent(&self, cx: &RunContext, state: AgentState) -> Result<AgentState> {
    ///         cx.describe(|init| init.slash_commands.push("compact".into()));
    ///         Ok(state)
    ///     }
    /// }
    ///
    /// # async fn example() -> Result<()> {
    /// let agent = AgentBuilder::new(ScriptedModel::new().say("Hi")).hook(Commands).build()?;
    /// let init = agent.run("Hello").next().await.expect("a run begins with `init`");
    /// assert_eq!(serde_json::to_value(init)?["slash_commands"][0], "compact");
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
    /// ```
    ///
    /// # Deadlocks
    ///
    /// Deadlocks if `describe` is called inside `f`.
    pub fn describe(&self, f: impl FnOnce(&mut Init)) {
        f(&mut lock(&self.0.description));
    }

    /// Returns the recorder of spans: the run's, else the agent's, else `None`.
    pub fn trace(&self) -> Option<&Arc<dyn TraceRecorder>> {
        self.0.settings.trace.as_ref()
    }

    /// Sends a system message to the reader. A field of an [unknown](SystemKind::Unknown) kind that
    /// is nested deeper than 100 levels is sent as `null`, and a warning reports it.
    pub fn emit(&self, kind: SystemKind) {
        let message = self.system_message(self.without_deep_fields(kind));
        self.shared().push(message);
    }

    fn without_deep_fields(&self, mut kind: SystemKind) -> SystemKind {
        if let SystemKind::Unknown { fields, .. } = &mut kind {
            let deep_fields = fields.values_mut().filter(|value| is_too_deep(value));
            let count = deep_fields.map(|value| dismantle(value.take())).count();
            if count > 0 {
                self.warn(format!(
                    "the fields of a system message that are nested deeper than {MAX_JSON_DEPTH} \
                     levels were not sent ({count})"
                ));
            }
        }
        kind
    }

    /// Sends a warning to the reader, with secrets redacted, and logs it with `tracing`.
    #[cold]
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

    /// Sends a warning that may be repeated, such as a model's, to the reader: each text once in a
    /// run, and at most 32 texts.
    #[cold]
    pub(crate) fn warn_once(&self, text: &str) {
        const MAX_WARNINGS: usize = 32;
        const MAX_CHARS: usize = 2_000;
        let text = head(&redacted(text), MAX_CHARS).0.to_owned();
        let is_new = {
            let mut warnings = lock(&self.shared().unique_warnings);
            warnings.len() < MAX_WARNINGS && warnings.insert(text.clone())
        };
        if is_new {
            self.warn(text);
        }
    }

    /// Returns a token that is cancelled when the run ends. Pass it to background work.
    pub fn cancellation(&self) -> &Cancellation {
        &self.0.cancellation
    }

    /// Ends the run before its next turn with
    /// [`ExitReason::HookStopped`](super::ExitReason::HookStopped). A model call that is being
    /// prepared or is in progress, and the tool calls of its response, still run: to prevent the
    /// model call, return an error, or from `wrap_model_call` a response of your own. If `stop` is
    /// called again, the first reason stays. A run that waits for background tasks stops waiting.
    pub fn stop(&self, reason: impl Into<String>) {
        lock(&self.0.hook_stop).get_or_insert(reason.into().into());
        self.shared().wake_steered();
    }

    /// Returns the backend that stores files and runs commands, if the agent has one.
    pub fn backend(&self) -> Option<&Arc<dyn Backend>> {
        self.0.settings.backend.as_ref()
    }

    /// Records that the run has cut the stored history to `len` messages.
    pub(crate) fn set_history_cut(&self, len: usize) {
        let _ = self.0.history_cut.set(len);
    }

    /// Returns the number of messages to which the run has cut the stored history, if it has.
    pub(crate) fn history_cut(&self) -> Option<usize> {
        self.0.history_cut.get().copied()
    }

    /// Returns the call that started this run, if it is a child run.
    pub fn parent(&self) -> Option<&ParentCall> {
        self.0.parent.as_deref().map(Parent::call)
    }

    /// Returns the run that the [parent](Self::parent) call belongs to, to look up what hooks left
    /// in its [values](Self::values).
    pub fn parent_run(&self) -> Option<&RunContext> {
        self.0.parent.as_deref().map(Parent::run)
    }

    /// Returns the background tasks of the run, which outlive a turn.
    pub fn tasks(&self) -> &BackgroundTasks {
        &self.0.shared.tasks
    }
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
