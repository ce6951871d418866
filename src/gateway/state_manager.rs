//! The state of a gateway that outlives its process.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::backend::{Backend, is_not_found};
use crate::error::{Error, ErrorKind, Result};
use crate::prompt::{Conversation, LocalClock};
use crate::util::sync::lock;

const FILE: &str = "state/state.json";
/// The maximum size of the file, in bytes. The rest is not read.
const MAX_BYTES: usize = 64 * 1024;

/// The state of a gateway that outlives its process: the chat in which a person wrote last.
///
/// Messages that reply to no input, such as the reports of the heartbeat, are sent to this chat.
///
/// The state is the file `state/state.json` of the workspace, which is replaced as a whole. Clones
/// share it.
///
/// ```
/// use agentcore::backend::MemoryBackend;
/// use agentcore::gateway::StateManager;
///
/// # async fn example() -> agentcore::Result<()> {
/// let workspace = MemoryBackend::new();
/// let state = StateManager::load(workspace.clone()).await?;
/// state.record("telegram", "123").await?;
///
/// let state = StateManager::load(workspace).await?;
/// assert_eq!(state.last_channel().as_deref(), Some("telegram:123"));
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone)]
pub struct StateManager {
    workspace: Arc<dyn Backend>,
    clock: LocalClock,
    values: Arc<Mutex<Saved>>,
    /// Locked while the file is written, so that the newest state is written last.
    writing: Arc<tokio::sync::Mutex<()>>,
}

/// The file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Saved {
    /// `CHANNEL:CHAT_ID`.
    #[serde(default)]
    last_channel: Arc<str>,
    #[serde(default)]
    last_chat_id: Arc<str>,
    /// The time of the last change.
    #[serde(default)]
    timestamp: String,
}

impl StateManager {
    /// Reads the state of a workspace. A missing file is an empty state. A damaged file is an empty
    /// state, too, and a warning is logged.
    ///
    /// # Errors
    ///
    /// Returns the backend's error.
    pub async fn load(workspace: impl Backend) -> Result<Self> {
        let values = match workspace.read_range(FILE, 0, MAX_BYTES).await {
            Ok(content) => serde_json::from_slice(&content).unwrap_or_else(|error| {
                tracing::warn!("{FILE} is damaged and is not used: {error}");
                Saved::default()
            }),
            Err(error) if is_not_found(&error) => Saved::default(),
            Err(error) => return Err(error),
        };

        Ok(Self {
            workspace: Arc::new(workspace),
            clock: LocalClock::system(),
            values: Arc::new(Mutex::new(values)),
            writing: Arc::default(),
        })
    }

    /// Sets the clock, such as a fixed one in tests.
    #[must_use]
    pub fn with_clock(mut self, clock: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        self.clock = self.clock.with_clock(Arc::new(clock));
        self
    }

    /// Returns the channel and the chat in which a person wrote last: `CHANNEL:CHAT_ID`.
    pub fn last_channel(&self) -> Option<Arc<str>> {
        Some(lock(&self.values).last_channel.clone()).filter(|value| !value.is_empty())
    }

    /// Returns the id of the chat in which a person wrote last.
    pub fn last_chat_id(&self) -> Option<Arc<str>> {
        Some(lock(&self.values).last_chat_id.clone()).filter(|value| !value.is_empty())
    }

    /// Returns the chat in which a person wrote last.
    pub fn last_conversation(&self) -> Option<Conversation> {
        let last = self.last_channel()?;
        let (channel, chat_id) = last.split_once(':')?;
        Some(Conversation::new(channel, chat_id))
    }

    /// Stores the chat in which a person wrote. Nothing is written if it is the last one already.
    ///
    /// # Errors
    ///
    /// Returns the backend's error, and [`ErrorKind::InvalidRequest`] if the file would have more
    /// than 64 KiB.
    pub async fn record(&self, channel: &str, chat_id: &str) -> Result<()> {
        let last_channel = format!("{channel}:{chat_id}");
        self.change(|values| {
            values.last_channel = last_channel.into();
            values.last_chat_id = chat_id.into();
        })
        .await
    }

    /// Stores the last channel, as `CHANNEL:CHAT_ID`.
    ///
    /// # Errors
    ///
    /// Returns the backend's error, and [`ErrorKind::InvalidRequest`] if the file would have more
    /// than 64 KiB.
    pub async fn set_last_channel(&self, last_channel: &str) -> Result<()> {
        self.change(|values| values.last_channel = last_channel.into())
            .await
    }

    /// Stores the id of the last chat.
    ///
    /// # Errors
    ///
    /// Returns the backend's error, and [`ErrorKind::InvalidRequest`] if the file would have more
    /// than 64 KiB.
    pub async fn set_last_chat_id(&self, chat_id: &str) -> Result<()> {
        self.change(|values| values.last_chat_id = chat_id.into())
            .await
    }

    async fn change(&self, change: impl FnOnce(&mut Saved)) -> Result<()> {
        let _writing = self.writing.lock().await;
        let old_values = lock(&self.values).clone();
        let mut values = old_values.clone();
        change(&mut values);
        if values == old_values {
            return Ok(());
        }

        values.timestamp = self.clock.utc()?;
        let json = serde_json::to_vec(&values)?;
        if json.len() > MAX_BYTES {
            let text = format!(
                "the last chat was not stored: {FILE} would have {} bytes, and {MAX_BYTES} are the \
                 limit; use a shorter id",
                json.len()
            );
            return Err(Error::new(ErrorKind::InvalidRequest, text));
        }
        self.workspace.write(FILE, &json).await?;
        *lock(&self.values) = values;
        Ok(())
    }
}

impl fmt::Debug for StateManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StateManager")
            .field("last_channel", &self.last_channel())
            .finish_non_exhaustive()
    }
}
