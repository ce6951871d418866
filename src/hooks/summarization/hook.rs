//! [`SummarizationHook`], which replaces old messages with a summary.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::error::Result;
use crate::hook::{Hook, Next, Phases};
use crate::message::{Message, Messages};
use crate::model::{
    self, Compaction, CompactionRequest, Compactor, Model, ModelProfile, ModelRequest,
    ModelResponse,
};

use super::cut::{Keep, cut};
use super::fit::fit;
use super::measure::Measure;
use super::summarize::Summarizer;

/// Replaces old messages with a summary when the context window fills up.
///
/// A model summarizes the old messages, in at most 2,000 words,
///
/// * when a request would fill more than 85 % of the window, by the count that the provider
///   reported for the last request plus an estimate of the messages added since;
/// * when a provider reports that the prompt is too long;
/// * when the history is near its limit in bytes
///   ([`max_history_bytes`](crate::AgentBuilder::max_history_bytes)), or a message that is sent
///   during the run would exceed it;
/// * after a call of [`RunHandle::compact`](crate::RunHandle::compact).
///
/// The last tenth of the messages, and at least two, stay word for word. A tool call is never
/// separated from its result, a call that waits for approval is never summarized away, and the
/// system prompt is not part of the summary.
///
/// The store still has the whole history. The summary is stored next to it, so that later turns and
/// runs use it without another model call. The next summary replaces it. The run emits
/// `system/compact_boundary` with the tokens before and after, and with the ids of the messages
/// that stay in the prompt.
///
/// A tool result that is still too long for the window, such as the newest one, is sent with its
/// middle omitted.
///
/// # The summarizer
///
/// The summarizer reads a part that is longer than its own window piece by piece, in at most 512
/// requests. It receives only the first 2,000 characters of content that a call writes into a file.
/// Its tokens and its cost count for the run.
///
/// If the summarizer fails, takes too long or returns nothing, the history is sent as it is, and
/// the run emits a warning. In the same run, it is called again when the history has grown by a
/// twentieth, when a provider reports that the prompt is too long, and on request.
///
/// # Order
///
/// Add this hook last: as the innermost hook, it receives the request with the changes of all other
/// hooks.
///
/// ```
/// use agentcore::AgentBuilder;
/// use agentcore::hooks::SummarizationHook;
/// use agentcore::testing::ScriptedModel;
///
/// # async fn example() -> agentcore::Result<()> {
/// let summarizer = ScriptedModel::new().say("<summary>They counted to three.</summary>");
/// let model = ScriptedModel::new().say("one").say("two").say("three");
/// let agent = AgentBuilder::new(model)
///     .hook(SummarizationHook::new().with_model(summarizer))
///     .build()?;
/// for word in ["Count!", "Go on.", "And the last?"] {
///     let run = agent.session("s").run(word);
///     if word == "And the last?" {
///         run.handle().compact();
///     }
///     let output = run.await?;
///     if let Some(compaction) = output.state.compaction {
///         assert_eq!(compaction.summary, "They counted to three.");
///         assert_eq!(output.messages.len(), 6, "the history is whole");
///     }
/// }
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone)]
#[must_use = "a hook does something only in an agent"]
pub struct SummarizationHook {
    model: Option<Arc<dyn Model>>,
    window: Option<u64>,
    threshold: f64,
    max_messages: Option<usize>,
    keep: f64,
    keep_last: Option<usize>,
    timeout: Duration,
}

impl SummarizationHook {
    /// Creates a hook that summarizes with the run's own model and the default limits.
    pub fn new() -> Self {
        Self {
            model: None,
            window: None,
            threshold: 0.85,
            max_messages: None,
            keep: 0.10,
            keep_last: None,
            timeout: Duration::from_secs(120),
        }
    }

    /// Sets the model that summarizes. Its profile limits how much it reads at once. Defaults to
    /// the run's model.
    pub fn with_model(mut self, model: impl Model) -> Self {
        self.model = Some(model::erase(model));
        self
    }

    /// Sets the context window in tokens, for the prompt and the response together. Defaults to the
    /// context window of the run's model, or to 128,000 for an unknown model.
    pub fn with_context_window(mut self, tokens: u64) -> Self {
        self.window = Some(tokens);
        self
    }

    /// Sets the share of the window that may be full, from 0 to 1. Defaults to 0.85.
    pub fn with_threshold(mut self, share: f64) -> Self {
        self.threshold = share;
        self
    }

    /// Sets the number of messages after the last summary beyond which they are summarized, even if
    /// the window has room. Defaults to no limit.
    pub fn with_max_messages(mut self, count: usize) -> Self {
        self.max_messages = Some(count);
        self
    }

    /// Sets the number of messages that stay word for word, at least two, instead of a
    /// [share](Self::with_keep). More stay if a call would be separated from its result.
    pub fn with_keep_last(mut self, count: usize) -> Self {
        self.keep_last = Some(count);
        self
    }

    /// Sets the share of the messages that stay word for word, from 0 to 1. Defaults to 0.1. At
    /// least two messages stay, and beyond those no more than fit into a quarter of the window.
    pub fn with_keep(mut self, share: f64) -> Self {
        self.keep = share.clamp(0.0, 1.0);
        self
    }

    /// Sets the time limit of one call of the summarizer. Defaults to two minutes. A part that is
    /// read piece by piece takes a call for each piece, so a summary may take longer;
    /// [`max_duration`](crate::AgentBuilder::max_duration) limits the run.
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    fn window(&self, profile: &ModelProfile) -> u64 {
        self.window.unwrap_or(profile.context_window)
    }
}

impl Default for SummarizationHook {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for SummarizationHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SummarizationHook")
            .field("model", &self.model.as_ref().map(|model| model.id()))
            .field("window", &self.window)
            .field("threshold", &self.threshold)
            .field("max_messages", &self.max_messages)
            .field("keep", &self.keep)
            .field("keep_last", &self.keep_last)
            .field("timeout", &self.timeout)
            .finish()
    }
}

#[async_trait]
impl Hook for SummarizationHook {
    fn name(&self) -> &str {
        "summarization"
    }

    fn description(&self) -> &str {
        "Summarizes old messages when the context window fills up"
    }

    fn phases(&self) -> Phases {
        Phases::WRAP_MODEL_CALL
    }

    fn compactor(&self) -> Option<Arc<dyn Compactor>> {
        Some(Arc::new(self.clone()))
    }

    async fn wrap_model_call(
        &self,
        request: ModelRequest,
        next: Next<ModelRequest>,
    ) -> Result<ModelResponse> {
        let cx = next.context().clone();
        let profile = cx.profile();
        let window = self.window(&profile);
        let counter = cx.token_counter();
        let max_output = profile.max_output_tokens;
        let fitted = fit(request, window, max_output, counter, Measure::of(&cx)).await;
        let response = next.run(fitted.request).await?;
        Measure::note(
            &cx,
            fitted.estimated_tokens,
            response.usage.context_tokens(),
        );
        Ok(response)
    }
}

#[async_trait]
impl Compactor for SummarizationHook {
    fn should_compact(&self, _: &Messages, context_tokens: u64, profile: &ModelProfile) -> bool {
        context_tokens as f64 > self.window(profile) as f64 * self.threshold
    }

    fn has_too_many(&self, messages: usize) -> bool {
        self.max_messages.is_some_and(|limit| messages > limit)
    }

    async fn compact(&self, request: CompactionRequest) -> Result<Option<Compaction>> {
        let window = self.window(request.model.profile());
        let messages = &request.messages;
        let is_system = |message: &&Message| matches!(message, Message::System(_));
        let instruction_count = messages.iter().take_while(is_system).count();
        let covered_count = request
            .current
            .as_ref()
            .map_or(0, |compaction| compaction.through_message);
        let start = covered_count.max(instruction_count);
        let keep = Keep {
            share: self.keep,
            count: self.keep_last,
            tokens: window / 4,
        };

        let cut_index = cut(messages, start, keep, &request.counter).await?;
        let Some(cut_index) = cut_index else {
            return Ok(None);
        };

        let old_messages = &messages.as_slice()[start..cut_index];
        let current = request.current.as_ref();
        let old_summary = current.map(|compaction| compaction.summary.clone());
        let summarizer = Summarizer {
            request: &request,
            model: self.model.clone().unwrap_or_else(|| request.model.clone()),
            window,
            timeout: self.timeout,
        };

        let summary = summarizer.summarize(old_summary, old_messages).await?;
        Ok(Some(Compaction::new(summary, cut_index)))
    }
}
