//! The tools of one turn.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, LazyLock, OnceLock};

use crate::model::ToolDefinition;

use super::registry::{check_tool, definition};
use super::suggest::{Comparisons, unknown_tool};
use super::tool::Tool;

/// The tools of one turn by name: a snapshot, so that a turn's calls resolve to the tools that were
/// sent to the model. A clone costs one pointer.
#[derive(Clone)]
pub struct TurnTools(Arc<Inner>);

impl Default for TurnTools {
    /// Returns a set without tools. All such sets share one allocation.
    fn default() -> Self {
        static EMPTY: LazyLock<TurnTools> = LazyLock::new(|| TurnTools(Arc::default()));
        EMPTY.clone()
    }
}

#[derive(Default)]
struct Inner {
    /// Sorted by name, disabled ones too.
    tools: Vec<Arc<dyn Tool>>,
    disabled: BTreeSet<Arc<str>>,
    definitions: OnceLock<Arc<[ToolDefinition]>>,
}

impl TurnTools {
    /// Combines tools. If several have the same name, a hook's tool takes precedence over the
    /// agent's own, and the agent's over a source's; otherwise the first is used. Each tool that is
    /// dropped, and each tool of a source that no provider would accept, causes a warning.
    pub(crate) fn build(
        agent_tools: &[Arc<dyn Tool>],
        hook_tools: &[Arc<dyn Tool>],
        source_tools: Vec<Arc<dyn Tool>>,
        disabled: &BTreeSet<Arc<str>>,
    ) -> (Self, Vec<String>) {
        let mut warnings = Vec::new();
        let source_tools = source_tools.into_iter().filter(|tool| {
            let checked = check_tool(tool);
            if let Err(error) = &checked {
                warnings.push(format!("a tool of a source is left out: {error}"));
            }

            checked.is_ok()
        });

        let mut tools: Vec<(Origin, Arc<dyn Tool>)> = Vec::new();
        tools.extend(hook_tools.iter().map(|tool| (Origin::Hook, tool.clone())));
        tools.extend(agent_tools.iter().map(|tool| (Origin::Agent, tool.clone())));
        tools.extend(source_tools.map(|tool| (Origin::Source, tool)));

        // The sort is stable: if several tools have the same name, the first in the order above is
        // kept.
        tools.sort_by(|(_, a), (_, b)| a.name().cmp(b.name()));
        tools.dedup_by(|(hidden, tool), (kept, other)| {
            let is_double = tool.name() == other.name();
            if is_double {
                warnings.push(hides(*kept, *hidden, tool.name()));
            }

            is_double
        });

        let turn_tools = Self(Arc::new(Inner {
            tools: tools.into_iter().map(|(_, tool)| tool).collect(),
            disabled: disabled.clone(),
            definitions: OnceLock::new(),
        }));

        (turn_tools, warnings)
    }

    /// Returns `earlier` if it has the very same tools, so that its definitions stay the
    /// same allocation and the providers' encodings of them stay valid.
    pub(crate) fn or_earlier(self, earlier: &Self) -> Self {
        let new = &self.0;
        let old = &earlier.0;
        let is_same = new.tools.len() == old.tools.len()
            && new.disabled == old.disabled
            && new
                .tools
                .iter()
                .zip(&old.tools)
                .all(|(a, b)| Arc::ptr_eq(a, b));
        if is_same { earlier.clone() } else { self }
    }

    /// Returns the tool of that name, even if it is disabled.
    pub fn get(&self, name: &str) -> Option<Arc<dyn Tool>> {
        let tools = &self.0.tools;
        let index = tools.binary_search_by(|tool| tool.name().cmp(name)).ok()?;
        Some(tools[index].clone())
    }

    /// Returns the tool a call of `name` runs.
    pub(crate) fn get_enabled(&self, name: &str) -> Option<Arc<dyn Tool>> {
        self.get(name).filter(|_| !self.is_disabled(name))
    }

    /// Returns the tool a call of `name` runs, or the text the model reads instead.
    ///
    /// The text for an unknown name suggests similar names that can be called, unless there were
    /// too many comparisons.
    pub(crate) fn resolve(
        &self,
        name: &str,
        comparisons: &Comparisons,
    ) -> Result<Arc<dyn Tool>, String> {
        match self.get(name) {
            Some(_) if self.is_disabled(name) => Err(format!("tool {name:?} is disabled")),
            Some(tool) => Ok(tool),
            None => Err(unknown_tool(name, &self.names(), comparisons)),
        }
    }

    /// Returns `true` if calls of that name are refused.
    fn is_disabled(&self, name: &str) -> bool {
        self.0.disabled.contains(name)
    }

    /// Returns the names that can be called, sorted. These are the names in the model's request.
    pub fn names(&self) -> Vec<&str> {
        self.enabled().map(|tool| tool.name()).collect()
    }

    /// Returns the names of the agents that calls of each tool can start.
    pub(crate) fn agents(&self) -> impl Iterator<Item = Arc<str>> {
        self.enabled().flat_map(|tool| tool.agents())
    }

    /// Returns the tool definitions for the model, sorted by name. Made once for all clones.
    pub fn definitions(&self) -> Arc<[ToolDefinition]> {
        let collect_definitions = || self.enabled().map(definition).collect();
        self.0.definitions.get_or_init(collect_definitions).clone()
    }

    fn enabled(&self) -> impl Iterator<Item = &Arc<dyn Tool>> {
        self.0
            .tools
            .iter()
            .filter(|tool| !self.is_disabled(tool.name()))
    }
}

impl fmt::Debug for TurnTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TurnTools")
            .field("names", &self.names())
            .field("disabled", &self.0.disabled)
            .finish()
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Origin {
    Hook,
    Agent,
    Source,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hook => "a hook",
            Self::Agent => "the agent",
            Self::Source => "a source",
        })
    }
}

fn hides(kept: Origin, hidden: Origin, name: &str) -> String {
    if kept == hidden {
        return format!("{kept} has two tools {name:?}: the first is used");
    }
    format!("the tool {name:?} of {kept} hides the one of {hidden}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::func::FuncTool;
    use super::*;

    fn tool(name: &str, description: &str) -> Arc<dyn Tool> {
        let schema = json!({"type": "object"});
        Arc::new(FuncTool::new(name, description, schema, |_, _| async {}))
    }

    fn disabled(names: &[&str]) -> BTreeSet<Arc<str>> {
        names.iter().map(|name| Arc::from(*name)).collect()
    }

    #[test]
    fn hook_tools_override_agent_tools_and_those_override_sources() {
        let (turn_tools, warnings) = TurnTools::build(
            &[tool("read", "agent"), tool("edit", "agent")],
            &[tool("read", "hook")],
            vec![
                tool("read", "source"),
                tool("edit", "source"),
                tool("fetch", "source"),
            ],
            &disabled(&[]),
        );
        assert_eq!(turn_tools.names(), ["edit", "fetch", "read"]);
        let described = |name| {
            turn_tools
                .get(name)
                .map(|tool| tool.description().to_owned())
        };

        assert_eq!(described("read").as_deref(), Some("hook"));
        assert_eq!(described("edit").as_deref(), Some("agent"));
        assert_eq!(
            warnings,
            [
                r#"the tool "edit" of the agent hides the one of a source"#,
                r#"the tool "read" of a hook hides the one of the agent"#,
                r#"the tool "read" of a hook hides the one of a source"#,
            ]
        );
    }

    #[test]
    fn invalid_tool_name_of_a_source_is_skipped_with_a_warning() {
        let (turn_tools, warnings) = TurnTools::build(
            &[],
            &[],
            vec![tool("not a name", ""), tool("fine", "")],
            &disabled(&[]),
        );
        assert_eq!(turn_tools.names(), ["fine"]);
        assert!(warnings[0].contains("not a name"), "{warnings:?}");
    }

    #[test]
    fn disabled_tool_has_no_definition_and_is_not_suggested() {
        let tools = [tool("read", ""), tool("write", "")];
        let (turn_tools, _) = TurnTools::build(&tools, &[], vec![], &disabled(&["write"]));
        assert_eq!(turn_tools.names(), ["read"]);
        assert_eq!(turn_tools.definitions().len(), 1);
        assert!(turn_tools.get("write").is_some());
        let error = |name| turn_tools.resolve(name, &Comparisons::default()).err();
        assert_eq!(
            error("write").as_deref(),
            Some(r#"tool "write" is disabled"#)
        );
        assert_eq!(
            error("wirte").as_deref(),
            Some(r#"unknown tool "wirte". Available tools: read"#)
        );
    }

    #[test]
    fn equal_tools_share_definitions() {
        let tools = [tool("read", ""), tool("write", "")];
        let no_disabled = disabled(&[]);
        let (first, _) = TurnTools::build(&tools, &[], vec![], &no_disabled);
        let (same_tools, _) = TurnTools::build(&tools, &[], vec![], &no_disabled);
        let same_tools = same_tools.or_earlier(&first);
        assert!(Arc::ptr_eq(&first.definitions(), &same_tools.definitions()));

        let (disabled_tools, _) = TurnTools::build(&tools, &[], vec![], &disabled(&["read"]));
        assert_eq!(disabled_tools.or_earlier(&same_tools).names(), ["write"]);
        let (changed_tools, _) =
            TurnTools::build(&tools, &[tool("read", "other")], vec![], &no_disabled);
        let changed_tools = changed_tools.or_earlier(&first);
        assert!(!Arc::ptr_eq(
            &first.definitions(),
            &changed_tools.definitions()
        ));
    }
}
