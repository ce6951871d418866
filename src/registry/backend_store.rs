//! The backends of users.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};

use crate::backend::Backend;
use crate::config::{BackendCfg, BackendType, Owner, StartedBackend};
use crate::error::{Error, ErrorKind, Result};
use crate::util::sync::lock;

use super::user::folder_of;

/// The maximum number of users' backends of the type `state`, which have files in memory.
const MAX_STATE_BACKENDS: usize = 1_024;

/// The agent and the user of a backend.
type Key = (Arc<str>, Arc<str>);

/// The backends of users: one for each agent and user. Clones are the same store.
///
/// A [`Registry`](super::Registry) that drops an agent removes its backend from the store, too,
/// unless the files are in memory. The folder or the container stays, and the agent that replaces
/// the dropped one uses it. A store has 1,024 backends with files in memory, 8 MiB each.
#[derive(Clone, Default)]
pub struct BackendStore(Arc<Mutex<HashMap<Key, StoredBackend>>>);

/// A started backend and its configuration.
#[derive(Clone)]
struct StoredBackend {
    started: StartedBackend,
    config: BackendCfg,
    /// The engine that replaces the configuration's.
    sandbox_url: Option<String>,
}

/// The action on a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ContainerAction {
    /// Stops it. Its files stay.
    Stop,
    /// Stops it, if it runs, and starts it again.
    Restart,
}

/// The description of a user's backend.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct BackendInfo {
    /// The address of the engine that replaces the configuration's.
    pub sandbox_url: Option<String>,
    /// The type: `local`, `state` or `docker`.
    pub backend_type: &'static str,
    /// The status of the container, if it is one: `running`, `missing`, or the engine's word such
    /// as `exited`.
    pub container_status: Option<String>,
}

impl BackendStore {
    /// Creates an empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts a backend for a user and replaces the user's existing backend for the agent. Relative
    /// paths begin at `folder`, or at the working directory of the process.
    ///
    /// The files of a `local` backend are in `workdir/users/USER`. A container is named
    /// `agentcore-AGENT.USER`, or `NAME.USER_nLENGTH` if the configuration has a name, with the
    /// length of this name in bytes. Such a container stays when the process ends, and is used
    /// again.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::InvalidRequest`] if the user's id is empty or longer than 256 bytes,
    /// [`ErrorKind::QuotaExhausted`] if the store has 1,024 backends with files in memory and this
    /// would be another, and the errors of the backend.
    ///
    /// # Cancel safety
    ///
    /// A container that was being started is removed again.
    pub async fn create(
        &self,
        agent: &str,
        user: &str,
        config: &BackendCfg,
        folder: Option<&Path>,
    ) -> Result<Arc<dyn Backend>> {
        let stored = StoredBackend {
            started: start(agent, user, config, folder).await?,
            config: config.clone(),
            sandbox_url: config.docker_host.clone(),
        };
        let backend = stored.started.backend.clone();
        let key: Key = (agent.into(), user.into());
        let mut backends = lock(&self.0);
        if stored.is_in_memory() && !backends.get(&key).is_some_and(StoredBackend::is_in_memory) {
            check_memory(&backends)?;
        }
        let replaced_backend = backends.insert(key, stored);
        drop(backends);
        drop(replaced_backend);
        Ok(backend)
    }

    /// Returns the backend of a user, which is started if there is none of this configuration.
    pub(super) async fn get_or_create(
        &self,
        agent: &str,
        user: &str,
        config: &BackendCfg,
        folder: Option<&Path>,
    ) -> Result<Arc<dyn Backend>> {
        match self.get_of(agent, user, config) {
            Some(backend) => Ok(backend),
            None => self.create(agent, user, config, folder).await,
        }
    }

    /// Returns the backend of a user, or one that is started and not stored.
    #[cfg(feature = "server")]
    pub(super) async fn get_or_start(
        &self,
        agent: &str,
        user: &str,
        config: &BackendCfg,
        folder: Option<&Path>,
    ) -> Result<Arc<dyn Backend>> {
        match self.get_of(agent, user, config) {
            Some(backend) => Ok(backend),
            None => Ok(start(agent, user, config, folder).await?.backend),
        }
    }

    /// Returns the backend of a user if it has this configuration.
    fn get_of(&self, agent: &str, user: &str, config: &BackendCfg) -> Option<Arc<dyn Backend>> {
        let stored = self.stored(agent, user);
        let stored = stored.filter(|stored| stored.config == *config)?;
        Some(stored.started.backend)
    }

    /// Returns the backend of a user.
    pub fn get(&self, agent: &str, user: &str) -> Option<Arc<dyn Backend>> {
        self.stored(agent, user)
            .map(|stored| stored.started.backend)
    }

    /// Removes a backend from the store. Returns `false` if there was none. Its folder and its
    /// container stay; files in memory are lost.
    pub fn remove(&self, agent: &str, user: &str) -> bool {
        lock(&self.0).remove(&(agent.into(), user.into())).is_some()
    }

    /// Returns the description of a user's backend. Returns `None` if there is none.
    ///
    /// # Errors
    ///
    /// Returns an error if the engine of its container does not answer.
    pub async fn info(&self, agent: &str, user: &str) -> Result<Option<BackendInfo>> {
        let Some(stored) = self.stored(agent, user) else {
            return Ok(None);
        };
        Ok(Some(BackendInfo {
            sandbox_url: stored.sandbox_url,
            backend_type: stored.started.kind.as_str(),
            container_status: stored.started.container_status().await?,
        }))
    }

    /// Stops the container of a user and returns its status.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::InvalidRequest`] if the user has no container, and the errors of the
    /// engine.
    pub async fn stop(&self, agent: &str, user: &str) -> Result<String> {
        self.act(agent, user, ContainerAction::Stop).await
    }

    /// Restarts the container of a user and returns its status.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`stop`](Self::stop).
    pub async fn restart(&self, agent: &str, user: &str) -> Result<String> {
        self.act(agent, user, ContainerAction::Restart).await
    }

    pub(super) async fn act(
        &self,
        agent: &str,
        user: &str,
        action: ContainerAction,
    ) -> Result<String> {
        let refuse = || {
            let text = format!("the agent {agent:?} has no container");
            Error::new(ErrorKind::InvalidRequest, text)
        };
        let stored = self.stored(agent, user).ok_or_else(refuse)?;
        match action {
            ContainerAction::Stop => stored.started.stop_container().await?,
            ContainerAction::Restart => stored.started.restart_container().await?,
        }
        let status = stored.started.container_status().await?;
        status.ok_or_else(refuse)
    }

    fn stored(&self, agent: &str, user: &str) -> Option<StoredBackend> {
        lock(&self.0).get(&(agent.into(), user.into())).cloned()
    }

    /// Removes the backend of an agent that is dropped, unless its files would be lost.
    pub(super) fn remove_idle(&self, key: &Key) {
        let mut backends = lock(&self.0);
        if backends
            .get(key)
            .is_some_and(|stored| !stored.is_in_memory())
        {
            backends.remove(key);
        }
    }

    pub(super) fn remove_agent(&self, agent: &str) {
        lock(&self.0).retain(|(owner, _), _| &**owner != agent);
    }
}

impl StoredBackend {
    fn is_in_memory(&self) -> bool {
        self.started.kind == BackendType::State
    }
}

/// Starts a backend for a user.
async fn start(
    agent: &str,
    user: &str,
    config: &BackendCfg,
    folder: Option<&Path>,
) -> Result<StartedBackend> {
    let user = &folder_of(user)?;
    config.start(folder, Some(Owner { agent, user })).await
}

/// Checks that there is room for one more backend with files in memory.
fn check_memory(backends: &HashMap<Key, StoredBackend>) -> Result<()> {
    let states = backends.values().filter(|stored| stored.is_in_memory());
    if states.count() < MAX_STATE_BACKENDS {
        return Ok(());
    }
    let text = format!(
        "{MAX_STATE_BACKENDS} backends have files in memory, which is the limit; remove a backend, \
         or use one of the type \"local\""
    );
    Err(Error::new(ErrorKind::QuotaExhausted, text))
}

impl fmt::Debug for BackendStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackendStore")
            .field("backends", &lock(&self.0).len())
            .finish_non_exhaustive()
    }
}
