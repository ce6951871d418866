//! Validation of a configuration as a whole.

use crate::error::Result;
use crate::util::text::quoted;

use super::agent::AgentConfig;
use super::backend::{BackendCfg, BackendType, SandboxCfg};
use super::sessions::{SessionsCfg, SessionsType};

/// The maximum length of an agent's id, in bytes.
const MAX_ID: usize = 64;

/// The ids that an HTTP server uses as segments of paths.
const RESERVED: [&str; 11] = [
    "invoke", "stream", "resume", "events", "tools", "skills", "hooks", "hitl", "messages",
    "traces", "files",
];

/// Checks the id of an agent, which is a segment of paths.
pub(crate) fn check_agent_id(id: &str) -> Result<(), String> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if !(1..=MAX_ID).contains(&id.len()) || !id.bytes().all(is_allowed) {
        return Err(format!(
            "{} is not the id of an agent; use 1 to {MAX_ID} of A-Z a-z 0-9 _ -",
            quoted(id)
        ));
    }
    if RESERVED.contains(&id) {
        return Err(format!(
            "an agent must not have the id {id:?}, which is a part of the server's addresses; use \
             another one"
        ));
    }
    Ok(())
}

/// Returns the error text for a part that needs a cargo feature.
pub(super) fn needs_feature(what: &str, feature: &str) -> String {
    format!("{what} needs the cargo feature {feature:?} of agentcore, which is off in this program")
}

impl AgentConfig {
    /// Checks that the parts of the configuration are consistent, and that the features that they
    /// need are enabled. The names of tools and models are checked by [`builder`](Self::builder).
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Config`](crate::ErrorKind::Config) with the position of the first
    /// fault.
    pub fn check(&self) -> Result<()> {
        if self.model.trim().is_empty() {
            return Err(self.error_at("model", "the key \"model\" is missing"));
        }
        if let Some(backend) = &self.backend {
            self.check_backend(backend)?;
        }
        if let Some(sessions) = &self.sessions {
            self.check_sessions(sessions)?;
        }
        self.check_numbers()?;
        self.check_rules()?;
        self.check_tools()?;
        self.check_subagents()
    }

    fn check_backend(&self, backend: &BackendCfg) -> Result<()> {
        self.check_backend_keys(backend)?;
        if backend.sandbox == SandboxCfg::Workspace && !cfg!(feature = "sandbox") {
            let text = needs_feature("a sandbox", "sandbox");
            return Err(self.error_at("backend.sandbox", text));
        }
        if backend.kind == BackendType::Docker {
            self.check_docker(backend)?;
        }
        for (key, is_zero) in [
            ("timeout", backend.timeout == Some(0)),
            ("max_output_bytes", backend.max_output_bytes == Some(0)),
        ] {
            if is_zero {
                let text = format!("{key:?} must be more than 0");
                return Err(self.error_at(&format!("backend.{key}"), text));
            }
        }
        Ok(())
    }

    /// Checks that a backend of this type has the keys that are set.
    fn check_backend_keys(&self, backend: &BackendCfg) -> Result<()> {
        let kind = backend.kind;
        let is_docker = kind == BackendType::Docker;
        let is_local = kind == BackendType::Local;
        let runs_commands = kind != BackendType::State;
        let keys = [
            ("image", backend.image.is_some(), is_docker),
            (
                "container_name",
                backend.container_name.is_some(),
                is_docker,
            ),
            ("docker_host", backend.docker_host.is_some(), is_docker),
            ("network", backend.network.is_some(), is_docker),
            ("workdir", backend.workdir.is_some(), runs_commands),
            ("timeout", backend.timeout.is_some(), runs_commands),
            (
                "max_output_bytes",
                backend.max_output_bytes.is_some(),
                runs_commands,
            ),
            ("sandbox", backend.sandbox != SandboxCfg::Off, is_local),
        ];
        for (key, is_set, is_allowed) in keys {
            if is_set && !is_allowed {
                let text = format!(
                    "a backend of the type {:?} has no {key:?}; remove the key",
                    kind.as_str()
                );
                return Err(self.error_at(&format!("backend.{key}"), text));
            }
        }
        Ok(())
    }

    fn check_docker(&self, backend: &BackendCfg) -> Result<()> {
        if !cfg!(all(feature = "docker", unix)) {
            let text = needs_feature("a backend of the type \"docker\"", "docker");
            return Err(self.error_at("backend.type", text));
        }
        if backend.image.is_none() && backend.container_name.is_none() {
            let text = "a backend of the type \"docker\" needs an \"image\", to start a container, \
                        or a \"container_name\", to use one";
            return Err(self.error_at("backend", text));
        }
        if backend.image.is_none() && backend.network.is_some() {
            let text = "the \"network\" of a container is set when it is started, which needs an \
                        \"image\"";
            return Err(self.error_at("backend.network", text));
        }
        if backend
            .workdir
            .as_deref()
            .is_some_and(|path| !path.starts_with('/'))
        {
            let text = "the \"workdir\" of a container must be an absolute path in it";
            return Err(self.error_at("backend.workdir", text));
        }
        Ok(())
    }

    fn check_sessions(&self, sessions: &SessionsCfg) -> Result<()> {
        let (name, is_enabled, required_key) = match sessions.kind {
            SessionsType::Memory => ("memory", true, None),
            SessionsType::Jsonl => ("jsonl", cfg!(feature = "jsonl"), Some("path")),
            SessionsType::Sqlite => ("sqlite", cfg!(feature = "sqlite"), Some("path")),
            SessionsType::Postgres => ("postgres", cfg!(feature = "postgres"), Some("url")),
            SessionsType::Redis => ("redis", cfg!(feature = "redis"), Some("url")),
        };
        if !is_enabled {
            // The feature of a store has the name of its type.
            let text = needs_feature(&format!("a store of the type {name:?}"), name);
            return Err(self.error_at("sessions.type", text));
        }
        for (key, is_set) in [
            ("path", sessions.path.is_some()),
            ("url", sessions.url.is_some()),
        ] {
            if is_set && required_key != Some(key) {
                let text = format!("a store of the type {name:?} has no {key:?}; remove the key");
                return Err(self.error_at(&format!("sessions.{key}"), text));
            }
            if !is_set && required_key == Some(key) {
                let text = format!("a store of the type {name:?} needs the key {key:?}");
                return Err(self.error_at("sessions", text));
            }
        }
        Ok(())
    }

    pub(super) fn check_numbers(&self) -> Result<()> {
        let limits = &self.limits;
        let is_amount = |number: Option<f64>| number.is_none_or(|n| n.is_finite() && n >= 0.0);
        let more = "must be more than 0";
        let amount = "must be a number, at least 0";
        let problems = [
            ("context_window", self.context_window == Some(0), more),
            ("limits.max_tokens", limits.max_tokens == Some(0), more),
            ("limits.max_duration", limits.max_duration == Some(0), more),
            ("limits.tool_timeout", limits.tool_timeout == Some(0), more),
            (
                "limits.parallel_tools",
                limits.parallel_tools == Some(0),
                more,
            ),
            ("limits.temperature", !is_amount(limits.temperature), amount),
            (
                "limits.max_budget_usd",
                !is_amount(limits.max_budget_usd),
                amount,
            ),
        ];
        for (path, is_wrong, problem) in problems {
            if is_wrong {
                let key = path.rsplit('.').next().unwrap_or(path);
                return Err(self.error_at(path, format!("{key:?} {problem}")));
            }
        }
        Ok(())
    }

    pub(super) fn check_rules(&self) -> Result<()> {
        self.rules().map(drop)
    }
}
