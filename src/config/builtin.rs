//! The tools of this crate that a configuration may name, and their keys.

use std::collections::HashSet;
use std::sync::Arc;

use serde::Deserialize;

use crate::error::Result;
use crate::tool::Tool;
use crate::tools;
use crate::util::Secret;
use crate::util::text::quoted;

use super::agent::AgentConfig;
use super::check::needs_feature;
use super::source;

/// The tool that needs a key.
const SEARCH: &str = "internet_search";

/// The API keys for tools of this crate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct BuiltinConfig {
    /// The key of the search service Tavily, for the tool `internet_search`. In a file, a reference
    /// such as `"${TAVILY_API_KEY}"`.
    #[serde(deserialize_with = "source::secret")]
    #[schemars(schema_with = "source::secret_schema")]
    pub tavily_api_key: Option<Secret>,
}

/// A tool of this crate that a configuration may name.
struct Builtin {
    name: &'static str,
    feature: &'static str,
    /// True if the feature is enabled.
    is_on: bool,
    /// The function that creates the tool. It returns `None` if the feature is disabled or the key
    /// is missing.
    make: fn(&BuiltinConfig) -> Option<Arc<dyn Tool>>,
}

/// The tools of this crate that a configuration may name.
const BUILTINS: &[Builtin] = &[
    Builtin {
        name: "calculate",
        feature: "calc",
        is_on: cfg!(feature = "calc"),
        make: |_| {
            #[cfg(feature = "calc")]
            return Some(Arc::new(tools::calculate()));
            #[cfg(not(feature = "calc"))]
            None
        },
    },
    Builtin {
        name: "current_datetime",
        feature: "time",
        is_on: cfg!(feature = "time"),
        make: |_| {
            #[cfg(feature = "time")]
            return Some(Arc::new(tools::current_datetime()));
            #[cfg(not(feature = "time"))]
            None
        },
    },
    Builtin {
        name: SEARCH,
        feature: "web",
        is_on: cfg!(feature = "web"),
        make: |_keys| {
            #[cfg(feature = "web")]
            return search(_keys);
            #[cfg(not(feature = "web"))]
            None
        },
    },
    Builtin {
        name: "web_fetch",
        feature: "web",
        is_on: cfg!(feature = "web"),
        make: |_| {
            #[cfg(feature = "web")]
            return Some(Arc::new(tools::web::WebFetch::new()));
            #[cfg(not(feature = "web"))]
            None
        },
    },
    Builtin {
        name: "AskUserQuestion",
        feature: "config",
        is_on: true,
        make: |_| Some(Arc::new(tools::ask::ask_user_question_in_stream())),
    },
    Builtin {
        name: "request_user_input",
        feature: "config",
        is_on: true,
        make: |_| Some(Arc::new(tools::request_user_input())),
    },
    Builtin {
        name: "request_user_approval",
        feature: "config",
        is_on: true,
        make: |_| Some(Arc::new(tools::request_user_approval())),
    },
];

/// The names of the tools that hooks register, and of the tools that start subagents.
pub(super) const HOOK_TOOLS: [&str; 15] = [
    "ls",
    "read_file",
    "write_file",
    "edit_file",
    "glob",
    "grep",
    "execute",
    "write_todos",
    "delegate_to_agent",
    "start_async_task",
    "check_async_task",
    "update_async_task",
    "cancel_async_task",
    "list_async_tasks",
    "await_async_tasks",
];

#[cfg(feature = "web")]
fn search(keys: &BuiltinConfig) -> Option<Arc<dyn Tool>> {
    use tools::web::{Tavily, internet_search};
    let key = keys.tavily_api_key.clone()?;
    Some(Arc::new(internet_search(Tavily::new(key))))
}

/// Returns the names of the tools of this crate that a configuration may name.
pub(crate) fn builtin_names() -> Vec<&'static str> {
    BUILTINS.iter().map(|builtin| builtin.name).collect()
}

/// Returns the names of the tools of this crate whose features are enabled.
pub(crate) fn available_builtin_names() -> Vec<&'static str> {
    BUILTINS
        .iter()
        .filter(|builtin| builtin.is_on)
        .map(|builtin| builtin.name)
        .collect()
}

/// Returns the names of the tools of hooks and of this module, which no registered tool may have.
pub(crate) fn reserved_tool_names() -> Vec<&'static str> {
    let mut names = builtin_names();
    names.extend(HOOK_TOOLS);
    names
}

impl AgentConfig {
    /// Checks that the tools of this crate in the list can be created.
    pub(super) fn check_tools(&self) -> Result<()> {
        let mut names = HashSet::new();
        let tools = self.tools.iter().enumerate();
        for (index, name) in tools {
            let path = format!("tools.{index}");
            if !names.insert(name) {
                return Err(
                    self.error_at(&path, format!("the tool {} is listed twice", quoted(name)))
                );
            }
            let Some(builtin) = BUILTINS.iter().find(|builtin| builtin.name == name) else {
                continue;
            };
            if !builtin.is_on {
                let text = needs_feature(&format!("the tool {name:?}"), builtin.feature);
                return Err(self.error_at(&path, text));
            }
            if name == SEARCH && self.builtin_config.tavily_api_key.is_none() {
                let text = "the tool \"internet_search\" needs a key: set \
                            builtin_config.tavily_api_key to \"${TAVILY_API_KEY}\"";
                return Err(self.error_at(&path, text));
            }
        }
        Ok(())
    }

    /// Creates the tools of this crate that the configuration names.
    pub(super) fn builtin_tools(&self) -> Vec<Arc<dyn Tool>> {
        BUILTINS
            .iter()
            .filter(|builtin| self.tools.iter().any(|name| name == builtin.name))
            .filter_map(|builtin| (builtin.make)(&self.builtin_config))
            .collect()
    }
}
