//! The compaction of a history.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::time::{Instant, timeout};

use crate::error::{Error, ErrorKind, Result};
use crate::message::Messages;
use crate::model::{Compaction, CompactionRequest, CompactionTrigger, Compactor, request_overhead};
use crate::run::{OutputFormat, RunContext};
use crate::sdk::{
    Activity, CompactBoundary, CompactTrigger, PreservedMessages, SdkMessage, Status, SystemEvent,
    SystemKind,
};
use crate::util::panic::{self, DropContained};
use crate::util::sync::lock;

use super::active_run::ActiveRun;
use super::config::Config;
use super::history::History;
use super::request::RequestBuilder;

/// The divisor of the growth after which a compaction that failed, or had nothing to shorten, is
/// tried again: the context must have grown by a twentieth.
const RETRY_GROWTH_DIVISOR: u64 = 20;

/// The time limit of a count by the model.
const COUNT_TIMEOUT: Duration = Duration::from_secs(5);

/// The parts of a run that the compaction of its history uses.
pub(super) struct Compacting<'a> {
    config: &'a Config,
    cx: &'a RunContext,
    history: &'a mut History,
    requests: &'a mut RequestBuilder,
    format: Option<&'a OutputFormat>,
}

impl ActiveRun {
    /// Borrows the parts of the run for a compaction.
    pub(super) fn compacting(&mut self) -> Compacting<'_> {
        Compacting {
            config: &self.config,
            cx: &self.cx,
            history: &mut self.history,
            requests: &mut self.requests,
            format: self.format.as_ref(),
        }
    }
}

impl Compacting<'_> {
    /// Compacts the history if a compaction was requested or is due. A failure changes nothing and
    /// is reported.
    pub(super) async fn compact_if_due(&mut self) {
        let is_requested = std::mem::take(&mut lock(&self.cx.shared().control).should_compact);
        if is_requested {
            self.compact(CompactionTrigger::Manual).boxed().await;
        } else if self.is_due().await {
            self.compact(CompactionTrigger::Auto).boxed().await;
        }
    }

    /// Returns `true` if the history should be compacted now. Near the limit, the model is asked
    /// for the exact number of tokens.
    async fn is_due(&mut self) -> bool {
        if self.config.compactor.is_none() {
            return false;
        }

        self.update_size().await;
        if self.is_too_soon_to_retry() {
            return false;
        }

        if self.is_full() {
            return true;
        }

        if self.is_near_the_limit() {
            self.count_tokens().boxed().await;
        }

        self.is_too_long().await
    }

    /// Counts the messages that were added since the last count.
    async fn update_size(&mut self) {
        let messages = self.cx.state(|state| state.messages.clone());
        let counter = self.cx.token_counter();
        self.history.context_size.update(counter, &messages).await;
    }

    /// Returns `true` if a compaction has failed, or had nothing to shorten, and the context has
    /// hardly grown since.
    fn is_too_soon_to_retry(&self) -> bool {
        let retry_limit = |tokens: u64| tokens.saturating_add(tokens / RETRY_GROWTH_DIVISOR);
        let failed_at_tokens = self.history.context_size.failed_at_tokens;
        failed_at_tokens.is_some_and(|tokens| self.context_tokens() <= retry_limit(tokens))
    }

    /// Returns `true` if there is a compactor, and the history is near its limit in bytes or has
    /// more messages than the compactor allows. A compaction is then due at any number of tokens.
    fn is_full(&self) -> bool {
        let Some(compactor) = &self.config.compactor else {
            return false;
        };
        if self.history.byte_size.is_crowded() {
            return true;
        }

        let count = self.cx.state(|state| {
            let covered = state.compaction.as_ref();
            let covered_count = covered.map_or(0, |compaction| compaction.through_message);
            state.messages.len().saturating_sub(covered_count)
        });
        self.false_on_panic(panic::catch(|| compactor.has_too_many(count)))
    }

    /// Returns `true` if there is a compactor and it reports that the next request is too long.
    pub(super) async fn is_too_long(&mut self) -> bool {
        if self.config.compactor.is_none() {
            return false;
        }

        self.update_size().await;
        self.false_on_panic(self.should_compact(self.context_tokens()))
    }

    /// Returns a decision of the compactor. A panic is reported as a warning and counts as `false`.
    fn false_on_panic(&self, decision: Result<bool, String>) -> bool {
        decision.unwrap_or_else(|text| {
            self.cx.warn(panicked(&text).to_string());
            false
        })
    }

    /// Returns `true` if an exact count could change what the compactor decides: its decisions for
    /// the minimum and the maximum number of tokens of the next request differ.
    fn is_near_the_limit(&self) -> bool {
        let size = &self.history.context_size;
        if !size.is_worth_counting() {
            return false;
        }

        let (low, high) = size.range(self.context_tokens());
        let decisions = (self.should_compact(low), self.should_compact(high));
        matches!(decisions, (Ok(false), Ok(true)))
    }

    /// Returns the decision of the compactor for a request of `tokens` tokens, or the text of its
    /// panic.
    fn should_compact(&self, tokens: u64) -> Result<bool, String> {
        let Some(compactor) = &self.config.compactor else {
            return Ok(false);
        };

        let messages = self.cx.state(|state| state.messages.clone());
        let profile = self.cx.profile();
        panic::catch(|| compactor.should_compact(&messages, tokens, &profile))
    }

    /// Asks the model for the tokens of the next request, without the changes of hooks. If it does
    /// not count them, the estimate stays.
    async fn count_tokens(&mut self) {
        // If the history is invalid, the request that follows reports the error.
        let request = self
            .requests
            .build_unmodified(self.config, self.cx, self.format);
        let Ok(request) = request else {
            return;
        };

        let model = self.cx.model();
        let counting = panic::catch_async(async move { model.count_tokens(request).await });
        let counting = DropContained::new(counting.boxed(), "a count of tokens");
        let count = match timeout(COUNT_TIMEOUT, counting).await {
            Ok(Ok(count)) => count.map_err(|error| error.to_string()),
            Ok(Err(text)) => Err(format!("it panicked: {text}")),
            Err(_) => Err(format!(
                "it took longer than {} seconds",
                COUNT_TIMEOUT.as_secs()
            )),
        };

        let tokens = count.unwrap_or_else(|reason| {
            self.cx.warn(format!(
                "the model did not count the tokens of the request, so an estimate decides about \
                 its compaction: {reason}"
            ));
            None
        });
        let tokens = tokens.filter(|tokens| *tokens > 0);
        let len = self.cx.state(|state| state.messages.len());
        self.history.context_size.count(tokens, len);
    }

    /// Returns the number of tokens of the next request, system prompt and tools included.
    fn context_tokens(&self) -> u64 {
        let tokens = self.history.context_size.tokens();
        if self.history.context_size.is_reported() {
            return tokens;
        }
        let counter = &**self.cx.token_counter();
        let system = self.cx.system().prompt();
        let tools = self.cx.tools().definitions();
        tokens.saturating_add(request_overhead(
            counter,
            &system,
            &tools,
            &self.config.request.hosted_tools,
        ))
    }

    /// Compacts the history; returns `true` if it is shorter now.
    pub(super) async fn compact(&mut self, trigger: CompactionTrigger) -> bool {
        let Some(compactor) = self.config.compactor.clone() else {
            if trigger == CompactionTrigger::Manual {
                self.cx.warn(
                    "a compaction was requested, but the agent has no compactor; add a \
                     SummarizationHook or set AgentBuilder::compactor",
                );
            }

            return false;
        };

        self.update_size().await;
        let start_time = Instant::now();
        self.cx.emit(SystemKind::Status(Box::new(Status::new(
            Activity::Compacting,
        ))));
        let (messages, current_compaction) = self
            .cx
            .state(|state| (state.messages.clone(), state.compaction.clone()));
        let outcome = summarize(self.cx, &*compactor, messages, current_compaction, trigger).await;
        self.record_outcome(&outcome, trigger);
        let status = status_after(&outcome);
        self.cx.emit(SystemKind::Status(Box::new(status)));
        let Ok(Some(new_compaction)) = outcome else {
            return false;
        };

        self.apply(trigger, new_compaction, start_time.elapsed())
            .await;
        true
    }

    /// Warns of a compaction that failed, or that was requested and had nothing to shorten. After a
    /// failure, or an automatic compaction that had nothing to shorten, delays the next one.
    fn record_outcome(&mut self, outcome: &Result<Option<Compaction>>, trigger: CompactionTrigger) {
        match outcome {
            Ok(Some(_)) => {}
            Ok(None) if trigger == CompactionTrigger::Manual => {
                self.cx
                    .warn("a compaction was requested, but there is nothing to shorten");
            }
            Ok(None) => {
                self.history.context_size.failed_at_tokens = Some(self.context_tokens());
            }
            Err(error) => {
                self.history.context_size.failed_at_tokens = Some(self.context_tokens());
                self.cx.warn(format!(
                    "the history was not compacted: {error}; it is tried again when it has grown \
                     by a twentieth, or when a model rejects it as too long"
                ));
            }
        }
    }

    /// Adds a compaction to the state, stores it and emits its boundary.
    async fn apply(
        &mut self,
        trigger: CompactionTrigger,
        compaction: Compaction,
        duration: Duration,
    ) {
        let old_tokens = self.context_tokens();
        let end = compaction.through_message;
        self.cx.state(|state| state.compaction = Some(compaction));
        self.history.recount();
        self.update_size().await;
        if let Err(error) = self.history.save().await {
            self.cx
                .warn(format!("the compaction was not stored: {error}"));
        }

        let trigger = match trigger {
            CompactionTrigger::Manual => CompactTrigger::Manual,
            CompactionTrigger::Auto => CompactTrigger::Auto,
        };

        let envelope = self.cx.shared().envelope();
        let mut boundary = CompactBoundary::new(trigger, old_tokens);
        boundary.post_tokens = Some(self.context_tokens());
        boundary.duration_ms = u64::try_from(duration.as_millis()).ok();
        let preserved_ids = self.history.emitted.since(end);
        if !preserved_ids.is_empty() {
            boundary.preserved_messages =
                Some(PreservedMessages::new(envelope.uuid, preserved_ids));
        }

        let kind = SystemKind::CompactBoundary(Box::new(boundary));
        self.cx
            .shared()
            .push(SdkMessage::System(SystemEvent::new(envelope, kind)));
    }
}

/// Calls the compactor for a history. Its model calls count in the budget of `cx`. Returns `None`
/// if there is nothing to shorten.
///
/// # Errors
///
/// Returns the compactor's error, and an error if it panics or if [`check_summary`] refuses its
/// summary.
pub(super) async fn summarize(
    cx: &RunContext,
    compactor: &dyn Compactor,
    messages: Messages,
    current_compaction: Option<Compaction>,
    trigger: CompactionTrigger,
) -> Result<Option<Compaction>> {
    let caller_cx = cx.clone();
    let mut request = CompactionRequest::new(messages.clone(), cx.model()).with_caller(Arc::new(
        move |model, request| {
            let cx = caller_cx.clone();
            async move { cx.call_model(&model, request).await }.boxed()
        },
    ));
    request.current = current_compaction.clone();
    request.trigger = trigger;
    request.counter = cx.token_counter().clone();

    // The call itself is inside the future, so that a panic before its first await is caught.
    let compacting = panic::catch_async(async { compactor.compact(request).await });
    let compaction = compacting.await.map_err(|text| panicked(&text))??;
    if let Some(compaction) = &compaction {
        check_summary(&messages, current_compaction.as_ref(), compaction)?;
    }

    Ok(compaction)
}

/// Returns the status of the run after a compaction.
fn status_after(outcome: &Result<Option<Compaction>>) -> Status {
    let mut status = Status::new(None);
    match outcome {
        Ok(Some(_)) => status.compact_result = Some("success".into()),
        Ok(None) => {}
        Err(error) => {
            status.compact_result = Some("failed".into());
            status.compact_error = Some(error.to_string());
        }
    }
    status
}

/// Returns the error for a panic of the compactor with this text.
fn panicked(text: &str) -> Error {
    Error::new(ErrorKind::Other, format!("the compactor panicked: {text}"))
}

/// Checks that a summary covers at least the messages of the previous summary, and does not
/// separate a call from its results.
fn check_summary(
    messages: &Messages,
    current: Option<&Compaction>,
    new: &Compaction,
) -> Result<()> {
    let refuse = |reason: String| Err(Error::new(ErrorKind::InvalidMessages, reason));
    let end = new.through_message;
    if new.summary.trim().is_empty() {
        return refuse("the summary is empty".into());
    }

    if end > messages.len() {
        let len = messages.len();
        return refuse(format!("the summary covers {end} messages of {len}"));
    }

    if current.is_some_and(|current| end < current.through_message) {
        return refuse("the summary covers less than the one before".into());
    }

    if messages
        .get(end)
        .is_some_and(|next| next.as_tool_result().is_some())
    {
        return refuse(format!(
            "the cut before message[{end}] would separate a tool call from its result; cut before \
             the call"
        ));
    }

    let covered_messages = &messages.as_slice()[..end];
    let mut open_calls = HashMap::new();
    for (index, message) in covered_messages.iter().enumerate() {
        open_calls.extend(message.tool_calls().map(|call| (&*call.id, index)));
        if let Some(result) = message.as_tool_result() {
            open_calls.remove(&*result.tool_call_id);
        }
    }

    if let Some(index) = open_calls.values().min() {
        return refuse(format!("the calls of message[{index}] have no results yet"));
    }

    Ok(())
}
