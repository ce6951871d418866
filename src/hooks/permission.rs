//! Permission rules as a hook.

use async_trait::async_trait;

use crate::error::Result;
use crate::hook::{Hook, Phases};
use crate::permission::{PermissionConfig, PermissionRules};
use crate::run::RunContext;
use crate::session::AgentState;
use crate::tool::{PermissionGate, PermissionMode};

/// Applies permission rules to every run: before the loop starts, it adds their gate to the gates
/// of the run.
///
/// It is [`AgentBuilder::permissions`](crate::AgentBuilder::permissions) as a hook, for rules that
/// are part of a set of hooks. If an agent has both, both apply, as [`RunContext::add_gate`]
/// describes.
///
/// Relative paths in rules are resolved from the root of the agent's backend, else from its `cwd`,
/// unless the permissions name a workspace. A mode in the configuration becomes the run's mode.
///
/// ```
/// use agentcore::hooks::PermissionHook;
/// use agentcore::permission::PermissionConfig;
/// use agentcore::testing::ScriptedModel;
/// use agentcore::{AgentBuilder, FuncTool};
/// use serde_json::json;
///
/// # async fn example() -> agentcore::Result<()> {
/// let parameters = json!({
///     "type": "object",
///     "properties": {"command": {"type": "string"}},
///     "required": ["command"],
/// });
/// let shell = FuncTool::new("Bash", "Runs a command", parameters, |_cx, args| async move {
///     format!("ran {}", args["command"])
/// });
/// let rules = PermissionConfig::from_json(
///     r#"{"allow": ["Bash(git:*)"], "deny": ["Bash(git push:*)"], "mode": "dontAsk"}"#,
/// )?;
/// let model = ScriptedModel::new()
///     .call("Bash", json!({"command": "git log -3"}))
///     .call("Bash", json!({"command": "git log && git -C lib push"}))
///     .say("I may look, but not push.");
/// let agent = AgentBuilder::new(model).tool(shell).hook(PermissionHook::new(rules)?).build()?;
///
/// let output = agent.run("Publish it").await?;
/// let results: Vec<bool> = output
///     .messages
///     .iter()
///     .filter_map(|message| Some(message.as_tool_result()?.is_error))
///     .collect();
/// assert_eq!(results, [false, true]);
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct PermissionHook {
    permissions: PermissionRules,
    mode: Option<PermissionMode>,
}

impl PermissionHook {
    /// Creates a hook with the rules of a configuration. Explanations name their source
    /// `configuration`.
    ///
    /// # Errors
    ///
    /// Returns an error if a rule could never match; the text names the rule and its place.
    pub fn new(mut config: PermissionConfig) -> Result<Self> {
        let mode = config.mode.take();
        let permissions = PermissionRules::new().config(&config, "configuration")?;
        Ok(Self { permissions, mode })
    }

    /// Creates a hook with these permissions, including their mode and workspace. All clones of
    /// them share the grants of sessions.
    pub fn with(permissions: PermissionRules) -> Self {
        Self {
            permissions,
            mode: None,
        }
    }

    /// Protects a file that the rules were read from.
    #[cfg(feature = "config")]
    pub(crate) fn protect_source(mut self, pattern: &str) -> Self {
        self.permissions = self.permissions.protect_source(pattern);
        self
    }
}

#[async_trait]
impl Hook for PermissionHook {
    fn name(&self) -> &str {
        "permissions"
    }

    fn description(&self) -> &str {
        "Holds every call to permission rules"
    }

    fn phases(&self) -> Phases {
        Phases::BEFORE_AGENT
    }

    fn check_tools(&self, names: &[&str], has_sources: bool) -> Result<()> {
        self.permissions.check_tools(names, has_sources)
    }

    async fn before_agent(&self, cx: &RunContext, state: AgentState) -> Result<AgentState> {
        let root = cx.backend().map(|backend| backend.root());
        let mut permissions = self.permissions.clone();
        if let Some(place) = root.or(cx.cwd()) {
            permissions = permissions.workspace_unless_set(place);
        }
        if let Some(mode) = self.mode {
            cx.set_mode(mode);
        }
        cx.add_gate(permissions);
        Ok(state)
    }
}
