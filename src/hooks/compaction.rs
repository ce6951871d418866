//! Compaction by a function of the caller.

use std::fmt;
use std::sync::Mutex;

use async_trait::async_trait;
use futures::FutureExt;
use futures::future::BoxFuture;

use crate::error::{Error, Result};
use crate::hook::{Hook, Next, Phases};
use crate::message::{Messages, count};
use crate::model::{ModelRequest, ModelResponse};
use crate::run::RunContext;
use crate::session::AgentState;
use crate::usage::Usage;
use crate::util::sync::lock;

/// A shorter history is never compacted.
const MIN_MESSAGES: usize = 2;

type SummaryFn = dyn Fn(RunContext, Messages) -> BoxFuture<'static, Result<Messages>> + Send + Sync;

/// Calls a function of yours when the history has grown to a number of tokens, and continues with
/// the messages that it returns.
///
/// * Before a run, the history itself is replaced, in the store as well. To keep it, use a
///   [`SummarizationHook`](super::SummarizationHook), or make a copy in the function.
/// * Within a run, later requests have the messages that the function returned and the messages
///   added since; the history stays as it is. The number of tokens is the one that the provider
///   reported for the last call with its response, plus an estimate of the messages added since.
///   Before the first call, and for the history before a run, it is an estimate of the messages
///   alone.
/// * The function must return messages that are
///   [valid for a model](Messages::validate_for_model): a call and its result stay together or are
///   removed together. Within a run, the last message is not an assistant message. Messages that
///   are not valid, and an error of the function, end the run.
/// * The function is not called for a single message, nor before a run that has calls that wait for
///   approval. [`RunContext::call_model`] calls a model within the budget of the run.
///
/// ```
/// use agentcore::hooks::CompactionHook;
/// use agentcore::testing::ScriptedModel;
/// use agentcore::{AgentBuilder, Messages};
///
/// # async fn example() -> agentcore::Result<()> {
/// let hook = CompactionHook::new(100_000, |_cx, messages: Messages| async move {
///     let last = messages.to_vec().split_off(messages.len() - 1);
///     let mut short = Messages::new().human("They talked about the weather.");
///     short.extend(last);
///     Ok(short)
/// });
/// let agent = AgentBuilder::new(ScriptedModel::new().say("Hello.")).hook(hook).build()?;
/// agent.run("Hi").await?;
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
pub struct CompactionHook {
    threshold: u64,
    summarizer: Box<SummaryFn>,
}

impl CompactionHook {
    /// Creates a hook that calls `summarizer` with the messages when they have at least `threshold`
    /// tokens.
    pub fn new<F, Fut>(threshold: u64, summarizer: F) -> Self
    where
        F: Fn(RunContext, Messages) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Messages>> + Send + 'static,
    {
        Self {
            threshold,
            summarizer: Box::new(move |cx, messages| summarizer(cx, messages).boxed()),
        }
    }

    /// Returns `true` if a history of this size is passed to the function: it has at least as many
    /// tokens as the threshold, and at least two messages.
    pub fn should_compact(&self, tokens: u64, messages: usize) -> bool {
        tokens >= self.threshold && messages >= MIN_MESSAGES
    }

    /// Calls the function with the messages, and checks that its result is valid for a model.
    async fn compact(&self, cx: &RunContext, messages: Messages) -> Result<Messages> {
        let new_messages = (self.summarizer)(cx.clone(), messages).await?;
        new_messages.validate_for_model().map_err(|problem| {
            Error::from(problem)
                .context("the summarizer returned messages that are not valid for a model")
        })?;
        Ok(new_messages)
    }
}

/// The data of the hook for one run.
#[derive(Default)]
struct CompactionProgress(Mutex<Progress>);

#[derive(Clone, Default)]
struct Progress {
    /// The messages that were replaced, and their replacement.
    replaced: Option<(Messages, Messages)>,
    /// The usage of the last call, and the number of messages of its request.
    last: Option<(Usage, usize)>,
}

impl Progress {
    /// Repeats the last replacement on `messages`, unless the messages that it replaced have
    /// changed.
    fn apply(&self, messages: Messages) -> Messages {
        match &self.replaced {
            Some((old, short)) if messages.shared_prefix(old) == old.len() => {
                let new = messages.as_slice()[old.len()..].iter().cloned();
                short.as_slice().iter().cloned().chain(new).collect()
            }
            _ => messages,
        }
    }

    /// Returns the tokens of the messages: the number that was reported for the last call with its
    /// response, plus an estimate of the messages added since.
    async fn tokens(&self, cx: &RunContext, messages: &Messages) -> u64 {
        let (known_tokens, known_len) = match &self.last {
            // The response to the last call follows the messages that were sent.
            Some((usage, sent)) if messages.len() > *sent => (usage.total_tokens(), sent + 1),
            _ => (0, 0),
        };
        let new_messages = &messages.as_slice()[known_len..];
        known_tokens.saturating_add(count(cx.token_counter(), new_messages).await)
    }
}

#[async_trait]
impl Hook for CompactionHook {
    fn name(&self) -> &str {
        "compaction"
    }

    fn description(&self) -> &str {
        "Shortens a long history with a function of the caller"
    }

    fn phases(&self) -> Phases {
        Phases::BEFORE_AGENT | Phases::WRAP_MODEL_CALL
    }

    async fn before_agent(&self, cx: &RunContext, mut state: AgentState) -> Result<AgentState> {
        cx.set_value(CompactionProgress::default());
        let tokens = count(cx.token_counter(), state.messages.as_slice()).await;
        let has_pending = !state.pending.is_empty();
        if !has_pending && self.should_compact(tokens, state.messages.len()) {
            state.messages = self.compact(cx, state.messages).await?;
            state.compaction = None;
        }
        Ok(state)
    }

    async fn wrap_model_call(
        &self,
        mut request: ModelRequest,
        next: Next<ModelRequest>,
    ) -> Result<ModelResponse> {
        let cx = next.context().clone();
        let shared_progress = cx.value::<CompactionProgress>().unwrap_or_default();
        let mut progress = lock(&shared_progress.0).clone();
        let messages = request.messages.clone();
        request.messages = progress.apply(messages.clone());
        let tokens = progress.tokens(&cx, &request.messages).await;
        if self.should_compact(tokens, request.messages.len()) {
            request.messages = self.compact(&cx, request.messages).await?;
            progress.replaced = Some((messages, request.messages.clone()));
            // The usage is that of the messages that were replaced.
            progress.last = None;
            // Stored before the call, which may fail and be repeated: the function is not called
            // twice for the same messages.
            *lock(&shared_progress.0) = progress.clone();
        }

        let sent_count = request.messages.len();
        let response = next.run(request).await?;
        progress.last = (!response.usage.is_zero()).then_some((response.usage, sent_count));
        *lock(&shared_progress.0) = progress;
        Ok(response)
    }
}

impl fmt::Debug for CompactionHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompactionHook")
            .field("threshold", &self.threshold)
            .finish_non_exhaustive()
    }
}
