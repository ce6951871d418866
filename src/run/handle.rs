//! The handle of a run.

use std::fmt;
use std::sync::Arc;

use crate::message::Message;
use crate::model::{self, Model};
use crate::session::AgentState;
use crate::tool::PermissionMode;
use crate::usage::Usage;
use crate::util::sync::lock;

use super::exit_reason::ExitReason;
use super::responder::Responder;
use super::shared::RunShared;
use super::stats::RunStats;
use super::steering::{SteerRefusal, SteeredMessage};
use super::stop::Stop;

/// A handle that controls a run from any thread. It does not keep the run or its questions alive.
///
/// ```
/// use agentcore::testing::ScriptedModel;
/// use agentcore::{AgentBuilder, ExitReason};
///
/// # async fn example() -> Result<(), agentcore::Error> {
/// let agent = AgentBuilder::new(ScriptedModel::new()).build()?;
/// let run = agent.run("Take your time.");
/// let handle = run.handle();
/// handle.interrupt();
/// assert_eq!(run.await?.end, ExitReason::Interrupted);
/// assert_eq!(handle.exit_reason(), Some(ExitReason::Interrupted));
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone)]
pub struct RunHandle(Arc<RunShared>);

impl RunHandle {
    pub(crate) fn new(shared: Arc<RunShared>) -> Self {
        Self(shared)
    }

    /// Stops the run at once: the model's stream and the running tools are dropped, calls without a
    /// result get an error result, and the run ends with [`ExitReason::Interrupted`]. While the run
    /// is being closed, the reason stays: the call only limits the remaining time of the
    /// `after_agent` hooks, and that of each write to the store, to 10 seconds. Does nothing after
    /// the run has ended.
    pub fn interrupt(&self) {
        self.0.request_stop(Stop::Interrupt);
    }

    /// Like [`interrupt`](Self::interrupt), with [`ExitReason::Aborted`], for a program that
    /// distinguishes its own stops from those of a user. If both are requested before the loop
    /// ends, the reason is `Aborted`.
    pub fn abort(&self) {
        self.0.request_stop(Stop::Abort);
    }

    /// Sends a message to the model during the run. It is added to the history after the tool calls
    /// in progress, before the next model call. Only user and system messages with content are
    /// added; others cause a warning, although this returns `true` for them.
    ///
    /// Returns `false` if the message will not be read: the run has ended, or 256 messages or
    /// 24 MiB of them wait for the next model call. A message larger than that is accepted if no
    /// other waits.
    ///
    /// A message that would take the history over its
    /// [limit](crate::AgentBuilder::max_history_bytes), although a compactor was asked to make
    /// room, is not added: a warning reports it, and the run continues. If the model then has
    /// nothing to answer, the run ends with
    /// [`RequestTooLarge`](crate::ErrorKind::RequestTooLarge).
    pub fn steer(&self, message: impl Into<Message>) -> bool {
        self.try_steer(None, message.into()).is_ok()
    }

    /// Like [`steer`](Self::steer), for a message that may be sent more than once. A message whose
    /// `id` the session already has, as a message or as the [input](crate::Session::input_id) of a
    /// run, is not added again. Returns `false` if the message will not be read, and `true`
    /// otherwise, even for a message that was sent before.
    ///
    /// The message is an input of the session: a later run with the same `input_id` returns the
    /// response that followed it. If there was none, it continues the conversation. A message that
    /// was not added, because it did not fit, may be sent again with the same `id`.
    ///
    /// ```
    /// use agentcore::AgentBuilder;
    /// use agentcore::testing::ScriptedModel;
    ///
    /// # async fn example() -> Result<(), agentcore::Error> {
    /// let agent = AgentBuilder::new(ScriptedModel::new().say("Three.")).build()?;
    /// let run = agent.session("th_1").run("Count to two.");
    /// let handle = run.handle();
    /// for _ in 0..2 {
    ///     assert!(handle.steer_input("msg_7", "No, to three."));
    /// }
    /// let output = run.await?;
    /// assert_eq!(output.messages.user_messages().count(), 2);
    /// let again = agent.session("th_1").input_id("msg_7").run("No, to three.").await?;
    /// assert_eq!((again.text.as_str(), again.turns), ("Three.", 0));
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
    /// ```
    pub fn steer_input(&self, id: impl Into<Arc<str>>, message: impl Into<Message>) -> bool {
        self.try_steer(Some(id.into()), message.into()).is_ok()
    }

    /// Like [`steer`](Self::steer) and [`steer_input`](Self::steer_input), with the reason for a
    /// refusal.
    pub(crate) fn try_steer(
        &self,
        id: Option<Arc<str>>,
        message: Message,
    ) -> Result<(), SteerRefusal> {
        self.0.steer(SteeredMessage::new(id, message))
    }

    /// Adds an id to the known inputs of the session, with the next records that are stored.
    /// Returns `false` when the run has ended.
    #[cfg(feature = "gateway")]
    pub(crate) fn add_input_id(&self, id: Arc<str>) -> bool {
        let is_in_progress = self.exit_reason().is_none();
        if is_in_progress {
            lock(&self.0.control).answer_ids.push(id);
        }
        is_in_progress
    }

    /// Requests a compaction before the next model call. If the agent has no compactor, the run
    /// emits a warning instead.
    pub fn compact(&self) {
        lock(&self.0.control).should_compact = true;
    }

    /// Sets the model from the next turn on, until the run ends.
    pub fn set_model(&self, model: impl Model) {
        lock(&self.0.control).model = Some(model::erase(model));
    }

    /// Sets the permission mode from the next tool call on, until the run ends.
    pub fn set_permission_mode(&self, mode: PermissionMode) {
        lock(&self.0.control).mode = Some(mode);
    }

    /// Returns a [`Responder`] to answer the run's questions. The run waits for answers until the
    /// responder is dropped.
    pub fn responder(&self) -> Responder {
        Responder::of(&self.0)
    }

    /// Returns the session's id.
    pub fn session_id(&self) -> &Arc<str> {
        self.0.session_id()
    }

    /// Returns the run's id, which is also in its spans.
    pub fn run_id(&self) -> &Arc<str> {
        self.0.run_id()
    }

    /// Waits until the run has ended or was dropped. Returns the exit reason, or `None` if it was
    /// dropped. The run advances only while it is polled, so poll it elsewhere in the meantime.
    ///
    /// # Cancel safety
    ///
    /// The future may be dropped; the run is not affected.
    pub async fn wait(&self) -> Option<ExitReason> {
        self.0.ended().await;
        self.exit_reason()
    }

    /// Returns the reason the run ended; `None` while it is in progress, and when it was dropped.
    pub fn exit_reason(&self) -> Option<ExitReason> {
        lock(&self.0.end).as_ref().map(|end| end.reason)
    }

    /// Returns the final state; `None` if the run is in progress or was dropped.
    pub fn state(&self) -> Option<AgentState> {
        lock(&self.0.end).as_ref().map(|end| end.state.clone())
    }

    /// Returns the usage of the run so far.
    pub fn stats(&self) -> RunStats {
        lock(&self.0.stats).clone()
    }

    /// Returns the tokens of this run's own model calls so far.
    pub fn total_usage(&self) -> Usage {
        lock(&self.0.stats).usage
    }

    /// Returns the cost of this run's own model calls so far, in USD. Unlike
    /// [`RunOutput::cost`](super::RunOutput::cost), it does not include subagents. `None` when some
    /// price is not known.
    pub fn total_cost_usd(&self) -> Option<f64> {
        let stats = lock(&self.0.stats);
        stats.by_model.values().map(|model| model.cost_usd).sum()
    }

    /// Returns the number of turns so far, counted as
    /// [`RunOutput::turns`](super::RunOutput::turns).
    pub fn turn_count(&self) -> u32 {
        lock(&self.0.stats).turns
    }
}

impl fmt::Debug for RunHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunHandle")
            .field("session_id", self.session_id())
            .field("ended", &self.0.is_ended())
            .finish_non_exhaustive()
    }
}
