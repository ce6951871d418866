//! The place of sessions.

use std::env;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agentcore::permission::{Behavior, PermissionRules, Rule};
use agentcore::{Error, SessionStore, ThreadStore};

use super::address;
use super::args::usage;
use super::output::note;

/// A place for sessions, as `--store` names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Folder(PathBuf),
    Sqlite(PathBuf),
    Postgres(String),
    Redis(String),
}

impl Place {
    /// The place of `DIR`, `sqlite:PATH`, `postgres:URL` or `redis:URL`, or, without any, the
    /// folder in the user's state directory.
    ///
    /// # Errors
    ///
    /// Returns an error if the scheme is another one, or there is no state directory.
    pub(crate) fn of(spec: Option<&str>) -> Result<Self, Error> {
        let Some(spec) = spec else {
            return Ok(Self::Folder(state_directory()?.join("sessions")));
        };

        // `postgres:postgres://HOST` and `postgres://HOST` are the same store: the scheme belongs
        // to the URL.
        let url = |rest: &str| {
            if rest.contains("://") {
                rest.to_owned()
            } else {
                spec.to_owned()
            }
        };

        match spec.split_once(':') {
            _ if spec.trim().is_empty() => Err(usage("--store is empty; name a folder".to_owned())),
            Some((_, "")) => Err(usage(format!("--store {spec}: nothing follows the colon"))),
            Some(("sqlite", path)) => Ok(Self::Sqlite(path.into())),
            Some(("postgres" | "postgresql", rest)) => Ok(Self::Postgres(url(rest))),
            Some(("redis" | "rediss", rest)) => Ok(Self::Redis(url(rest))),
            Some((scheme, _)) if !scheme.contains(['/', '.']) => Err(usage(format!(
                "--store: unknown kind of store {scheme:?}; use a folder, sqlite:PATH, postgres:URL \
                 or redis:URL (a folder of that name is ./{scheme}:..)"
            ))),
            _ => Ok(Self::Folder(spec.into())),
        }
    }

    /// Opens the store, and creates it if it does not exist.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be opened, or if the feature that it needs is off.
    pub(crate) async fn open(&self) -> Result<Arc<dyn SessionStore>, Error> {
        match self {
            #[cfg(feature = "jsonl")]
            Self::Folder(folder) => Ok(Arc::new(agentcore::session::JsonlStore::open(folder)?)),
            #[cfg(not(feature = "jsonl"))]
            Self::Folder(_) => Err(off("a folder", "jsonl")),
            #[cfg(feature = "sqlite")]
            Self::Sqlite(path) => Ok(Arc::new(agentcore::session::SqliteStore::open(path)?)),
            #[cfg(not(feature = "sqlite"))]
            Self::Sqlite(_) => Err(off("sqlite:", "sqlite")),
            #[cfg(feature = "postgres")]
            Self::Postgres(url) => Ok(Arc::new(agentcore::session::PostgresStore::open(url)?)),
            #[cfg(not(feature = "postgres"))]
            Self::Postgres(_) => Err(off("postgres:", "postgres")),
            #[cfg(feature = "redis")]
            Self::Redis(url) => Ok(Arc::new(agentcore::session::RedisStore::open(url)?)),
            #[cfg(not(feature = "redis"))]
            Self::Redis(_) => Err(off("redis:", "redis")),
        }
    }

    /// Opens the store for reading. One that does not exist is empty, and is not created.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`open`](Self::open).
    pub(crate) async fn open_existing(&self) -> Result<Arc<dyn SessionStore>, Error> {
        match self {
            Self::Folder(path) | Self::Sqlite(path) if matches!(path.try_exists(), Ok(false)) => {
                note(&format!("there is nothing at {}", path.display()));
                Ok(Arc::new(ThreadStore::new()))
            }
            _ => self.open().await,
        }
    }

    /// The folder of checkpoints: inside the folder of sessions, else in the state directory, where
    /// each place has its own, because two places may have sessions of the same name.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no state directory.
    pub(crate) fn checkpoints(&self) -> Result<PathBuf, Error> {
        let (kind, id) = match self {
            Self::Folder(folder) => return Ok(folder.join("checkpoints")),
            Self::Sqlite(file) => (
                "sqlite",
                address::id_of(real(file)?.as_os_str().as_encoded_bytes()),
            ),
            Self::Postgres(url) => ("postgres", address::id_of_server(url)),
            Self::Redis(url) => ("redis", address::id_of_server(url)),
        };
        Ok(state_directory()?.join(format!("checkpoints-{kind}-{id}")))
    }

    /// Denies the agent access to its own sessions if they are inside its working directory.
    ///
    /// # Errors
    ///
    /// Returns an error if no rule can name the place.
    pub(crate) fn guard(
        &self,
        permissions: PermissionRules,
        cwd: &str,
    ) -> Result<PermissionRules, Error> {
        let (path, suffix) = match self {
            Self::Folder(folder) => (folder, "/**"),
            // The pattern includes the journals next to the file.
            Self::Sqlite(file) => (file, "*"),
            Self::Postgres(_) | Self::Redis(_) => return Ok(permissions),
        };

        if !is_beneath(path, cwd)? {
            return Ok(permissions);
        }

        let path = real(path)?.display().to_string();
        if path.contains(['*', '?', '[', ']', '{', '}', '(', ')', '\\']) {
            return Err(usage(format!(
                "--store {path} lies beneath the working directory, and its name has characters \
                 that no rule can keep the agent away from; choose another place"
            )));
        }

        let mut permissions = permissions.protect(path.as_str());
        for tool in ["Read", "Edit"] {
            let rule = Rule::new(Behavior::Deny, &format!("{tool}({path}{suffix})"))?;
            permissions = permissions.rule(rule.with_source("--store"));
        }

        Ok(permissions)
    }
}

/// Returns `$XDG_STATE_HOME/agentcore`, or else `~/.local/state/agentcore`.
///
/// # Errors
///
/// Returns an error if neither variable is set.
pub(crate) fn state_directory() -> Result<PathBuf, Error> {
    let var = |name| env::var_os(name).map(PathBuf::from);
    let absolute = |path: &PathBuf| path.is_absolute();
    let state = var("XDG_STATE_HOME").filter(absolute);
    let home = || {
        var("HOME")
            .filter(absolute)
            .map(|home| home.join(".local/state"))
    };

    let state = state.or_else(home).ok_or_else(|| {
        usage("there is no HOME to store sessions in; name a folder with --store DIR".to_owned())
    })?;

    Ok(state.join("agentcore"))
}

/// Returns `true` if the path is inside the directory. The path need not exist.
///
/// # Errors
///
/// Returns an error if there is no current directory.
pub(crate) fn is_beneath(path: &Path, cwd: &str) -> Result<bool, Error> {
    Ok(real(path)?.starts_with(cwd))
}

/// The path as the file tools name it. The parts of it that do not exist are not resolved.
fn real(path: &Path) -> Result<PathBuf, Error> {
    let full = std::path::absolute(path)?;
    for (depth, above) in full.ancestors().enumerate() {
        if let Ok(real) = above.canonicalize() {
            let missing = full.components().rev().take(depth).collect::<Vec<_>>();
            return Ok(missing
                .into_iter()
                .rev()
                .fold(real, |path, part| path.join(part)));
        }
    }
    Ok(full)
}

/// The error of a store whose feature is off.
#[allow(dead_code, reason = "unused when every feature is on")]
fn off(what: &str, feature: &str) -> Error {
    usage(format!(
        "--store {what} needs a program built with `--features {feature}`"
    ))
}
