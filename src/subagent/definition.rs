//! The definition of a type of subagents.

use crate::agent::AllowedTools;
use crate::tool::PermissionMode;

/// The definition of a type of subagents. Register it in a
/// [`SubagentRegistry`](super::SubagentRegistry), from which
/// [`tools::task`](crate::tools::task) makes the tools that start it.
///
/// ```
/// use agentcore::subagent::SubagentDefinition;
///
/// let reviewer = SubagentDefinition::new("Reviews a change", "You review changes. Be strict.")
///     .with_tools(["Read", "Grep"])
///     .with_max_turns(20);
/// assert_eq!(reviewer.tools, ["Read", "Grep"]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SubagentDefinition {
    /// The description of the subagent's work, for the model that starts it.
    pub description: String,
    /// The system prompt.
    pub prompt: String,
    /// The names of its tools, in any case. If empty, the subagent has all tools of the calling
    /// run, or of [`SubagentTools::tools`](crate::tools::SubagentTools::tools), except tools that
    /// start agents.
    pub tools: Vec<String>,
    /// The names of tools it does not have, in any case. They take precedence over
    /// [`tools`](Self::tools).
    pub disallowed_tools: Vec<String>,
    /// Its model: `provider:name`, an alias
    /// ([`SubagentTools::model_alias`](crate::tools::SubagentTools::model_alias)), or `inherit` for
    /// the model of the calling run. `None` for the model that
    /// [`SubagentTools::model`](crate::tools::SubagentTools::model) sets, or else the model of the
    /// calling run.
    pub model: Option<String>,
    /// The maximum number of its turns. `None` for the default of
    /// [`AgentBuilder::max_turns`](crate::AgentBuilder::max_turns).
    pub max_turns: Option<u32>,
    /// Its permission mode. `None` for [`PermissionMode::Default`]. The mode and the gates of the
    /// calling run apply as well.
    pub permission_mode: Option<PermissionMode>,
    /// True if the tool `Task` always runs it in the background. `delegate_to_agent` ignores this.
    pub background: bool,
}

impl SubagentDefinition {
    /// Creates a definition that names neither tools nor a model.
    pub fn new(description: impl Into<String>, prompt: impl Into<String>) -> Self {
        Self {
            description: description.into(),
            prompt: prompt.into(),
            ..Self::default()
        }
    }

    /// Sets the names of its tools. An empty list gives it all tools of the calling run; see
    /// [`tools`](Self::tools).
    #[must_use]
    pub fn with_tools<T: Into<String>>(mut self, names: impl IntoIterator<Item = T>) -> Self {
        self.tools = names.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the names of tools it does not have.
    #[must_use]
    pub fn with_disallowed_tools<T: Into<String>>(
        mut self,
        names: impl IntoIterator<Item = T>,
    ) -> Self {
        self.disallowed_tools = names.into_iter().map(Into::into).collect();
        self
    }

    /// Sets its model: `inherit`, `provider:name`, or an alias.
    #[must_use]
    pub fn with_model(mut self, model: impl Into<String>) -> Self {
        self.model = Some(model.into());
        self
    }

    /// Sets the maximum number of its turns.
    #[must_use]
    pub fn with_max_turns(mut self, turns: u32) -> Self {
        self.max_turns = Some(turns);
        self
    }

    /// Sets its permission mode.
    #[must_use]
    pub fn with_permission_mode(mut self, mode: PermissionMode) -> Self {
        self.permission_mode = Some(mode);
        self
    }

    /// Makes the tool `Task` always run it in the background.
    #[must_use]
    pub fn in_background(mut self) -> Self {
        self.background = true;
        self
    }

    /// Returns the tools that it may have. Those that start agents have to be listed, and
    /// `may_start_agents` has to be `true`.
    pub(crate) fn allowed_tools(&self, may_start_agents: bool) -> AllowedTools {
        let mut names = self.tools.clone();
        if names.is_empty() {
            return AllowedTools::AllExcept(self.disallowed_tools.clone());
        }
        let is_disallowed = |name: &String| {
            let mut disallowed = self.disallowed_tools.iter();
            disallowed.any(|entry| entry.eq_ignore_ascii_case(name))
        };
        names.retain(|name| !is_disallowed(name));
        AllowedTools::Only {
            names,
            may_start_agents,
        }
    }
}
