//! The tools that programs and users register.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;

use crate::config::reserved_tool_names;
use crate::error::{Error, ErrorKind, Result};
use crate::tool::{Tool, ToolSource, check_tool};
use crate::util::json_size::{JsonSize, escaped_len};
use crate::util::sync::lock;

/// The maximum number of tools that one user may register.
const MAX_TOOLS: usize = 128;

/// The maximum size of the description and the parameters of a user's tool, in bytes of JSON.
const MAX_TOOL_BYTES: usize = 32 * 1024;

/// The maximum size of the tools of one user, in bytes of JSON.
const MAX_USER_BYTES: usize = 1024 * 1024;

/// The maximum memory of the tools of one user, in bytes. A schema of many small objects takes up
/// to eighty times as much memory as text.
const MAX_USER_MEMORY: usize = 8 * 1024 * 1024;

/// The maximum memory of the tools that users have in addition to those for all users, in bytes.
const MAX_TOTAL_MEMORY: usize = 64 * 1024 * 1024;

/// The memory of a tool without its description and parameters, in bytes.
const TOOL_MEMORY: usize = 1024;

/// Tools by name.
type ToolsByName = BTreeMap<Arc<str>, Arc<dyn Tool>>;

/// The tools of one user, with their sizes.
type SizedTools = BTreeMap<Arc<str>, (Arc<dyn Tool>, ToolSize)>;

/// The size of a tool.
#[derive(Clone, Copy, Default)]
struct ToolSize {
    /// The bytes of the description and the parameters as JSON.
    text: usize,
    /// The memory of the tool, in bytes.
    memory: usize,
}

/// The tools of one user.
#[derive(Default)]
struct UserEntry {
    tools: SizedTools,
    /// The time of the last use, as a count of uses.
    last_use: u64,
}

/// Tools that are registered while agents run: for all users, or for one. Clones are the same
/// store.
///
/// The agents of a [`Registry`](super::Registry) have the tools for all users and the tools of
/// their own user, whether or not their configuration names them. A tool that is registered or
/// removed has effect in the next turn of every run.
///
/// The tools that were added by [`register_for`](ToolStore::register_for) take at most 64 MiB of
/// memory together, each 1 KiB in addition to its description and its parameters. Beyond that, the
/// tools of the users whose agents used theirs longest ago are removed, with a warning in the log.
///
/// ```
/// use agentcore::registry::ToolStore;
/// use agentcore::{FuncTool, HttpTool};
/// use serde_json::json;
///
/// let store = ToolStore::new();
/// let any = json!({"type": "object"});
/// store.register(FuncTool::new("add", "Adds numbers", any.clone(), |_, _| async { "5" }))?;
/// store.register_for("ann", HttpTool::new("mine", "Ann's", any, "http://127.0.0.1:9100")?)?;
///
/// assert_eq!(store.names("ann"), ["add", "mine"]);
/// assert_eq!(store.names("bob"), ["add"]);
/// assert!(!store.deregister_for("bob", "mine"));
/// # Ok::<(), agentcore::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct ToolStore(Arc<Inner>);

#[derive(Default)]
struct Inner {
    tools: Mutex<StoredTools>,
    /// The number of changes so far.
    version: AtomicU64,
}

/// The tools of a store: those for all users, and those of each user.
#[derive(Default)]
struct StoredTools {
    /// The tools for all users.
    common: ToolsByName,
    users: HashMap<Arc<str>, UserEntry>,
    /// The memory of the tools in `users`, in bytes.
    memory: usize,
    /// The number of uses so far.
    uses: u64,
}

impl StoredTools {
    /// Records a use of the tools of a user.
    fn touch(&mut self, user: &str) {
        self.uses += 1;
        if let Some(entry) = self.users.get_mut(user) {
            entry.last_use = self.uses;
        }
    }

    /// Removes the users whose tools were used longest ago until the others have room, except
    /// `user`; returns their number.
    fn make_room(&mut self, user: &str) -> usize {
        let mut count = 0;
        while self.memory > MAX_TOTAL_MEMORY {
            let others = self.users.iter().filter(|(other, _)| &***other != user);
            let oldest = others.min_by_key(|(_, entry)| entry.last_use);
            let Some(oldest_user) = oldest.map(|(user, _)| user.clone()) else {
                break;
            };

            let entry = self.users.remove(&oldest_user).unwrap_or_default();
            let sizes = entry.tools.values().map(|(_, size)| size.memory);
            self.memory = self.memory.saturating_sub(sizes.sum());
            count += 1;
        }
        count
    }
}

impl ToolStore {
    /// Creates an empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers a tool for all users and replaces the tool of the same name, if there is one. It
    /// takes precedence over the tool of that name that a user has registered.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Tool`] if the name is not `[A-Za-z0-9_-]{1,64}` or the parameters are
    /// not an object schema, and [`ErrorKind::Conflict`] if a tool of this crate has the name.
    pub fn register(&self, tool: impl Tool) -> Result<()> {
        check(&tool)?;
        lock(&self.0.tools)
            .common
            .insert(tool.name().into(), Arc::new(tool));
        self.record_change();
        Ok(())
    }

    /// Registers a tool for one user, replacing the user's tool of the same name if there is one.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`register`](Self::register), [`ErrorKind::Conflict`] also if a
    /// tool for all users has the name, and [`ErrorKind::InvalidRequest`] if the user has 128
    /// tools, if the description and the parameters have more than 32 KiB as JSON, or if the tools
    /// of the user would have more than 1 MiB of descriptions and parameters as JSON or take more
    /// than 8 MiB of memory.
    pub fn register_for(&self, user: &str, tool: impl Tool) -> Result<()> {
        check(&tool)?;
        let name = tool.name();
        let size = size_of(&tool);
        if size.text > MAX_TOOL_BYTES {
            return Err(invalid(format!(
                "the description and the parameters of the tool {name:?} have {} bytes; the limit \
                 is {MAX_TOOL_BYTES}",
                size.text
            )));
        }
        let mut stored = lock(&self.0.tools);
        if stored.common.contains_key(name) {
            return Err(taken(name));
        }
        let own_tools = stored.users.get(user).map(|entry| &entry.tools);
        check_room(own_tools.unwrap_or(&SizedTools::new()), name, size)?;

        let entry = stored.users.entry(user.into()).or_default();
        let old_tool = entry.tools.insert(name.into(), (Arc::new(tool), size));
        let old_memory = old_tool.as_ref().map_or(0, |(_, size)| size.memory);
        stored.memory = (stored.memory + size.memory).saturating_sub(old_memory);
        stored.touch(user);
        let removed_users = stored.make_room(user);
        drop(stored);
        if removed_users > 0 {
            tracing::warn!(
                "the tools of {removed_users} users were removed: those of all users took more \
                 than {MAX_TOTAL_MEMORY} bytes of memory"
            );
        }
        self.record_change();
        Ok(())
    }

    /// Removes a tool for all users. Returns `false` if there was none.
    pub fn deregister(&self, name: &str) -> bool {
        let is_removed = lock(&self.0.tools).common.remove(name).is_some();
        self.record_change();
        is_removed
    }

    /// Removes a tool of one user. Returns `false` if there was none.
    pub fn deregister_for(&self, user: &str, name: &str) -> bool {
        let mut stored = lock(&self.0.tools);
        let Some(entry) = stored.users.get_mut(user) else {
            return false;
        };
        let removed_tool = entry.tools.remove(name);
        if entry.tools.is_empty() {
            stored.users.remove(user);
        }

        let memory = removed_tool.as_ref().map_or(0, |(_, size)| size.memory);
        stored.memory = stored.memory.saturating_sub(memory);
        drop(stored);
        self.record_change();
        removed_tool.is_some()
    }

    /// Returns the tools of a user: the tools for all users and the user's own tools, sorted by
    /// name.
    pub fn tools(&self, user: &str) -> Vec<Arc<dyn Tool>> {
        let mut stored = lock(&self.0.tools);
        stored.touch(user);
        let mut tools = stored.common.clone();
        let own_tools = stored.users.get(user).map(|entry| &entry.tools);
        for (name, (tool, _)) in own_tools.into_iter().flatten() {
            tools.entry(name.clone()).or_insert_with(|| tool.clone());
        }
        tools.into_values().collect()
    }

    /// Returns the names of the tools for all users, sorted.
    pub(super) fn common_names(&self) -> Vec<String> {
        let stored = lock(&self.0.tools);
        stored.common.keys().map(|name| name.to_string()).collect()
    }

    /// Returns the names of the tools of a user, sorted.
    pub fn names(&self, user: &str) -> Vec<String> {
        let tools = self.tools(user);
        tools.iter().map(|tool| tool.name().to_owned()).collect()
    }

    /// Returns the tools of a user, for
    /// [`AgentBuilder::tool_source`](crate::AgentBuilder::tool_source).
    pub fn source(&self, user: impl Into<Arc<str>>) -> UserTools {
        UserTools {
            store: self.clone(),
            user: user.into(),
        }
    }

    /// Records a change, so that runs in progress read the tools again.
    fn record_change(&self) {
        self.0.version.fetch_add(1, Ordering::AcqRel);
    }
}

/// Checks a tool, whose name must not be that of a tool of this crate.
fn check(tool: &dyn Tool) -> Result<()> {
    check_tool(tool)?;
    if reserved_tool_names().contains(&tool.name()) {
        return Err(taken(tool.name()));
    }
    Ok(())
}

fn size_of(tool: &dyn Tool) -> ToolSize {
    let description = escaped_len(tool.description());
    let parameters = JsonSize::of(tool.parameters());
    ToolSize {
        text: description.saturating_add(parameters.text),
        memory: TOOL_MEMORY
            .saturating_add(description)
            .saturating_add(parameters.memory),
    }
}

/// Checks that a user may have one more tool, which replaces a tool of the same name.
fn check_room(tools: &SizedTools, name: &str, size: ToolSize) -> Result<()> {
    if tools.len() >= MAX_TOOLS && !tools.contains_key(name) {
        return Err(invalid(format!(
            "there are {MAX_TOOLS} tools already; remove one first"
        )));
    }
    let mut total = size;
    for (_, (_, size)) in tools.iter().filter(|(other, _)| &***other != name) {
        total.text += size.text;
        total.memory += size.memory;
    }
    if total.text > MAX_USER_BYTES {
        return Err(invalid(format!(
            "the descriptions and the parameters of your tools would have {} bytes; the limit is \
             {MAX_USER_BYTES}; remove a tool first",
            total.text
        )));
    }
    if total.memory > MAX_USER_MEMORY {
        return Err(invalid(format!(
            "your tools would take {} bytes of memory; the limit is {MAX_USER_MEMORY}; remove a \
             tool first, or use fewer objects in the parameters",
            total.memory
        )));
    }
    Ok(())
}

fn invalid(text: String) -> Error {
    Error::new(ErrorKind::InvalidRequest, text)
}

fn taken(name: &str) -> Error {
    let text = format!("there is already a tool {name:?}; give this one another name");
    Error::new(ErrorKind::Conflict, text)
}

impl fmt::Debug for ToolStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stored = lock(&self.0.tools);
        f.debug_struct("ToolStore")
            .field("common", &stored.common.keys())
            .field("users", &stored.users.len())
            .finish_non_exhaustive()
    }
}

/// The tools of one user of a [`ToolStore`], as a source of an agent's tools.
#[derive(Clone, Debug)]
pub struct UserTools {
    store: ToolStore,
    user: Arc<str>,
}

#[async_trait]
impl ToolSource for UserTools {
    fn name(&self) -> &str {
        "registered tools"
    }

    async fn tools(&self) -> Result<Vec<Arc<dyn Tool>>> {
        Ok(self.store.tools(&self.user))
    }

    fn version(&self) -> Option<u64> {
        // Called in every turn of a run, so that the tools of runs in progress count as used.
        lock(&self.store.0.tools).touch(&self.user);
        Some(self.store.0.version.load(Ordering::Acquire))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tool::FuncTool;

    #[test]
    fn tools_of_users_that_are_not_used_make_room_for_others() {
        let store = ToolStore::new();
        let description = "x".repeat(31 * 1024);
        let tool = || {
            FuncTool::new(
                "mine",
                &*description,
                json!({"type": "object"}),
                |_, _| async {},
            )
        };
        let in_use = store.source("user 0");
        for index in 0..3_000 {
            store
                .register_for(&format!("user {index}"), tool())
                .unwrap();
            assert!(in_use.version().is_some());
        }

        let stored = lock(&store.0.tools);
        assert!(stored.memory <= MAX_TOTAL_MEMORY && stored.users.len() > 1_900);
        drop(stored);
        assert_eq!(store.names("user 0"), ["mine"]);
        assert!(store.names("user 1").is_empty());
        assert_eq!(store.names("user 2999"), ["mine"]);
        for index in 0..3_000 {
            store.deregister_for(&format!("user {index}"), "mine");
        }
        assert_eq!(lock(&store.0.tools).memory, 0);
    }

    #[test]
    fn tools_of_a_user_are_limited_by_their_memory() {
        let store = ToolStore::new();
        let small_objects = vec![json!({"a": 0}); 2_900];
        let parameters = json!({"type": "object", "enum": small_objects});
        let tool = |number: usize| {
            FuncTool::new(
                format!("t{number}"),
                "t",
                parameters.clone(),
                |_, _| async { "ok" },
            )
        };
        // Each has 32 KB of text and about 2 MB of memory.
        for number in 0..4 {
            store.register_for("ann", tool(number)).unwrap();
        }
        let error = store.register_for("ann", tool(4)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidRequest);
        assert!(error.to_string().contains("memory"), "{error}");
        store.register_for("ann", tool(3)).unwrap();
        store.register_for("bob", tool(4)).unwrap();
    }
}
