//! The compaction of a stored session, outside any run.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::time::{sleep, timeout_at};

use crate::error::{Error, ErrorKind, Result};
use crate::message::{Message, Messages};
use crate::model::{Compaction, CompactionTrigger};
use crate::run::{RunContext, RunShared, TreeLimits};
use crate::session::{Lease, Record, StoredSession, damage_texts, not_found};
use crate::tool::BackgroundTasks;

use super::compaction::summarize;
use super::config::Config;

/// The interval between attempts to lease a session in use.
const RETRY: Duration = Duration::from_millis(250);

/// The handling of a session that a run has leased.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum WhenLeased {
    /// The compaction fails.
    Fail,
    /// The summary is stored when the session is free.
    Wait,
}

/// Compacts a stored session, with the limits of a run of the agent for the calls of the model. The
/// session is leased only while the summary is stored.
pub(crate) async fn compact_session(
    config: &Config,
    session_id: &Arc<str>,
    when_leased: WhenLeased,
) -> Result<Option<Compaction>> {
    let Some(compactor) = &config.compactor else {
        let text = "the agent has no compactor; add a SummarizationHook or set \
                    AgentBuilder::compactor";
        return Err(Error::new(ErrorKind::Config, text));
    };

    // The model is not called for a summary that could not be stored.
    if when_leased == WhenLeased::Fail && config.live.handle(session_id).is_some() {
        return Err(Error::session_busy(session_id));
    }

    let cx = context_outside_runs(config, session_id);
    let _cancel = cx.cancellation().guard();
    let stored = load(config, session_id).await?;
    for damage in damage_texts(&stored.damage) {
        cx.warn(format!("the stored session is damaged: {damage}"));
    }

    let state = stored.state;
    let messages = state.messages.clone();
    let manual = CompactionTrigger::Manual;
    let summary = summarize(
        &cx,
        &**compactor,
        messages.clone(),
        state.compaction,
        manual,
    )
    .boxed();
    let compaction = match cx.budget().deadline() {
        None => summary.await?,
        Some(deadline) => timeout_at(deadline, summary)
            .await
            .map_err(|_| timeout_error())??,
    };

    let Some(compaction) = compaction else {
        return Ok(None);
    };

    let lease = lease(config, session_id, when_leased).await?;
    let stored = load(config, session_id).await?;
    check_unchanged(&messages, &stored, &compaction)?;
    let record = Record::Compaction {
        compaction: Some(compaction.clone()),
    };
    config.store.append(&lease, vec![record]).await?;
    Ok(Some(compaction))
}

async fn lease(config: &Config, session_id: &Arc<str>, when_leased: WhenLeased) -> Result<Lease> {
    loop {
        match config.store.lease(session_id).await {
            Err(error)
                if when_leased == WhenLeased::Wait && error.kind() == ErrorKind::SessionBusy =>
            {
                sleep(RETRY).await;
            }
            outcome => return outcome,
        }
    }
}

async fn load(config: &Config, session_id: &Arc<str>) -> Result<StoredSession> {
    let stored_session = config.store.load(session_id).await?;
    stored_session.ok_or_else(|| not_found(session_id))
}

/// Creates a context for model calls outside any run, with the budget and the retry policy of a
/// run. The context has no reader: its warnings are only logged.
fn context_outside_runs(config: &Config, session_id: &Arc<str>) -> RunContext {
    let limits = &config.limits;
    let tree = TreeLimits::new(limits.max_history_bytes, limits.max_depth, 0);
    let shared = RunShared::new(session_id.clone(), None, BackgroundTasks::default(), tree);
    RunContext::new(config.settings.clone(), Arc::new(shared), None)
}

/// Checks that a summary still fits the stored history, which others may have changed meanwhile.
fn check_unchanged(
    messages: &Messages,
    stored: &StoredSession,
    compaction: &Compaction,
) -> Result<()> {
    let end = compaction.through_message;
    let stored_messages = stored.state.messages.as_slice().get(..end);
    let is_same = |(old, new): (&Arc<Message>, &Arc<Message>)| Arc::ptr_eq(old, new) || old == new;
    let is_unchanged = stored_messages.is_some_and(|stored_messages| {
        let mut pairs = messages.as_slice()[..end].iter().zip(stored_messages);
        pairs.all(is_same)
    });
    let current = stored.state.compaction.as_ref();
    if is_unchanged && current.is_none_or(|current| current.through_message <= end) {
        return Ok(());
    }

    Err(Error::new(
        ErrorKind::Conflict,
        "the history was changed while it was summarized, so the summary was dropped; compact the \
         session again",
    ))
}

fn timeout_error() -> Error {
    let text = "the compaction took longer than max_duration; raise it, or use a faster model for \
                summaries";
    Error::new(ErrorKind::Timeout, text)
}
