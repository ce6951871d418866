//! The configuration of a store of sessions.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;

use crate::error::{Error, ErrorKind, Result};
use crate::session::{SessionStore, ThreadStore};
use crate::util::Secret;
use crate::util::path::lexical;

use super::agent::AgentConfig;
use super::source;

/// The kind of a store of sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum SessionsType {
    /// In memory. A session is removed an hour after its last use, and earlier if there are more
    /// than 1,000, or 64 MiB of them: then those that were used longest ago.
    #[default]
    Memory,
    /// Files in a folder (feature `jsonl`).
    Jsonl,
    /// One database file (feature `sqlite`).
    Sqlite,
    /// A PostgreSQL server (feature `postgres`).
    Postgres,
    /// A Redis server (feature `redis`).
    Redis,
}

/// The store of an agent's sessions. Agents with the same store share its sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct SessionsCfg {
    /// The kind of store. Defaults to `memory`.
    #[serde(rename = "type")]
    pub kind: SessionsType,
    /// The folder of `jsonl` or the file of `sqlite`. A relative path is relative to the folder of
    /// the configuration file.
    pub path: Option<String>,
    /// The address of `postgres` or `redis`. In a file, a reference such as `"${DATABASE_URL}"`, or
    /// an address without a password.
    #[serde(deserialize_with = "source::address")]
    #[schemars(schema_with = "source::secret_schema")]
    pub url: Option<Secret>,
}

impl SessionsCfg {
    /// Creates the configuration of a store in files in a folder.
    pub fn jsonl(path: impl Into<String>) -> Self {
        Self {
            kind: SessionsType::Jsonl,
            path: Some(path.into()),
            url: None,
        }
    }

    /// Opens the store. Relative paths are relative to `folder`.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Config`] if the feature of the type is disabled or its path or address
    /// is missing, and the errors of the store.
    pub(crate) fn open(&self, folder: Option<&Path>) -> Result<Arc<dyn SessionStore>> {
        let path = || self.full_path(folder);
        let address = || self.url.as_ref().ok_or_else(|| missing("url"));
        let store: Arc<dyn SessionStore> = match self.kind {
            SessionsType::Memory => Arc::new(ThreadStore::of_agent()),
            #[cfg(all(feature = "jsonl", unix))]
            SessionsType::Jsonl => Arc::new(crate::session::JsonlStore::open(path()?)?),
            #[cfg(all(feature = "sqlite", unix))]
            SessionsType::Sqlite => Arc::new(crate::session::SqliteStore::open(path()?)?),
            #[cfg(feature = "postgres")]
            SessionsType::Postgres => {
                Arc::new(crate::session::PostgresStore::open(address()?.expose())?)
            }
            #[cfg(feature = "redis")]
            SessionsType::Redis => Arc::new(crate::session::RedisStore::open(address()?.expose())?),
            // The types whose feature is disabled. With all features there are none.
            #[allow(unreachable_patterns)]
            _ => {
                path().map(drop).or_else(|_| address().map(drop))?;
                let text = "the cargo feature of this store of sessions is off in this program";
                return Err(Error::new(ErrorKind::Config, text));
            }
        };
        Ok(store)
    }

    /// Returns the path of the store's folder or file. A relative path is relative to `folder`.
    fn full_path(&self, folder: Option<&Path>) -> Result<PathBuf> {
        let path = self.path.as_deref().ok_or_else(|| missing("path"))?;
        Ok(folder.map_or_else(|| PathBuf::from(path), |folder| folder.join(path)))
    }
}

fn missing(key: &str) -> Error {
    let text = format!("the store of sessions needs the key {key:?}");
    Error::new(ErrorKind::Config, text)
}

/// The type and the address of a store. Agents with equal keys share one store.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct StoreKey(SessionsType, String);

impl AgentConfig {
    /// Returns the key of the store, if the configuration has one. Stores in memory have equal
    /// keys.
    pub(crate) fn store_key(&self) -> Option<StoreKey> {
        let sessions = self.sessions.as_ref()?;
        let address = match (&sessions.url, sessions.full_path(self.folder())) {
            (Some(url), _) => url.expose().to_owned(),
            (None, Ok(path)) => lexical(&path.to_string_lossy()),
            (None, Err(_)) => String::new(),
        };
        Some(StoreKey(sessions.kind, address))
    }
}
