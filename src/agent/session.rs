//! The handle of an agent's session, which sets up its next run.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tokio_stream::StreamExt;

use crate::engine::{
    Decisions, RunOptions, RunRequest, RunningCall, WhenLeased, compact_session, start,
};
use crate::error::Result;
use crate::message::Messages;
use crate::model::Compaction;
use crate::run::{Run, RunOutput};
use crate::session::{AgentState, PendingCall};
use crate::tool::{TaskContext, TaskSpec, ToolContext};
use crate::trace::{Redacting, TraceRecorder};

use super::agent::Agent;

// The interval at which a silent child restarts the timeout of its parent's call is half of that
// timeout, within these limits. A timer has a resolution of a millisecond.
const MIN_KEEP_ALIVE: Duration = Duration::from_millis(1);
const MAX_KEEP_ALIVE: Duration = Duration::from_secs(5);

/// A session of an agent: a conversation that lasts longer than one run.
///
/// This is a handle, and cheap to clone. [`run`](Self::run) takes it by value, because its values
/// and its input id are for one run. For another run, clone the handle before, or get a new one
/// from [`Agent::session`] with the same id.
///
/// ```
/// use agentcore::testing::ScriptedModel;
/// use agentcore::AgentBuilder;
///
/// # async fn example() -> Result<(), agentcore::Error> {
/// let agent = AgentBuilder::new(ScriptedModel::new().say("Hello!").say("Still here.")).build()?;
/// let session = agent.session("th_1");
/// session.clone().run("Hi").await?;
/// let output = session.run("Are you there?").await?;
/// assert_eq!(output.messages.len(), 4);
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone)]
#[must_use = "a session does nothing until it is run"]
pub struct Session {
    pub(super) agent: Agent,
    pub(super) id: Arc<str>,
    /// The options of the next run.
    pub(super) options: RunOptions,
}

impl Session {
    pub(super) fn new(agent: Agent, id: Arc<str>) -> Self {
        Self {
            agent,
            id,
            options: RunOptions::default(),
        }
    }

    /// Makes the next run store the session in the agent's default store only if it leaves pending
    /// calls. The id must be new.
    pub(super) fn temporary(mut self) -> Self {
        self.options.is_temporary = true;
        self
    }

    /// Sets the system messages of an earlier input that the next run continues to answer.
    pub(crate) fn input_prompt(mut self, text: Option<Arc<str>>) -> Self {
        self.options.input_prompt = text;
        self
    }

    /// Returns the same session, run by another agent.
    pub(crate) fn of_agent(mut self, agent: Agent) -> Self {
        self.agent = agent;
        self
    }

    /// Returns the session's id.
    pub fn id(&self) -> &Arc<str> {
        &self.id
    }

    /// Adds a value for the hooks and tools of the next run, such as the tenant of a request. They
    /// read it by its type, with [`RunContext::value`](crate::RunContext::value) and
    /// [`ToolContext::value`]. It replaces an earlier value of this type.
    pub fn with<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.options.values.insert(value);
        self
    }

    /// Sets the id of the next input, so that the input is stored once even if it is sent twice. A
    /// session stores at least the newest 1,000 ids.
    ///
    /// An input that is sent a second time is not processed again:
    ///
    /// * If the model has responded to it, the run returns that response without a model call, and
    ///   emits it again with the same `uuid` and without usage. If the first run failed and the
    ///   model has responded to a later input since, the later response is returned.
    /// * If there is no response since, the run continues from where the earlier one stopped. While
    ///   calls wait for approval, it ends with
    ///   [`AwaitingApproval`](crate::ExitReason::AwaitingApproval) again, and they stay pending.
    /// * If [`rewind_to`](Self::rewind_to) has removed the input, or a hook has changed the history
    ///   at its position, the run fails with [`Conflict`](crate::ErrorKind::Conflict).
    ///
    /// Some inputs are removed from the history and may be sent again:
    ///
    /// * an input that the model refused, unless
    ///   [refused turns are kept](crate::AgentBuilder::keep_refused);
    /// * an input without a response that was too long, or whose media made the request invalid.
    pub fn input_id(mut self, id: impl Into<Arc<str>>) -> Self {
        self.options.input_id = Some(id.into());
        self
    }

    /// Sets the id of the session's user and replaces the previous id. In a session of several
    /// users, such as a group chat, it names the user of the next run. For a session that belongs
    /// to one user, see [`owned_by`](Self::owned_by).
    pub fn user_id(mut self, id: impl Into<Arc<str>>) -> Self {
        self.options.user_id = Some(id.into());
        self
    }

    /// Sets the recorder of the next run's spans, instead of
    /// [`AgentBuilder::trace_recorder`](crate::AgentBuilder::trace_recorder). Subagents whose
    /// agents are built with [`AgentBuilder::of_run`](crate::AgentBuilder::of_run) in that run
    /// record there as well.
    pub fn trace_recorder(mut self, recorder: impl TraceRecorder) -> Self {
        self.options.trace = Some(Arc::new(Redacting(recorder)));
        self
    }

    /// Sets the id of the session's only user. For this handle, the session of another user does
    /// not exist: its runs and changes fail with
    /// [`SessionNotFound`](crate::ErrorKind::SessionNotFound), and [`state`](Self::state) is
    /// `None`. A session without a user becomes one of this user with the next run.
    pub fn owned_by(mut self, user_id: impl Into<Arc<str>>) -> Self {
        let user_id = user_id.into();
        self.options.owner = Some(user_id.clone());
        self.user_id(user_id)
    }

    /// Makes the next run continue from the first `messages` messages of the history, as if the
    /// later ones had never been sent. Use it when a user edits an earlier input, or asks again.
    ///
    /// The cut is stored when the run begins. A cut between a call and its results moves after the
    /// results; a summary that covers more than the remaining messages is dropped, and so are
    /// questions about removed calls. The task list and the files stay as they are. To keep both
    /// branches, or to get the task list of that moment, see [`fork_at`](Session::fork_at), and for
    /// the files of a workspace [`FileCheckpoints::rewind`](crate::hooks::FileCheckpoints::rewind).
    ///
    /// If the history has fewer messages, or together with [`resume`](Session::resume), the run
    /// fails with [`InvalidRequest`](crate::ErrorKind::InvalidRequest) and nothing is cut. Nothing
    /// is cut either when the run's [`input_id`](Session::input_id) was sent before.
    ///
    /// ```
    /// use agentcore::AgentBuilder;
    /// use agentcore::testing::ScriptedModel;
    ///
    /// # async fn example() -> Result<(), agentcore::Error> {
    /// let model = ScriptedModel::new().say("Hello Ann.").say("Hello Bob.");
    /// let session = AgentBuilder::new(model).build()?.session("th_1");
    /// session.clone().run("I am Ann").await?;
    /// let output = session.rewind_to(0).run("I am Bob").await?;
    /// assert_eq!(output.messages.len(), 2);
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
    /// ```
    pub fn rewind_to(mut self, messages: usize) -> Self {
        self.options.rewind_to = Some(messages);
        self
    }

    /// Makes the next run continue from the first `messages` messages, as
    /// [`rewind_to`](Self::rewind_to) does, with an input that gets the id `id` even if an earlier
    /// input has it.
    #[cfg(feature = "server")]
    pub(crate) fn replace_input(mut self, id: Option<Arc<str>>, messages: usize) -> Self {
        self.options.input_id = id;
        self.options.is_input_replaced = true;
        self.rewind_to(messages)
    }

    /// Makes the next run fail with [`SessionNotFound`](crate::ErrorKind::SessionNotFound) if the
    /// session does not exist, instead of creating it. A session that a store in memory has
    /// dropped does not exist ([`ThreadStore`](crate::ThreadStore)).
    pub fn must_exist(mut self) -> Self {
        self.options.must_exist = true;
        self
    }

    /// Makes the next run a child of the run that `cx` belongs to: its messages have the call's id
    /// as their `parent_tool_use_id`, it spends from the parent's budget, counts toward the
    /// parent's limits, and ends with the parent. A [detached](ToolContext::detached) context
    /// changes nothing.
    ///
    /// A child may do no more than its parent: its calls pass the parent's gates in the parent's
    /// mode, and its own gates in its own mode. The gates combine as
    /// [`RunContext::add_gate`](crate::RunContext::add_gate) describes. A question of the parent's
    /// gates is asked once, through the child's confirmer or responder. A call that the parent's
    /// gates allow still needs the permission of the child's. The parent's hooks do not run for the
    /// child's calls.
    pub fn child_of(mut self, cx: &ToolContext) -> Self {
        self.options.parent = RunningCall::of(cx).map(|call| Arc::new(call.to_parent()));
        self
    }

    /// Lets the next run continue after the end of its parent.
    #[cfg(feature = "gateway")]
    pub(crate) fn outliving_parent(mut self) -> Self {
        self.options.outlives_parent = true;
        self
    }

    /// Continues the conversation. Nothing happens until the run is polled or awaited.
    ///
    /// An empty input, [`Messages::new`], lets the model continue with the history as it is.
    /// Pending calls receive the result that they were not approved: the conversation continues
    /// without them.
    ///
    /// System messages at the beginning of the input are no part of the history. They are a section
    /// of the system prompt until the input is answered: in this run, and in the runs that
    /// [resume](Self::resume) its pending calls.
    ///
    /// A run that is dropped, or whose process ends, leaves a session that can be continued: every
    /// input, response and tool result that was emitted is stored.
    ///
    /// The run fails with [`SessionBusy`](crate::ErrorKind::SessionBusy) while another run has
    /// leased the session; for other errors see [`Run::finish`].
    pub fn run(self, input: impl Into<Messages>) -> Run {
        self.start_run(input.into(), None)
    }

    /// Continues after [`ExitReason::AwaitingApproval`](crate::ExitReason::AwaitingApproval): the
    /// approved calls run, once, and the denied ones receive their denial as the result.
    ///
    /// An approved call is checked once more: by its schema, the permission mode and the gates. A
    /// call that they refuse by now does not run, and the refusal is its result. Questions of gates
    /// count as answered. Hooks of `pre_tool_use` are asked again only about edited arguments.
    ///
    /// A run that a hook stopped ends with `HookStopped` and may leave pending calls, too. They are
    /// decided in the same way.
    ///
    /// Calls that no decision names stay pending, and the run ends with `AwaitingApproval` again.
    /// If the run is stopped, the calls that have no result by then stay pending.
    ///
    /// The run fails, and no pending call is executed, with an error of the kind
    ///
    /// * [`Conflict`](crate::ErrorKind::Conflict) if a decision is about a call that is not
    ///   [pending](Self::pending) or has another decision, if it is about other arguments, if it is
    ///   not a denial and the question has [expired](crate::AgentBuilder::approval_expiry), or if
    ///   it allows a call of a tool that the agent does not have;
    /// * [`SessionNotFound`](crate::ErrorKind::SessionNotFound) if the session does not exist.
    ///
    /// ```
    /// use agentcore::permission::PermissionRules;
    /// use agentcore::testing::ScriptedModel;
    /// use agentcore::{Agent, Decision, ExitReason, FuncTool, OnUnanswered};
    /// use serde_json::json;
    ///
    /// # async fn example() -> agentcore::Result<()> {
    /// let pay = FuncTool::new("pay", "Pays", json!({"type": "object"}), |_, _| async { "paid" });
    /// let model = ScriptedModel::new().call("pay", json!({})).say("It is paid.");
    /// let agent = Agent::builder(model)
    ///     .tool(pay)
    ///     .permissions(PermissionRules::new().ask("pay")?)
    ///     .unanswered(OnUnanswered::Park)
    ///     .build()?;
    /// let session = agent.session("th_1");
    /// let output = session.clone().run("Pay the invoice").await?;
    /// assert_eq!(output.end, ExitReason::AwaitingApproval);
    ///
    /// // Later, when a person has reviewed the call.
    /// let pending = session.pending().await?;
    /// let output = session.resume(Decision::allow(&pending[0])).await?;
    /// assert_eq!(output.text, "It is paid.");
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
    /// ```
    pub fn resume(self, decisions: impl Into<Decisions>) -> Run {
        self.start_run(Messages::new(), Some(decisions.into()))
    }

    /// Runs the session to its end as a child of the run of `cx`, and forwards every message to the
    /// reader of that run. There, a `task_started` with the id of the child's session replaces the
    /// child's `init`, and a `task_notification` replaces its `result`.
    ///
    /// The call does not time out while the child runs; the limits of the child's agent apply.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`Run::finish`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the child run, as dropping a [`Run`] does. If it is dropped
    /// because the run of `cx` is stopped, the result of the call has the last text and the calls
    /// of the child.
    pub async fn run_as_child(
        self,
        cx: &ToolContext,
        input: impl Into<Messages>,
    ) -> Result<RunOutput> {
        let name = self.agent.name();
        let task = TaskSpec::new(name).with_subagent_type(name);
        self.run_as_described_child(cx, input, task).await
    }

    /// Like [`run_as_child`](Self::run_as_child), with `task` as the description of the child.
    pub(crate) async fn run_as_described_child(
        self,
        cx: &ToolContext,
        input: impl Into<Messages>,
        task: TaskSpec,
    ) -> Result<RunOutput> {
        let mut period = MAX_KEEP_ALIVE;
        if let Some(call) = RunningCall::of(cx) {
            call.forwarded().describe(self.id.clone(), task);
            period = (call.timeout() / 2).clamp(MIN_KEEP_ALIVE, MAX_KEEP_ALIVE);
        }
        let mut run = self.child_of(cx).run(input);
        let mut timer = interval_at(Instant::now() + period, period);
        timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut messages = pin!((&mut run).timeout_repeating(timer));
        while let Some(message) = messages.next().await {
            match message {
                Ok(message) => cx.forward(message).await,
                Err(_) => cx.keep_alive(),
            }
        }
        run.into_output()
    }

    /// Runs the session to its end as a [child](Self::child_of) of the run of `cx`, in the
    /// background task of `task`. The call may return before the child ends, and its time limit
    /// does not apply to the child.
    ///
    /// Every message is [forwarded](TaskContext::forward), with the task's own messages instead of
    /// `init` and `result`. Messages that are [sent](crate::tool::TaskHandle::send) to the task
    /// steer the child; a message that arrives after the child's last turn stays unread.
    ///
    /// ```
    /// use agentcore::model::ModelEvent;
    /// use agentcore::testing::{FunctionModel, ScriptedModel};
    /// use agentcore::tool::{TaskOutcome, TaskSpec};
    /// use agentcore::{Agent, FuncTool, ToolCall, ToolContext, UnfinishedTasks};
    /// use serde_json::json;
    ///
    /// # async fn example() -> Result<(), agentcore::Error> {
    /// let scout = Agent::builder(ScriptedModel::new().say("All quiet.")).build()?;
    /// let start = FuncTool::new("scout", "Starts a scout", json!({"type": "object"}), {
    ///     move |cx: ToolContext, _args| {
    ///         let session = scout.new_session();
    ///         let spec = TaskSpec::new("scout").with_tool_use_id(cx.call_id());
    ///         let task = cx.tasks().begin(spec, |task| async move {
    ///             match session.run_as_task(&cx, &task, "Look around").await {
    ///                 Ok(output) => TaskOutcome::Completed(output.text),
    ///                 Err(error) => TaskOutcome::Failed(error.to_string()),
    ///             }
    ///         });
    ///         let text = format!("The scout is {}.", task.id());
    ///         async move { text }
    ///     }
    /// });
    /// // The model is called again if the task ends after its response.
    /// let model = FunctionModel::new(|request| {
    ///     vec![Ok(match request.messages.len() {
    ///         1 => ModelEvent::ToolCall(ToolCall::new("call_1", "scout", json!({}))),
    ///         _ => ModelEvent::Text("It is quiet.".to_owned()),
    ///     })]
    /// });
    /// let lead = Agent::builder(model).tool(start).unfinished_tasks(UnfinishedTasks::Await);
    /// assert_eq!(lead.build()?.run("What is out there?").await?.text, "It is quiet.");
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`Run::finish`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future, as stopping the task does, cancels the child run.
    pub async fn run_as_task(
        self,
        cx: &ToolContext,
        task: &TaskContext,
        input: impl Into<Messages>,
    ) -> Result<RunOutput> {
        let mut run = self.child_of(cx).run(input);
        let handle = run.handle();
        let mut is_steerable = true;
        loop {
            tokio::select! {
                biased;
                message = run.next() => match message {
                    Some(message) => {
                        // A run without room for a message has room when its next turn begins. Any
                        // message that it emits may be the first of that turn.
                        is_steerable = true;
                        task.forward(message).await;
                    }
                    None => return run.into_output(),
                },
                message = task.next_message(), if is_steerable => {
                    is_steerable = handle.steer(message.clone());
                    if !is_steerable {
                        task.return_message(message);
                    }
                }
            }
        }
    }

    /// Loads the stored state. Returns `None` if the session does not exist.
    ///
    /// # Errors
    ///
    /// Returns the store's error.
    pub async fn state(&self) -> Result<Option<AgentState>> {
        self.stored().state().await
    }

    /// Loads the pending calls of this session, which wait for approval, oldest first.
    ///
    /// A fork has no pending calls: they are decided in the session that it was copied from.
    ///
    /// # Errors
    ///
    /// Returns the store's error.
    pub async fn pending(&self) -> Result<Vec<PendingCall>> {
        let mut pending = self
            .state()
            .await?
            .map_or(Vec::new(), |state| state.pending);
        pending.retain(|call| call.session_id == self.id);
        for call in &mut pending {
            // System messages are not for the people who decide about the call. A resumed run reads
            // them from the stored call.
            call.input_prompt = None;
        }
        Ok(pending)
    }

    /// Summarizes the beginning of the history with the agent's compactor, outside any run. Returns
    /// `None` if there is nothing to shorten. The stored messages stay as they are.
    ///
    /// The session is not leased while the model is called, only while the summary is stored. Each
    /// call of this function has its own limits on money, tokens and time, like a run. Warnings,
    /// for example of the model, are logged with `tracing`.
    ///
    /// ```
    /// use agentcore::AgentBuilder;
    /// use agentcore::hooks::SummarizationHook;
    /// use agentcore::testing::ScriptedModel;
    ///
    /// # async fn example() -> agentcore::Result<()> {
    /// let summarizer = ScriptedModel::new().say("<summary>They greeted each other.</summary>");
    /// let model = ScriptedModel::new().say("Hello Ann.").say("Sunny.");
    /// let agent = AgentBuilder::new(model)
    ///     .hook(SummarizationHook::new().with_model(summarizer).with_keep_last(2))
    ///     .build()?;
    /// let session = agent.session("th_1");
    /// session.clone().run("I am Ann").await?;
    /// session.clone().run("And the weather?").await?;
    /// let compaction = session.compact().await?.expect("two messages to summarize");
    /// assert_eq!(compaction.through_message, 2);
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the compactor's error, or an error of the kind
    ///
    /// * [`Config`](crate::ErrorKind::Config) if the agent has no compactor;
    /// * [`SessionNotFound`](crate::ErrorKind::SessionNotFound) if the session does not exist;
    /// * [`SessionBusy`](crate::ErrorKind::SessionBusy) if a run has leased the session at the
    ///   beginning, or when the summary is stored;
    /// * [`Conflict`](crate::ErrorKind::Conflict) if the messages that the summary covers have
    ///   changed in the meantime.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the session without the new summary or with it.
    pub async fn compact(&self) -> Result<Option<Compaction>> {
        self.stored().check_owner().await?;
        compact_session(self.agent.config(), &self.id, WhenLeased::Fail).await
    }

    /// Like [`compact`](Self::compact), but waits until no run holds the session before it stores
    /// the summary.
    #[cfg(feature = "gateway")]
    pub(crate) async fn compact_when_free(&self) -> Result<Option<Compaction>> {
        compact_session(self.agent.config(), &self.id, WhenLeased::Wait).await
    }

    #[cfg(feature = "gateway")]
    pub(crate) fn agent(&self) -> &Agent {
        &self.agent
    }

    fn start_run(self, input: Messages, decisions: Option<Decisions>) -> Run {
        start(RunRequest {
            config: self.agent.config().clone(),
            session_id: self.id,
            input,
            decisions,
            options: self.options,
        })
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("id", &self.id)
            .field("agent", &self.agent.name())
            .finish_non_exhaustive()
    }
}
