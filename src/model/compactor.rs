//! The interface for shortening a long history.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::message::{EstimateCounter, Messages, TokenCounter};

use super::model::Model;
use super::profile::ModelProfile;
use super::request::ModelRequest;
use super::response::ModelResponse;

/// A summary that replaces the first messages of a history in requests. The history itself stays
/// as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Compaction {
    /// The summary of the covered messages.
    pub summary: String,
    /// The number of covered messages: the summary replaces that many messages at the beginning of
    /// the history. System messages at the very beginning are instructions and stay in the prompt.
    pub through_message: usize,
}

impl Compaction {
    /// Creates a summary of the first `through_message` messages.
    pub fn new(summary: impl Into<String>, through_message: usize) -> Self {
        Self {
            summary: summary.into(),
            through_message,
        }
    }
}

/// The reason for a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CompactionTrigger {
    /// The context window fills up, a request was too long, or a response was truncated. Or the
    /// history is near [`max_history_bytes`](crate::AgentBuilder::max_history_bytes), or has more
    /// messages than the compactor allows.
    Auto,
    /// The caller requested it.
    Manual,
}

/// The function through which a compactor calls a model on a run's account.
pub(crate) type ModelCaller = Arc<
    dyn Fn(Arc<dyn Model>, ModelRequest) -> BoxFuture<'static, Result<ModelResponse>> + Send + Sync,
>;

/// The input of a compactor.
#[derive(Clone)]
#[non_exhaustive]
pub struct CompactionRequest {
    /// The whole history.
    pub messages: Messages,
    /// The current compaction. A new one replaces it, and must cover at least as many messages.
    pub current: Option<Compaction>,
    /// The reason for the compaction.
    pub trigger: CompactionTrigger,
    /// The model of the run, whose requests will have the summary.
    pub model: Arc<dyn Model>,
    /// The token counter of the run.
    pub counter: Arc<dyn TokenCounter>,
    caller: Option<ModelCaller>,
}

impl CompactionRequest {
    /// Creates a request outside any run, made by hand: the usage of [`call`](Self::call) is not
    /// recorded.
    pub fn new(messages: impl Into<Messages>, model: impl Model) -> Self {
        Self {
            messages: messages.into(),
            current: None,
            trigger: CompactionTrigger::Manual,
            model: super::model::erase(model),
            counter: Arc::new(EstimateCounter),
            caller: None,
        }
    }

    /// Calls a model: the run's or another one. The call counts in the run's budget and statistics,
    /// and is repeated by the run's retry policy.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`RunContext::call_model`](crate::RunContext::call_model). A
    /// request that was made by hand has no budget and is not repeated: it returns the error of
    /// [`Model::call`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the request to the model.
    pub async fn call(
        &self,
        model: &Arc<dyn Model>,
        request: ModelRequest,
    ) -> Result<ModelResponse> {
        match &self.caller {
            Some(caller) => caller(model.clone(), request).await,
            None => model.call(request).await,
        }
    }

    pub(crate) fn with_caller(mut self, caller: ModelCaller) -> Self {
        self.caller = Some(caller);
        self
    }
}

impl fmt::Debug for CompactionRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompactionRequest")
            .field("messages", &self.messages.len())
            .field("current", &self.current)
            .field("trigger", &self.trigger)
            .field("model", &self.model.id())
            .finish_non_exhaustive()
    }
}

/// Shortens the requests of a long conversation by a summary of the beginning of the history.
///
/// Before every model call, and after a response that reached the output limit, the loop asks the
/// compactor whether the history is too long. The loop also compacts when a provider reports that
/// the prompt is too long, when the history is near its limit in bytes, and on request.
/// An agent has one compactor, from [`AgentBuilder::compactor`](crate::AgentBuilder::compactor) or
/// from a [hook](crate::Hook::compactor).
///
/// # Exact counts
///
/// The number of tokens of the next request is the number that the provider reported for the last
/// request, plus an estimate of the messages added since. The estimated part may be up to a fifth
/// too high or a quarter too low. If [`should_compact`](Self::should_compact) returns `false` for
/// the lowest number and `true` for the highest, and more than a tenth of the tokens is estimated,
/// the loop asks the model for the exact number ([`Model::count_tokens`]) before it calls it. The
/// request is counted without the changes of the hooks' `modify_request`.
///
/// The loop asks at most once in a turn, and waits at most five seconds. If the model does not
/// count, the estimate decides, and the model is not asked again until the history is compacted or
/// another model is set. If the count fails or takes too long, the reader also receives a warning.
#[async_trait]
pub trait Compactor: Send + Sync + 'static {
    /// Returns `true` if the history should be compacted now. `context_tokens` is the number that
    /// the provider reported for the last request plus an estimate of the messages added since. If
    /// nothing was reported, it is an estimate alone. If the model was asked, it is an exact count.
    ///
    /// Called several times in a turn with different numbers of tokens, so it should be quick and
    /// depend on its arguments alone.
    fn should_compact(
        &self,
        messages: &Messages,
        context_tokens: u64,
        profile: &ModelProfile,
    ) -> bool;

    /// Returns `true` if a history with `messages` messages after the last summary should be
    /// compacted, regardless of its tokens. Called before each model call. Returns `false` unless
    /// implemented.
    fn has_too_many(&self, _messages: usize) -> bool {
        false
    }

    /// Summarizes the beginning of the history. `Ok(None)` means that nothing can be gained: the
    /// compactor is called again when the context has grown by a twentieth.
    ///
    /// Called when the history is too long by [`should_compact`](Self::should_compact) or
    /// [`has_too_many`](Self::has_too_many). Also called regardless of them: when a provider
    /// reports that the prompt is too long, when the caller requests a compaction, and when the
    /// history is near [`max_history_bytes`](crate::AgentBuilder::max_history_bytes) or a message
    /// that is sent during the run would exceed them.
    ///
    /// The loop checks the result: a cut between a call and its results is refused. A failure
    /// changes nothing and is reported to the reader.
    ///
    /// # Errors
    ///
    /// In a run, an error becomes a warning, and so does a panic; the compactor is called again
    /// when the context has grown by a twentieth. [`Session::compact`](crate::Session::compact)
    /// returns the error.
    ///
    /// # Cancel safety
    ///
    /// The future is dropped when the run is dropped or stopped, for example by an interrupt. The
    /// history then stays as it is.
    async fn compact(&self, request: CompactionRequest) -> Result<Option<Compaction>>;
}

#[async_trait]
impl<C: Compactor + ?Sized> Compactor for Arc<C> {
    fn should_compact(&self, messages: &Messages, tokens: u64, profile: &ModelProfile) -> bool {
        (**self).should_compact(messages, tokens, profile)
    }

    fn has_too_many(&self, messages: usize) -> bool {
        (**self).has_too_many(messages)
    }

    async fn compact(&self, request: CompactionRequest) -> Result<Option<Compaction>> {
        (**self).compact(request).await
    }
}

/// A compactor that never compacts. Set it on a builder to disable the compactors of hooks.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoCompaction;

#[async_trait]
impl Compactor for NoCompaction {
    fn should_compact(&self, _: &Messages, _: u64, _: &ModelProfile) -> bool {
        false
    }

    async fn compact(&self, _: CompactionRequest) -> Result<Option<Compaction>> {
        Ok(None)
    }
}
