//! The builder of the tools that start subagents.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::model::{self, Model};
use crate::subagent::SubagentRegistry;
use crate::tool::{FuncTool, ToolRegistry, near_names};
use crate::util::text::quoted;

use super::children::{ChildHooks, ChildType, Children};
use super::control_tools::{task_output, task_stop};
use super::task_tool::task_tool;

/// The time limit of a subagent.
const MAX_DURATION: Duration = Duration::from_secs(10 * 60);

/// Returns the tools that start the subagents of `registry`: `Task`, which runs a subagent on a
/// prompt, in the foreground or in the background, `TaskOutput`, which waits for a background task,
/// and `TaskStop`, which stops it.
///
/// A subagent is a [child](crate::Session::child_of) of the calling run: it spends from the budget
/// of that run, its calls also pass the gates of that run, and it ends with that run. It has the
/// model, the hooks, the store and the tools of the calling run, unless its definition or these
/// options set others. Tools that start agents are omitted, unless the definition lists them and
/// the depth allows it ([`max_subagent_depth`](crate::AgentBuilder::max_subagent_depth)).
///
/// A subagent's session is `PARENT:sub:TYPE:ID`, shortened as for
/// [`Agent::as_tool`](crate::Agent::as_tool) if it is too long. The result of the call has `ID`,
/// with which a later call in the same session can continue the subagent. `Task` needs no question,
/// because each call of the subagent passes the gates; rules such as `deny:Agent(TYPE)` apply.
///
/// ```
/// use agentcore::Agent;
/// use agentcore::subagent::{SubagentDefinition, SubagentRegistry};
/// use agentcore::testing::ScriptedModel;
/// use agentcore::tools;
/// use serde_json::json;
///
/// # async fn example() -> Result<(), agentcore::Error> {
/// let mut agents = SubagentRegistry::new();
/// agents.register("scout", SubagentDefinition::new("Looks around", "You look around."))?;
///
/// let scout = ScriptedModel::new().say("All quiet.");
/// let call = json!({"prompt": "Look!", "description": "Look around", "subagent_type": "scout"});
/// let lead = Agent::builder(ScriptedModel::new().call("Task", call).say("It is quiet."))
///     .tools(tools::task(agents).model(scout).build()?)
///     .build()?;
/// assert_eq!(lead.run("What is out there?").await?.text, "It is quiet.");
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
pub fn task(registry: SubagentRegistry) -> SubagentTools {
    SubagentTools::new(registry, |children| {
        vec![task_tool(children), task_output(), task_stop()]
    })
}

/// Builds the tools of [`task`] and of [`delegate`](crate::tools::delegate).
#[must_use = "a builder does nothing until `build()`"]
pub struct SubagentTools {
    registry: SubagentRegistry,
    model: Option<Arc<dyn Model>>,
    aliases: BTreeMap<String, Arc<dyn Model>>,
    tools: Option<ToolRegistry>,
    hooks: ChildHooks,
    max_duration: Duration,
    make: fn(Arc<Children>) -> Vec<FuncTool>,
}

impl SubagentTools {
    /// Creates a builder of the tools that `make` returns for the subagents.
    pub(crate) fn new(
        registry: SubagentRegistry,
        make: fn(Arc<Children>) -> Vec<FuncTool>,
    ) -> Self {
        Self {
            registry,
            model: None,
            aliases: BTreeMap::new(),
            tools: None,
            hooks: ChildHooks::Inherit,
            max_duration: MAX_DURATION,
            make,
        }
    }

    /// Sets the model of subagents whose definition names none. Defaults to the model of the
    /// calling run.
    pub fn model(mut self, model: impl Model) -> Self {
        self.model = Some(model::erase(model));
        self
    }

    /// Adds a model that definitions and calls may name by `alias`.
    pub fn model_alias(mut self, alias: impl Into<String>, model: impl Model) -> Self {
        self.aliases.insert(alias.into(), model::erase(model));
        self
    }

    /// Sets the tools from which definitions select. Defaults to the tools of the calling run.
    pub fn tools(mut self, registry: &ToolRegistry) -> Self {
        self.tools = Some(registry.clone());
        self
    }

    /// Sets the hooks of subagents. Defaults to the hooks of the calling run.
    pub fn hooks(mut self, hooks: ChildHooks) -> Self {
        self.hooks = hooks;
        self
    }

    /// Sets the time limit of a subagent. Defaults to 10 minutes.
    pub fn max_duration(mut self, duration: Duration) -> Self {
        self.max_duration = duration;
        self
    }

    /// Builds the tools.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Config`] if the registry is empty, or a definition names a model that
    /// is neither an alias nor a name that `providers::resolve` accepts; the text lists the
    /// aliases.
    pub fn build(self) -> Result<Vec<FuncTool>> {
        if self.registry.names().is_empty() {
            let text = "no subagent is registered; register one, or leave out the tools";
            return Err(Error::new(ErrorKind::Config, text));
        }

        let mut types = BTreeMap::new();
        for (name, definition) in self.registry.iter() {
            let model = match definition.model.as_deref() {
                None => self.model.clone(),
                Some("inherit") => None,
                Some(model) => {
                    let error = |error: Error| error.context(format!("subagent {name:?}"));
                    Some(self.resolve(model).map_err(error)?)
                }
            };
            let definition = definition.clone();
            types.insert(name.clone(), ChildType { definition, model });
        }

        let children = Arc::new(Children {
            types,
            aliases: self.aliases,
            tools: self.tools,
            hooks: self.hooks,
            max_duration: self.max_duration,
        });
        Ok((self.make)(children))
    }

    fn resolve(&self, model: &str) -> Result<Arc<dyn Model>> {
        if let Some(model) = self.aliases.get(model) {
            return Ok(model.clone());
        }
        let error = match resolve(model) {
            // With the name of a provider, it is not an alias.
            Err(error) if !model.contains(':') && !self.aliases.is_empty() => error,
            outcome => return outcome,
        };
        let aliases: Vec<&str> = self.aliases.keys().map(String::as_str).collect();
        let mut text = format!(
            "{} is none of the aliases {}",
            quoted(model),
            aliases.join(", ")
        );
        if let Some(near) = near_names(model, &aliases).first() {
            text.push_str(&format!(" (did you mean {near:?}?)"));
        }
        Err(error.context(text))
    }
}

#[cfg(feature = "http")]
fn resolve(model: &str) -> Result<Arc<dyn Model>> {
    crate::providers::resolve(model)
}

#[cfg(not(feature = "http"))]
fn resolve(model: &str) -> Result<Arc<dyn Model>> {
    let text = format!("unknown model {model:?}; add it with model_alias");
    Err(Error::new(ErrorKind::Config, text))
}

impl fmt::Debug for SubagentTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SubagentTools")
            .field("types", &self.registry.names())
            .field("aliases", &self.aliases.keys())
            .finish_non_exhaustive()
    }
}
