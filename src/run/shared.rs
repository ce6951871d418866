//! The state shared by the loop, its reader and its handles.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures::task::AtomicWaker;
use pin_project_lite::pin_project;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use crate::message::Message;
use crate::model::Model;
use crate::sdk::{Envelope, SdkMessage};
use crate::session::AgentState;
use crate::tool::{BackgroundTasks, LoadTurns, PermissionMode};
use crate::util::sync::lock;

use super::exit::ExitReason;
use super::poll_clock::PollClock;
use super::responder::Desk;
use super::stats::RunStats;

/// The number of messages that may wait for the reader before a model's stream waits for it.
const BACKLOG: usize = 64;

/// The time that the hooks at a run's end have once the run is stopped, if they have no limit of
/// their own, and that the session store has for one write.
pub(crate) const CLOSING_TIME: Duration = Duration::from_secs(10);

/// The reason for stopping the loop wherever it is, strongest last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Stop {
    None = 0,
    /// The time of the run's budget is up.
    Deadline = 1,
    Interrupt = 2,
    Abort = 3,
}

impl Stop {
    /// The exit reason of a run that was stopped so.
    pub(crate) fn exit_reason(self) -> ExitReason {
        match self {
            Self::Abort => ExitReason::Aborted,
            Self::Deadline => ExitReason::MaxDuration,
            _ => ExitReason::Interrupted,
        }
    }
}

/// The form an answer must have.
#[derive(Clone, Debug)]
pub(crate) struct OutputFormat {
    pub(crate) name: Arc<str>,
    pub(crate) schema: Arc<Value>,
}

/// The requests of the caller and of handles; the loop takes them up between two turns.
#[derive(Default)]
pub(crate) struct Control {
    /// The output format, read when the run begins.
    pub(crate) output: Option<OutputFormat>,
    pub(crate) steering: Vec<Message>,
    /// True once further steering would not be read.
    closed: bool,
    pub(crate) compact: bool,
    pub(crate) model: Option<Arc<dyn Model>>,
    pub(crate) mode: Option<PermissionMode>,
}

/// The state of one run shared by the loop, its reader and its handles.
pub(crate) struct Shared {
    session_id: Arc<str>,
    parent_tool_use_id: Option<Arc<str>>,
    pub(crate) tasks: BackgroundTasks,
    /// Shared with the runs within its calls.
    pub(crate) loads: LoadTurns,
    pub(crate) clock: Arc<PollClock>,
    queue: Mutex<Queue>,
    stop: AtomicU8,
    stop_waker: AtomicWaker,
    /// Rings when the time is up; none without a limit.
    timer: Mutex<Option<Pin<Box<Sleep>>>>,
    pub(crate) control: Mutex<Control>,
    pub(crate) desk: Mutex<Weak<Desk>>,
    pub(crate) stats: Mutex<RunStats>,
    pub(crate) end: Mutex<Option<Box<(ExitReason, AgentState)>>>,
    ended: AtomicBool,
    end_notify: Notify,
}

pin_project! {
    /// See [`Shared::unless_stopped`]. Not an `async fn`, which would keep its future twice.
    pub(crate) struct UnlessStopped<'a, F> {
        shared: &'a Shared,
        #[pin]
        future: F,
    }
}

impl<F: Future> Future for UnlessStopped<'_, F> {
    type Output = Option<F::Output>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        this.shared.stop_waker.register(cx.waker());
        this.shared.poll_timer(cx);
        if this.shared.is_stopped() {
            return Poll::Ready(None);
        }
        this.future.poll(cx).map(Some)
    }
}

#[derive(Default)]
struct Queue {
    messages: VecDeque<SdkMessage>,
    /// Set until `init` has been put in front: what is emitted before waits behind it.
    held: bool,
    /// True once the run has ended: its result is the last message.
    closed: bool,
    /// Messages are numbered as they are queued, so that the numbers are the reader's order.
    next_seq: u64,
    reader: Option<Waker>,
    writers: Vec<Waker>,
}

impl Shared {
    pub(crate) fn new(
        session_id: Arc<str>,
        parent_tool_use_id: Option<Arc<str>>,
        tasks: BackgroundTasks,
        loads: LoadTurns,
    ) -> Self {
        Self {
            session_id,
            parent_tool_use_id,
            tasks,
            loads,
            clock: Arc::default(),
            queue: Mutex::new(Queue {
                held: true,
                // 0 is kept for `init`, which is always the first message.
                next_seq: 1,
                ..Queue::default()
            }),
            stop: AtomicU8::new(Stop::None as u8),
            stop_waker: AtomicWaker::new(),
            timer: Mutex::default(),
            control: Mutex::default(),
            desk: Mutex::default(),
            stats: Mutex::default(),
            end: Mutex::default(),
            ended: AtomicBool::new(false),
            end_notify: Notify::new(),
        }
    }

    pub(crate) fn session_id(&self) -> &Arc<str> {
        &self.session_id
    }

    /// The envelope of a message of this run; its number is given when it is pushed.
    pub(crate) fn envelope(&self) -> Envelope {
        let mut envelope = Envelope::new(self.session_id.clone(), 0);
        envelope.parent_tool_use_id = self.parent_tool_use_id.clone();
        envelope
    }

    /// Puts `init` before all messages emitted so far. Does nothing the second time.
    pub(crate) fn open(&self, init: impl FnOnce(Envelope) -> SdkMessage) {
        if !lock(&self.queue).held {
            return;
        }
        let message = init(self.envelope());
        let reader = {
            let mut queue = lock(&self.queue);
            if !std::mem::take(&mut queue.held) {
                return;
            }
            queue.messages.push_front(message);
            queue.reader.take()
        };
        reader.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn push(&self, mut message: SdkMessage) {
        let reader = {
            let mut queue = lock(&self.queue);
            if queue.closed {
                return;
            }
            message.envelope_mut().seq = queue.next_seq;
            queue.next_seq += 1;
            queue.messages.push_back(message);
            if queue.held {
                None
            } else {
                queue.reader.take()
            }
        };
        reader.into_iter().for_each(Waker::wake);
    }

    /// Removes and returns the next message. Without one, `reader` is woken by the next.
    pub(crate) fn pop(&self, reader: Option<&Waker>) -> Option<SdkMessage> {
        let mut queue = lock(&self.queue);
        let message = match queue.held {
            true => None,
            false => queue.messages.pop_front(),
        };
        queue.reader = match message {
            None => reader.cloned(),
            Some(_) => None,
        };
        if queue.reader.is_some() && !queue.held {
            // A run may wait for long, and many may wait at once.
            queue.messages = VecDeque::new();
        }
        let writers = match queue.messages.is_empty() {
            true => std::mem::take(&mut queue.writers),
            false => Vec::new(),
        };
        drop(queue);
        writers.into_iter().for_each(Waker::wake);
        message
    }

    /// Ready when the reader has taken everything.
    pub(crate) async fn drained(&self) {
        poll_fn(|cx| {
            let mut queue = lock(&self.queue);
            if queue.messages.is_empty() {
                return Poll::Ready(());
            }
            if !queue
                .writers
                .iter()
                .any(|waker| waker.will_wake(cx.waker()))
            {
                queue.writers.push(cx.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }

    /// Returns `true` if a stream should let the reader catch up before it continues.
    pub(crate) fn is_backed_up(&self) -> bool {
        let queue = lock(&self.queue);
        !queue.held && queue.messages.len() >= BACKLOG
    }

    /// Queues a message to the model for its next turn; returns `false` when there will be none.
    pub(crate) fn steer(&self, message: Message) -> bool {
        let mut control = lock(&self.control);
        if !control.closed {
            control.steering.push(message);
        }
        !control.closed
    }

    /// Closes steering; returns `false`, without a change, when there are unread messages.
    pub(crate) fn close_steering(&self) -> bool {
        let mut control = lock(&self.control);
        control.closed = control.steering.is_empty();
        control.closed
    }

    /// Accepts no more steering, even if messages are left.
    pub(crate) fn end_steering(&self) {
        lock(&self.control).closed = true;
    }

    /// Stops the run at `deadline`.
    pub(crate) fn stop_at(&self, deadline: Instant) {
        *lock(&self.timer) = Some(Box::pin(sleep_until(deadline)));
    }

    fn poll_timer(&self, cx: &mut Context<'_>) {
        let mut timer = lock(&self.timer);
        let rings = timer
            .as_mut()
            .is_some_and(|sleep| sleep.as_mut().poll(cx).is_ready());
        if rings {
            *timer = None;
            self.stop.fetch_max(Stop::Deadline as u8, Ordering::AcqRel);
        }
    }

    pub(crate) fn request_stop(&self, stop: Stop) {
        self.stop.fetch_max(stop as u8, Ordering::AcqRel);
        self.stop_waker.wake();
    }

    pub(crate) fn stop(&self) -> Stop {
        match self.stop.load(Ordering::Acquire) {
            0 => Stop::None,
            1 => Stop::Deadline,
            2 => Stop::Interrupt,
            _ => Stop::Abort,
        }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop() != Stop::None
    }

    /// Awaits `future`; `None` when the run is stopped first, with the future dropped. The loop
    /// awaits in one place at a time, so one waker is enough.
    pub(crate) fn unless_stopped<F: Future>(&self, future: F) -> UnlessStopped<'_, F> {
        UnlessStopped {
            shared: self,
            future,
        }
    }

    /// Awaits `future`, one of the steps after a run's end and so also after a stop. Once the run
    /// is stopped it has until the end of `grace`, which begins then: `None` when it takes longer.
    pub(crate) async fn within_grace<F: Future>(
        &self,
        grace: &mut Option<Pin<Box<Sleep>>>,
        future: F,
    ) -> Option<F::Output> {
        let mut future = pin!(future);
        poll_fn(|cx| {
            if let Poll::Ready(output) = future.as_mut().poll(cx) {
                return Poll::Ready(Some(output));
            }
            self.stop_waker.register(cx.waker());
            self.poll_timer(cx);
            if !self.is_stopped() {
                return Poll::Pending;
            }
            let grace = grace.get_or_insert_with(|| Box::pin(sleep(CLOSING_TIME)));
            grace.as_mut().poll(cx).map(|()| None)
        })
        .await
    }

    pub(crate) fn finish(&self, exit: ExitReason, state: AgentState) {
        *lock(&self.end) = Some(Box::new((exit, state)));
        self.mark_ended();
    }

    /// Also called when a run is dropped before its end.
    pub(crate) fn mark_ended(&self) {
        lock(&self.queue).closed = true;
        self.end_steering();
        self.ended.store(true, Ordering::Release);
        self.end_notify.notify_waiters();
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    pub(crate) async fn wait(&self) {
        let mut notification = std::pin::pin!(self.end_notify.notified());
        notification.as_mut().enable();
        if !self.is_ended() {
            notification.await;
        }
    }
}
