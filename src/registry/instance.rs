//! The agent of one user.

use std::fmt;
use std::sync::{Arc, RwLock};

use serde::Serialize;

use crate::agent::{Agent, AgentBuilder, Session};
use crate::backend::Backend;
#[cfg(feature = "server")]
use crate::backend::MemoryBackend;
use crate::config::{
    AgentConfig, BackendType, HookChoice, PERMISSIONS, Parts, Workspace, WorkspaceOwner,
    available_builtin_names, check_hook,
};
use crate::error::{Error, ErrorKind, Result};
use crate::prompt::Skill;
use crate::session::SessionStore;
use crate::util::sync::{read, write};

use super::backend_store::{BackendInfo, BackendStore, ContainerAction};
use super::event_bus::EventBus;
use super::overrides::HookOverrides;
use super::registry::CompleteBuilder;
use super::template::{SharedTemplate, Template};
use super::tool_store::ToolStore;

/// The maximum number of names in one change of the hooks.
const MAX_SWITCHES: usize = 256;

/// The agent of one user, made from a template.
///
/// Its [`agent`](Self::agent) is built again when its hooks or its backend change; runs in progress
/// keep the agent that they began with.
pub struct Instance {
    pub(super) id: Arc<str>,
    pub(super) user: Arc<str>,
    pub(super) template: Arc<SharedTemplate>,
    pub(super) parts: Parts,
    /// Applied to each builder before it is built: the functions of the program and of the server.
    pub(super) complete: CompleteBuilder,
    pub(super) store: Arc<dyn SessionStore>,
    pub(super) tools: ToolStore,
    pub(super) backends: BackendStore,
    pub(super) events: EventBus,
    pub(super) current: RwLock<Current>,
    /// Locked while the instance changes, so that changes are made one after the other.
    pub(super) changes: tokio::sync::Mutex<()>,
}

/// The changing part of an instance.
pub(super) struct Current {
    pub(super) agent: Agent,
    pub(super) workspace: Workspace,
    pub(super) overrides: HookOverrides,
    /// The configuration with the backend of this user; `None` if the template is a builder.
    pub(super) config: Option<Arc<AgentConfig>>,
}

/// A tool of an instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ToolInfo {
    /// Its name.
    pub name: String,
    /// Its source: `builtin` for a built-in tool and for any tool of a template that is a
    /// configuration; the name of the hook that brings it; or `external` for a registered tool and
    /// for another tool of a builder.
    pub source: String,
}

impl Instance {
    /// Returns the id of the template.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the id of the user.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// Returns the current agent. Its runs have `stream_event` messages.
    pub fn agent(&self) -> Agent {
        read(&self.current).agent.clone()
    }

    /// Returns the store of its sessions: the registry's own handle, by which stores are compared.
    #[cfg(feature = "server")]
    pub(crate) fn store(&self) -> &Arc<dyn SessionStore> {
        &self.store
    }

    /// Returns the session of the user with this id, or a new one with a random id if the id is
    /// empty. If another user has a session with this id, its runs fail with
    /// [`SessionNotFound`](ErrorKind::SessionNotFound).
    pub fn session(&self, id: impl Into<Arc<str>>) -> Session {
        self.agent().session(id).owned_by(self.user.clone())
    }

    /// Returns the backend, if it has one, with the shared files of the configuration.
    pub fn backend(&self) -> Option<Arc<dyn Backend>> {
        read(&self.current).workspace.backend.clone()
    }

    /// Returns the configuration, if the template is one, with the backend that was set for the
    /// user.
    pub fn config(&self) -> Option<Arc<AgentConfig>> {
        read(&self.current).config.clone()
    }

    /// Returns the hooks that were enabled or disabled.
    pub fn overrides(&self) -> HookOverrides {
        read(&self.current).overrides.clone()
    }

    /// Enables and disables hooks, for runs that begin from now on. Hooks that are named neither
    /// here nor in an earlier call have the state of the template.
    ///
    /// This is for programs and admins: it may enable hooks that the template disables, and disable
    /// any hook of a builder, even a hook that guards the agent. For choices of users, use
    /// [`set_hooks_as_user`](Self::set_hooks_as_user).
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::InvalidRequest`] for a hook that the agent cannot have, that cannot be
    /// switched, such as `permissions`, or that is both enabled and disabled, and for more than 256
    /// names. Returns the errors of [`AgentBuilder::build`]. Nothing is changed after an error.
    pub async fn set_hooks(&self, enable: &[String], disable: &[String]) -> Result<()> {
        self.check_hooks(enable, disable)?;
        let _change = self.changes.lock().await;
        if let Some(name) = enable.iter().find(|name| disable.contains(name)) {
            return Err(invalid(format!(
                "the hook {name:?} cannot be both on and off"
            )));
        }

        let mut overrides = self.overrides();
        overrides.switch(enable, disable);
        let workspace = read(&self.current).workspace.clone();
        self.rebuild(workspace, overrides, self.config())?;
        let event = format!("hooks_changed:{}", self.id);
        self.events.publish_to(&self.user, event);
        Ok(())
    }

    /// Switches hooks on and off as [`set_hooks`](Self::set_hooks) does, within the rights of a
    /// user: a hook of [`HookChoice::CONFIGURABLE`] may be switched off, and on again if the
    /// template has it on.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`set_hooks`](Self::set_hooks), and [`ErrorKind::PermissionDenied`]
    /// for a switch that needs an admin. Nothing is changed after an error.
    pub async fn set_hooks_as_user(&self, enable: &[String], disable: &[String]) -> Result<()> {
        self.check_hooks(enable, disable)?;
        for name in enable.iter().chain(disable) {
            if !HookChoice::CONFIGURABLE.contains(&name.as_str()) {
                return Err(denied(format!(
                    "the hook {name:?} is the application's; only an admin may switch it"
                )));
            }
        }
        if let Some(name) = enable.iter().find(|name| !self.is_on_in_template(name)) {
            return Err(denied(format!(
                "the agent {:?} has the hook {name:?} off; only an admin may switch it on",
                self.id
            )));
        }
        self.set_hooks(enable, disable).await
    }

    fn is_on_in_template(&self, hook: &str) -> bool {
        match &**self.template {
            Template::Config(config) => config.hooks.has(hook),
            Template::Builder(builder) => builder.hook_names().iter().any(|name| name == hook),
        }
    }

    /// Returns `true` if the user's backend is not the template's, since
    /// [`set_backend`](Self::set_backend) changed it.
    pub(super) fn has_moved_backend(&self) -> bool {
        let current = read(&self.current);
        let backend = current.config.as_ref().map(|config| &config.backend);
        let template_backend = self.template.config().map(|config| &config.backend);
        backend != template_backend
    }

    /// Checks the names of hooks to switch, and their number.
    fn check_hooks(&self, enable: &[String], disable: &[String]) -> Result<()> {
        let count = enable.len() + disable.len();
        if count > MAX_SWITCHES {
            return Err(invalid(format!(
                "{count} hooks are named; name each once, and at most {MAX_SWITCHES}"
            )));
        }
        let mut names = enable.iter().chain(disable);
        names.try_for_each(|name| self.check_hook_name(name))
    }

    fn check_hook_name(&self, name: &str) -> Result<()> {
        match &**self.template {
            Template::Config(_) => check_hook(name).map_err(invalid),
            Template::Builder(builder) => {
                let names = builder.hook_names();
                if name == PERMISSIONS {
                    return Err(invalid(format!(
                        "the hook {name:?} cannot be switched on or off"
                    )));
                }
                if names.iter().any(|known| known == name) {
                    return Ok(());
                }
                let text = format!("unknown hook {name:?}; use one of: {}", names.join(", "));
                Err(invalid(text))
            }
        }
    }

    /// Sets the engine of the user's container: `remote` is the engine at `url`, `local` the
    /// template's engine. A container is started there for the user; the earlier container stays.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::InvalidRequest`] for any other mode, for `remote` without a `url` that
    /// begins with `ssh://`, `tcp://`, `unix://`, `http://` or `https://`, if the template has no
    /// backend, and for `remote` if its type is not `docker`. Returns the errors of the backend.
    /// After an error of the build, the agent has its earlier backend, and
    /// [`backend_info`](Self::backend_info) may describe the new one. After an error of the
    /// backend's status, the change is made.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the agent has either its earlier backend or the new one. With the
    /// earlier one, [`backend_info`](Self::backend_info) may describe the new one already; call
    /// this method again.
    pub async fn set_backend(&self, mode: &str, url: Option<&str>) -> Result<BackendInfo> {
        let host = match (mode, url) {
            ("local", _) => None,
            ("remote", Some(url)) => Some(checked_url(url)?),
            ("remote", None) => {
                return Err(invalid("sandbox_url is required for the mode 'remote'"));
            }
            _ => return Err(invalid("mode must be 'local' or 'remote'")),
        };
        let config = self.template.config();
        let backend = config.and_then(|config| config.backend.clone());
        let (Some(config), Some(mut backend)) = (config, backend) else {
            return Err(invalid(format!(
                "the agent {:?} has no backend; add one to its configuration",
                self.id
            )));
        };
        if host.is_some() {
            if backend.kind != BackendType::Docker {
                let text = "the mode 'remote' needs a backend of the type docker";
                return Err(invalid(text));
            }
            backend.docker_host = host;
        }

        let _change = self.changes.lock().await;
        let config = Arc::new(config.clone().with_backend(backend));
        let (parts, backends) = (&self.parts, &self.backends);
        let workspace = start_workspace(&config, parts, backends, &self.id, &self.user).await?;
        self.rebuild(workspace, self.overrides(), Some(config))?;
        let event = format!("container_status:{}", self.user);
        self.events.publish_to(&self.user, event);
        let info = self.backend_info().await?;
        info.ok_or_else(|| invalid("the backend was removed"))
    }

    /// Returns the description of the backend. Returns `None` if there is none, and for a builder.
    ///
    /// # Errors
    ///
    /// Returns an error if the engine of its container does not answer.
    pub async fn backend_info(&self) -> Result<Option<BackendInfo>> {
        self.backends.info(&self.id, &self.user).await
    }

    /// Stops or restarts the user's container, and returns its status. Waits until other changes of
    /// the instance have ended.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::InvalidRequest`] if the user has no container, and the errors of the
    /// engine.
    pub async fn container(&self, action: ContainerAction) -> Result<String> {
        let _change = self.changes.lock().await;
        let status = self.backends.act(&self.id, &self.user, action).await?;
        let event = format!("container_status:{}", self.user);
        self.events.publish_to(&self.user, event);
        Ok(status)
    }

    /// Returns the skills that the agent finds now. Empty for a builder.
    pub async fn skills(&self) -> Vec<Skill> {
        let workspace = read(&self.current).workspace.clone();
        workspace.skills().await
    }

    /// Returns the tools that a run has, sorted by name.
    pub fn tools(&self) -> Vec<ToolInfo> {
        let info = self.agent().info();
        let builtin_names = available_builtin_names();
        let own = info.tools.into_iter().map(|name| {
            let is_builtin = builtin_names.contains(&&*name) || self.template.config().is_some();
            let source = if is_builtin { "builtin" } else { "external" };
            (name, source.to_owned())
        });
        let hooks = info.hooks.into_iter().flat_map(|hook| {
            let source = hook.name;
            hook.tools
                .into_iter()
                .map(move |name| (name, source.clone()))
        });
        let registered = self
            .tools
            .names(&self.user)
            .into_iter()
            .map(|name| (name, "external".to_owned()));
        let mut tools: Vec<ToolInfo> = Vec::new();
        for (name, source) in own.chain(hooks).chain(registered) {
            if tools.iter().all(|tool| tool.name != name) {
                tools.push(ToolInfo { name, source });
            }
        }
        tools.sort_by(|a, b| a.name.cmp(&b.name));
        tools
    }

    /// Builds the agent again.
    fn rebuild(
        &self,
        workspace: Workspace,
        overrides: HookOverrides,
        config: Option<Arc<AgentConfig>>,
    ) -> Result<()> {
        let builder = match (&config, &**self.template) {
            (Some(config), _) => {
                let registered = self.tools.names(&self.user);
                let is_on = |name: &str| overrides.is_on(name, config.hooks.has(name));
                config.assemble(&self.parts, &workspace, &registered, &is_on)?
            }
            (None, Template::Builder(builder)) => builder
                .clone()
                .retain_hooks(|name| overrides.is_on(name, true)),
            (None, Template::Config(_)) => return Err(invalid("the configuration is missing")),
        };
        let builder = (self.complete)(builder);
        let agent = build_agent(builder, &self.id, &self.store, &self.tools, &self.user)?;
        *write(&self.current) = Current {
            agent,
            workspace,
            overrides,
            config,
        };
        Ok(())
    }
}

/// Builds the agent of a user from the template with this id.
pub(super) fn build_agent(
    builder: AgentBuilder,
    id: &Arc<str>,
    store: &Arc<dyn SessionStore>,
    tools: &ToolStore,
    user: &Arc<str>,
) -> Result<Agent> {
    builder
        .agent_id(id.clone())
        .store(store.clone())
        .tool_source(tools.source(user.clone()))
        .include_partial_messages(true)
        .build()
}

/// Returns the workspace of a user. Starts its backend if it is not in use.
pub(super) async fn start_workspace(
    config: &AgentConfig,
    parts: &Parts,
    backends: &BackendStore,
    id: &str,
    user: &str,
) -> Result<Workspace> {
    let backend = match config.mounted_backend() {
        Some(backend) => {
            let folder = config.folder();
            let created = backends.get_or_create(id, user, &backend, folder).await;
            Some(created.map_err(|error| config.error_from("backend", error))?)
        }
        None => None,
    };
    config
        .open_workspace(backend, WorkspaceOwner::User, parts)
        .await
}

/// Opens the workspace of a user to describe the agent. Uses the backend that is in use. Otherwise
/// a local folder is opened for this workspace alone, and files in memory or in a container are
/// replaced by an empty backend, so that no container is started.
#[cfg(feature = "server")]
pub(super) async fn describing_workspace(
    config: &AgentConfig,
    parts: &Parts,
    backends: &BackendStore,
    id: &str,
    user: &str,
) -> Result<Workspace> {
    let no_files = || -> Arc<dyn Backend> { Arc::new(MemoryBackend::new()) };
    let backend = match config.mounted_backend() {
        Some(backend) if backend.kind == BackendType::Local => {
            let folder = config.folder();
            let outcome = backends.get_or_start(id, user, &backend, folder).await;
            Some(outcome.map_err(|error| config.error_from("backend", error))?)
        }
        Some(_) => Some(backends.get(id, user).unwrap_or_else(no_files)),
        None => None,
    };
    config
        .open_workspace(backend, WorkspaceOwner::User, parts)
        .await
}

/// Checks the address of an engine, which becomes an argument of a program.
fn checked_url(url: &str) -> Result<String> {
    let schemes = ["ssh://", "tcp://", "unix://", "http://", "https://"];
    let is_printable = url.chars().all(|c| !c.is_control() && !c.is_whitespace());
    if is_printable && schemes.iter().any(|scheme| url.starts_with(scheme)) {
        return Ok(url.to_owned());
    }
    Err(invalid(format!(
        "sandbox_url must begin with one of: {}",
        schemes.join(", ")
    )))
}

fn invalid(text: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidRequest, text)
}

fn denied(text: String) -> Error {
    Error::new(ErrorKind::PermissionDenied, text)
}

impl fmt::Debug for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Instance")
            .field("id", &self.id)
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::super::Registry;
    use super::*;
    use crate::testing::ScriptedModel;

    #[tokio::test]
    async fn action_on_a_container_waits_for_other_changes_of_the_instance() {
        let registry = Registry::new().models(|_| Ok(ScriptedModel::new()));
        let config = AgentConfig::new("m");
        registry.register_template("a", config).unwrap();
        let instance = registry.get_or_clone("a", "ann").await.unwrap();
        let action = || instance.container(ContainerAction::Stop).now_or_never();
        let change = instance.changes.lock().await;
        assert!(action().is_none());
        drop(change);
        let error = action().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidRequest);
    }
}
