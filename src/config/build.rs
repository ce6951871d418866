//! The builder of an agent, made from its configuration.

use std::sync::Arc;
use std::time::Duration;

use crate::agent::AgentBuilder;
use crate::backend::Backend;
use crate::error::Result;
use crate::hook::Hook;
use crate::hooks::{
    BackgroundTasksHook, FilesystemHook, MemoryHook, PermissionHook, SkillsHook, SummarizationHook,
    TodoListHook, TracingHook,
};
use crate::prompt::Skill;
use crate::prompt::skills::find;
use crate::session::SessionStore;
use crate::util::blocking::blocking;

use super::agent::AgentConfig;
use super::parts::Parts;
use super::prompt_files::PromptFiles;

/// The backend of an agent, and the paths of its skills and memory. Agents of the same
/// configuration can share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Workspace {
    /// The backend of hooks and tools, with the shared files of the configuration.
    pub(crate) backend: Option<Arc<dyn Backend>>,
    files: PromptFiles,
}

/// The owner of an agent's workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkspaceOwner {
    /// The program: the workspace is the `workdir`.
    Program,
    /// One user: the workspace is a folder of the user below the `workdir`.
    User,
}

impl Workspace {
    /// Returns the skills that the agent currently finds.
    pub(crate) async fn skills(&self) -> Vec<Skill> {
        match &self.backend {
            Some(backend) => find(backend, &self.files.skills).await.skills,
            None => Vec::new(),
        }
    }
}

impl AgentConfig {
    /// Starts the backend, opens the store, creates the model, and returns a builder of the agent.
    ///
    /// The hooks are, outermost first:
    ///
    /// 1. `tracing` and `todolist`;
    /// 2. with a backend, `filesystem` and, if their paths are set, `skills` and `memory`;
    /// 3. `summarization`;
    /// 4. with background subagents, the hook for their tasks;
    /// 5. with rules, `permissions`.
    ///
    /// ```
    /// use agentcore::config::{AgentConfig, BackendCfg, Parts};
    /// use agentcore::testing::ScriptedModel;
    ///
    /// # async fn example() -> Result<(), agentcore::Error> {
    /// let config = AgentConfig::new("any-model").with_backend(BackendCfg::state());
    /// let parts = Parts::new().models(|_name| Ok(ScriptedModel::new().say("Hello!")));
    /// let agent = config.builder(&parts).await?.build()?;
    /// let hooks: Vec<_> = agent.info().hooks.into_iter().map(|hook| hook.name).collect();
    /// assert_eq!(hooks, ["tracing", "todolist", "filesystem", "summarization"]);
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`check`](Self::check),
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) for the name of a tool that neither this
    /// crate nor `parts` has, and the errors of the model's provider, the backend and the store.
    /// All errors name the position in the file. A permission rule that matches no tool, and a tool
    /// of a subagent that does not exist, are logged as warnings; without tool sources,
    /// [`AgentBuilder::build`] refuses such a rule to deny or to ask.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, a container that was being started is removed.
    pub async fn builder(&self, parts: &Parts) -> Result<AgentBuilder> {
        self.check()?;
        self.check_tool_names(parts, &[])?;
        let backend = match (&parts.backend, self.mounted_backend()) {
            (Some(backend), _) => Some(backend.clone()),
            (None, Some(config)) => {
                let outcome = config.start(self.folder(), None).await;
                let started_backend = outcome.map_err(|error| self.error_from("backend", error))?;
                Some(started_backend.backend)
            }
            (None, None) => None,
        };
        let store = match &self.sessions {
            Some(_) => Some(self.open_store().await?),
            None => parts.store.clone(),
        };
        let workspace = self
            .open_workspace(backend, WorkspaceOwner::Program, parts)
            .await?;
        let builder = self.assemble(parts, &workspace, &[], &|hook| self.hooks.has(hook))?;
        Ok(match store {
            Some(store) => builder.store(store),
            None => builder,
        })
    }

    /// Opens the store of the configuration.
    pub(crate) async fn open_store(&self) -> Result<Arc<dyn SessionStore>> {
        let config = self.sessions.clone().unwrap_or_default();
        let folder = self.folder().map(std::path::Path::to_owned);
        let outcome = blocking(move || config.open(folder.as_deref())).await;
        outcome.map_err(|error| self.error_from("sessions", error))
    }

    /// Returns the workspace on a backend: its files, and the shared files of the configuration.
    pub(crate) async fn open_workspace(
        &self,
        backend: Option<Arc<dyn Backend>>,
        owner: WorkspaceOwner,
        parts: &Parts,
    ) -> Result<Workspace> {
        let Some(backend) = backend else {
            return Ok(Workspace {
                backend: None,
                files: PromptFiles::default(),
            });
        };
        let (config, folders) = (self.clone(), parts.folders.clone());
        let (files, shared) = blocking(move || config.prompt_files(owner, folders)).await?;
        Ok(Workspace {
            backend: Some(shared.over(backend)),
            files,
        })
    }

    /// Assembles the agent's builder. `registered` has the names of the tools that a source
    /// provides, and `is_on` returns whether the hook of a name is on.
    pub(crate) fn assemble(
        &self,
        parts: &Parts,
        workspace: &Workspace,
        registered: &[String],
        is_on: &dyn Fn(&str) -> bool,
    ) -> Result<AgentBuilder> {
        let model = (parts.make_model)(&self.model);
        let model = model.map_err(|error| self.error_from("model", error))?;
        let hooks = self.configured_hooks(workspace, is_on)?;
        // The list of tools does not change with the hooks that are switched off.
        let all_hooks = self.configured_hooks(workspace, &|_| true)?;
        self.check_names(parts, &all_hooks, registered)?;

        let mut builder = AgentBuilder::new(model)
            .name(self.name.as_deref().unwrap_or("agent"))
            .tools(self.builtin_tools())
            .tools(parts.tools.iter().cloned())
            .tools(self.subagent_tools(parts)?)
            .hooks(hooks);
        if !self.system_prompt.is_empty() {
            builder = builder.system_prompt(self.system_prompt.as_str());
        }
        if let Some(backend) = &workspace.backend {
            builder = builder.cwd(backend.root()).backend(backend.clone());
        }
        Ok(self.add_limits(builder))
    }

    /// Returns the hooks in their order.
    fn configured_hooks(
        &self,
        workspace: &Workspace,
        is_on: &dyn Fn(&str) -> bool,
    ) -> Result<Vec<Arc<dyn Hook>>> {
        let mut hooks: Vec<Arc<dyn Hook>> = Vec::new();
        if is_on("tracing") {
            let hook = TracingHook::new();
            hooks.push(Arc::new(
                hook.with_content(self.debug).with_run_span(self.debug),
            ));
        }
        if is_on("todolist") {
            hooks.push(Arc::new(TodoListHook::new()));
        }
        if let Some(backend) = &workspace.backend {
            hooks.extend(self.backend_hooks(backend, &workspace.files, is_on));
        }
        if is_on("summarization") {
            let mut hook = SummarizationHook::new();
            if let Some(tokens) = self.context_window {
                hook = hook.with_context_window(tokens);
            }
            hooks.push(Arc::new(hook));
        }
        if self.subagents.iter().any(|subagent| subagent.background) {
            hooks.push(Arc::new(BackgroundTasksHook::new()));
        }
        if let Some(permissions) = &self.permissions {
            let hook = PermissionHook::new(permissions.clone())
                .map_err(|error| self.error_from("permissions", error))?;
            // The agent must not change its own rules.
            let hook = self
                .file_patterns()
                .fold(hook, |hook, pattern| hook.protect_source(&pattern));
            hooks.push(Arc::new(hook));
        }
        Ok(hooks)
    }

    /// Returns the hooks that need a backend, in their order.
    fn backend_hooks(
        &self,
        backend: &Arc<dyn Backend>,
        files: &PromptFiles,
        is_on: &dyn Fn(&str) -> bool,
    ) -> Vec<Arc<dyn Hook>> {
        let mut hooks: Vec<Arc<dyn Hook>> = Vec::new();
        if is_on("filesystem") {
            hooks.push(Arc::new(FilesystemHook::new(backend.clone())));
        }
        if is_on("skills") && !files.skills.is_empty() {
            let hook = SkillsHook::new(backend.clone()).paths(files.skills.iter().cloned());
            hooks.push(Arc::new(hook));
        }
        if is_on("memory") && !files.memory.is_empty() {
            let mut hook = MemoryHook::new(backend.clone()).paths(files.memory.iter().cloned());
            if let Some(content) = &self.memory.initial_content {
                hook = hook.initial_content(content.as_str());
            }
            hooks.push(Arc::new(hook));
        }
        hooks
    }

    /// Adds the limits of the configuration.
    fn add_limits(&self, mut builder: AgentBuilder) -> AgentBuilder {
        let limits = &self.limits;
        builder = builder.max_turns(limits.max_turns);
        if let Some(tokens) = limits.max_tokens {
            builder = builder.max_output_tokens(tokens);
        }
        if let Some(temperature) = limits.temperature {
            builder = builder.temperature(temperature);
        }
        if let Some(usd) = limits.max_budget_usd {
            builder = builder.max_budget_usd(usd);
        }
        if let Some(tokens) = limits.max_total_tokens {
            builder = builder.max_total_tokens(tokens);
        }
        if let Some(seconds) = limits.max_duration {
            builder = builder.max_duration(Duration::from_secs(seconds));
        }
        if let Some(seconds) = limits.tool_timeout {
            builder = builder.tool_timeout(Duration::from_secs(seconds));
        }
        if let Some(calls) = limits.parallel_tools {
            builder = builder.parallel_tools(calls);
        }
        builder
    }
}
