//! A configuration that can only restrict another one.

use std::path::Path;

use crate::error::Result;
use crate::permission::PermissionConfig;
use crate::tool::PermissionMode;

use super::agent::AgentConfig;
use super::agent_nodes::Trust;
use super::file::{Config, Format, read_file};
use super::source::unknown_name;

/// The keys that an untrusted configuration may have.
const NARROWING: [&str; 5] = ["hooks", "limits", "middleware", "permissions", "tools"];

/// An untrusted configuration, for example from a cloned repository. It can only
/// [narrow](Config::narrow) another one.
///
/// It may have:
///
/// * rules to deny and to ask, but none to allow;
/// * the permission modes `plan` and `dontAsk`, but neither in place of the other;
/// * a subset of the names in the agent's `tools`; tools of hooks and of the program stay;
/// * limits that are not higher than the agent's limits;
/// * disabled hooks.
///
/// Any other key is an error: an untrusted configuration sets no model, prompt, backend, API key
/// or address.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Untrusted(Config);

impl Untrusted {
    /// Reads a file, like [`Config::load`].
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`Config::load`], and
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) for a key that an untrusted configuration
    /// must not have.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        read_file(path.as_ref(), Trust::Untrusted(&NARROWING)).map(Self)
    }

    /// Reads YAML, like [`Config::from_yaml`].
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`load`](Self::load).
    pub fn from_yaml(yaml: &str) -> Result<Self> {
        Config::read(
            yaml,
            Format::Yaml,
            "config",
            None,
            Trust::Untrusted(&NARROWING),
        )
        .map(Self)
    }
}

impl Config {
    /// Returns these agents, narrowed by an untrusted configuration.
    ///
    /// ```
    /// use agentcore::config::{Config, Untrusted};
    ///
    /// let own = Config::from_yaml("model: gpt-6-luna\nlimits: { max_turns: 20 }")?;
    /// let project = "agents: { default: { limits: { max_turns: 5 } } }";
    /// let narrowed = own.narrow(&Untrusted::from_yaml(project)?)?;
    /// assert_eq!(narrowed.agent("default").map(|agent| agent.limits.max_turns), Some(5));
    ///
    /// let project = "agents:\n  default:\n    backend: { type: local, workdir: / }";
    /// let error = Untrusted::from_yaml(project).unwrap_err();
    /// let text = error.to_string();
    /// assert!(text.starts_with("config:3:5: a configuration that is not trusted must not have"));
    /// # Ok::<(), agentcore::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Config`](crate::ErrorKind::Config), with the position in the untrusted
    /// file, if it allows more than this configuration or names an agent that this configuration
    /// does not have.
    pub fn narrow(&self, untrusted: &Untrusted) -> Result<Self> {
        let mut narrowed = self.clone();
        for (id, agent) in &untrusted.0.agents {
            let Some(base) = narrowed.agents.get_mut(id) else {
                let ids: Vec<&str> = self.agents.keys().map(String::as_str).collect();
                return Err(agent.error_at("", unknown_name("agent", id, &ids)));
            };
            base.narrow(agent)?;
        }
        Ok(narrowed)
    }
}

impl AgentConfig {
    fn narrow(&mut self, untrusted: &Self) -> Result<()> {
        untrusted.check_numbers()?;
        untrusted.check_rules()?;
        self.narrow_tools(untrusted)?;
        self.narrow_limits(untrusted)?;
        self.narrow_permissions(untrusted)?;
        self.narrow_hooks(untrusted);
        self.narrowing.extend(untrusted.origin.clone());
        Ok(())
    }

    fn has_key(&self, key: &str) -> bool {
        let origin = self.origin.as_ref();
        origin.is_some_and(|origin| origin.node.entry(key).is_some())
    }

    fn narrow_tools(&mut self, untrusted: &Self) -> Result<()> {
        if !untrusted.has_key("tools") {
            return Ok(());
        }
        for (index, name) in untrusted.tools.iter().enumerate() {
            if !self.tools.contains(name) {
                let text = format!(
                    "the tool {name:?} is none of the agent's: a configuration that is not \
                     trusted can only leave out tools"
                );
                return Err(untrusted.error_at(&format!("tools.{index}"), text));
            }
        }
        self.tools.clone_from(&untrusted.tools);
        Ok(())
    }

    fn narrow_limits(&mut self, untrusted: &Self) -> Result<()> {
        if !untrusted.has_key("limits") {
            return Ok(());
        }
        let origin = untrusted.origin.as_ref();
        let has = |key: &str| {
            let limits = origin.and_then(|origin| origin.node.entry("limits"));
            limits.is_some_and(|limits| limits.value.entry(key).is_some())
        };
        if has("temperature") {
            let text = "\"temperature\" is not a limit; remove it from the configuration that is \
                        not trusted";
            return Err(untrusted.error_at("limits.temperature", text));
        }

        let mut limits = untrusted.limits.clone();
        if !has("max_turns") {
            limits.max_turns = self.limits.max_turns;
        }
        self.limits.narrow(&limits).map_err(|key| {
            let text = format!(
                "{key:?} is more than the agent may have: a configuration that is not trusted can \
                 only lower limits"
            );
            untrusted.error_at(&format!("limits.{key}"), text)
        })
    }

    fn narrow_permissions(&mut self, untrusted: &Self) -> Result<()> {
        let Some(other) = &untrusted.permissions else {
            return Ok(());
        };
        if !other.allow.is_empty() {
            let text = "a configuration that is not trusted must not allow calls";
            return Err(untrusted.error_at("permissions.allow", text));
        }
        // Without rules every call is allowed; with some, all other calls would ask.
        let base = self.permissions.get_or_insert_with(|| {
            let mut permissions = PermissionConfig::default();
            permissions.allow.push("*".to_owned());
            permissions
        });
        if let Some(mode) = other.mode {
            let base_mode = base.mode.unwrap_or_default();
            if !is_narrower(mode, base_mode) {
                let text = format!(
                    "a configuration that is not trusted can only set the modes \"plan\" and \
                     \"dontAsk\", but neither in place of the other; the agent's mode is {:?}",
                    base_mode.as_str()
                );
                return Err(untrusted.error_at("permissions.mode", text));
            }
            base.mode = Some(mode);
        }
        base.ask.extend(other.ask.iter().cloned());
        base.deny.extend(other.deny.iter().cloned());
        Ok(())
    }

    fn narrow_hooks(&mut self, untrusted: &Self) {
        self.hooks = self.hooks.intersection(&untrusted.hooks);
    }
}

/// Returns `true` if the mode allows no more than `base` does.
fn is_narrower(mode: PermissionMode, base: PermissionMode) -> bool {
    use PermissionMode::{AcceptEdits, BypassPermissions, Default, DontAsk, Plan};
    match mode {
        _ if mode == base => true,
        DontAsk => base != Plan,
        Plan => matches!(base, Default | AcceptEdits | BypassPermissions),
        _ => false,
    }
}
