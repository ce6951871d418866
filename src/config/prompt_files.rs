//! The paths of an agent's skills and memory.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::backend::Backend;
use crate::error::Result;
use crate::util::path::{is_in_folder, lexical};

use super::agent::AgentConfig;
use super::backend::{BackendCfg, BackendType};
use super::build::WorkspaceOwner;
use super::open_folders::OpenFolders;
use super::shared_folders::{SharedFolder, SharedFolders};
use super::started_backend::USERS;

/// The root of a workspace in memory.
const STATE_ROOT: &str = "/workspace";

/// The paths of an agent's skills and memory, as its backend has them.
#[derive(Clone, Debug, Default)]
pub(super) struct PromptFiles {
    pub(super) skills: Vec<String>,
    pub(super) memory: Vec<String>,
}

/// Files of this machine that agents can read.
#[derive(Clone, Debug, Default)]
pub(super) struct SharedFiles {
    folders: OpenFolders,
    shared: Vec<SharedFolder>,
}

impl SharedFiles {
    /// Returns the backend together with these files.
    pub(super) fn over(self, backend: Arc<dyn Backend>) -> Arc<dyn Backend> {
        SharedFolders::over(backend, self.shared)
    }

    /// Adds a folder, and returns its path. A folder that does not exist is omitted, as in a
    /// workspace.
    fn add_folder(&mut self, path: &Path) -> Result<Option<String>> {
        if !path.is_dir() {
            return Ok(None);
        }
        let backend = self.folders.open(path)?;
        let root = backend.root().to_owned();
        self.shared.push(SharedFolder::new(root.clone(), backend));
        Ok(Some(root))
    }

    /// Adds a file, and returns its path. A file that does not exist is omitted.
    fn add_file(&mut self, path: &Path) -> Result<Option<String>> {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Ok(None);
        };
        if !path.is_file() {
            return Ok(None);
        }
        let backend = self.folders.open(folder)?;
        let path = format!("{}/{}", backend.root(), name.to_string_lossy());
        self.shared.push(SharedFolder::new(path.clone(), backend));
        Ok(Some(path))
    }
}

/// The location of a file that a configuration names.
enum FileLocation {
    /// In the workspace of each user.
    Workspace(String),
    /// On this machine.
    Machine(PathBuf),
}

impl AgentConfig {
    /// Finds the skills and the memory of the agent in a workspace of `owner`, and on this machine.
    pub(super) fn prompt_files(
        &self,
        owner: WorkspaceOwner,
        folders: OpenFolders,
    ) -> Result<(PromptFiles, SharedFiles)> {
        let mut files = PromptFiles::default();
        let mut shared = SharedFiles {
            folders,
            shared: Vec::new(),
        };
        for path in &self.skills.paths {
            match self.location_of_skills(path, owner) {
                FileLocation::Workspace(path) => files.skills.push(path),
                FileLocation::Machine(path) => files.skills.extend(shared.add_folder(&path)?),
            }
        }

        let mut shared_memory = Vec::new();
        let mut own_paths = HashSet::new();
        for path in &self.memory.paths {
            let own = match self.location(path) {
                FileLocation::Workspace(path) => path,
                FileLocation::Machine(path) => {
                    shared_memory.extend(shared.add_file(&path)?);
                    // Each user has a separate file next to the shared one, for the agent's notes.
                    let name = path
                        .file_name()
                        .map(|name| name.to_string_lossy().into_owned());
                    name.unwrap_or_else(|| "AGENTS.md".to_owned())
                }
            };
            if own_paths.insert(own.clone()) {
                files.memory.push(own);
            }
        }
        files.memory.extend(shared_memory);
        Ok((files, shared))
    }

    /// Returns the backend of the configuration. A container also has the folders of skills on this
    /// machine, for the commands of skills.
    pub(crate) fn mounted_backend(&self) -> Option<BackendCfg> {
        let mut backend = self.backend.clone()?;
        if backend.kind == BackendType::Docker {
            let locations = self.skills.paths.iter().map(|path| self.location(path));
            let folders = locations.filter_map(|location| match location {
                FileLocation::Machine(path) => Some(path),
                FileLocation::Workspace(_) => None,
            });
            backend.mounts = folders.collect();
        }
        Some(backend)
    }

    /// Returns the location of a folder of skills. With users and a `local` backend, each user's
    /// workspace is a folder below `workdir/users`, so a folder that exists in `workdir` itself is
    /// shared by all users, unless it contains these workspaces or lies in one.
    fn location_of_skills(&self, path: &str, owner: WorkspaceOwner) -> FileLocation {
        let location = self.location(path);
        let is_in_workspace = matches!(location, FileLocation::Workspace(_));
        let is_of_user = owner == WorkspaceOwner::User;
        let backend = self.backend.as_ref();
        let backend = backend.filter(|backend| backend.kind == BackendType::Local);
        let Some(backend) = backend.filter(|_| is_of_user && is_in_workspace) else {
            return location;
        };
        let folder = self.on_machine(path);
        let users = self.workdir(backend).join(USERS);
        let is_of_users = users.starts_with(&folder) || folder.starts_with(&users);
        if is_of_users || !folder.is_dir() {
            return location;
        }
        FileLocation::Machine(folder)
    }

    /// Returns the `workdir` of a `local` backend.
    fn workdir(&self, backend: &BackendCfg) -> PathBuf {
        self.on_machine(backend.workdir.as_deref().unwrap_or("."))
    }

    fn location(&self, path: &str) -> FileLocation {
        let Some(backend) = &self.backend else {
            return FileLocation::Workspace(path.to_owned());
        };
        let is_absolute = path.starts_with('/');
        match backend.kind {
            BackendType::Docker if is_absolute => FileLocation::Workspace(path.to_owned()),
            BackendType::State if is_absolute && is_in_folder(STATE_ROOT, &lexical(path)) => {
                FileLocation::Workspace(path.to_owned())
            }
            BackendType::Docker | BackendType::State => {
                FileLocation::Machine(self.on_machine(path))
            }
            BackendType::Local => {
                let full_path = self.on_machine(path);
                match full_path.strip_prefix(self.workdir(backend)) {
                    Ok(relative) => {
                        FileLocation::Workspace(relative.to_string_lossy().into_owned())
                    }
                    Err(_) => FileLocation::Machine(full_path),
                }
            }
        }
    }

    /// Returns the path on this machine, relative to the folder of the configuration.
    fn on_machine(&self, path: &str) -> PathBuf {
        let path = match self.folder() {
            Some(folder) => folder.join(path),
            None => std::path::absolute(path).unwrap_or_else(|_| PathBuf::from(path)),
        };
        PathBuf::from(lexical(&path.to_string_lossy()))
    }
}
