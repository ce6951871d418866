//! [`Run`], the stream that a reader polls.

use std::fmt;
use std::future::IntoFuture;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

use futures::future::BoxFuture;
use futures::{FutureExt, Stream, StreamExt};
use serde_json::Value;

use crate::error::{Error, ErrorKind, Result};
use crate::message::Message;
use crate::sdk::SdkMessage;
use crate::util::Cancellation;
use crate::util::sync::lock;

use super::handle::RunHandle;
use super::output::RunOutput;
use super::responder::{OpenQuestions, Responder};
use super::shared::{OutputFormat, RunShared};
use super::stop::Stop;

/// The number of messages after which the stream returns `Pending` once, with the task woken, so
/// that other tasks can run. The loop yields too, but it is not polled while messages wait, unless
/// the run has to stop.
const MESSAGES_AT_ONCE: usize = 64;

/// The maximum number of finished background tasks that are announced before the run continues.
const TASKS_AT_ONCE: usize = 64;

/// The bytes in the outcomes of background tasks after which the stream returns `Pending` once,
/// with the task woken.
const OUTCOME_BYTES_AT_ONCE: usize = 256 * 1024;

/// A run: a stream of messages or, when awaited, the final output.
///
/// A run is lazy: it advances only while it is polled. The stream begins with `system/init`, ends
/// with exactly one `result`, and then yields `None`.
///
/// A `Run` can be awaited but is not a `Future`: pass [`finish`](Self::finish) to functions that
/// require one, such as `tokio::spawn` and `futures::join!`. [`next`](Self::next) needs no import;
/// for the other combinators, import `futures::StreamExt`.
///
/// # Cancel safety
///
/// `next()` may be dropped and called again without losing a message. Dropping the `Run` itself
/// cancels everything in it: the request, the tools, the subagents. Everything that was stored in
/// the session before stays, and the next run of the session adds a result to each call that has
/// none.
///
/// ```
/// use agentcore::Agent;
///
/// # async fn example(agent: Agent) -> Result<(), agentcore::Error> {
/// let mut run = agent.run("What is in this repository?");
/// while let Some(message) = run.next().await {
///     if let Some(text) = message.text_delta() {
///         print!("{text}");
///     }
/// }
/// let output = run.into_output()?;
/// println!("{} turns, {:?} USD", output.turns, output.cost);
/// # Ok(())
/// # }
/// ```
#[must_use = "a run does nothing unless it is polled or awaited"]
pub struct Run {
    state: LoopState,
    shared: Arc<RunShared>,
    /// The end of the parent run, which stops this one: a run in a task that a tool has spawned is
    /// not dropped with the parent's call.
    parent_end: Option<BoxFuture<'static, ()>>,
    /// Wakes the reader through the run's clock.
    waker: Waker,
    /// The number of messages yielded since the last pause.
    yielded: usize,
    /// The number of background tasks announced since the run continued.
    announced: usize,
}

/// The state of a run's loop.
enum LoopState {
    /// The loop was not polled yet.
    Created(LoopFuture),
    /// The loop waits to be woken.
    Waiting(LoopFuture),
    Ended(Box<Result<RunOutput>>),
    /// The loop panicked while it was polled, or the run was dropped.
    Gone,
}

type LoopFuture = BoxFuture<'static, Result<RunOutput>>;

impl LoopState {
    fn is_in_progress(&self) -> bool {
        matches!(self, Self::Created(_) | Self::Waiting(_))
    }
}

impl Run {
    /// Creates a run that is stopped when `parent_end` is cancelled.
    pub(crate) fn new(
        shared: Arc<RunShared>,
        future: LoopFuture,
        parent_end: Option<Cancellation>,
    ) -> Self {
        let parent_end = parent_end.map(|end| async move { end.cancelled().await }.boxed());
        Self {
            state: LoopState::Created(future),
            waker: shared.clock.clone().into(),
            shared,
            parent_end,
            yielded: 0,
            announced: 0,
        }
    }

    /// Returns the next message, or `None` after the run has ended, like
    /// `futures::StreamExt::next`.
    ///
    /// # Cancel safety
    ///
    /// The future may be dropped, and `next` called again, without losing a message.
    ///
    /// ```
    /// use agentcore::testing::ScriptedModel;
    /// use agentcore::Agent;
    ///
    /// # async fn example() -> Result<(), agentcore::Error> {
    /// let agent = Agent::builder(ScriptedModel::new().say("4")).build()?;
    /// let mut run = agent.run("2+2?");
    /// while let Some(message) = run.next().await {
    ///     if let Some(text) = message.text() {
    ///         println!("{text}");
    ///     }
    /// }
    /// assert_eq!(run.into_output()?.text, "4");
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
    /// ```
    #[expect(
        clippy::should_implement_trait,
        reason = "the name that streams have for it"
    )]
    pub fn next(&mut self) -> impl Future<Output = Option<SdkMessage>> + Unpin {
        StreamExt::next(self)
    }

    /// Returns a handle that controls the run from any thread.
    pub fn handle(&self) -> RunHandle {
        RunHandle::new(self.shared.clone())
    }

    /// Returns a [`Responder`] to answer the run's questions. The run waits for answers until the
    /// responder is dropped.
    pub fn responder(&self) -> Responder {
        Responder::of(&self.shared)
    }

    /// Replaces the questions that responders of this run answer.
    pub(crate) fn share_questions(&self, questions: &Weak<OpenQuestions>) {
        *lock(&self.shared.questions) = questions.clone();
    }

    /// Returns the session's id.
    pub fn session_id(&self) -> &Arc<str> {
        self.shared.session_id()
    }

    /// Requests a response that matches a JSON Schema. The last text is parsed into
    /// [`RunOutput::structured`].
    ///
    /// A response that does not match is sent back with its errors. After
    /// [`output_retries`](crate::AgentBuilder::output_retries) such responses, the next one ends
    /// the run with [`ExitReason::StructuredOutput`](super::ExitReason::StructuredOutput).
    ///
    /// Call it before the first poll; later it has no effect. If `name` is not
    /// `[A-Za-z0-9_-]{1,64}`, the run fails with [`ErrorKind::Tool`].
    pub fn output_schema(self, name: impl Into<Arc<str>>, schema: impl Into<Arc<Value>>) -> Self {
        lock(&self.shared.control).output = Some(OutputFormat {
            name: name.into(),
            schema: schema.into(),
        });
        self
    }

    /// Polls the run to its end and returns its output, like `.await`. The returned future can be
    /// spawned or joined with others.
    ///
    /// ```
    /// use std::pin::pin;
    /// use std::time::Duration;
    ///
    /// use futures::future::{Either, select};
    ///
    /// # async fn example(agent: agentcore::Agent) -> agentcore::Result<()> {
    /// let run = agent.run("Fix the failing test");
    /// let handle = run.handle();
    /// let give_up = pin!(async {
    ///     tokio::time::sleep(Duration::from_secs(60)).await;
    ///     handle.interrupt();
    /// });
    /// let output = match select(pin!(run.finish()), give_up).await {
    ///     Either::Left((output, _)) => output?,
    ///     Either::Right(((), output)) => output.await?,
    /// };
    /// println!("{}", output.text);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the run ends with [`ExitReason::Error`](super::ExitReason::Error);
    /// [`Error::partial`] has its partial output. Every other end is `Ok`.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the run, which cancels everything in it.
    pub async fn finish(mut self) -> Result<RunOutput> {
        while self.next().await.is_some() {}
        self.into_output()
    }

    /// Returns the run's output, once the stream has ended.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`finish`](Self::finish), and [`ErrorKind::Cancelled`] if the
    /// stream has not ended or the run panicked while it was polled.
    pub fn into_output(mut self) -> Result<RunOutput> {
        let text = match std::mem::replace(&mut self.state, LoopState::Gone) {
            LoopState::Ended(output) => return *output,
            LoopState::Gone => "the run panicked while it was polled and has no output",
            LoopState::Created(_) | LoopState::Waiting(_) => {
                "the run has not ended: poll it until it yields `None`, or await it"
            }
        };
        Err(Error::new(ErrorKind::Cancelled, text))
    }

    /// Converts the run into a future of its output. This method is inherent, so that it takes
    /// precedence over `StreamExt::into_future`.
    pub fn into_future(self) -> BoxFuture<'static, Result<RunOutput>> {
        Box::pin(self.finish())
    }

    /// Announces finished background tasks. Returns `Ready` when the run may continue, and
    /// `Pending`, with the task woken, when it has to yield before it announces more of them.
    fn poll_tasks(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut bytes = 0;
        while self.announced < TASKS_AT_ONCE {
            let Poll::Ready(task) = self.shared.tasks.poll_ended(cx) else {
                self.announced = 0;
                return Poll::Ready(());
            };
            self.announced += 1;
            bytes += task.text_len;
            let text = task.announce(&self.shared);
            self.shared.announce(Message::human(text));
            if bytes >= OUTCOME_BYTES_AT_ONCE {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        }

        // The loop continues first, because tasks that end at once may start others without end.
        // The reader is woken to poll again for the tasks that remain.
        self.announced = 0;
        cx.waker().wake_by_ref();
        Poll::Ready(())
    }

    /// Advances the loop if it was woken since the last poll: a reader also polls after each
    /// message that it takes.
    fn poll_woken_loop(&mut self, cx: &mut Context<'_>) {
        let is_woken = self.shared.clock.register(cx);
        if is_woken || matches!(self.state, LoopState::Created(_)) {
            self.poll_loop();
        }
    }

    /// Advances the tasks and the loop when no message waits. Returns `false` if the stream has to
    /// yield first, with the task woken.
    fn advance(&mut self, cx: &mut Context<'_>) -> bool {
        // Yields to other tasks of the reader from time to time, also when messages are always
        // ready.
        if self.yielded >= MESSAGES_AT_ONCE {
            self.yielded = 0;
            cx.waker().wake_by_ref();
            if self.shared.is_stop_due() {
                self.shared.clock.register(cx);
                self.poll_loop();
            }
            return false;
        }

        self.yielded += 1;
        let has_message = self.shared.begin_read();
        if !has_message && self.poll_tasks(cx).is_ready() {
            self.poll_woken_loop(cx);
        }
        true
    }

    /// Stops the run if its parent has ended.
    fn stop_with_parent(&mut self) {
        let Some(parent_end) = &mut self.parent_end else {
            return;
        };
        if parent_end
            .poll_unpin(&mut Context::from_waker(&self.waker))
            .is_ready()
        {
            self.parent_end = None;
            self.shared.request_stop(Stop::Interrupt);
        }
    }

    /// Advances the loop, unless it has ended. The caller has registered the task at the clock.
    fn poll_loop(&mut self) {
        // Taken out first: if the loop panics, the next poll ends the stream instead of polling a
        // future that has panicked.
        let mut future = match std::mem::replace(&mut self.state, LoopState::Gone) {
            LoopState::Created(future) | LoopState::Waiting(future) => future,
            state => {
                self.state = state;
                return;
            }
        };
        self.stop_with_parent();
        match self.shared.clock.poll(&self.waker, &mut future) {
            Poll::Ready(output) => {
                self.shared.tasks.close();
                self.state = LoopState::Ended(Box::new(output));
            }
            Poll::Pending => self.state = LoopState::Waiting(future),
        }
    }
}

impl Stream for Run {
    type Item = SdkMessage;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<SdkMessage>> {
        self.shared.clock.enter_reader();
        let may_read = self.advance(cx);

        // Messages are large, so a message is kept in one place until it is returned.
        let message = if may_read {
            self.shared.pop(cx.waker())
        } else {
            None
        };
        let is_woken = self.shared.clock.leave_reader();
        if message.is_some() || may_read && !self.state.is_in_progress() {
            return Poll::Ready(message);
        }
        self.yielded = 0;
        if is_woken {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

impl IntoFuture for Run {
    type Output = Result<RunOutput>;
    type IntoFuture = BoxFuture<'static, Result<RunOutput>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.finish())
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // The loop is dropped first, so that the session is released before waiters are woken.
        self.state = LoopState::Gone;
        self.shared.tasks.close();
        self.shared.mark_ended();
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run")
            .field("session_id", self.session_id())
            .field("running", &self.state.is_in_progress())
            .finish_non_exhaustive()
    }
}
