//! The tools that an agent made from the parts of a run may have.

use crate::tool::Tool;

/// The tools that an agent may have. Names match in any case.
#[derive(Clone, Debug)]
pub(crate) enum AllowedTools {
    /// All tools except those with these names and those that start agents.
    AllExcept(Vec<String>),
    /// Only the tools with these names.
    Only {
        names: Vec<String>,
        /// True if tools that start agents are allowed, too.
        may_start_agents: bool,
    },
}

impl AllowedTools {
    /// Returns `true` if a tool is allowed.
    pub(super) fn allows(&self, tool: &dyn Tool) -> bool {
        let allows_agents = matches!(
            self,
            Self::Only {
                may_start_agents: true,
                ..
            }
        );
        self.allows_name(tool.name()) && (allows_agents || !tool.starts_agents())
    }

    /// Returns `true` if a tool with this name that starts no agents is allowed.
    pub(super) fn allows_name(&self, name: &str) -> bool {
        let is_in = |names: &[String]| names.iter().any(|entry| entry.eq_ignore_ascii_case(name));
        match self {
            Self::AllExcept(names) => !is_in(names),
            Self::Only { names, .. } => is_in(names),
        }
    }
}
