//! The file that a configuration was read from.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, ErrorKind};

use super::agent::AgentConfig;
use super::source::{Fault, Node};

/// The file that a configuration was read from.
#[derive(Debug, PartialEq)]
pub(super) struct Origin {
    /// The name of the file in errors.
    pub(super) name: Arc<str>,
    /// The folder of the file, the base of relative paths.
    pub(super) folder: Option<PathBuf>,
    /// The absolute path of the file, and its path without links. Empty for a text.
    pub(super) paths: Vec<String>,
    /// The values of the agent, with the defaults of the file.
    pub(super) node: Node,
}

/// Returns the error for a fault in the file `name`.
pub(super) fn located(name: &str, fault: &Fault) -> Error {
    let text = match fault.position {
        Some(position) => format!("{name}:{position}: {}", fault.text),
        None => format!("{name}: {}", fault.text),
    };
    Error::new(ErrorKind::Config, text)
}

impl AgentConfig {
    /// Returns an error at the value that `path` names: with its position in the file, or with the
    /// path itself if there is no file.
    pub(super) fn error_at(&self, path: &str, text: impl std::fmt::Display) -> Error {
        let text = match &self.origin {
            Some(origin) => format!("{}:{}: {text}", origin.name, origin.node.locate(path)),
            None => format!("{path}: {text}"),
        };
        Error::new(ErrorKind::Config, text)
    }

    /// Adds the position of the value that `path` names to an error.
    pub(crate) fn error_from(&self, path: &str, error: Error) -> Error {
        match &self.origin {
            Some(origin) => error.context(format!("{}:{}", origin.name, origin.node.locate(path))),
            None => error.context(path),
        }
    }

    /// Returns patterns for the paths of the files that it was read from and narrowed by.
    pub(super) fn file_patterns(&self) -> impl Iterator<Item = String> {
        let origins = self.origin.iter().chain(&self.narrowing);
        let paths = origins.flat_map(|origin| &origin.paths);
        // A pattern must not contain control characters.
        paths.map(|path| path.replace(char::is_control, "?"))
    }

    /// Returns the base of relative paths.
    pub(crate) fn folder(&self) -> Option<&Path> {
        self.origin.as_ref()?.folder.as_deref()
    }
}
