//! The names of an agent's tools, in its list of tools and in its permission rules.

use std::sync::Arc;

use crate::error::Result;
use crate::hook::Hook;
use crate::permission::{Rule, check_rule};

use super::agent::AgentConfig;
use super::builtin::{HOOK_TOOLS, builtin_names, reserved_tool_names};
use super::parts::Parts;
use super::source::unknown_name;

impl AgentConfig {
    /// Checks that each tool that the configuration names exists, before an agent is built from it.
    /// `registered` has the tools that the program provides; the tools of all hooks count as
    /// existing. Logs a warning for each permission rule that matches no tool, and for each tool of
    /// a subagent that does not exist: tool sources may have both.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Config`](crate::ErrorKind::Config) with the position of the first
    /// unknown name, or of the first rule that could never match.
    pub(crate) fn check_tool_names(&self, parts: &Parts, registered: &[String]) -> Result<()> {
        let provided_names = || {
            parts
                .tools
                .iter()
                .map(|tool| tool.name())
                .chain(registered.iter().map(String::as_str))
        };
        let mut names = reserved_tool_names();
        names.extend(provided_names());
        self.check_listed(&names)?;

        let builtin_tools = self.builtin_tools();
        let mut names: Vec<&str> = builtin_tools.iter().map(|tool| tool.name()).collect();
        names.extend(HOOK_TOOLS);
        names.extend(provided_names());
        for (path, rule) in self.rules()? {
            if let Err(error) = check_rule(&rule, &names) {
                tracing::warn!("{}", self.error_from(&path, error));
            }
        }
        self.warn_about_subagent_tools(&names);
        Ok(())
    }

    /// Logs a warning for each tool of a subagent that has none of these names.
    fn warn_about_subagent_tools(&self, names: &[&str]) {
        for (index, subagent) in self.subagents.iter().enumerate() {
            for (number, name) in subagent.tools.iter().enumerate() {
                if !names.iter().any(|known| known.eq_ignore_ascii_case(name)) {
                    let path = format!("subagents.{index}.tools.{number}");
                    tracing::warn!("{}", self.error_at(&path, missing_text(name, names)));
                }
            }
        }
    }

    /// Checks that each tool that the configuration names is one of this crate, of the program, of
    /// these hooks, which are on or off, or `registered`.
    pub(super) fn check_names(
        &self,
        parts: &Parts,
        hooks: &[Arc<dyn Hook>],
        registered: &[String],
    ) -> Result<()> {
        let hook_tools: Vec<String> = hooks.iter().flat_map(|hook| hook.tools()).collect();
        let mut names = builtin_names();
        names.extend(parts.tools.iter().map(|tool| tool.name()));
        names.extend(registered.iter().map(String::as_str));
        names.extend(hook_tools.iter().map(String::as_str));
        self.check_listed(&names)
    }

    fn check_listed(&self, names: &[&str]) -> Result<()> {
        for (index, name) in self.tools.iter().enumerate() {
            if !names.contains(&name.as_str()) {
                let text = unknown_name("tool", name, names);
                let end = if text.ends_with('?') { "" } else { "." };
                let advice = "Register a tool of your own in Rust first, with `Server::tool` or \
                              `Parts::tool`";
                let text = format!("{text}{end} {advice}");
                return Err(self.error_at(&format!("tools.{index}"), text));
            }
        }
        Ok(())
    }

    /// Returns the permission rules, each with its path in the configuration.
    ///
    /// # Errors
    ///
    /// Returns an error if a rule could never match.
    pub(super) fn rules(&self) -> Result<Vec<(String, Rule)>> {
        use crate::permission::Behavior::{Allow, Ask, Deny};
        let Some(permissions) = &self.permissions else {
            return Ok(Vec::new());
        };
        let lists = [
            ("allow", Allow, &permissions.allow),
            ("ask", Ask, &permissions.ask),
            ("deny", Deny, &permissions.deny),
        ];
        let mut rules = Vec::new();
        for (key, behavior, texts) in lists {
            for (index, text) in texts.iter().enumerate() {
                let path = format!("permissions.{key}.{index}");
                match Rule::new(behavior, text) {
                    Ok(rule) => rules.push((path, rule)),
                    Err(error) => return Err(self.error_from(&path, error)),
                }
            }
        }
        Ok(rules)
    }
}

/// Returns the text about a tool of a subagent that its agent, with the tools `names`, does not
/// have.
fn missing_text(name: &str, names: &[&str]) -> String {
    let mut builtins = builtin_names().into_iter();
    if builtins.any(|builtin| builtin.eq_ignore_ascii_case(name)) {
        format!("the agent does not have the tool {name:?}; add it to its \"tools\"")
    } else {
        unknown_name("tool", name, names)
    }
}
