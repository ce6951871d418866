//! The size of the context, and its compaction.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::time::Instant;
use uuid::Uuid;

use crate::error::{Error, ErrorKind, Result};
use crate::message::{Message, Messages, TokenCounter};
use crate::model::{Compaction, CompactionRequest, CompactionTrigger, Compactor, request_overhead};
use crate::sdk::{
    Activity, CompactBoundary, CompactTrigger, PreservedMessages, SdkMessage, Status, SystemEvent,
    SystemKind,
};
use crate::usage::{Usage, total};
use crate::util::panic;
use crate::util::sync::lock;

use super::active_run::Driver;

/// After a failure it is tried again when the context has grown by one part in this many.
const RETRY_GROWTH: u64 = 20;

/// The token count of the next request: the count the provider reported for the last one, plus an
/// estimate of the messages added since.
#[derive(Debug, Default)]
pub(super) struct Context {
    tokens: u64,
    /// True once the provider has reported a count, which includes system prompt and tools.
    reported: bool,
    /// The token count when a compaction last failed. A compaction that failed a turn ago mostly
    /// fails again, and costs time and money each time.
    failed_at: Option<u64>,
}

impl Context {
    pub(super) fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Counts what is sent of a history, when nothing better is known.
    pub(super) fn restart(
        &mut self,
        counter: &dyn TokenCounter,
        messages: &Messages,
        compaction: Option<&Compaction>,
    ) {
        let summary = compaction.map_or(0, |made| counter.count_text(&made.summary));
        let covered = compaction.map_or(0, |made| made.through_message);
        let rest = messages.iter().skip(covered);
        let rest = rest.map(|message| counter.count_message(message));
        self.tokens = total(rest.chain([summary]));
        self.reported = false;
        self.failed_at = None;
    }

    pub(super) fn add(&mut self, counter: &dyn TokenCounter, messages: &[Arc<Message>]) {
        let added = messages
            .iter()
            .map(|message| counter.count_message(message));
        self.tokens = total(added.chain([self.tokens]));
    }

    /// Sets the count to the one the provider reported, which covers the whole request.
    pub(super) fn report(&mut self, usage: &Usage) {
        if usage.context_tokens() > 0 {
            self.tokens = usage.context_tokens();
            self.reported = true;
        }
    }
}

/// The ids under which messages of the history were emitted, by position.
#[derive(Debug, Default)]
pub(super) struct Shown(Vec<(usize, Uuid)>);

impl Shown {
    /// The last `count` messages of a history of `len` were shown as one message.
    pub(super) fn note(&mut self, len: usize, count: usize, id: Uuid) {
        self.0.push((len.saturating_sub(count), id));
    }

    /// The ids of what stands at `from` or later, in order.
    fn since(&self, from: usize) -> Vec<Uuid> {
        let kept = self.0.iter().filter(|(at, _)| *at >= from);
        kept.map(|(_, id)| *id).collect()
    }
}

impl Driver {
    /// Compacts when it is asked for or time. A failure changes nothing and is reported.
    pub(super) async fn compact_if_due(&mut self) {
        let asked = std::mem::take(&mut lock(&self.cx.shared().control).compact);
        if asked {
            self.compact(CompactionTrigger::Manual).boxed().await;
        } else if self.is_crowded() && !self.failed_lately() {
            self.compact(CompactionTrigger::Auto).boxed().await;
        }
    }

    /// Returns `true` if a compaction has failed and the context has hardly grown since.
    fn failed_lately(&self) -> bool {
        let enough = |at: u64| at.saturating_add(at / RETRY_GROWTH);
        let failed_at = self.context.failed_at;
        failed_at.is_some_and(|at| self.context_tokens() <= enough(at))
    }

    /// Returns `true` if the compactor, if there is one, finds the next request too long.
    pub(super) fn is_crowded(&self) -> bool {
        let Some(compactor) = &self.config.compactor else {
            return false;
        };
        let messages = self.cx.state(|state| state.messages.clone());
        let tokens = self.context_tokens();
        let profile = self.cx.profile();
        let asked = panic::contained(|| compactor.should_compact(&messages, tokens, &profile));
        asked.unwrap_or_else(|text| {
            self.cx.warn(panicked(&text).to_string());
            false
        })
    }

    /// The tokens of the next request, system prompt and tools included.
    fn context_tokens(&self) -> u64 {
        let tokens = self.context.tokens();
        if self.context.reported {
            return tokens;
        }
        let counter = &**self.cx.token_counter();
        let (system, tools) = (self.cx.system().prompt(), self.cx.tools().definitions());
        tokens.saturating_add(request_overhead(counter, &system, &tools))
    }

    /// Compacts the history; returns `true` if it is shorter now.
    pub(super) async fn compact(&mut self, trigger: CompactionTrigger) -> bool {
        let Some(compactor) = self.config.compactor.clone() else {
            if trigger == CompactionTrigger::Manual {
                self.cx.warn(
                    "a compaction was asked for, but the agent has nothing that makes one; give \
                     it a SummarizationHook or a compactor",
                );
            }
            return false;
        };
        let started = Instant::now();
        self.cx.emit(SystemKind::Status(Box::new(Status::new(
            Activity::Compacting,
        ))));
        let mut status = Status::new(None);
        let mut made = None;
        match self.summarize(&*compactor, trigger).await {
            Ok(None) if trigger == CompactionTrigger::Manual => {
                self.cx
                    .warn("a compaction was asked for, but there is nothing to make shorter");
            }
            Ok(compaction) => made = compaction,
            Err(error) => {
                status.compact_result = Some("failed".into());
                status.compact_error = Some(error.to_string());
                self.context.failed_at = Some(self.context_tokens());
                self.cx.warn(format!(
                    "the history was not compacted: {error}; it is tried again when it has grown \
                     by a twentieth, or when a model finds it too long"
                ));
            }
        }
        if made.is_some() {
            status.compact_result = Some("success".into());
        }
        self.cx.emit(SystemKind::Status(Box::new(status)));
        let Some(made) = made else {
            return false;
        };
        self.apply(trigger, made, started.elapsed()).await;
        true
    }

    /// The new compaction, if there is anything to gain and it may be used.
    async fn summarize(
        &self,
        compactor: &dyn Compactor,
        trigger: CompactionTrigger,
    ) -> Result<Option<Compaction>> {
        let (messages, current) = self
            .cx
            .state(|state| (state.messages.clone(), state.compaction.clone()));
        let cx = self.cx.clone();
        let mut request = CompactionRequest::new(messages.clone(), self.cx.model()).with_caller(
            Arc::new(move |model, request| {
                let cx = cx.clone();
                async move { cx.call_model(&model, request).await }.boxed()
            }),
        );
        request.current = current.clone();
        request.trigger = trigger;
        request.counter = self.cx.token_counter().clone();
        // The call itself is inside the future, so that a panic before its first await is caught.
        let compacting = panic::caught(async { compactor.compact(request).await });
        let compaction = compacting.await.map_err(|text| panicked(&text))??;
        if let Some(compaction) = &compaction {
            check(&messages, current.as_ref(), compaction)?;
        }
        Ok(compaction)
    }

    async fn apply(&mut self, trigger: CompactionTrigger, made: Compaction, took: Duration) {
        let before = self.context_tokens();
        let counter = self.cx.token_counter().clone();
        let through = made.through_message;
        let state = self.cx.state(|state| {
            state.compaction = Some(made);
            state.clone()
        });
        self.context
            .restart(&*counter, &state.messages, state.compaction.as_ref());
        if let Err(error) = self.save(&state).await {
            self.cx
                .warn(format!("the compaction was not stored: {error}"));
        }
        let trigger = match trigger {
            CompactionTrigger::Manual => CompactTrigger::Manual,
            CompactionTrigger::Auto => CompactTrigger::Auto,
        };
        let envelope = self.cx.shared().envelope();
        let mut boundary = CompactBoundary::new(trigger, before);
        boundary.post_tokens = Some(self.context_tokens());
        boundary.duration_ms = u64::try_from(took.as_millis()).ok();
        let kept = self.shown.since(through);
        if !kept.is_empty() {
            boundary.preserved_messages = Some(PreservedMessages::new(envelope.uuid, kept));
        }
        let kind = SystemKind::CompactBoundary(Box::new(boundary));
        self.cx
            .shared()
            .push(SdkMessage::System(SystemEvent::new(envelope, kind)));
    }
}

fn panicked(text: &str) -> Error {
    Error::new(ErrorKind::Other, format!("the compactor panicked: {text}"))
}

/// A summary must cover what the one before covered, and not part a call from its results.
fn check(messages: &Messages, current: Option<&Compaction>, new: &Compaction) -> Result<()> {
    let refuse = |why: String| Err(Error::new(ErrorKind::InvalidMessages, why));
    let through = new.through_message;
    if new.summary.trim().is_empty() {
        return refuse("the summary is empty".into());
    }
    if through > messages.len() {
        let len = messages.len();
        return refuse(format!("the summary covers {through} messages of {len}"));
    }
    if current.is_some_and(|current| through < current.through_message) {
        return refuse("the summary covers less than the one before".into());
    }
    if messages
        .get(through)
        .is_some_and(|next| next.as_tool_result().is_some())
    {
        return refuse(format!(
            "the cut before message[{through}] would part a tool call from its result"
        ));
    }
    let covered = &messages.as_slice()[..through];
    let mut open = HashMap::new();
    for (at, message) in covered.iter().enumerate() {
        open.extend(message.tool_calls().map(|call| (&*call.id, at)));
        if let Some(result) = message.as_tool_result() {
            open.remove(&*result.tool_call_id);
        }
    }
    if let Some(at) = open.values().min() {
        return refuse(format!("the calls of message[{at}] have no results yet"));
    }
    Ok(())
}
