//! The stores of sessions.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::error::{Error, ErrorKind, Result};

use super::agent_state::AgentState;
use super::descendants::descendants;
use super::errors::{already_exists, not_found};
use super::info::SessionInfo;
use super::json::{MAX_IMPORT, cut, read_import, write_export};
use super::lease::Lease;
use super::page::{ListQuery, SessionPage};
use super::record::Record;
use super::stored::StoredSession;

/// A store of sessions.
///
/// Five methods are required; the others have default implementations on top of them. A store
/// receives [`Record`]s; [`StoredSession::apply`] defines their effect. A store that can create a
/// session atomically should implement [`create`](SessionStore::create), which forks and imports
/// use. A durable store needs less: implement `session::Log` (feature `session-log`) instead.
///
/// [`conformance::session_store`](crate::testing::conformance::session_store) tests a store against
/// these rules:
///
/// * An id is any text that is not empty. Methods that would create a session refuse an empty id
///   with [`ErrorKind::InvalidRequest`]; for the others, no session has this id. A store may refuse
///   an id that it cannot store, with the same error, but must not confuse two ids.
/// * The stored part of an [`AgentState`] is everything that serde writes of it. A loaded state has
///   the id that it is stored under as its `thread_id`, regardless of the value that was saved.
/// * When [`append`](SessionStore::append) or [`save`](SessionStore::save) returns `Ok`, the
///   written data is as durable as the store can make it. Both refuse a lease that is no longer the
///   session's newest with [`ErrorKind::Conflict`].
/// * A session that was leased but never written does not exist. An append of no records writes
///   nothing.
/// * The tokens of leases grow, even if the session was removed in between or the store was
///   reopened.
/// * Every future may be dropped at any time: a write is then done completely or not at all, and a
///   lease is released, at the latest when the session is leased again. A run that was stopped, by
///   an interrupt or by its time limit, drops a write that takes longer than ten seconds after the
///   stop.
///
/// A complete store that stores the records as texts:
///
#[cfg_attr(feature = "testing", doc = "```")]
#[cfg_attr(not(feature = "testing"), doc = "```ignore")]
/// use std::collections::HashMap;
/// use std::sync::{Arc, Mutex};
/// use std::time::SystemTime;
///
/// use agentcore::session::{Lease, Record, SessionInfo, StoredSession};
/// use agentcore::testing::conformance;
/// use agentcore::{AgentState, Error, ErrorKind, Result, SessionStore, async_trait};
///
/// #[derive(Clone, Default)]
/// struct Texts(Arc<Mutex<HashMap<Arc<str>, Text>>>);
///
/// #[derive(Default)]
/// struct Text {
///     lines: Vec<String>,
///     updated_at: Option<SystemTime>,
///     is_leased: bool,
///     token: u64,
/// }
///
/// impl Text {
///     fn session(&self, id: &str) -> Result<Option<StoredSession>> {
///         let mut session = StoredSession::new(AgentState::new(id));
///         for line in &self.lines {
///             session.apply(serde_json::from_str(line)?);
///         }
///         Ok(Some(session).filter(|_| !self.lines.is_empty()))
///     }
/// }
///
/// #[async_trait]
/// impl SessionStore for Texts {
///     async fn load(&self, id: &str) -> Result<Option<StoredSession>> {
///         let texts = self.0.lock().unwrap();
///         texts.get(id).map_or(Ok(None), |text| text.session(id))
///     }
///
///     async fn append(&self, lease: &Lease, records: Vec<Record>) -> Result<()> {
///         let lines = records.iter().map(serde_json::to_string);
///         let lines = lines.collect::<serde_json::Result<Vec<_>>>()?;
///         let mut texts = self.0.lock().unwrap();
///         let text = texts.get_mut(lease.session_id());
///         let text = text.filter(|text| text.token == lease.token());
///         let text = text.ok_or_else(|| Error::new(ErrorKind::Conflict, "it was taken over"))?;
///         if !lines.is_empty() {
///             text.updated_at = Some(SystemTime::now());
///             text.lines.extend(lines);
///         }
///         Ok(())
///     }
///
///     async fn list(&self) -> Result<Vec<SessionInfo>> {
///         let mut list = Vec::new();
///         for (id, text) in &*self.0.lock().unwrap() {
///             if let Some(session) = text.session(id)? {
///                 let mut info = SessionInfo::of(&session);
///                 info.updated_at = text.updated_at;
///                 list.push(info);
///             }
///         }
///         list.sort_by_key(|info| std::cmp::Reverse(info.updated_at));
///         Ok(list)
///     }
///
///     async fn delete(&self, id: &str) -> Result<bool> {
///         let mut texts = self.0.lock().unwrap();
///         let Some(text) = texts.get_mut(id) else {
///             return Ok(false);
///         };
///         if text.is_leased {
///             return Err(Error::new(ErrorKind::SessionBusy, "it is in use"));
///         }
///         // The entry stays, because tokens must grow.
///         Ok(!std::mem::take(&mut text.lines).is_empty())
///     }
///
///     async fn lease(&self, id: &str) -> Result<Lease> {
///         if id.is_empty() {
///             return Err(Error::new(ErrorKind::InvalidRequest, "an id must not be empty"));
///         }
///         let mut texts = self.0.lock().unwrap();
///         let text = texts.entry(id.into()).or_default();
///         if text.is_leased {
///             return Err(Error::new(ErrorKind::SessionBusy, "it is in use"));
///         }
///         text.is_leased = true;
///         text.token += 1;
///         let (all, key) = (self.0.clone(), id.to_owned());
///         Ok(Lease::new(id, text.token, move || {
///             if let Some(text) = all.lock().unwrap().get_mut(&*key) {
///                 text.is_leased = false;
///             }
///         }))
///     }
/// }
///
/// # let run = async {
/// conformance::session_store(|| async { Texts::default() }, |store| async { store }).await
/// # };
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(run)?;
/// # Ok::<(), agentcore::Error>(())
/// ```
#[async_trait]
pub trait SessionStore: Send + Sync + 'static {
    /// Loads the session. Returns `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::VersionTooNew`] if a newer version of this crate wrote it. Damaged
    /// parts are not an error: they are listed in [`StoredSession::damage`], next to the readable
    /// state.
    async fn load(&self, id: &str) -> Result<Option<StoredSession>>;

    /// Appends records to the session, all of them or none. [`StoredSession::apply`] defines their
    /// effect.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Conflict`] if `lease` is no longer the newest lease of the session.
    async fn append(&self, lease: &Lease, records: Vec<Record>) -> Result<()>;

    /// Returns all sessions, including the sessions of subagents ([`SessionInfo::parent`]), the
    /// most recently written first. The durable stores return at most the newest 100,000, and fewer
    /// if the strings of the entries take more than 32 MiB.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read. For a session that cannot be read,
    /// [`SessionInfo::problem`] is set instead.
    async fn list(&self) -> Result<Vec<SessionInfo>>;

    /// Returns the ids of the sessions of a session's subagents, and of theirs, each after its
    /// parent ([`SessionInfo::parent`]). The session itself need not exist.
    ///
    /// The provided method lists all sessions. A store may omit a session whose id does not begin
    /// with `ID:sub:`, as the durable stores do, so that it need not read all sessions. This crate
    /// gives the sessions of subagents such ids. If the id would be too long, it begins with the id
    /// of an earlier ancestor instead, and the durable stores return the session only for that
    /// ancestor and those before it. A server that removes a thread removes the sessions that this
    /// method returns. Users are not compared: do not [`create`](Self::create) a session of one
    /// user whose parent is a session of another.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`list`](SessionStore::list).
    async fn children(&self, id: &str) -> Result<Vec<Arc<str>>> {
        Ok(descendants(id, Vec::new(), self.list().await?))
    }

    /// Removes the session. Returns `false` if it did not exist. The sessions of its subagents
    /// stay; [`Session::delete`](crate::Session::delete) removes them, too.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::SessionBusy`] while a run has leased it.
    async fn delete(&self, id: &str) -> Result<bool>;

    /// Takes the right to write the session. The session need not exist yet.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::SessionBusy`] while another run has leased it, and the store's error.
    async fn lease(&self, id: &str) -> Result<Lease>;

    /// Returns `true` while a run has leased the session, in this process or in another one. The
    /// session need not exist. The value may be out of date when it is returned.
    ///
    /// The provided method takes the lease for a moment, and a run that begins in this moment is
    /// refused. Implement the method without a lease if you can, as the stores of this crate do.
    ///
    /// ```
    /// use agentcore::{SessionStore, ThreadStore};
    ///
    /// # let run = async {
    /// let store = ThreadStore::new();
    /// let lease = store.lease("th_1").await?;
    /// assert!(store.is_leased("th_1").await?);
    /// drop(lease);
    /// assert!(!store.is_leased("th_1").await?);
    /// # Ok::<(), agentcore::Error>(()) };
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(run)?;
    /// # Ok::<(), agentcore::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the store's error.
    async fn is_leased(&self, id: &str) -> Result<bool> {
        if id.is_empty() {
            return Ok(false);
        }
        match self.lease(id).await {
            Ok(_lease) => Ok(false),
            Err(error) if error.kind() == ErrorKind::SessionBusy => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Returns a number that changes with each write of the session: a reader that polls a session
    /// loads it only if the number has changed. Returns `None` if the session does not exist, or if
    /// the store has no such number.
    ///
    /// The provided method returns `None`.
    ///
    /// # Errors
    ///
    /// Returns the store's error.
    async fn revision(&self, id: &str) -> Result<Option<u64>> {
        let _ = id;
        Ok(None)
    }

    /// Replaces the stored state by `state` without the parts that belong to one run
    /// ([`AgentState::stored`]), and clears [`StoredSession::started`], [`StoredSession::ended`]
    /// and [`StoredSession::input_ids`].
    ///
    /// The provided method loads the session and appends the difference.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`load`](SessionStore::load) and
    /// [`append`](SessionStore::append).
    async fn save(&self, lease: &Lease, state: &AgentState) -> Result<()> {
        let id = lease.session_id();
        let mut state = state.stored();
        state.thread_id = id.clone();
        let records = match self.load(id).await? {
            Some(session) => session.difference(&state),
            None => StoredSession::new(state).records(),
        };
        // An empty list is appended as well, so that a lost lease is refused.
        self.append(lease, records).await
    }

    /// Stores a whole session under a new id.
    ///
    /// The provided method looks for the session under a lease, then writes once.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Conflict`] if the session exists, and [`ErrorKind::SessionBusy`] while
    /// a run has leased it.
    async fn create(&self, id: &str, mut session: StoredSession) -> Result<()> {
        let lease = self.lease(id).await?;
        if self.load(id).await?.is_some() {
            return Err(already_exists(id));
        }
        session.state.thread_id = id.into();
        self.append(&lease, session.records()).await
    }

    /// Copies the session `from`, as it is stored now, to the new id `to`; `from` stays as it is.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::SessionNotFound`] if `from` does not exist, [`ErrorKind::Conflict`] if
    /// `to` exists, and [`ErrorKind::SessionBusy`] while a run has leased `to`.
    async fn fork(&self, from: &str, to: &str) -> Result<()> {
        let session = self.load(from).await?.ok_or_else(|| not_found(from))?;
        self.create(to, session).await
    }

    /// Copies the session's first `messages` messages to the new id `to`, to continue the
    /// conversation from that point in another way.
    ///
    /// A cut between a call and its results moves after the results. A summary that covers more
    /// messages than are copied, and questions about calls that are not copied, are dropped. In
    /// stores with a log, the copy has the task list and the files as they were at the last copied
    /// message; in other stores, the current task list and files. The copy has no ids of inputs and
    /// no parent: the copy of a subagent's session is a session of its own.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`fork`](SessionStore::fork), and [`ErrorKind::InvalidRequest`]
    /// if the session has fewer messages.
    async fn fork_at(&self, from: &str, to: &str, messages: usize) -> Result<()> {
        let session = self.load(from).await?.ok_or_else(|| not_found(from))?;
        let mut beginning = cut(from, session, messages)?;
        beginning.state.parent = None;
        self.create(to, beginning).await
    }

    /// Returns a page of the list of sessions, the most recently written first. Sessions of
    /// subagents are omitted.
    ///
    /// The provided method lists all sessions. A store with an index of them should implement it.
    ///
    /// ```
    /// use agentcore::session::ListQuery;
    /// use agentcore::testing::ScriptedModel;
    /// use agentcore::{Agent, SessionStore, ThreadStore};
    ///
    /// # async fn example() -> agentcore::Result<()> {
    /// let store = ThreadStore::new();
    /// let model = ScriptedModel::new().say("1").say("2").say("3");
    /// let agent = Agent::builder(model).store(store.clone()).build()?;
    /// for (id, user) in [("th_1", "ann"), ("th_2", "bob"), ("th_3", "ann")] {
    ///     agent.session(id).user_id(user).run("Hi").await?;
    /// }
    /// let query = ListQuery::new().with_user_id("ann").with_limit(1);
    /// let page = store.list_page(query.clone()).await?;
    /// assert_eq!(page.sessions.len(), 1);
    /// let next = page.next.expect("Ann has two sessions");
    /// let page = store.list_page(query.after(next)).await?;
    /// assert_eq!((page.sessions.len(), page.next), (1, None));
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`list`](SessionStore::list), and [`ErrorKind::InvalidRequest`]
    /// for a position that no page has returned.
    async fn list_page(&self, query: ListQuery) -> Result<SessionPage> {
        query.page(self.list().await?)
    }

    /// Returns the most recently written session of this working directory. Sessions that cannot be
    /// read and sessions of subagents are skipped.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`list`](SessionStore::list).
    async fn latest(&self, cwd: &str) -> Result<Option<SessionInfo>> {
        let mut list = self.list().await?.into_iter();
        Ok(list.find(|info| {
            let is_candidate = info.parent.is_none() && info.problem.is_none();
            is_candidate && info.cwd.as_deref() == Some(cwd)
        }))
    }

    /// Removes the sessions that were last written at least `older_than` ago. Returns their number.
    ///
    /// A session that a run has leased, or that cannot be read, stays. The durable stores examine
    /// at most 32 MiB of ids in one call, a random part of them if there are more: further calls
    /// examine others.
    ///
    /// # Errors
    ///
    /// Returns the first error, after all other sessions were tried. A store may return at once
    /// with an error that concerns all of its sessions.
    async fn prune(&self, older_than: Duration) -> Result<usize> {
        let mut removed = 0;
        let mut first_error = Ok(());
        for info in self.list().await? {
            if info.problem.is_some() || !info.is_older_than(older_than) {
                continue;
            }

            match self.delete(&info.id).await {
                Ok(is_removed) => removed += usize::from(is_removed),
                Err(error) if error.kind() == ErrorKind::SessionBusy => {}
                Err(error) => first_error = first_error.and(Err(error)),
            }
        }

        first_error.map(|()| removed)
    }

    /// Returns the session as JSON: its [`AgentState`], the calls that had started, the ids of
    /// inputs, and in `v` the version of the format.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::SessionNotFound`] if there is no such session.
    async fn export(&self, id: &str) -> Result<String> {
        let session = self.load(id).await?.ok_or_else(|| not_found(id))?;
        write_export(&session)
    }

    /// Stores a session under a new id. `json` is the text that [`export`](SessionStore::export)
    /// returned.
    ///
    /// Three other forms are accepted: the JSON of an [`AgentState`], an object with `messages` and
    /// an optional `summary` of the conversation before them, and a list of messages. An invalid
    /// history is stored as it is, and repaired when the session is run.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::InvalidMessages`] if the text has none of these forms or the session
    /// would take too much memory, as estimated from the text: more than 170 MiB or, in a durable
    /// store, more than twice its limit for a session in memory. Returns
    /// [`ErrorKind::VersionTooNew`] if a newer version of this crate exported the session, and the
    /// errors of [`create`](SessionStore::create).
    ///
    /// ```
    /// use agentcore::{SessionStore, ThreadStore};
    ///
    /// # let run = async {
    /// let store = ThreadStore::new();
    /// let message = r#"{"role": "user", "content": "hello"}"#;
    /// let json = format!(r#"{{"messages": [{message}], "summary": "They met."}}"#);
    /// store.import("th_1", json.as_bytes()).await?;
    /// let state = store.get("th_1").unwrap_or_default();
    /// assert_eq!(state.messages.last_content(), "hello");
    /// assert_eq!(state.compaction.map(|made| made.summary).as_deref(), Some("They met."));
    /// # Ok::<(), agentcore::Error>(()) };
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(run)?;
    /// # Ok::<(), agentcore::Error>(())
    /// ```
    async fn import(&self, id: &str, json: &[u8]) -> Result<()> {
        self.create(id, read_import(json, MAX_IMPORT).await?).await
    }
}

/// Checks that an id is not empty.
///
/// # Errors
///
/// Returns [`ErrorKind::InvalidRequest`] if it is empty.
pub(crate) fn check_id(id: &str) -> Result<()> {
    if id.is_empty() {
        Err(Error::new(
            ErrorKind::InvalidRequest,
            "a session id must not be empty",
        ))
    } else {
        Ok(())
    }
}
