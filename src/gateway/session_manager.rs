//! The sessions of a gateway by their keys, and their import from files.

use std::fmt;
use std::sync::Arc;

use serde::Deserialize;

use crate::backend::{Backend, EntryKind, entry_path};
use crate::error::{Error, ErrorKind, Result};
use crate::hooks::{Keep, cut};
use crate::message::{Content, EstimateCounter, Message, Messages, Role, TokenCounter};
use crate::model::Compaction;
use crate::session::{AgentState, Record, SessionStore};
use crate::util::blocking::blocking_if_large;

/// The maximum size of an imported file, in bytes.
const MAX_BYTES: usize = 64 * 1024 * 1024;
/// The number of bytes that every backend returns at once if the file has them: a file of which
/// fewer are returned is complete.
const PIECE: usize = 1024 * 1024;
/// The summary of messages that were omitted without one.
const NO_SUMMARY: &str = "[Earlier messages are left out.]";

/// The sessions of a gateway by their keys, for programs that write a history by hand.
///
/// An agent does all of this itself. Every change is stored when its function returns, so that
/// [`save`](Self::save) has nothing left to do. A change fails with
/// [`SessionBusy`](ErrorKind::SessionBusy) while a run has leased the session, or another change of
/// it is being stored: make the changes of a session one after another.
///
/// ```
/// use agentcore::gateway::SessionManager;
/// use agentcore::{Role, ThreadStore};
///
/// # async fn example() -> agentcore::Result<()> {
/// let sessions = SessionManager::new(ThreadStore::new());
/// sessions.add_message("telegram:123", Role::User, "I am Ann.").await?;
/// sessions.add_message("telegram:123", Role::Assistant, "Hello Ann.").await?;
/// sessions.set_summary("telegram:123", "They met.").await?;
/// assert_eq!(sessions.get_history("telegram:123").await?.len(), 2);
/// assert_eq!(sessions.get_summary("telegram:123").await?.as_deref(), Some("They met."));
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone)]
pub struct SessionManager {
    store: Arc<dyn SessionStore>,
}

/// The outcome of an [import](SessionManager::import_sessions).
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct ImportedSessions {
    /// The keys of the sessions that were imported.
    pub imported: Vec<Arc<str>>,
    /// The keys of the sessions that the store had already, which are unchanged.
    pub existing: Vec<Arc<str>>,
    /// The names of the files that cannot be imported, each with the error.
    pub failed: Vec<(String, Error)>,
}

impl SessionManager {
    /// Creates a manager of the sessions in a store.
    pub fn new(store: impl SessionStore) -> Self {
        Self {
            store: Arc::new(store),
        }
    }

    /// Returns the messages after the summary; none if the session does not exist.
    ///
    /// # Errors
    ///
    /// Returns the store's error.
    pub async fn get_history(&self, key: &str) -> Result<Messages> {
        let state = self.state(key).await?;
        let compaction = state.compaction.as_ref();
        let covered_count = compaction.map_or(0, |compaction| compaction.through_message);
        let messages = state.messages.as_slice().iter().skip(covered_count);
        Ok(messages.cloned().collect())
    }

    /// Returns the summary of the messages before the history, if there is one.
    ///
    /// # Errors
    ///
    /// Returns the store's error.
    pub async fn get_summary(&self, key: &str) -> Result<Option<String>> {
        let compaction = self.state(key).await?.compaction;
        Ok(compaction.map(|compaction| compaction.summary))
    }

    /// Adds a message with a text.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::InvalidRequest`] for the role of a tool result, which belongs to a call
    /// (see [`add_full_message`](Self::add_full_message)), [`ErrorKind::SessionBusy`] while a run
    /// has leased the session, or the store's error.
    pub async fn add_message(
        &self,
        key: &str,
        role: Role,
        content: impl Into<Content>,
    ) -> Result<()> {
        let message = match role {
            Role::System => Message::system(content),
            Role::User => Message::human(content),
            Role::Assistant => Message::ai(content),
            Role::Tool => {
                let text = "a result needs the id of its call; use add_full_message";
                return Err(Error::new(ErrorKind::InvalidRequest, text));
            }
        };
        self.add_full_message(key, message).await
    }

    /// Adds a message.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::SessionBusy`] while a run has leased the session, or the store's error.
    pub async fn add_full_message(
        &self,
        key: &str,
        message: impl Into<Arc<Message>>,
    ) -> Result<()> {
        let lease = self.store.lease(key).await?;
        let record = Record::Message {
            message: message.into(),
            input_id: None,
        };
        self.store.append(&lease, vec![record]).await
    }

    /// Sets the summary of the messages before the history. An empty one removes it, so that the
    /// history is whole again.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::SessionBusy`] while a run has leased the session, or the store's error.
    pub async fn set_summary(&self, key: &str, summary: &str) -> Result<()> {
        let lease = self.store.lease(key).await?;
        let state = self.state(key).await?;
        let current = state.compaction;
        let covered_count = current.map_or(0, |compaction| compaction.through_message);
        let is_empty = summary.trim().is_empty();
        let compaction = (!is_empty).then(|| Compaction::new(summary, covered_count));
        let record = Record::Compaction { compaction };
        self.store.append(&lease, vec![record]).await
    }

    /// Removes all messages from the history except the last `keep_last`, at least two. More stay
    /// in it if a call would be separated from its result. The removed messages stay in the store:
    /// the summary covers them. If messages are removed and the session has no summary, its summary
    /// becomes a note that earlier messages are left out.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::SessionBusy`] while a run has leased the session, or the store's error.
    pub async fn truncate_history(&self, key: &str, keep_last: usize) -> Result<()> {
        let lease = self.store.lease(key).await?;
        let AgentState {
            messages,
            compaction,
            ..
        } = self.state(key).await?;
        let current = compaction.unwrap_or_else(|| Compaction::new(NO_SUMMARY, 0));
        let keep = Keep {
            share: 0.0,
            count: Some(keep_last),
            tokens: u64::MAX,
        };
        let counter: Arc<dyn TokenCounter> = Arc::new(EstimateCounter);
        let end = cut(&messages, current.through_message, keep, &counter).await?;
        let Some(end) = end else { return Ok(()) };
        let record = Record::Compaction {
            compaction: Some(Compaction::new(current.summary, end)),
        };
        self.store.append(&lease, vec![record]).await
    }

    /// Does nothing: every change is stored already.
    ///
    /// # Errors
    ///
    /// Never returns an error.
    pub async fn save(&self, _key: &str) -> Result<()> {
        Ok(())
    }

    /// Imports the files `*.json` of a folder, each a session: `{"key": "telegram:123", "messages":
    /// [..], "summary": ".."}`. The id of a session is its `key`, or else the name of its file. A
    /// session that the store already has is not changed, so that an import may be repeated.
    ///
    /// # Errors
    ///
    /// Returns the backend's error if the folder cannot be listed. The errors of single files are
    /// in the result.
    pub async fn import_sessions(
        &self,
        workspace: &dyn Backend,
        folder: &str,
    ) -> Result<ImportedSessions> {
        let mut outcome = ImportedSessions::default();
        for entry in workspace.list(folder).await? {
            let Some(stem) = entry.name.strip_suffix(".json") else {
                continue;
            };
            if entry.kind != EntryKind::File {
                continue;
            }

            let path = entry_path(folder, &entry.name);
            match self.import_file(workspace, &path, stem).await {
                Ok((key, true)) => outcome.imported.push(key),
                Ok((key, false)) => outcome.existing.push(key),
                Err(error) => outcome.failed.push((entry.name, error)),
            }
        }
        Ok(outcome)
    }

    /// Returns the key of a file's session, and true if it is new.
    async fn import_file(
        &self,
        workspace: &dyn Backend,
        path: &str,
        stem: &str,
    ) -> Result<(Arc<str>, bool)> {
        let json = read_file(workspace, path).await?;
        if json.len() > MAX_BYTES {
            let text = format!("the file has more than {MAX_BYTES} bytes");
            return Err(Error::new(ErrorKind::InvalidMessages, text));
        }

        let (keyed, json) = blocking_if_large(json.len(), move || {
            let keyed = serde_json::from_slice(&json);
            (keyed, json)
        })
        .await?;
        let Keyed { key } = keyed.map_err(|error| {
            let text = format!("this is not the JSON of a session: {error}");
            Error::new(ErrorKind::InvalidMessages, text)
        })?;
        let key = key
            .filter(|key| !key.is_empty())
            .unwrap_or_else(|| stem.into());
        match self.store.import(&key, &json).await {
            Ok(()) => Ok((key, true)),
            Err(error) if error.kind() == ErrorKind::Conflict => Ok((key, false)),
            Err(error) => Err(error),
        }
    }

    /// Returns the state; an empty one if the session does not exist.
    async fn state(&self, key: &str) -> Result<AgentState> {
        let stored = self.store.load(key).await?;
        Ok(stored.map(|stored| stored.state).unwrap_or_default())
    }
}

/// Returns the content of a file, up to one byte more than [`MAX_BYTES`]. A backend may return
/// less at once than it is asked for.
async fn read_file(workspace: &dyn Backend, path: &str) -> Result<Vec<u8>> {
    let mut content = Vec::from(workspace.read_range(path, 0, MAX_BYTES + 1).await?);
    while (PIECE..=MAX_BYTES).contains(&content.len()) {
        let offset = content.len() as u64;
        let max_len = MAX_BYTES + 1 - content.len();
        let piece = workspace.read_range(path, offset, max_len).await?;
        if piece.is_empty() {
            break;
        }
        content.extend_from_slice(&piece);
    }
    Ok(content)
}

impl fmt::Debug for SessionManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionManager").finish_non_exhaustive()
    }
}

/// The field of a session's file that is read here. [`SessionStore::import`] reads the others.
#[derive(Deserialize)]
struct Keyed {
    key: Option<Arc<str>>,
}
