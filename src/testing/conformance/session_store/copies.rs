//! Checks of forks and imports.

use futures::future::join_all;
use serde_json::{Value, json};

use crate::error::{ErrorKind, Result};
use crate::message::{Messages, ToolCall};
use crate::session::{AgentState, Inputs, Record, SessionStore, StoredSession};

use super::check::{fails, load, message, same, same_state, texts, wrong};
use super::contents::full;

/// Writes a session with everything in it and a call that has begun, and returns its state.
async fn write(store: &impl SessionStore, id: &str) -> Result<AgentState> {
    let lease = store.lease(id).await?;
    let mut state = full(id);
    let call = ToolCall::new("call_2", "act", json!({}));
    state.messages = state.messages.ai_calling("", [call]);
    store.save(&lease, &state).await?;
    let call_id = "call_2".into();
    let records = vec![Record::ToolStarted { call_id }];
    store.append(&lease, records).await?;
    Ok(state)
}

pub(super) async fn forking(store: &impl SessionStore) -> Result<()> {
    let outcome = store.fork("a", "b").await;
    fails("of nothing", outcome, ErrorKind::SessionNotFound)?;
    let state = write(store, "a").await?;
    store.fork("a", "b").await?;
    let mut copy = state.clone();
    copy.thread_id = "b".into();
    let stored_copy = load(store, "b").await?;
    same_state("the copy", &stored_copy.state, &copy)?;
    same("started", &stored_copy.started, &vec!["call_2".into()])?;

    let lease = store.lease("b").await?;
    store.append(&lease, vec![message("More")]).await?;
    drop(lease);
    let lease = store.lease("a").await?;
    same_state("the first", &load(store, "a").await?.state, &state)?;
    let repeat_outcome = store.fork("a", "b").await;
    fails(
        "to a session that exists",
        repeat_outcome,
        ErrorKind::Conflict,
    )?;
    let itself = store.fork("a", "a").await;
    same("to itself", &itself.is_err(), &true)?;
    store.fork("a", "c").await?;
    drop(lease);
    copy.thread_id = "c".into();
    same_state("of one that is held", &load(store, "c").await?.state, &copy)?;
    drop(store.lease("c").await?);
    let messages = texts(store, "b").await?.len();
    same("the copy went on", &messages, &(state.messages.len() + 1))
}

pub(super) async fn forking_at(store: &impl SessionStore) -> Result<()> {
    let state = write(store, "a").await?;
    let first = |len: usize| state.messages.as_slice()[..len].iter().cloned();

    // (cut at, messages kept, is the summary kept)
    for (cut, kept, has_summary) in [(0, 0, false), (1, 1, true), (2, 3, true), (3, 3, true)] {
        let id = format!("cut {cut}");
        store.fork_at("a", &id, cut).await?;
        let mut expected = state.clone();
        expected.thread_id = id.as_str().into();
        expected.messages = first(kept).collect::<Messages>();
        expected.infos.keep(kept);
        if !has_summary {
            expected.compaction = None;
        }

        if kept < 2 {
            expected.pending.clear();
        }

        expected.inputs = Inputs::default();
        expected.parent = None;
        let copy = load(store, &id).await?;
        same_state(&id, &copy.state, &expected)?;
        same(&id, &copy.started.len(), &0)?;
    }

    store.fork_at("a", "all", state.messages.len()).await?;
    let copy = load(store, "all").await?;
    same("all of it", &copy.state.messages, &state.messages)?;
    same("started", &copy.started, &vec!["call_2".into()])?;
    let beyond = store.fork_at("a", "more", state.messages.len() + 1).await;
    fails("behind the end", beyond, ErrorKind::InvalidRequest)?;
    let outcome = store.fork_at("b", "c", 0).await;
    fails("of nothing", outcome, ErrorKind::SessionNotFound)?;
    let repeat_outcome = store.fork_at("a", "all", 1).await;
    fails(
        "to a session that exists",
        repeat_outcome,
        ErrorKind::Conflict,
    )?;
    same_state("the first", &load(store, "a").await?.state, &state)
}

pub(super) async fn exported(store: &impl SessionStore) -> Result<()> {
    let outcome = store.export("a").await;
    fails("of nothing", outcome, ErrorKind::SessionNotFound)?;
    let mut state = write(store, "a").await?;
    let json = store.export("a").await?;
    store.import("b", json.as_bytes()).await?;
    let session = load(store, "b").await?;
    state.thread_id = "b".into();
    same_state("an export", &session.state, &state)?;
    same("started", &session.started, &vec!["call_2".into()])?;
    let repeat_outcome = store.import("b", json.as_bytes()).await;
    fails(
        "to a session that exists",
        repeat_outcome,
        ErrorKind::Conflict,
    )?;
    let mut versioned: Value = serde_json::from_str(&json)?;
    same("the version", &versioned["v"], &json!(1))?;
    versioned["v"] = json!(2);
    let newer_version = versioned.to_string();
    let newer_version = store.import("newer", newer_version.as_bytes()).await;
    fails("a newer version", newer_version, ErrorKind::VersionTooNew)?;
    same(
        "a newer version",
        &store.load("newer").await?.is_none(),
        &true,
    )?;

    let list = serde_json::to_string(&state.messages)?;
    store.import("list", list.as_bytes()).await?;
    let messages = load(store, "list").await?.state.messages;
    same("a list of messages", &messages, &state.messages)?;
    let foreign_session = format!(r#"{{"key": "k", "messages": {list}, "summary": "Before."}}"#);
    store.import("foreign", foreign_session.as_bytes()).await?;
    let state = load(store, "foreign").await?.state;
    let summary = state
        .compaction
        .map(|made| (made.summary, made.through_message));
    same("a summary", &summary, &Some(("Before.".to_owned(), 0)))?;
    for bad in [
        "",
        "{",
        "{}",
        "3",
        r#"{"messages": 3}"#,
        r#"[{"role": "nobody"}]"#,
    ] {
        let refusal = store.import("bad", bad.as_bytes()).await;
        fails(bad, refusal, ErrorKind::InvalidMessages)?;
    }

    same(
        "the refused session",
        &store.load("bad").await?.is_none(),
        &true,
    )
}

pub(super) async fn creating(store: &impl SessionStore) -> Result<()> {
    let session = |text: String| {
        let mut state = full("another");
        state.title = Some(text.into());
        StoredSession::new(state)
    };

    let lease = store.lease("a").await?;
    let outcome_while_leased = store.create("a", session("held".into())).await;
    fails(
        "one that is leased",
        outcome_while_leased,
        ErrorKind::SessionBusy,
    )?;
    store.append(&lease, vec![message("Hi")]).await?;
    drop(lease);
    let duplicate_outcome = store.create("a", session("taken".into())).await;
    fails("one that exists", duplicate_outcome, ErrorKind::Conflict)?;
    same(
        "the earlier messages",
        &texts(store, "a").await?,
        &vec!["Hi".into()],
    )?;

    let outcomes = (0..8).map(|number| store.create("b", session(number.to_string())));
    let outcomes = join_all(outcomes).await;
    let winners: Vec<_> = (0..8).filter(|number| outcomes[*number].is_ok()).collect();
    let [winner] = winners[..] else {
        return Err(wrong(format!("{winners:?} of 8 made one session at once")));
    };

    for outcome in outcomes.into_iter().filter(Result::is_err) {
        if !matches!(&outcome, Err(error) if is_lost(error.kind())) {
            return Err(wrong(format!("made at once: {outcome:?}")));
        }
    }

    let mut expected = session(winner.to_string()).state;
    expected.thread_id = "b".into();
    same_state(
        "the one that won",
        &load(store, "b").await?.state,
        &expected,
    )
}

/// Returns `true` for the error of a creation that lost to a concurrent one.
fn is_lost(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Conflict | ErrorKind::SessionBusy)
}
