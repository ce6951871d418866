//! How full the context is, and making it less so.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::time::Instant;

use crate::error::{Error, ErrorKind, Result};
use crate::message::{Message, Messages, TokenCounter};
use crate::model::{Compacted, Compaction, CompactionTrigger, ModelRequest};
use crate::sdk::{Activity, CompactBoundary, CompactTrigger, Status, SystemKind};
use crate::usage::Usage;
use crate::util::sync::lock;

use super::booking::book;
use super::drive::Driver;

/// How many tokens the next request has: what the provider said about the last one, and an
/// estimate of what was added since.
#[derive(Debug, Default)]
pub(super) struct Context {
    tokens: u64,
}

impl Context {
    pub(super) fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Counts a whole history, when nothing better is known.
    pub(super) fn restart(&mut self, counter: &dyn TokenCounter, messages: &Messages) {
        self.tokens = messages
            .iter()
            .map(|message| counter.count_message(message))
            .sum();
    }

    pub(super) fn add(&mut self, counter: &dyn TokenCounter, messages: &[Arc<Message>]) {
        let added: u64 = messages
            .iter()
            .map(|message| counter.count_message(message))
            .sum();
        self.tokens = self.tokens.saturating_add(added);
    }

    /// The provider has spoken: its prompt count stands for all that was sent.
    pub(super) fn report(&mut self, usage: &Usage) {
        if usage.context_tokens() > 0 {
            self.tokens = usage.context_tokens();
        }
    }
}

impl Driver {
    /// Compacts when it is asked for or time. A failure changes nothing and is reported.
    pub(super) async fn compact_if_due(&mut self) {
        let asked = std::mem::take(&mut lock(&self.cx.shared().control).compact);
        let compactor = self.agent.config().compactor.clone();
        let messages = self.cx.state(|state| state.messages.clone());
        let profile = self.cx.profile();
        let due = asked || compactor.should_compact(&messages, self.context.tokens(), &profile);
        drop(messages);
        if due {
            let trigger = if asked {
                CompactionTrigger::Manual
            } else {
                CompactionTrigger::Auto
            };
            self.compact(trigger).boxed().await;
        }
    }

    /// Whether the history is shorter now.
    pub(super) async fn compact(&mut self, trigger: CompactionTrigger) -> bool {
        let compactor = self.agent.config().compactor.clone();
        let (messages, current) = self
            .cx
            .state(|state| (state.messages.clone(), state.compaction.clone()));
        let started = Instant::now();
        let mut status = Status::new(Activity::Compacting);
        self.cx.emit(SystemKind::Status(Box::new(status)));
        let outcome = compactor
            .compact(&messages, current.as_ref(), trigger)
            .await;
        if let Ok(compacted) = &outcome {
            self.book_compaction(compacted);
        }
        let made = outcome.and_then(|compacted| match compacted.compaction {
            Some(made) => check(&messages, current.as_ref(), &made).map(|()| Some(made)),
            None => Ok(None),
        });
        let failure = match made {
            Ok(None) => None,
            Ok(Some(compaction)) => {
                self.apply(trigger, &messages, compaction, started.elapsed())
                    .await;
                return true;
            }
            Err(error) => Some(error),
        };
        status = Status::new(None);
        if let Some(error) = failure {
            status.compact_result = Some("failed".into());
            status.compact_error = Some(error.to_string());
            self.cx
                .warn(format!("the history was not compacted: {error}"));
        }
        self.cx.emit(SystemKind::Status(Box::new(status)));
        false
    }

    /// Books what a compaction has used, whatever came of it.
    fn book_compaction(&self, compacted: &Compacted) {
        if compacted.usage.is_zero() {
            return;
        }
        let own = || self.cx.model().card(&ModelRequest::default());
        let card = compacted.card.clone().unwrap_or_else(own);
        book(&self.cx, &card, compacted.usage);
    }

    async fn apply(
        &mut self,
        trigger: CompactionTrigger,
        messages: &Messages,
        compaction: Compaction,
        took: Duration,
    ) {
        let before = self.context.tokens();
        let counter = self.agent.config().counter.clone();
        let rest: u64 = messages
            .iter()
            .skip(compaction.through_message)
            .map(|message| counter.count_message(message))
            .sum();
        self.context = Context {
            tokens: counter.count_text(&compaction.summary) + rest,
        };
        let state = self.cx.state(|state| {
            state.compaction = Some(compaction);
            state.clone()
        });
        let saved = match self.keeper() {
            Ok(keeper) => keeper.save(&state).await,
            Err(error) => Err(error),
        };
        if let Err(error) = saved {
            self.cx
                .warn(format!("the compaction was not stored: {error}"));
        }
        let trigger = match trigger {
            CompactionTrigger::Manual => CompactTrigger::Manual,
            CompactionTrigger::Auto => CompactTrigger::Auto,
        };
        let mut boundary = CompactBoundary::new(trigger, before);
        boundary.post_tokens = Some(self.context.tokens());
        boundary.duration_ms = u64::try_from(took.as_millis()).ok();
        self.cx
            .emit(SystemKind::CompactBoundary(Box::new(boundary)));
    }
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
    let open = messages
        .get(through.wrapping_sub(1))
        .is_some_and(|last| last.tool_calls().next().is_some());
    if through > 0 && open {
        return refuse(format!(
            "the calls of message[{}] have no results yet",
            through - 1
        ));
    }
    Ok(())
}
