//! The configuration of one agent.

use std::sync::Arc;

use serde::Deserialize;

use crate::error::Result;
use crate::permission::PermissionConfig;

use super::backend::BackendCfg;
use super::builtin::BuiltinConfig;
use super::hook_choice::HookChoice;
use super::limits::LimitsCfg;
use super::origin::Origin;
use super::prompt::{MemoryCfg, SkillsCfg};
use super::sessions::SessionsCfg;
use super::source::{self, model_name};
use super::subagent::SubAgentCfg;

/// The configuration of one agent: the keys of an agent in a [`Config`](super::Config).
///
/// Relative paths are relative to the folder of the file that the configuration was read from, or
/// else to the working directory of the process.
///
/// ```
/// use agentcore::config::{AgentConfig, BackendCfg};
///
/// let config = AgentConfig::new("ollama:llama3.1:8b")
///     .with_name("Ollama Local")
///     .with_tools(["calculate"])
///     .with_backend(BackendCfg::local("./workspace"));
/// assert_eq!(config.limits.max_turns, 25);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct AgentConfig {
    /// The agent's name, for messages and traces. Defaults to its id.
    pub name: Option<String>,
    /// The description of the agent, for lists.
    pub description: Option<String>,
    /// The model: `provider:name`, a bare name such as `claude-sonnet-5`, or
    /// `{provider: .., model: ..}`. Required.
    #[serde(deserialize_with = "model_name")]
    #[schemars(schema_with = "source::model_schema")]
    pub model: String,
    /// The system prompt. Defaults to none.
    pub system_prompt: String,
    /// The context window for the hook `summarization`, in tokens. Defaults to the context window
    /// of the model, or to 128,000 if that is unknown.
    pub context_window: Option<u64>,
    /// The tools of this crate that it has, by name: `calculate`, `current_datetime`,
    /// `internet_search`, `web_fetch`, `AskUserQuestion`, `request_user_input` and
    /// `request_user_approval`.
    ///
    /// Tools that the program has registered in Rust, and tools of hooks, such as `read_file`, may
    /// be named too, but are not selected by the list: tools of the program reach every agent, and
    /// `permissions` restrict them. A tool of a hook that is off may be named, and is absent.
    pub tools: Vec<String>,
    /// The API keys for tools of this crate.
    pub builtin_config: BuiltinConfig,
    /// The backend for its files and commands. Defaults to none: the agent has no tools for files.
    pub backend: Option<BackendCfg>,
    /// The folders with its skills.
    pub skills: SkillsCfg,
    /// The files with its memory.
    pub memory: MemoryCfg,
    /// Its hooks. Defaults to all that apply. `middleware` is an alias of this key.
    #[serde(alias = "middleware")]
    pub hooks: HookChoice,
    /// The rules for its calls. Without this key, every call is allowed.
    ///
    /// With it, even with a single rule, the `mode` decides calls that match no rule: `default`
    /// asks, unless the tool only reads. The rule `allow: ["*"]` allows them.
    ///
    /// The file that the configuration was read from is protected like `AGENTS.md`
    /// ([`PermissionRules::protect`](crate::permission::PermissionRules::protect)), and so is each
    /// file that it was [narrowed](super::Config::narrow) by.
    ///
    /// A rule that matches no tool is logged as a warning; for an agent from
    /// [`builder`](Self::builder), such a rule to deny or to ask is an error.
    #[schemars(schema_with = "source::permissions_schema")]
    pub permissions: Option<PermissionConfig>,
    /// The limits of its runs.
    pub limits: LimitsCfg,
    /// The store of its sessions. Defaults to the program's store.
    pub sessions: Option<SessionsCfg>,
    /// Its subagents.
    pub subagents: Vec<SubAgentCfg>,
    /// Records the texts of the conversation in spans, and one span for each run. Defaults to
    /// `false`.
    pub debug: bool,
    /// The file that it was read from.
    #[serde(skip)]
    pub(super) origin: Option<Arc<Origin>>,
    /// The files that it was narrowed by.
    #[serde(skip)]
    pub(super) narrowing: Vec<Arc<Origin>>,
}

impl AgentConfig {
    /// Creates a configuration with this model and the defaults for all other keys.
    pub fn new(model: impl Into<String>) -> Self {
        Self {
            model: model.into(),
            ..Self::default()
        }
    }

    /// Reads the configuration from JSON.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Config`](crate::ErrorKind::Config) with the line and the column, as for
    /// a file.
    ///
    /// ```
    /// use agentcore::config::AgentConfig;
    ///
    /// let error = AgentConfig::from_json(r#"{"model": "gpt-6-luna", "tool": []}"#).unwrap_err();
    /// let text = r#"agent:1:25: unknown key "tool"; did you mean "tools"?"#;
    /// assert_eq!(error.to_string(), text);
    /// ```
    pub fn from_json(json: &str) -> Result<Self> {
        super::file::read_agent(json)
    }

    /// Sets the name.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the description.
    #[must_use]
    pub fn with_description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Sets the system prompt.
    #[must_use]
    pub fn with_system_prompt(mut self, prompt: impl Into<String>) -> Self {
        self.system_prompt = prompt.into();
        self
    }

    /// Sets the names of the tools.
    #[must_use]
    pub fn with_tools<T: Into<String>>(mut self, names: impl IntoIterator<Item = T>) -> Self {
        self.tools = names.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the backend.
    #[must_use]
    pub fn with_backend(mut self, backend: BackendCfg) -> Self {
        self.backend = Some(backend);
        self
    }

    /// Sets the folders with skills.
    #[must_use]
    pub fn with_skills<P: Into<String>>(mut self, paths: impl IntoIterator<Item = P>) -> Self {
        self.skills.paths = paths.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the files with its memory.
    #[must_use]
    pub fn with_memory(mut self, memory: MemoryCfg) -> Self {
        self.memory = memory;
        self
    }

    /// Sets the choice of hooks.
    #[must_use]
    pub fn with_hooks(mut self, hooks: HookChoice) -> Self {
        self.hooks = hooks;
        self
    }

    /// Sets the permission rules.
    #[must_use]
    pub fn with_permissions(mut self, permissions: PermissionConfig) -> Self {
        self.permissions = Some(permissions);
        self
    }

    /// Sets the limits.
    #[must_use]
    pub fn with_limits(mut self, limits: LimitsCfg) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the store of sessions.
    #[must_use]
    pub fn with_sessions(mut self, sessions: SessionsCfg) -> Self {
        self.sessions = Some(sessions);
        self
    }

    /// Adds a subagent.
    #[must_use]
    pub fn with_subagent(mut self, subagent: SubAgentCfg) -> Self {
        self.subagents.push(subagent);
        self
    }
}
