//! Summaries of long conversations, in the background.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures::future::try_join;

use crate::agent::Session;
use crate::error::{Error, ErrorKind, Result};
use crate::hooks::{Keep, Summarizer, cut};
use crate::message::{Message, Messages, is_large};
use crate::model::{self, Compaction, CompactionRequest, Compactor, Model, ModelProfile};
use crate::session::AgentState;
use crate::tool::TaskOutcome;
use crate::util::blocking::blocking_until_dropped;
use crate::util::sync::lock;

/// The share of the window beyond which a session is summarized after a turn.
const SHARE: f64 = 0.75;
/// The share of the window beyond which a session is summarized in a run.
const SHARE_IN_RUN: f64 = 0.95;
/// The number of old messages above which each half is summarized by itself, both concurrently.
const SPLIT_ABOVE: usize = 10;
/// The note in a summary that leaves messages out.
const OMISSION_NOTE: &str = "[Some oversized messages are left out of this summary.]";

/// Summaries of long conversations: a [`Compactor`] of the agent, and a function that a gateway
/// calls after each turn.
///
/// A session is due when more than 20 messages follow its last summary, or when they fill more than
/// three quarters of the context window, as [estimated](estimate_tokens) from their text. The last
/// four messages are not summarized. More than ten old ones are summarized in two halves
/// concurrently, and the two summaries are merged. A message over half the window is omitted, with
/// a note in the summary. In a run, the compactor is asked when 95 % of the window are full.
///
/// Clones share the list of the sessions that are being summarized.
///
/// ```
/// use agentcore::AgentBuilder;
/// use agentcore::gateway::Summaries;
/// use agentcore::testing::ScriptedModel;
///
/// # async fn example() -> agentcore::Result<()> {
/// let summarizer = ScriptedModel::new().say("<summary>They count.</summary>");
/// let summaries = Summaries::new().with_max_messages(5).with_model(summarizer);
/// let model = ScriptedModel::new().say("one").say("two").say("three");
/// let agent = AgentBuilder::new(model).compactor(summaries.clone()).build()?;
/// let session = agent.session("telegram:123");
/// for _ in 0..3 {
///     let output = session.clone().run("Next").await?;
///     // A gateway does this while the next message is processed.
///     summaries.maybe_summarize(&session, &output.state).await?;
/// }
/// let compaction = session.state().await?.and_then(|state| state.compaction);
/// assert_eq!(compaction.unwrap().through_message, 2);
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone)]
pub struct Summaries {
    model: Option<Arc<dyn Model>>,
    window: Option<u64>,
    max_messages: usize,
    keep_last: usize,
    timeout: Duration,
    /// The sessions that are being summarized.
    active: Arc<Mutex<HashSet<Arc<str>>>>,
}

impl Summaries {
    /// Creates summaries by the session's own model, with the default limits.
    pub fn new() -> Self {
        Self {
            model: None,
            window: None,
            max_messages: 20,
            keep_last: 4,
            timeout: Duration::from_secs(120),
            active: Arc::default(),
        }
    }

    /// Sets the model that summarizes. Defaults to the model of the session's agent.
    #[must_use]
    pub fn with_model(mut self, model: impl Model) -> Self {
        self.model = Some(model::erase(model));
        self
    }

    /// Sets the context window in tokens. Defaults to the context window of the agent's model.
    #[must_use]
    pub fn with_context_window(mut self, tokens: u64) -> Self {
        self.window = Some(tokens);
        self
    }

    /// Sets the number of messages after the last summary beyond which a session is due. Defaults
    /// to 20.
    #[must_use]
    pub fn with_max_messages(mut self, count: usize) -> Self {
        self.max_messages = count;
        self
    }

    /// Sets the number of last messages that are not summarized, at least two. Defaults to four.
    /// More stay if a call would be separated from its result.
    #[must_use]
    pub fn with_keep_last(mut self, count: usize) -> Self {
        self.keep_last = count;
        self
    }

    /// Sets the time limit of a summary after a turn, and in a run that of each model call for a
    /// summary. Defaults to two minutes.
    #[must_use]
    pub fn with_timeout(mut self, limit: Duration) -> Self {
        self.timeout = limit;
        self
    }

    /// Summarizes the session if it is due, and returns the new summary. Returns `None` if it is
    /// not due, has nothing to summarize, or is being summarized already. `state` is the state
    /// after the turn that has just ended.
    ///
    /// The summary is made by the compactor of the session's agent, normally a clone of these
    /// summaries. With another compactor, only the limit of messages, the context window and the
    /// time limit of these apply.
    ///
    /// The session may be run meanwhile: a complete summary waits until no run has leased the
    /// session. A run that begins while the summary is stored fails with
    /// [`SessionBusy`](ErrorKind::SessionBusy); try it again.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Timeout`] after the time limit, and the errors of [`Session::compact`]
    /// except `SessionBusy`. The session is unchanged after an error.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the session without the new summary or with it.
    pub async fn maybe_summarize(
        &self,
        session: &Session,
        state: &AgentState,
    ) -> Result<Option<Compaction>> {
        match self.due(session, state).await? {
            Some(summary) => summary.make().await,
            None => Ok(None),
        }
    }

    /// Returns the summary of a session, if it is due and is not being made already.
    pub(super) async fn due(
        &self,
        session: &Session,
        state: &AgentState,
    ) -> Result<Option<DueSummary>> {
        if !self.is_due(session, state).await? {
            return Ok(None);
        }
        let active = ActiveSummary::begin(&self.active, session.id());
        Ok(active.map(|active| DueSummary {
            session: session.clone(),
            timeout: self.timeout,
            _active: active,
        }))
    }

    /// Returns `true` if the messages after the last summary are too many, or fill too much of the
    /// window together with that summary.
    async fn is_due(&self, session: &Session, state: &AgentState) -> Result<bool> {
        let compaction = state.compaction.as_ref();
        let summarized_count = compaction.map_or(0, |compaction| compaction.through_message);
        let messages = state
            .messages
            .as_slice()
            .get(summarized_count..)
            .unwrap_or_default();
        if messages.len() > self.max_messages {
            return Ok(true);
        }

        let summary_tokens = compaction.map_or(0, |compaction| tokens(&compaction.summary));
        let tokens = summary_tokens + tokens_of(messages).await?.iter().sum::<u64>();
        let window = self.window(session.agent().model().profile());
        Ok(tokens as f64 > window as f64 * SHARE)
    }

    fn window(&self, profile: &ModelProfile) -> u64 {
        self.window.unwrap_or(profile.context_window)
    }
}

/// Returns one summary of the messages, and of the old summary if there is one. Many messages are
/// summarized in two halves, whose summaries are merged.
async fn summarize_messages(
    summarizer: &Summarizer<'_>,
    messages: &[Arc<Message>],
    old_summary: Option<String>,
) -> Result<String> {
    if messages.len() <= SPLIT_ABOVE {
        return summarizer.summarize(old_summary, messages).await;
    }

    let (first_half, second_half) = messages.split_at(messages.len() / 2);
    let (first_summary, second_summary) = try_join(
        summarizer.summarize(old_summary, first_half),
        summarizer.summarize(None, second_half),
    )
    .await?;
    summarizer.merge(&first_summary, &second_summary).await
}

#[async_trait]
impl Compactor for Summaries {
    fn should_compact(&self, _: &Messages, context_tokens: u64, profile: &ModelProfile) -> bool {
        context_tokens as f64 > self.window(profile) as f64 * SHARE_IN_RUN
    }

    async fn compact(&self, request: CompactionRequest) -> Result<Option<Compaction>> {
        let window = self.window(request.model.profile());
        let messages = &request.messages;
        let is_system = |message: &&Message| matches!(message, Message::System(_));
        let instruction_count = messages.iter().take_while(is_system).count();
        let current = request.current.as_ref();
        let start = current
            .map_or(0, |compaction| compaction.through_message)
            .max(instruction_count);
        let keep = Keep {
            share: 0.0,
            count: Some(self.keep_last),
            tokens: window / 4,
        };
        let Some(cut_index) = cut(messages, start, keep, &request.counter).await? else {
            return Ok(None);
        };

        let old_messages = &messages.as_slice()[start..cut_index];
        let sizes = tokens_of(old_messages).await?;
        let fitting_messages: Vec<Arc<Message>> = old_messages
            .iter()
            .zip(sizes)
            .filter(|(_, tokens)| *tokens <= window / 2)
            .map(|(message, _)| message.clone())
            .collect();
        let old_summary = current.map(|compaction| compaction.summary.clone());
        let summarizer = Summarizer {
            request: &request,
            model: self.model.clone().unwrap_or_else(|| request.model.clone()),
            window,
            timeout: self.timeout,
        };

        let mut summary = if fitting_messages.is_empty() {
            old_summary.unwrap_or_default()
        } else {
            summarize_messages(&summarizer, &fitting_messages, old_summary).await?
        };

        if fitting_messages.len() < old_messages.len() && !summary.ends_with(OMISSION_NOTE) {
            let separator = if summary.is_empty() { "" } else { "\n\n" };
            summary.push_str(&format!("{separator}{OMISSION_NOTE}"));
        }
        Ok(Some(Compaction::new(summary, cut_index)))
    }
}

impl Default for Summaries {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Summaries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Summaries")
            .field("model", &self.model.as_ref().map(|model| model.id()))
            .field("window", &self.window)
            .field("max_messages", &self.max_messages)
            .field("keep_last", &self.keep_last)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

/// A summary that is due. No other summary of the session is made until it is dropped.
pub(super) struct DueSummary {
    session: Session,
    timeout: Duration,
    _active: ActiveSummary,
}

impl DueSummary {
    /// Summarizes the session, within the time limit.
    async fn make(self) -> Result<Option<Compaction>> {
        let compaction = tokio::time::timeout(self.timeout, self.session.compact_when_free());
        compaction.await.unwrap_or_else(|_| {
            let text = format!("the summary took longer than {:?}", self.timeout);
            Err(Error::new(ErrorKind::Timeout, text))
        })
    }

    /// Makes the summary. A failure is logged, and the conversation continues without the summary.
    pub(super) async fn make_logged(self) -> TaskOutcome {
        let id = self.session.id().clone();
        match self.make().await {
            Ok(_) => TaskOutcome::Completed(String::new()),
            Err(error) => {
                tracing::warn!("session {id} was not summarized: {error}");
                TaskOutcome::Failed(error.to_string())
            }
        }
    }
}

/// The entry of a session among the sessions that are being summarized, until it is dropped.
struct ActiveSummary {
    sessions: Arc<Mutex<HashSet<Arc<str>>>>,
    id: Arc<str>,
}

impl ActiveSummary {
    /// Marks a session as being summarized. Returns `None` if it is being summarized already.
    fn begin(sessions: &Arc<Mutex<HashSet<Arc<str>>>>, id: &Arc<str>) -> Option<Self> {
        lock(sessions).insert(id.clone()).then(|| Self {
            sessions: sessions.clone(),
            id: id.clone(),
        })
    }
}

impl Drop for ActiveSummary {
    fn drop(&mut self) {
        lock(&self.sessions).remove(&self.id);
    }
}

/// Returns a rough number of tokens: a third of the characters of the texts and of the arguments of
/// calls.
pub fn estimate_tokens(messages: &[Arc<Message>]) -> u64 {
    messages.iter().map(|message| message_tokens(message)).sum()
}

fn message_tokens(message: &Message) -> u64 {
    let calls = message.tool_calls();
    let call_tokens: u64 = calls.map(|call| tokens(&call.args.to_string())).sum();
    tokens(&message.text()) + call_tokens
}

fn tokens(text: &str) -> u64 {
    (text.chars().count() / 3) as u64
}

/// Returns the estimate of each message. Long ones are counted on a thread for blocking work.
async fn tokens_of(messages: &[Arc<Message>]) -> Result<Vec<u64>> {
    if !is_large(messages) {
        return Ok(messages.iter().map(|one| message_tokens(one)).collect());
    }

    let messages = messages.to_vec();
    blocking_until_dropped(move |cancellation| {
        let messages = messages.iter();
        let messages = messages.take_while(|_| !cancellation.is_cancelled());
        Ok(messages.map(|message| message_tokens(message)).collect())
    })
    .await
}
