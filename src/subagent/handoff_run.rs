//! A run that may pass through several agents.

use std::fmt;
use std::future::IntoFuture;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, Stream, StreamExt};
use tokio::time::timeout;

use crate::agent::{Agent, Session};
use crate::error::{Error, ErrorKind, Result};
use crate::message::Messages;
use crate::run::{ExitReason, OpenQuestions, Responder, Run, RunOutput};
use crate::sdk::{Envelope, ResultMessage, ResultSubtype, SdkMessage};
use crate::session::{AgentState, SessionStore, StoredSession};
use crate::util::panic;

use super::handoff::Handoffs;
use super::handoff_hook::{HandoffCount, next_agent_of};

/// A run of a group of agents: a stream of messages or, when awaited, the final output.
///
/// It consists of one run for each agent that has the conversation in turn. Each of these runs
/// begins with a `system/init` that names its model and tools. There is only one `result`, as the
/// last message: the `result` of the last run, with the turns, times, usage, cost and denials of
/// all runs. The output is the output of the last run with the same sums; an error is the error of
/// the last run alone. If the session cannot be loaded, or not within
/// [`max_duration`](crate::AgentBuilder::max_duration) of the first agent, the stream ends with a
/// `result` and has no `system/init`.
///
/// If the response with a handoff has other calls that are pending, the run ends with
/// [`AwaitingApproval`](ExitReason::AwaitingApproval) instead of passing to the next agent. They
/// are decided with [`Session::resume`] of the agent that made them
/// ([`PendingCall::agent`](crate::session::PendingCall::agent)), before the group has another run,
/// which would close them. The next input goes to the agent of the handoff; after the decision,
/// [`Handoffs::run`] with an empty input continues with it at once.
///
/// Like a [`Run`], it is lazy. Dropping it cancels the run in progress; a handoff that was stored
/// stays.
#[must_use = "a run does nothing unless it is polled or awaited"]
pub struct HandoffRun {
    group: Handoffs,
    /// The session of each run. Its agent, and the input id of the first run, are set when a run
    /// begins.
    session: Session,
    input_id: Option<Arc<str>>,
    input: Messages,
    step: HandoffStep,
    /// The agent of the run in progress.
    agent_name: Arc<str>,
    questions: Weak<OpenQuestions>,
    is_interrupted: bool,
    handoff_count: u32,
    message_count: u64,
    /// The result of the run in progress, once it has arrived.
    result: Option<Box<ResultMessage>>,
    /// The sum of the results of earlier runs.
    earlier: Option<Box<ResultMessage>>,
    output: Option<Box<Result<RunOutput>>>,
}

enum HandoffStep {
    Load(BoxFuture<'static, Result<Option<StoredSession>>>),
    Run(Box<Run>),
    End,
}

impl HandoffRun {
    pub(super) fn new(group: Handoffs, session: Session, input: Messages) -> Self {
        let max_duration = group.active(&AgentState::default()).max_duration();
        // For the agents after the first, whose runs have no input.
        let session = session.input_prompt(input.split_system().0);
        let load = load(group.store().clone(), session.id().clone(), max_duration);
        Self {
            group,
            session,
            input_id: None,
            input,
            step: HandoffStep::Load(load.boxed()),
            agent_name: Arc::default(),
            questions: Weak::new(),
            is_interrupted: false,
            handoff_count: 0,
            message_count: 0,
            result: None,
            earlier: None,
            output: None,
        }
    }

    /// Adds a value that hooks and tools of all agents can read by its type. Call it before the
    /// first poll; later it applies to the runs that have not begun.
    pub fn with<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.session = self.session.with(value);
        self
    }

    /// Sets the id of the input, as [`Session::input_id`] does. Call it before the first poll.
    pub fn input_id(mut self, id: impl Into<Arc<str>>) -> Self {
        self.input_id = Some(id.into());
        self
    }

    /// Sets the id of the session's user. Call it before the first poll.
    pub fn user_id(mut self, id: impl Into<Arc<str>>) -> Self {
        self.session = self.session.user_id(id);
        self
    }

    /// Returns the next message; `None` if the run has ended.
    ///
    /// # Cancel safety
    ///
    /// The future may be dropped, and `next` called again, without losing a message.
    #[expect(
        clippy::should_implement_trait,
        reason = "the name that streams have for it"
    )]
    pub fn next(&mut self) -> impl Future<Output = Option<SdkMessage>> + Unpin {
        StreamExt::next(self)
    }

    /// Returns a [`Responder`] to answer the questions of all agents. The run waits for answers
    /// until the responder is dropped.
    pub fn responder(&mut self) -> Responder {
        let responder = Responder::of_slot(&mut self.questions);
        if let HandoffStep::Run(run) = &self.step {
            run.share_questions(&self.questions);
        }
        responder
    }

    /// Stops the run at once, as [`RunHandle::interrupt`](crate::RunHandle::interrupt) does.
    pub fn interrupt(&mut self) {
        self.is_interrupted = true;
        if let HandoffStep::Run(run) = &self.step {
            run.handle().interrupt();
        }
    }

    /// Returns the session's id.
    pub fn session_id(&self) -> &Arc<str> {
        self.session.id()
    }

    /// Polls the run to its end and returns its output: the same as `.await`, as a future that can
    /// be spawned or joined with others.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`Run::finish`], and the store's error.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the run, which cancels the run of the agent in progress.
    pub async fn finish(mut self) -> Result<RunOutput> {
        while self.next().await.is_some() {}
        self.into_output()
    }

    /// Returns the run's output, once the stream has ended.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`finish`](Self::finish), and [`ErrorKind::Cancelled`] if it has
    /// not ended.
    pub fn into_output(mut self) -> Result<RunOutput> {
        match self.output.take() {
            Some(output) => *output,
            None => {
                let text = "the run has not ended: poll it until it yields `None`, or await it";
                Err(Error::new(ErrorKind::Cancelled, text))
            }
        }
    }

    /// Like `.await`; inherent, so that it takes precedence over `StreamExt::into_future`.
    pub fn into_future(self) -> BoxFuture<'static, Result<RunOutput>> {
        Box::pin(self.finish())
    }

    /// Begins the run of an agent.
    fn begin(&mut self, agent: &Agent) {
        let mut session = self
            .session
            .clone()
            .of_agent(agent.clone())
            .with(HandoffCount(self.handoff_count));
        if let Some(id) = self.input_id.take() {
            session = session.input_id(id);
        }

        let run = session.run(std::mem::take(&mut self.input));
        run.share_questions(&self.questions);
        if self.is_interrupted {
            run.handle().interrupt();
        }
        self.agent_name = agent.name().into();
        self.step = HandoffStep::Run(Box::new(run));
    }

    /// Ends a run. Begins the run of the next agent, or returns the last message, if there is one.
    fn end(&mut self, mut output: Result<RunOutput>) -> Option<SdkMessage> {
        let mut result = self.result.take();
        if let Some((result, earlier)) = result.as_mut().zip(self.earlier.take()) {
            add(result, *earlier);
        }

        if let Ok(output) = &mut output
            && output.end == ExitReason::HookStopped
            && let Some(name) = next_agent_of(&output.state)
            && let Some(agent) = self.group.agent(&name).cloned()
        {
            if output.state.pending.is_empty() {
                self.earlier = result;
                self.handoff_count += 1;
                self.begin(&agent);
                return None;
            }

            // The run of the next agent would close the questions of this response.
            output.end = ExitReason::AwaitingApproval;
            if let Some(result) = &mut result {
                result.terminal_reason = Some(output.end.terminal_reason().into());
            }
        }

        let sum = result.as_deref();
        let output = output.map(|output| summed(output, sum));
        self.output = Some(Box::new(output));
        result.map(SdkMessage::Result)
    }

    /// Ends the stream with an error before any run.
    fn fail(&mut self, error: Error) -> SdkMessage {
        let envelope = Envelope::new(self.session.id().clone(), 0);
        let mut result = ResultMessage::new(envelope, ResultSubtype::ErrorDuringExecution);
        result.errors = vec![error.to_string()];
        self.output = Some(Box::new(Err(error)));
        SdkMessage::Result(Box::new(result))
    }

    fn numbered(&mut self, mut message: SdkMessage) -> SdkMessage {
        message.envelope_mut().seq = self.message_count;
        self.message_count += 1;
        message
    }

    fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Option<SdkMessage>> {
        loop {
            match &mut self.step {
                HandoffStep::Load(load) => match load.poll_unpin(cx) {
                    // The run that begins is interrupted before it loads the session.
                    Poll::Pending if self.is_interrupted => {
                        let group = self.group.clone();
                        self.begin(group.active(&AgentState::default()));
                    }
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Ok(stored_session)) => {
                        if stored_session.is_none() {
                            // The run of the first agent removes the grants of this agent alone.
                            self.group.forget_grants(self.session.id());
                        }
                        let state = stored_session.unwrap_or_default().state;
                        let group = self.group.clone();
                        self.begin(group.active(&state));
                    }
                    Poll::Ready(Err(error)) => {
                        self.step = HandoffStep::End;
                        return Poll::Ready(Some(self.fail(error)));
                    }
                },
                HandoffStep::Run(run) => match ready!(run.poll_next_unpin(cx)) {
                    Some(SdkMessage::Result(result)) => self.result = Some(result),
                    Some(message) => return Poll::Ready(Some(message)),
                    None => {
                        if let HandoffStep::Run(run) =
                            std::mem::replace(&mut self.step, HandoffStep::End)
                            && let Some(message) = self.end(run.into_output())
                        {
                            return Poll::Ready(Some(message));
                        }
                    }
                },
                HandoffStep::End => return Poll::Ready(None),
            }
        }
    }
}

/// Loads a session, within the time that a run of the agent that begins may take.
async fn load(
    store: Arc<dyn SessionStore>,
    id: Arc<str>,
    max_duration: Option<Duration>,
) -> Result<Option<StoredSession>> {
    let load = panic::catch_async(store.load(&id));
    let outcome = match max_duration {
        None => load.await,
        Some(limit) => timeout(limit, load).await.map_err(|_| {
            let text = format!(
                "session {id:?} could not be loaded within {limit:?} (max_duration); check the \
                 store, or allow the run more time"
            );
            Error::new(ErrorKind::Timeout, text)
        })?,
    };
    outcome.unwrap_or_else(|text| {
        let text = format!("the store panicked: {text}");
        Err(Error::new(ErrorKind::Other, text))
    })
}

/// Adds the figures of an earlier run to the figures of a later run.
fn add(later: &mut ResultMessage, earlier: ResultMessage) {
    later.duration_ms += earlier.duration_ms;
    later.duration_api_ms += earlier.duration_api_ms;
    later.num_turns += earlier.num_turns;
    later.usage += earlier.usage;
    let costs = earlier.total_cost_usd.zip(later.total_cost_usd);
    later.total_cost_usd = costs.map(|(earlier, later)| earlier + later);
    later.ttft_ms = earlier.ttft_ms.or(later.ttft_ms);
    let later_denials =
        std::mem::replace(&mut later.permission_denials, earlier.permission_denials);
    later.permission_denials.extend(later_denials);
    for (model, usage) in earlier.model_usage {
        let entry = later.model_usage.entry(model);
        entry
            .and_modify(|later_usage| later_usage.add(&usage))
            .or_insert(usage);
    }
}

/// Returns the output of the last run with the figures of all.
fn summed(mut output: RunOutput, sum: Option<&ResultMessage>) -> RunOutput {
    if let Some(sum) = sum {
        output.turns = sum.num_turns;
        output.usage = sum.usage;
        output.cost = sum.total_cost_usd;
        output.permission_denials = sum.permission_denials.clone();
    }
    output
}

impl Stream for HandoffRun {
    type Item = SdkMessage;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<SdkMessage>> {
        let message = ready!(self.poll_message(cx));
        Poll::Ready(message.map(|message| self.numbered(message)))
    }
}

impl IntoFuture for HandoffRun {
    type Output = Result<RunOutput>;
    type IntoFuture = BoxFuture<'static, Result<RunOutput>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.finish())
    }
}

impl fmt::Debug for HandoffRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandoffRun")
            .field("session_id", self.session_id())
            .field("agent", &self.agent_name)
            .finish_non_exhaustive()
    }
}
