//! The files that become part of an agent's system prompt.

use serde::Deserialize;

/// The folders with an agent's skills.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct SkillsCfg {
    /// The folders. A relative path is relative to the folder of the configuration file. All users
    /// share a folder that exists, and the agent can only read it. If a path in the backend's
    /// `workdir` is not that of an existing folder, it is a path in the workspace of each user.
    /// Without users, the workspace is the `workdir` itself, and the agent can write to the folders
    /// of skills in it.
    ///
    /// A new container has a shared folder at the same path as this machine, and a container left
    /// by an earlier process keeps the folders that it was started with. For a running container,
    /// and for an engine on another machine, use an absolute path in the container.
    pub paths: Vec<String>,
}

/// The files with an agent's memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct MemoryCfg {
    /// The files. A relative path is relative to the folder of the configuration file. A file in
    /// the backend's `workdir` exists once for each user. A file outside of it is shared: the agent
    /// can only read it, and writes its own notes to the file of the same name in the user's
    /// folder.
    pub paths: Vec<String>,
    /// The content that is written into the first file if none of the files exists.
    pub initial_content: Option<String>,
}

impl MemoryCfg {
    /// Creates a configuration with these files.
    pub fn new<P: Into<String>>(paths: impl IntoIterator<Item = P>) -> Self {
        Self {
            paths: paths.into_iter().map(Into::into).collect(),
            initial_content: None,
        }
    }

    /// Sets the content that is written into the first file if none of the files exists.
    #[must_use]
    pub fn with_initial_content(mut self, content: impl Into<String>) -> Self {
        self.initial_content = Some(content.into());
        self
    }
}
