//! The state shared by the loop, its reader and its handles.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::Waker;

use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::{Instant, Sleep};

use crate::message::Message;
use crate::model::Model;
use crate::sdk::{Envelope, SdkMessage, SystemEvent, SystemKind};
use crate::session::AgentState;
use crate::tool::{BackgroundTasks, PermissionMode, TaskSink};
use crate::util::ids;
use crate::util::sync::lock;

use super::exit_reason::ExitReason;
use super::poll_clock::PollClock;
use super::queue::MessageQueue;
use super::responder::OpenQuestions;
use super::stats::{ModelStats, RunStats};
use super::steering::{SteerRefusal, SteeredMessage};
use super::stop::{Stop, StopSignal, UnlessStopped};
use super::tree_limits::TreeLimits;

/// The format of the output that the caller requested: a JSON Schema with a name.
#[derive(Clone, Debug)]
pub(crate) struct OutputFormat {
    pub(crate) name: Arc<str>,
    pub(crate) schema: Arc<Value>,
}

/// The requests of the caller and of handles; the loop applies them between turns.
#[derive(Default)]
pub(crate) struct Control {
    /// The output format, read when the run begins.
    pub(crate) output: Option<OutputFormat>,
    /// The messages to the model for its next turn.
    pub(crate) steering: Vec<SteeredMessage>,
    /// The ids of inputs that answered questions, until a write has stored them.
    pub(crate) answer_ids: Vec<Arc<str>>,
    /// True once no turn would read further messages.
    is_closed: bool,
    /// True if a compaction was requested.
    pub(crate) should_compact: bool,
    /// The model that replaces the run's model.
    pub(crate) model: Option<Arc<dyn Model>>,
    /// The permission mode that replaces the run's mode.
    pub(crate) mode: Option<PermissionMode>,
}

/// The end of a run, for its handles.
pub(crate) struct RunEnd {
    pub(super) reason: ExitReason,
    pub(super) state: AgentState,
}

/// The state of one run shared by the loop, its reader and its handles.
pub(crate) struct RunShared {
    session_id: Arc<str>,
    run_id: Arc<str>,
    parent_tool_use_id: Option<Arc<str>>,
    pub(crate) tasks: BackgroundTasks,
    pub(crate) tree: TreeLimits,
    pub(crate) clock: Arc<PollClock>,
    queue: MessageQueue,
    stop_signal: StopSignal,
    pub(crate) control: Mutex<Control>,
    pub(crate) questions: Mutex<Weak<OpenQuestions>>,
    pub(crate) stats: Mutex<RunStats>,
    /// The usage of the child runs, by model.
    pub(crate) child_models: Mutex<BTreeMap<Arc<str>, ModelStats>>,
    /// The warnings that were emitted once and are not repeated.
    pub(crate) unique_warnings: Mutex<BTreeSet<String>>,
    pub(super) end: Mutex<Option<Box<RunEnd>>>,
    has_ended: AtomicBool,
    end_notify: Notify,
    /// Notified when a message to the model arrives, and to end the wait for one.
    steer_notify: Notify,
}

impl RunShared {
    pub(crate) fn new(
        session_id: Arc<str>,
        parent_tool_use_id: Option<Arc<str>>,
        tasks: BackgroundTasks,
        tree: TreeLimits,
    ) -> Self {
        Self {
            session_id,
            run_id: ids::id(),
            parent_tool_use_id,
            tasks,
            tree,
            clock: Arc::default(),
            queue: MessageQueue::default(),
            stop_signal: StopSignal::default(),
            control: Mutex::default(),
            questions: Mutex::default(),
            stats: Mutex::default(),
            child_models: Mutex::default(),
            unique_warnings: Mutex::default(),
            end: Mutex::default(),
            has_ended: AtomicBool::new(false),
            end_notify: Notify::new(),
            steer_notify: Notify::new(),
        }
    }

    /// Connects the background tasks with the reader.
    pub(crate) fn connect_tasks(self: &Arc<Self>) {
        let own: Weak<Self> = Arc::downgrade(self);
        self.tasks.connect(own);
    }

    pub(crate) fn session_id(&self) -> &Arc<str> {
        &self.session_id
    }

    pub(crate) fn run_id(&self) -> &Arc<str> {
        &self.run_id
    }

    /// Returns the envelope of a message of this run; its number is given when it is pushed.
    #[inline(always)] // A call would copy the envelope of each piece once more.
    pub(crate) fn envelope(&self) -> Envelope {
        let mut envelope = Envelope::new(self.session_id.clone(), 0);
        envelope.parent_tool_use_id = self.parent_tool_use_id.clone();
        envelope
    }

    /// Puts `init` before all messages emitted so far. Does nothing the second time.
    pub(crate) fn push_init(&self, init: impl FnOnce(Envelope) -> SdkMessage) {
        self.queue.push_init(|| init(self.envelope()));
    }

    /// Queues a message for the reader.
    pub(crate) fn push(&self, message: SdkMessage) {
        self.queue.push(message);
    }

    /// Begins a read, which ends with [`pop`](Self::pop). Returns `true` if a message waits.
    pub(super) fn begin_read(&self) -> bool {
        self.queue.begin_read()
    }

    /// Removes and returns the next message. Without one, `reader` is woken by the next.
    pub(super) fn pop(&self, reader: &Waker) -> Option<SdkMessage> {
        self.queue.pop(reader)
    }

    /// Completes when the reader has taken all messages that wait now.
    pub(crate) fn drained(&self) -> impl Future<Output = ()> {
        self.queue.drained()
    }

    /// Returns `true` if a stream should let the reader catch up before it continues.
    pub(crate) fn is_backed_up(&self) -> bool {
        self.queue.is_backed_up()
    }

    /// Queues the report of a background task for the model's next turn, even beyond the limits of
    /// [`steer`](Self::steer). Does nothing if no turn follows.
    pub(crate) fn announce(&self, message: Message) {
        let mut control = lock(&self.control);
        if !control.is_closed {
            control.steering.push(message.into());
            self.steer_notify.notify_one();
        }
    }

    /// Queues a message to the model for its next turn.
    ///
    /// # Errors
    ///
    /// Returns [`SteerRefusal::Ended`] if no turn follows, and [`SteerRefusal::Full`] if the
    /// messages that wait leave no room.
    pub(crate) fn steer(&self, message: SteeredMessage) -> Result<(), SteerRefusal> {
        let mut control = lock(&self.control);
        if control.is_closed {
            return Err(SteerRefusal::Ended);
        }
        if !message.fits(&control.steering) {
            return Err(SteerRefusal::Full);
        }
        control.steering.push(message);
        self.steer_notify.notify_one();
        Ok(())
    }

    /// Completes when a message to the model has arrived since the last call, even if a turn has
    /// read it, or after [`wake_steered`](Self::wake_steered).
    pub(crate) async fn steered(&self) {
        self.steer_notify.notified().await;
    }

    /// Completes [`steered`](Self::steered) without a message.
    pub(crate) fn wake_steered(&self) {
        self.steer_notify.notify_one();
    }

    /// Accepts no more messages to the model, unless some are unread. Returns `false` if some are.
    pub(crate) fn try_close_steering(&self) -> bool {
        let mut control = lock(&self.control);
        control.is_closed = control.steering.is_empty();
        control.is_closed
    }

    /// Accepts no more messages to the model, even if some are unread.
    pub(crate) fn close_steering(&self) {
        lock(&self.control).is_closed = true;
    }

    /// Stops the run at `deadline`.
    pub(crate) fn stop_at(&self, deadline: Instant) {
        self.stop_signal.request_at(deadline);
    }

    pub(crate) fn request_stop(&self, stop: Stop) {
        self.stop_signal.request(stop);
    }

    pub(crate) fn stop(&self) -> Stop {
        self.stop_signal.get()
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop() != Stop::None
    }

    /// Returns `true` if the loop has to be polled to stop the run.
    pub(super) fn is_stop_due(&self) -> bool {
        self.stop_signal.is_due()
    }

    /// Awaits `future`. Returns `None` if the run is stopped first; the future is then dropped. The
    /// loop awaits in one place at a time, so one waker is enough.
    pub(crate) fn unless_stopped<F: Future>(&self, future: F) -> UnlessStopped<'_, F> {
        self.stop_signal.unless_stopped(future)
    }

    /// Awaits `future`, a step of closing the run, even after a stop. Returns `None` if the timer
    /// `grace` ends first. It starts when the run is stopped, and all these steps share it.
    pub(crate) fn within_grace<F: Future>(
        &self,
        grace: &mut Option<Pin<Box<Sleep>>>,
        future: F,
    ) -> impl Future<Output = Option<F::Output>> {
        self.stop_signal.within_grace(grace, future)
    }

    /// Records the end of the run, and wakes the tasks that wait for the end.
    pub(crate) fn finish(&self, reason: ExitReason, state: AgentState) {
        *lock(&self.end) = Some(Box::new(RunEnd { reason, state }));
        self.mark_ended();
    }

    /// Closes the queue and wakes the tasks that wait for the end, also if the run is dropped
    /// before its end.
    pub(crate) fn mark_ended(&self) {
        self.queue.close();
        self.close_steering();
        self.has_ended.store(true, Ordering::Release);
        self.end_notify.notify_waiters();
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    /// Completes when the run has ended or was dropped.
    pub(crate) async fn ended(&self) {
        // Registered before the check, so that an end in between is not missed.
        let mut notification = std::pin::pin!(self.end_notify.notified());
        notification.as_mut().enable();
        if !self.is_ended() {
            notification.await;
        }
    }
}

impl TaskSink for RunShared {
    fn emit(&self, kind: SystemKind) {
        let event = SystemEvent::new(self.envelope(), kind);
        self.push(SdkMessage::System(event));
    }

    fn forward(&self, message: SdkMessage) {
        self.push(message);
    }

    fn drained(&self) -> BoxFuture<'_, ()> {
        RunShared::drained(self).boxed()
    }
}
