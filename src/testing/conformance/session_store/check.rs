//! The building blocks of the checks.

use std::fmt::Debug;
use std::sync::Arc;

use crate::error::{ErrorKind, Result};
use crate::message::Message;
use crate::session::{AgentState, Record, SessionStore, StoredSession};
use crate::util::text::truncate;

pub(super) use super::super::checks::{same, wrong};

pub(super) fn same_state(what: &str, actual: &AgentState, expected: &AgentState) -> Result<()> {
    let (actual, expected) = (
        serde_json::to_string(actual)?,
        serde_json::to_string(expected)?,
    );
    if actual == expected {
        return Ok(());
    }

    let offset = actual
        .bytes()
        .zip(expected.bytes())
        .take_while(|(a, b)| a == b)
        .count();
    let part = |text: &str| String::from_utf8_lossy(&text.as_bytes()[offset..]).into_owned();
    let (actual, expected) = (part(&actual), part(&expected));
    Err(wrong(format!(
        "{what}: {} instead of {}",
        truncate(&actual, 120),
        truncate(&expected, 120)
    )))
}

/// Checks that an outcome is an error of this kind.
pub(super) fn fails<T: Debug>(what: &str, outcome: Result<T>, kind: ErrorKind) -> Result<()> {
    match outcome {
        Err(error) if error.kind() == kind => Ok(()),
        other => Err(wrong(format!("{what}: {other:?} instead of {kind:?}"))),
    }
}

pub(super) fn message(text: &str) -> Record {
    Record::Message {
        message: Arc::new(Message::human(text)),
        input_id: None,
    }
}

/// Returns a message with an id of the caller.
pub(super) fn input(id: &str, text: &str) -> Record {
    Record::Message {
        message: Arc::new(Message::human(text)),
        input_id: Some(id.into()),
    }
}

/// Appends messages under a separate lease.
pub(super) async fn say(store: &impl SessionStore, id: &str, texts: &[&str]) -> Result<()> {
    let lease = store.lease(id).await?;
    let records = texts.iter().map(|text| message(text)).collect();
    store.append(&lease, records).await
}

/// Returns the session. The positions of its appended inputs may be in the state, or may be left to
/// the run.
pub(super) async fn load(store: &impl SessionStore, id: &str) -> Result<StoredSession> {
    let session = store.load(id).await?;
    let mut session = session.ok_or_else(|| wrong(format!("session {id:?} is gone")))?;
    session.state.inputs.forget(&session.input_ids);
    Ok(session)
}

pub(super) async fn texts(store: &impl SessionStore, id: &str) -> Result<Vec<String>> {
    let session = store.load(id).await?.unwrap_or_default();
    let messages = session.state.messages.iter();
    Ok(messages
        .map(|message| message.text().into_owned())
        .collect())
}

pub(super) async fn ids(store: &impl SessionStore) -> Result<Vec<String>> {
    let list = store.list().await?.into_iter();
    Ok(list.map(|info| info.id.to_string()).collect())
}
