//! Checks of lists and removals.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use crate::error::{ErrorKind, Result};
use crate::message::{Message, Messages, ToolCall, ToolResult};
use crate::session::{AgentState, Record, SessionInfo, SessionStore, StoredSession};

use super::check::{fails, ids, input, load, message, same, same_state, say, texts, wrong};
use super::contents::full;
use super::leases::grows;

pub(super) async fn listing(store: &impl SessionStore) -> Result<()> {
    same("nothing", &ids(store).await?, &Vec::new())?;
    for id in ["a", "b", "c"] {
        say(store, id, &["  Hello\n there"]).await?;
    }

    same(
        "the last first",
        &ids(store).await?,
        &["c", "b", "a"].map(String::from).to_vec(),
    )?;
    let lease = store.lease("a").await?;
    load(store, "b").await?;
    same(
        "not written",
        &ids(store).await?,
        &["c", "b", "a"].map(String::from).to_vec(),
    )?;
    store.append(&lease, vec![message("More")]).await?;
    same(
        "written",
        &ids(store).await?,
        &["a", "c", "b"].map(String::from).to_vec(),
    )?;
    drop(lease);
    let lease = store.lease("b").await?;
    store.save(&lease, &full("b")).await?;
    drop(lease);
    infos(store).await
}

/// Checks the list entries of the sessions `a`, with two messages and no title, and `b`, with a
/// full state.
async fn infos(store: &impl SessionStore) -> Result<()> {
    say(store, "long", &[&"words ".repeat(1_000)]).await?;
    let list = store.list().await?;
    let find_info = |id: &str| {
        let listed_info = list.iter().find(|info| &*info.id == id);
        listed_info.ok_or_else(|| wrong(format!("session {id:?} is not in the list")))
    };

    let (a, b) = (find_info("a")?, find_info("b")?);
    same(
        "messages",
        &(a.messages, b.messages),
        &(2, full("b").messages.len()),
    )?;
    same("the first text", &a.title.as_deref(), &Some("Hello there"))?;
    same("a title", &b.title, &full("b").title)?;
    let users = (&a.user_id, &b.user_id);
    same("user", &users, &(&None, &full("b").user_id))?;
    same("cwd", &(&a.cwd, &b.cwd), &(&None, &full("b").cwd))?;
    let parents = (&a.parent, &b.parent);
    same("parent", &parents, &(&None, &full("b").parent))?;
    same("a problem", &a.problem, &None)?;
    let title = find_info("long")?
        .title
        .as_ref()
        .map_or(0, |title| title.chars().count());
    same("a long title is cut", &title, &80)?;
    titles(store).await?;
    for info in &list {
        match (info.created_at, info.updated_at) {
            (Some(created), Some(updated)) if created > updated => {
                return Err(wrong(format!("{info:?} was written before it was made")));
            }
            _ => {}
        }
    }

    Ok(())
}

/// Checks that the title stays the first input when the history is cut.
async fn titles(store: &impl SessionStore) -> Result<()> {
    say(store, "cut", &["Said\u{a0} first", "Said next"]).await?;
    let lease = store.lease("cut").await?;
    let mut state = load(store, "cut").await?.state;
    state.messages = Messages::from("Said next");
    store.save(&lease, &state).await?;
    let list = store.list().await?;
    let listed_info = list.iter().find(|info| &*info.id == "cut");
    let title = listed_info.and_then(|info| info.title.as_deref());
    same("the title of a cut history", &title, &Some("Said first"))
}

pub(super) async fn deleting(store: &impl SessionStore) -> Result<()> {
    same("of nothing", &store.delete("a").await?, &false)?;
    say(store, "a", &["Hi"]).await?;
    say(store, "b", &["Hi"]).await?;
    let lease = store.lease("a").await?;
    fails(
        "of one that is held",
        store.delete("a").await,
        ErrorKind::SessionBusy,
    )?;
    store.append(&lease, vec![message("More")]).await?;
    drop(lease);
    same("of one", &store.delete("a").await?, &true)?;
    same("again", &store.delete("a").await?, &false)?;
    same("it is gone", &store.load("a").await?.is_none(), &true)?;
    same("the others", &ids(store).await?, &vec!["b".into()])?;
    say(store, "a", &["Anew"]).await?;
    same(
        "a new session",
        &texts(store, "a").await?,
        &vec!["Anew".into()],
    )?;

    let lease = store.lease("b").await?;
    store.save(&lease, &full("b")).await?;
    let call_id = "call_9".into();
    let result = ended("call_8");
    let records = vec![
        input("in_1", "Named"),
        Record::ToolStarted { call_id },
        Record::ToolEnded { result },
    ];
    store.append(&lease, records).await?;
    drop(lease);
    same("of a full one", &store.delete("b").await?, &true)?;
    say(store, "b", &["Anew"]).await?;
    let session = load(store, "b").await?;
    let mut expected = AgentState::new("b");
    expected.messages = "Anew".into();
    same_state("a new session after a full one", &session.state, &expected)?;
    same("started", &session.started, &Vec::new())?;
    same("ended", &session.ended, &Vec::new())?;
    same("ids of inputs", &session.input_ids, &Vec::new())
}

pub(super) async fn pruning(store: &impl SessionStore) -> Result<()> {
    for id in ["a", "b", "c"] {
        say(store, id, &["Hi"]).await?;
    }

    let hour = Duration::from_secs(3600);
    same("too young", &store.prune(hour).await?, &0)?;
    same("too young", &ids(store).await?.len(), &3)?;

    // A coarse clock may return the same time twice.
    tokio::time::sleep(Duration::from_millis(5)).await;
    let lease = store.lease("b").await?;
    let removed = store.prune(Duration::ZERO).await?;
    same("removed", &removed, &2)?;
    same(
        "a leased session stays",
        &ids(store).await?,
        &vec!["b".into()],
    )?;
    drop(lease);
    same("removed", &store.prune(Duration::ZERO).await?, &1)?;
    same("removed", &ids(store).await?, &Vec::new())
}

pub(super) async fn latest(store: &impl SessionStore) -> Result<()> {
    same("of nothing", &store.latest("/a").await?, &None)?;
    for (id, cwd, parent) in [
        ("1", "/a", None),
        ("2", "/a", None),
        ("3", "/a/b", None),
        ("4", "/A", None),
        ("2:sub", "/a", Some("2")),
    ] {
        let lease = store.lease(id).await?;
        let began_record = Record::About {
            user_id: None,
            title: None,
            cwd: Some(cwd.into()),
            parent: parent.map(Into::into),
        };

        store
            .append(&lease, vec![began_record, message("Hi")])
            .await?;
    }

    say(store, "5", &["Hi"]).await?;
    let id = |info: Option<SessionInfo>| info.map(|info| info.id.to_string());
    same("of /a", &id(store.latest("/a").await?), &Some("2".into()))?;
    say(store, "1", &["More"]).await?;
    same(
        "written since",
        &id(store.latest("/a").await?),
        &Some("1".into()),
    )?;
    same("of another", &id(store.latest("/c").await?), &None)
}

/// The result of a call that ended before others of its turn.
fn ended(call_id: &str) -> Arc<Message> {
    let call = ToolCall::new(call_id, "act", json!({}));
    Arc::new(Message::Tool(ToolResult::ok(&call, "done")))
}

/// The data a store must still have when it is reopened.
pub(super) struct Kept {
    state: AgentState,
    order: Vec<String>,
    token: u64,
}

impl Kept {
    pub(super) async fn write(store: &impl SessionStore) -> Result<Self> {
        let state = full("full");
        let lease = store.lease("full").await?;
        store.save(&lease, &state).await?;
        let call_id = "call_9".into();
        let result = ended("call_8");
        let records = vec![
            input("in_1", "Named"),
            Record::ToolStarted { call_id },
            Record::ToolEnded { result },
        ];
        store.append(&lease, records).await?;
        let mut expected = Self {
            state,
            order: Vec::new(),
            token: lease.token(),
        };

        drop(lease);
        expected.state.messages = expected.state.messages.human("Named");
        say(store, "gone", &["Hi"]).await?;
        say(store, "other/one", &["Hi"]).await?;
        store.delete("gone").await?;
        drop(store.lease("leased").await?);
        store.fork("full", "fork").await?;
        expected.order = ids(store).await?;
        Ok(expected)
    }

    pub(super) async fn check(&self, store: &impl SessionStore) -> Result<()> {
        same("the list", &ids(store).await?, &self.order)?;
        let session = load(store, "full").await?;
        same_state("the state", &session.state, &self.state)?;
        same("started", &session.started, &vec!["call_9".into()])?;
        same("ended", &session.ended, &vec![ended("call_8")])?;
        same("ids of inputs", &session.input_ids, &vec!["in_1".into()])?;
        same("damage", &session.damage.len(), &0)?;
        let fork = load(store, "fork").await?;
        same("the fork", &fork.state.messages, &self.state.messages)?;
        same("ended in the fork", &fork.ended, &vec![ended("call_8")])?;
        same(
            "the removed session",
            &store.load("gone").await?.is_none(),
            &true,
        )
    }

    pub(super) async fn go_on(&self, store: &impl SessionStore) -> Result<()> {
        let lease = store.lease("full").await?;
        grows("of a lease under which was written", &lease, self.token)?;
        let mut state = load(store, "full").await?.state;
        state.messages.push(Message::ai("Back."));
        state.files = Arc::default();
        store.save(&lease, &state).await?;
        store.append(&lease, vec![message("And on")]).await
    }

    pub(super) async fn check_gone_on(&self, store: &impl SessionStore) -> Result<()> {
        let mut expected = self.state.clone();
        expected.messages = expected.messages.ai("Back.").human("And on");
        expected.files = Arc::default();
        let session = load(store, "full").await?;
        same_state("gone on", &session.state, &expected)?;
        same("started", &session.started.len(), &0)?;
        same("ended", &session.ended.len(), &0)?;
        let first = ids(store).await?.into_iter().next();
        same("the last written", &first, &Some("full".into()))
    }
}

/// The last operation of a store before it is reopened.
#[derive(Clone, Copy, Debug)]
pub(super) enum Last {
    Append,
    Save,
    Create,
    Delete,
}

impl Last {
    pub(super) const ALL: [Self; 4] = [Self::Append, Self::Save, Self::Create, Self::Delete];

    pub(super) async fn write(self, store: &impl SessionStore) -> Result<()> {
        match self {
            Self::Append => say(store, "last", &["Hi", "there"]).await,
            Self::Save => {
                let lease = store.lease("last").await?;
                store.save(&lease, &full("last")).await
            }
            Self::Create => {
                let state = full("last copy");
                store.create("last copy", StoredSession::new(state)).await
            }
            Self::Delete => store.delete("last copy").await.map(drop),
        }
    }

    pub(super) async fn check(self, store: &impl SessionStore) -> Result<()> {
        let (id, expected) = match self {
            Self::Append => {
                let mut state = AgentState::new("last");
                state.messages = Messages::from("Hi").human("there");
                ("last", state)
            }
            Self::Save => ("last", full("last")),
            Self::Create => ("last copy", full("last copy")),
            Self::Delete => {
                let is_gone = store.load("last copy").await?.is_none();
                return same("removed last", &is_gone, &true);
            }
        };

        let session = load(store, id).await?;
        same_state(&format!("{self:?} as the last"), &session.state, &expected)
    }
}
