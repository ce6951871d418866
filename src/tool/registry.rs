//! Tools by name, and which of them are allowed and disabled.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::error::{Error, ErrorKind, Result};
use crate::model::ToolDefinition;

use super::tool::Tool;

/// The maximum length of a name that every provider accepts, in bytes.
const MAX_NAME: usize = 64;

/// Tools by name, with marks on the names: which may run without a question, and which are
/// disabled.
///
/// Marks belong to names, not to tools: they can be set before the tool is there and they stay
/// when it is replaced. A clone is cheap and independent of the original.
///
/// ```
/// use agentcore::{FuncTool, ToolRegistry};
/// use serde_json::json;
///
/// let mut tools = ToolRegistry::new();
/// let any = json!({"type": "object"});
/// tools.register(FuncTool::new("now", "The time", any.clone(), |_, _| async { "noon" }))?;
/// tools.register(FuncTool::new("wipe", "Erases all", any, |_, _| async {}))?;
/// tools.allow("now");
/// tools.disable("wipe");
///
/// assert_eq!(tools.names(), ["now", "wipe"]);
/// assert_eq!(tools.definitions().len(), 1);
/// assert!(tools.is_allowed("now") && tools.is_disabled("wipe"));
/// # Ok::<(), agentcore::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct ToolRegistry(Arc<Inner>);

#[derive(Clone, Default)]
struct Inner {
    tools: BTreeMap<Arc<str>, Arc<dyn Tool>>,
    allowed: BTreeSet<Arc<str>>,
    disabled: BTreeSet<Arc<str>>,
}

impl ToolRegistry {
    /// Creates an empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tool.
    ///
    /// # Errors
    ///
    /// Returns an error if the name is taken or is not `[A-Za-z0-9_-]{1,64}`, or if the tool's
    /// parameters are not an object schema.
    pub fn register(&mut self, tool: impl Tool) -> Result<()> {
        if self.0.tools.contains_key(tool.name()) {
            return Err(Error::new(
                ErrorKind::Tool,
                format!("there is already a tool {:?}; use replace", tool.name()),
            ));
        }
        self.replace(tool).map(drop)
    }

    /// Adds a tool. Replaces and returns the existing tool of the same name, if there is one.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`register`](Self::register), except that the name may be taken.
    pub fn replace(&mut self, tool: impl Tool) -> Result<Option<Arc<dyn Tool>>> {
        check_tool(&tool)?;
        let name = Arc::from(tool.name());
        Ok(self.inner().tools.insert(name, Arc::new(tool)))
    }

    /// Removes a tool. Marks on its name stay.
    pub fn remove(&mut self, name: &str) -> Option<Arc<dyn Tool>> {
        self.inner().tools.remove(name)
    }

    /// Returns the tool of that name, even if it is disabled.
    pub fn get(&self, name: &str) -> Option<Arc<dyn Tool>> {
        self.0.tools.get(name).cloned()
    }

    /// Marks a name as the name of a tool that may run without a question.
    pub fn allow(&mut self, name: impl Into<Arc<str>>) {
        self.inner().allowed.insert(name.into());
    }

    /// Returns `true` if the name was marked with [`allow`](Self::allow).
    pub fn is_allowed(&self, name: &str) -> bool {
        self.0.allowed.contains(name)
    }

    /// Returns the names marked with [`allow`](Self::allow), sorted.
    pub(crate) fn allowed(&self) -> impl Iterator<Item = &str> {
        self.0.allowed.iter().map(|name| &**name)
    }

    /// Disables a name: it is omitted from model requests, and a call of it is an error result.
    pub fn disable(&mut self, name: impl Into<Arc<str>>) {
        self.inner().disabled.insert(name.into());
    }

    /// Enables a disabled name.
    pub fn enable(&mut self, name: &str) {
        self.inner().disabled.remove(name);
    }

    /// Returns `true` if the name is disabled.
    pub fn is_disabled(&self, name: &str) -> bool {
        self.0.disabled.contains(name)
    }

    /// Returns the disabled names, sorted.
    pub(crate) fn disabled(&self) -> impl Iterator<Item = &str> {
        self.0.disabled.iter().map(|name| &**name)
    }

    /// Returns the names of all tools, disabled ones too, sorted.
    pub fn names(&self) -> Vec<&str> {
        self.0.tools.keys().map(|name| &**name).collect()
    }

    /// Returns all tools, disabled ones too, sorted by name.
    pub fn tools(&self) -> Vec<Arc<dyn Tool>> {
        self.0.tools.values().cloned().collect()
    }

    /// Returns the definitions for the model: the tools that are not disabled, sorted by name.
    pub fn definitions(&self) -> Vec<ToolDefinition> {
        self.0
            .tools
            .iter()
            .filter(|(name, _)| !self.is_disabled(name))
            .map(|(_, tool)| definition(tool))
            .collect()
    }

    fn inner(&mut self) -> &mut Inner {
        Arc::make_mut(&mut self.0)
    }
}

impl fmt::Debug for ToolRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolRegistry")
            .field("names", &self.names())
            .field("allowed", &self.0.allowed)
            .field("disabled", &self.0.disabled)
            .finish()
    }
}

pub(super) fn definition(tool: &Arc<dyn Tool>) -> ToolDefinition {
    ToolDefinition::new(tool.name(), tool.description(), tool.parameters().clone())
}

/// Checks the name and the parameters of a tool: providers refuse every request with a tool whose
/// name or parameters they do not accept.
pub(crate) fn check_tool(tool: &dyn Tool) -> Result<()> {
    check_name(tool.name())?;
    let parameters = tool.parameters();
    let is_object_schema = match parameters.get("type") {
        Some(Value::String(name)) => name == "object",
        Some(_) => false,
        None => parameters.is_object(),
    };

    if is_object_schema {
        return Ok(());
    }

    Err(Error::new(
        ErrorKind::Tool,
        format!(
            "the parameters of tool {:?} must be a JSON Schema of type object",
            tool.name()
        ),
    ))
}

/// Checks a tool's name: `[A-Za-z0-9_-]{1,64}`.
pub(crate) fn check_name(name: &str) -> Result<()> {
    check_name_of("a tool name", ErrorKind::Tool, name)
}

/// Checks the name of something else by the rule for names of tools. `subject` describes such a
/// name in the error, which is of the kind `kind`.
pub(crate) fn check_name_of(subject: &str, kind: ErrorKind, name: &str) -> Result<()> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(is_allowed) {
        return Ok(());
    }
    let excerpt: String = name.chars().take(MAX_NAME + 1).collect();
    Err(Error::new(
        kind,
        format!("{excerpt:?} is not {subject}; use 1 to {MAX_NAME} of A-Z a-z 0-9 _ -"),
    ))
}
