//! The tools for files, search and the shell, and what becomes of their results.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use serde_json::{Map, Value};
use tokio::time::Instant;

use crate::backend::{Backend, MemoryBackend};
use crate::error::Result;
use crate::hook::{Hook, Next, Phases};
use crate::message::{ToolCall, ToolResult};
use crate::run::RunContext;
use crate::state::AgentState;
use crate::tool::{Tool, ToolContext};
use crate::tools::{EditPolicy, preset, wick};
use crate::util::secret;
use crate::util::sync::lock;

use super::eviction::Eviction;
use super::moved;
use super::place::absolute;

const TOOLS: [&str; 7] = [
    "ls",
    "read_file",
    "write_file",
    "edit_file",
    "glob",
    "grep",
    "execute",
];
/// The names that `read_file` takes for a path.
const PATH: [&str; 2] = ["file_path", "path"];
const MAX_TRACKED: usize = 1024 * 1024;
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// How long results are kept unless set.
const KEPT: Duration = DAY.saturating_mul(30);
/// How often old results are looked for at the most.
const BETWEEN_SWEEPS: Duration = DAY;

/// A workspace for the agent: `ls`, `read_file`, `write_file`, `edit_file`, `glob`, `grep` and
/// `execute` on a [`Backend`].
///
/// # Files
///
/// What the agent writes or edits is kept in [`AgentState::files`], the absolute path with the
/// whole content, as it is in the backend when the call has ended, without keys that this process
/// holds. It is stored with the session and outlives compaction. Files over 1 MiB and files that
/// are not UTF-8 are left out, the former with a warning; [`track_up_to`](Self::track_up_to) sets
/// another limit.
///
/// # Long results
///
/// A result of more than 80,000 characters, of any tool but those for files and search, is moved
/// into a file; its first and last 2,000 characters stay, and between them
/// `... (truncated X characters; full result: PATH) ...`. No character is cut in two. The agent
/// reads, or searches with `grep`, what it needs of the file. Texts in the result's `details` and
/// `display` are cut alike; details that are long all the same are left out.
///
/// The file is `.agentcore/tool-results/SESSION/CALL-HASH.txt`, beneath a `.gitignore` that
/// excludes it all, and out of reach of searches that do not name it. Such files are removed after
/// 30 days, when a result is moved by a hook that has not looked for them for a day;
/// [`keep_results_for`](Self::keep_results_for) sets another time, and
/// [`remove_results`](Self::remove_results) removes those of a session that is over. Without them a
/// session goes on, but can no longer read them.
///
/// When the backend refuses the file, that is a warning, and the result is kept in
/// [`AgentState::files`] under the same path, where `read_file` finds it.
///
/// ```
/// use agentcore::backend::MemoryBackend;
/// use agentcore::hooks::FilesystemHook;
/// use agentcore::testing::ScriptedModel;
/// use agentcore::AgentBuilder;
/// use serde_json::json;
///
/// # async fn example() -> agentcore::Result<()> {
/// let model = ScriptedModel::new()
///     .call("write_file", json!({"path": "hello.py", "content": "print('hello')"}))
///     .say("Done.");
/// let hook = FilesystemHook::new(MemoryBackend::new());
/// let agent = AgentBuilder::new(model).hook(hook).build()?;
/// let state = agent.run("Create hello.py").await?.state;
/// assert_eq!(&*state.files["/workspace/hello.py"], "print('hello')");
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct FilesystemHook {
    backend: Arc<dyn Backend>,
    policy: EditPolicy,
    tracked: usize,
    eviction: Option<Eviction>,
    kept: Duration,
    /// When old results were last looked for.
    swept: Arc<Mutex<Option<Instant>>>,
}

impl FilesystemHook {
    /// The tools, on this backend.
    pub fn new(backend: impl Backend) -> Self {
        Self {
            backend: Arc::new(backend),
            policy: EditPolicy::First,
            tracked: MAX_TRACKED,
            eviction: Some(Eviction::default()),
            kept: KEPT,
            swept: Arc::default(),
        }
    }

    /// Which of several occurrences `edit_file` replaces; the first unless set.
    #[must_use]
    pub fn edit_policy(mut self, policy: EditPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Files of more bytes are not kept in the state; 1 MiB unless set.
    #[must_use]
    pub fn track_up_to(mut self, bytes: usize) -> Self {
        self.tracked = bytes;
        self
    }

    /// Results of more characters are moved into a file; 80,000 unless set.
    #[must_use]
    pub fn evict_over(self, characters: usize) -> Self {
        self.evicting(|eviction| eviction.over = characters)
    }

    /// How many characters of the beginning and of the end stay; 2,000 each unless set.
    #[must_use]
    pub fn keep_ends(self, head: usize, tail: usize) -> Self {
        self.evicting(|eviction| (eviction.head, eviction.tail) = (head, tail))
    }

    /// The folder that long results go to; `.agentcore/tool-results` unless set.
    #[must_use]
    pub fn results_folder(self, path: impl Into<String>) -> Self {
        self.evicting(|eviction| eviction.folder = path.into())
    }

    /// How long long results are kept; 30 days unless set. [`Duration::MAX`] keeps them for ever,
    /// and so does a backend that does not know when its files were written.
    #[must_use]
    pub fn keep_results_for(mut self, time: Duration) -> Self {
        self.kept = time;
        self
    }

    /// Leaves the results of one more tool as they are.
    #[must_use]
    pub fn never_evict(self, tool: impl Into<String>) -> Self {
        self.evicting(|eviction| {
            eviction.spared.insert(tool.into());
        })
    }

    /// Leaves all results as they are.
    #[must_use]
    pub fn without_eviction(mut self) -> Self {
        self.eviction = None;
        self
    }

    fn evicting(mut self, change: impl FnOnce(&mut Eviction)) -> Self {
        change(self.eviction.get_or_insert_default());
        self
    }

    /// Removes the long results of a session, as when it is deleted; how many there were.
    ///
    /// # Errors
    ///
    /// When the backend cannot list or remove them.
    pub async fn remove_results(&self, session: &str) -> Result<usize> {
        let Some(eviction) = &self.eviction else {
            return Ok(0);
        };
        let folder = eviction.folder(&*self.backend);
        moved::remove_session(&*self.backend, &folder, session).await
    }

    /// Removes old results, unless that was done not long ago.
    async fn sweep(&self, cx: &RunContext, eviction: &Eviction) {
        let Some(limit) = SystemTime::now().checked_sub(self.kept) else {
            return;
        };
        {
            let mut swept = lock(&self.swept);
            if swept.is_some_and(|at| at.elapsed() < BETWEEN_SWEEPS) {
                return;
            }
            *swept = Some(Instant::now());
        }
        let folder = eviction.folder(&*self.backend);
        if let Err(error) = moved::remove_older(&*self.backend, &folder, limit).await {
            cx.warn(format!("filesystem: old results were not removed: {error}"));
        }
    }

    /// Keeps what a call wrote.
    async fn track(&self, cx: &RunContext, call: &ToolCall, result: &ToolResult) {
        if result.is_error || !matches!(&*call.name, "write_file" | "edit_file") {
            return;
        }
        let details = result.details.as_ref();
        let Some(path) = details.and_then(|details| details["path"].as_str()) else {
            return;
        };
        let path = absolute(&*self.backend, path);
        let limit = self.tracked;
        let content = self.backend.read_range(&path, 0, limit.saturating_add(1));
        let content = match content.await {
            Ok(bytes) if bytes.len() <= limit => {
                let text = String::from_utf8(bytes.into()).ok();
                text.map(|text| secret::redacted(&text).into_owned())
            }
            Ok(_) => {
                cx.warn(format!(
                    "filesystem: {path} is not kept in the state: it is larger than {limit} bytes"
                ));
                None
            }
            Err(error) => {
                cx.warn(format!("filesystem: {path} was not read again: {error}"));
                None
            }
        };
        cx.with_state(|view| match content {
            Some(content) => view.files.insert(path.into(), content.into()),
            // What is known of it is no longer true.
            None => view.files.remove(&*path),
        });
    }

    /// Moves a result out of the conversation if it is too long.
    async fn evict(&self, cx: &RunContext, call: &ToolCall, result: &mut ToolResult) {
        let Some(eviction) = &self.eviction else {
            return;
        };
        let Some(text) = eviction.text_of(&call.name, &result.content) else {
            return;
        };
        let path = eviction.path(&*self.backend, cx.session_id(), call, &text);
        let stored = eviction.store(&*self.backend, &path, &text).await;
        eviction.cut(result, &text, &path);
        match stored {
            Ok(()) => self.sweep(cx, eviction).await,
            Err(error) => {
                cx.warn(format!(
                    "filesystem: a long result of {} is kept in the session's state: \
                     {path} was not written: {error}",
                    call.name
                ));
                cx.with_state(|view| view.files.insert(path.into(), text.into()));
            }
        }
    }

    /// What `read_file` says of a result that only the state has.
    async fn recall(&self, cx: &RunContext, call: &ToolCall) -> Option<ToolResult> {
        let eviction = self.eviction.as_ref()?;
        if &*call.name != "read_file" {
            return None;
        }
        let path = PATH.iter().find_map(|name| call.args.get(name)?.as_str())?;
        let path = absolute(&*self.backend, path);
        let beneath = path.strip_prefix(&eviction.folder(&*self.backend))?;
        if !beneath.starts_with('/') || matches!(self.backend.exists(&path).await, Ok(true)) {
            return None;
        }
        let content = cx.with_state(|view| view.files.get(&*path).cloned())?;
        let backend = MemoryBackend::new();
        let written = backend.write("result", content.as_bytes()).await;
        let mut args: Map<String, Value> = call.args.as_object().cloned().unwrap_or_default();
        args.remove(PATH[0]);
        args.insert(PATH[1].to_owned(), "result".into());
        let tool = wick::read_file(backend);
        let read = tool.execute(ToolContext::detached(), args.into()).await;
        Some(match (written, read) {
            (Ok(()), Ok(output)) => output.into_result(call),
            (Err(error), _) => ToolResult::failed(call, error.to_string()),
            (_, Err(error)) => ToolResult::failed(call, error.to_string()),
        })
    }
}

#[async_trait]
impl Hook for FilesystemHook {
    fn name(&self) -> &str {
        "filesystem"
    }

    fn description(&self) -> &str {
        "tools for files, search and the shell; moves long results into files"
    }

    fn phases(&self) -> Phases {
        Phases::BEFORE_AGENT | Phases::WRAP_TOOL_CALL
    }

    fn tools(&self) -> Vec<String> {
        TOOLS.map(str::to_owned).into()
    }

    async fn before_agent(&self, _cx: &RunContext, mut state: AgentState) -> Result<AgentState> {
        // What is moved into a file need not be cut before.
        let whole = self.eviction.is_some();
        let tools = preset::workspace(&self.backend, self.policy, whole);
        for tool in tools {
            state.register_tool(tool);
        }
        Ok(state)
    }

    async fn wrap_tool_call(&self, call: ToolCall, next: Next<ToolCall>) -> Result<ToolResult> {
        let cx = next.context();
        if let Some(result) = self.recall(cx, &call).await {
            return Ok(result);
        }
        let mut result = next.run(call.clone()).await?;
        self.track(cx, &call, &result).await;
        self.evict(cx, &call, &mut result).await;
        Ok(result)
    }
}
