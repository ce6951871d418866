//! The subagents that the tools start.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::time::Duration;

use crate::agent::{Agent, AgentBuilder, Session, sub_session_id};
use crate::error::BoxError;
use crate::hook::Hook;
use crate::model::Model;
use crate::subagent::SubagentDefinition;
use crate::tool::{Comparisons, ToolContext, ToolRegistry};
use crate::util::text::quoted;

/// The hooks of subagents.
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum ChildHooks {
    /// The hooks of the calling run.
    #[default]
    Inherit,
    /// No hooks.
    None,
    /// These hooks.
    These(Vec<Arc<dyn Hook>>),
}

impl fmt::Debug for ChildHooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inherit => f.write_str("Inherit"),
            Self::None => f.write_str("None"),
            Self::These(hooks) => {
                let names = hooks.iter().map(|hook| hook.name());
                f.debug_tuple("These")
                    .field(&names.collect::<Vec<_>>())
                    .finish()
            }
        }
    }
}

/// A type of subagents, with its own model if it has one.
pub(in crate::tools) struct ChildType {
    pub(super) definition: SubagentDefinition,
    pub(super) model: Option<Arc<dyn Model>>,
}

/// The subagents that the tools may start.
pub(crate) struct Children {
    pub(in crate::tools) types: BTreeMap<Arc<str>, ChildType>,
    pub(super) aliases: BTreeMap<String, Arc<dyn Model>>,
    pub(super) tools: Option<ToolRegistry>,
    pub(super) hooks: ChildHooks,
    pub(super) max_duration: Duration,
}

impl Children {
    /// Returns the type of this name, or an error for the model if there is none.
    pub(super) fn find(&self, name: &str) -> Result<(&Arc<str>, &ChildType), BoxError> {
        self.types.get_key_value(name).ok_or_else(|| {
            let names: Vec<_> = self.types.keys().map(|name| &**name).collect();
            let names = names.join(", ");
            format!(
                "unknown subagent type {}. Available types: [{names}]",
                quoted(name)
            )
            .into()
        })
    }

    /// Returns the names of the types, sorted.
    pub(in crate::tools) fn names(&self) -> Vec<Arc<str>> {
        self.types.keys().cloned().collect()
    }

    /// Returns `introduction` with the list of the types.
    pub(in crate::tools) fn description(&self, introduction: &str) -> String {
        let mut text = introduction.to_owned();
        for (name, child) in &self.types {
            let _ = write!(text, "\n- {name}: {}", child.definition.description);
        }
        text
    }

    /// Creates the session of a subagent of the type `name`, with the model of `alias` if there is
    /// one. Its id is `PARENT:sub:TYPE:ID`.
    pub(super) fn session(
        &self,
        cx: &ToolContext,
        name: &Arc<str>,
        alias: Option<&str>,
        id: &str,
    ) -> Result<Session, BoxError> {
        let agent = self.agent(cx, name, alias)?;
        Ok(agent.session(sub_session_id(cx, name, id)))
    }

    /// Builds the agent of a subagent for a call, with the model of `alias` if there is one. `name`
    /// is the name of a type.
    pub(in crate::tools) fn agent(
        &self,
        cx: &ToolContext,
        name: &Arc<str>,
        alias: Option<&str>,
    ) -> Result<Agent, BoxError> {
        let child = &self.types[name];
        let definition = &child.definition;
        let mut builder = AgentBuilder::of_run(cx).ok_or("subagents need a run")?;
        if let Some(tools) = &self.tools {
            builder = builder.with_own_tools(tools);
        }
        builder = match &self.hooks {
            ChildHooks::Inherit => builder,
            ChildHooks::None => builder.with_own_hooks(Vec::new()),
            ChildHooks::These(hooks) => builder.with_own_hooks(hooks.clone()),
        };

        let turn_tools = cx.tools();
        let mut names = builder.known_tool_names();
        names.extend(turn_tools.names().into_iter().map(str::to_owned));
        for text in unknown_tool_warnings(name, definition, &names) {
            cx.warn_once(&text);
        }

        let allowed = definition.allowed_tools(cx.can_start_agents_below());
        builder = builder.retain_tools(&turn_tools, &allowed);
        if let Some(model) = self.model(child, alias)? {
            builder = builder.with_model(model);
        }
        if let Some(turns) = definition.max_turns {
            builder = builder.max_turns(turns);
        }
        if let Some(mode) = definition.permission_mode {
            builder = builder.permission_mode(mode);
        }
        let builder = builder
            .name(name.clone())
            .system_prompt(definition.prompt.as_str())
            .max_duration(self.max_duration)
            // The limits of the calling run apply.
            .max_subagent_depth(u32::MAX)
            .max_subagents(u32::MAX);
        Ok(builder.build()?)
    }

    /// Returns the model of a subagent; `None` for the model of the calling run.
    fn model(
        &self,
        child: &ChildType,
        alias: Option<&str>,
    ) -> Result<Option<Arc<dyn Model>>, BoxError> {
        match alias {
            None => Ok(child.model.clone()),
            Some("inherit") => Ok(None),
            Some(alias) => match self.aliases.get(alias) {
                Some(model) => Ok(Some(model.clone())),
                None => {
                    let aliases = self.aliases.keys().map(String::as_str);
                    let choices: Vec<_> = ["inherit"].into_iter().chain(aliases).collect();
                    let names = choices.join(", ");
                    Err(format!(
                        "unknown model {}. Available models: [{names}]",
                        quoted(alias)
                    )
                    .into())
                }
            },
        }
    }
}

/// Returns warnings about names in a definition that no tool has. A disallowed name causes a
/// warning only if it may be a misspelling, since a definition may serve several agents. Of a
/// definition with many unknown names, only the first are compared with those of tools.
fn unknown_tool_warnings(
    agent: &str,
    definition: &SubagentDefinition,
    names: &[String],
) -> Vec<String> {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let is_known = |name: &str| names.iter().any(|known| known.eq_ignore_ascii_case(name));
    let comparisons = Comparisons::default();
    let mut warnings = Vec::new();
    for name in definition.tools.iter().filter(|name| !is_known(name)) {
        let advice = match comparisons.near_names(name, &names).first() {
            Some(near) => format!("did you mean {near:?}?"),
            None => "its caller has no such tool".to_owned(),
        };
        let name = quoted(name);
        warnings.push(format!(
            "the subagent {agent:?} lacks the tool {name}; {advice}"
        ));
    }
    let disallowed_tools = definition.disallowed_tools.iter();
    for name in disallowed_tools.filter(|name| !is_known(name)) {
        if let Some(near) = comparisons.near_names(name, &names).first() {
            let name = quoted(name);
            warnings.push(format!(
                "the subagent {agent:?} disallows the unknown tool {name}; did you mean {near:?}?"
            ));
        }
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_of_many_unknown_names_are_compared_with_those_of_tools() {
        let names: Vec<String> = (0..5_000).map(|i| format!("tool_{i:04}")).collect();
        let unknown_names = || (0..100).map(|i| format!("tol_{i:04}"));
        let definition = SubagentDefinition::new("", "")
            .with_tools(unknown_names())
            .with_disallowed_tools(unknown_names());
        let warnings = unknown_tool_warnings("a", &definition, &names);
        let hints = warnings.iter().filter(|text| text.contains("did you mean"));
        assert_eq!((warnings.len(), hints.count()), (100, 4));
    }
}
