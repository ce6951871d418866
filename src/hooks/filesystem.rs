//! The hook with the tools for files, search and the shell.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use serde_json::{Map, Value};
use tokio::time::{Instant, timeout};

use crate::backend::{Backend, CommandLimits, MemoryBackend, workspace_path};
use crate::error::Result;
use crate::hook::{Hook, Next, Phases};
use crate::message::{ToolCall, ToolResult};
use crate::run::RunContext;
use crate::session::AgentState;
use crate::tool::{Tool, ToolContext};
use crate::tools::{EditPolicy, preset, wick};
use crate::util::blocking::blocking;
use crate::util::secret;
use crate::util::sync::lock;

use super::evicted_files::{self, StoredResult};
use super::eviction::{Eviction, MovedText, ResultPlace};
use super::moved_results::{self, MovedResults};

/// The names of the tools, as [`Hook::tools`] announces them.
const TOOLS: [&str; 7] = [
    "ls",
    "read_file",
    "write_file",
    "edit_file",
    "glob",
    "grep",
    "execute",
];

/// The names of the path argument of `read_file`.
const PATH_ARGUMENTS: [&str; 2] = ["file_path", "path"];

/// The default maximum size of a file in the state, in bytes.
const MAX_TRACKED: usize = 1024 * 1024;

/// The maximum size of all files in the state together, in bytes.
const MAX_ALL_TRACKED: usize = 32 * 1024 * 1024;

/// The maximum size of results in the state that could not be written, in bytes: they take memory,
/// and are stored with the session.
const MAX_UNWRITTEN: usize = 16 * 1024 * 1024;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The default time for which results are kept.
const RETENTION: Duration = DAY.saturating_mul(30);

/// The time between two searches for old results.
const SWEEP_INTERVAL: Duration = DAY;

/// The time limit of a search for old results, which delays a call.
const SWEEP_LIMIT: Duration = Duration::from_secs(5);

/// Adds the tools of a workspace: `ls`, `read_file`, `write_file`, `edit_file`, `glob`, `grep` and
/// `execute`, on a [`Backend`].
///
/// # Files
///
/// Each file that the agent writes or edits is recorded in [`AgentState::files`]: its absolute path
/// and its whole content after the call, with secrets redacted. The files are stored with the
/// session, and compaction does not remove them. Three kinds of files are not recorded:
///
/// * files over 1 MiB ([`track_up_to`](Self::track_up_to) sets another limit), with a warning;
/// * files that would bring the total over 32 MiB, with a warning;
/// * files that are not UTF-8.
///
/// # Long results
///
/// A result of more than 80,000 characters is moved into a file, unless its tool is one of those
/// for files and search. Its first and last 2,000 characters stay, with `... (truncated X
/// characters; full result: PATH) ...` between them. The agent can read parts of the file, or
/// search it with `grep`. Texts in the result's `details` and `display` are cut in the same way;
/// details that are still too long are omitted.
///
/// The file is `.agentcore/tool-results/SESSION/CALL-HASH.txt`, below a `.gitignore` that excludes
/// the whole folder; searches find it only if they name it. The files of a session have at most 128
/// MiB ([`keep_results_within`](Self::keep_results_within)); the oldest are removed first. Files
/// are removed after 30 days ([`keep_results_for`](Self::keep_results_for)): when a result is
/// moved, the hook searches for old files, at most once a day.
/// [`remove_results`](Self::remove_results) removes the files of a session that has ended. A
/// session can continue without the files, but its agent can no longer read them.
///
/// If the backend refuses the file, the run emits a warning, and the result is stored in
/// [`AgentState::files`] under the same path, where `read_file` finds it. At most 16 MiB of such
/// results are stored.
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
    max_tracked: usize,
    eviction: Option<Eviction>,
    /// The time for which moved results are kept.
    retention: Duration,
    /// The maximum size of the moved results of a session, in bytes.
    max_results_bytes: u64,
    moved_results: MovedResults,
    /// The limits of commands instead of the backend's.
    command_limits: CommandLimits,
    /// The time of the last search for old results.
    last_sweep: Arc<Mutex<Option<Instant>>>,
}

impl FilesystemHook {
    /// Creates a hook whose tools use `backend`.
    pub fn new(backend: impl Backend) -> Self {
        Self {
            backend: Arc::new(backend),
            policy: EditPolicy::First,
            max_tracked: MAX_TRACKED,
            eviction: Some(Eviction::default()),
            retention: RETENTION,
            max_results_bytes: moved_results::MAX_BYTES,
            moved_results: MovedResults::default(),
            command_limits: CommandLimits::default(),
            last_sweep: Arc::default(),
        }
    }

    /// Sets the policy for a text that occurs several times in a file that `edit_file` edits.
    /// Defaults to replacing the first occurrence.
    #[must_use]
    pub fn edit_policy(mut self, policy: EditPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Sets the time limit of a command of `execute`. Defaults to the limit of the backend
    /// ([`Backend::command_limits`]), or to 120 seconds if it has none.
    #[must_use]
    pub fn command_timeout(mut self, limit: Duration) -> Self {
        self.command_limits.timeout = Some(limit);
        self
    }

    /// Sets the number of bytes that are captured of each output stream of a command, half from its
    /// start and half from its end. Defaults to the limit of the backend
    /// ([`Backend::command_limits`]).
    #[must_use]
    pub fn max_command_output(mut self, bytes: usize) -> Self {
        self.command_limits.max_output = Some(bytes);
        self
    }

    /// Sets the size of the largest file that is recorded in the state, in bytes. Defaults to 1
    /// MiB.
    #[must_use]
    pub fn track_up_to(mut self, bytes: usize) -> Self {
        self.max_tracked = bytes;
        self
    }

    /// Sets the length of the longest result that is not moved into a file, in characters. Defaults
    /// to 80,000.
    #[must_use]
    pub fn evict_over(self, characters: usize) -> Self {
        self.evicting(|eviction| eviction.max_chars = characters)
    }

    /// Sets the number of characters that stay of the beginning and of the end of a moved result.
    /// Defaults to half of the length that [`evict_over`](Self::evict_over) sets less 100, but at
    /// least 200 and at most 2,000 each. A result that would not become shorter is not moved.
    #[must_use]
    pub fn keep_ends(self, head: usize, tail: usize) -> Self {
        self.evicting(|eviction| eviction.ends = Some((head, tail)))
    }

    /// Sets the folder that long results are moved to. Defaults to `.agentcore/tool-results`.
    #[must_use]
    pub fn results_folder(self, path: impl Into<String>) -> Self {
        self.evicting(|eviction| eviction.folder = path.into())
    }

    /// Sets the time for which moved results are kept. Defaults to 30 days. [`Duration::MAX`] keeps
    /// them forever, and so does a backend that reports no modification times.
    ///
    /// Once a day, after a result was moved, older ones are removed: at most 1,000 files are
    /// examined, for at most five seconds.
    #[must_use]
    pub fn keep_results_for(mut self, time: Duration) -> Self {
        self.retention = time;
        self
    }

    /// Sets the maximum size of the moved results of a session, in bytes. Defaults to 128 MiB. When
    /// a further result exceeds it, or there are more than 10,000, the oldest are removed, with a
    /// warning; the newest stays.
    #[must_use]
    pub fn keep_results_within(mut self, bytes: u64) -> Self {
        self.max_results_bytes = bytes;
        self
    }

    /// Excludes the results of this tool from being moved.
    #[must_use]
    pub fn never_evict(self, tool: impl Into<String>) -> Self {
        self.evicting(|eviction| {
            eviction.exempt_tools.insert(tool.into());
        })
    }

    /// Leaves all results in the conversation, however long they are.
    #[must_use]
    pub fn without_eviction(mut self) -> Self {
        self.eviction = None;
        self
    }

    fn evicting(mut self, change: impl FnOnce(&mut Eviction)) -> Self {
        change(self.eviction.get_or_insert_default());
        self
    }

    /// Removes the moved results of a session, for example when the session is deleted. Returns
    /// their number.
    ///
    /// # Errors
    ///
    /// Returns an error if the backend cannot list or remove them.
    pub async fn remove_results(&self, session: &str) -> Result<usize> {
        let Some(eviction) = &self.eviction else {
            return Ok(0);
        };
        let folder = eviction.folder(&*self.backend);
        self.moved_results.forget(session);
        evicted_files::remove_session(&*self.backend, &folder, session).await
    }

    /// Counts a result that was moved, and removes the oldest of its session above the limit.
    async fn limit_results(&self, cx: &RunContext, path: String, len: usize) {
        let bytes = len as u64;
        let result = StoredResult { path, bytes };
        let (backend, max_bytes) = (&*self.backend, self.max_results_bytes);
        let results = &self.moved_results;
        match results
            .add(backend, cx.session_id(), result, max_bytes)
            .await
        {
            Ok(0) => {}
            Ok(count) => cx.warn(format!(
                "filesystem: the {count} oldest moved results of the session were removed, for the \
                 limit of a session is {max_bytes} bytes"
            )),
            Err(error) => cx.warn(format!(
                "filesystem: the size of the moved results was not limited: {error}"
            )),
        }
    }

    /// Removes old results, unless that was done within the last day.
    async fn sweep(&self, cx: &RunContext, eviction: &Eviction) {
        let Some(limit) = SystemTime::now().checked_sub(self.retention) else {
            return;
        };

        {
            let mut last_sweep = lock(&self.last_sweep);
            if last_sweep.is_some_and(|time| time.elapsed() < SWEEP_INTERVAL) {
                return;
            }

            *last_sweep = Some(Instant::now());
        }

        let folder = eviction.folder(&*self.backend);
        let removal = evicted_files::remove_older(&*self.backend, &folder, limit);
        // What this search does not reach in its time is left to the next one.
        if let Ok(Err(error)) = timeout(SWEEP_LIMIT, removal).await {
            cx.warn(format!("filesystem: old results were not removed: {error}"));
        }
    }

    /// Records the file that a call has written in the run's state.
    async fn track(&self, cx: &RunContext, call: &ToolCall, result: &ToolResult) {
        if result.is_error || !matches!(&*call.name, "write_file" | "edit_file") {
            return;
        }

        let details = result.details.as_ref();
        let Some(path) = details.and_then(|details| details["path"].as_str()) else {
            return;
        };

        let path = workspace_path(&*self.backend, path);
        let content = self.read_tracked(cx, &path).await;
        let content = content.filter(|content| has_room(cx, &path, content.len()));
        cx.with_state(|mut view| match content {
            Some(content) => view.files_mut().insert(path.into(), content.into()),
            // The recorded content is outdated.
            None if view.files().contains_key(&*path) => view.files_mut().remove(&*path),
            None => None,
        });
    }

    /// Reads a file for the state, with secrets redacted. Returns `None` if it is too large, is not
    /// UTF-8 or cannot be read.
    async fn read_tracked(&self, cx: &RunContext, path: &str) -> Option<String> {
        let limit = self.max_tracked;
        let content = self.backend.read_range(path, 0, limit.saturating_add(1));
        match content.await {
            Ok(bytes) if bytes.len() <= limit => {
                let text = String::from_utf8(bytes.into()).ok()?;
                Some(secret::redacted(&text).into_owned())
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
        }
    }

    /// Moves a result out of the conversation if it is too long.
    async fn evict(&self, cx: &RunContext, call: &ToolCall, result: &mut ToolResult) -> Result<()> {
        let Some(eviction) = &self.eviction else {
            return Ok(());
        };

        if !eviction.may_move(&call.name, &result.content) {
            return Ok(());
        }

        // The text is read several times, which would hold up other tasks here.
        let folder = eviction.folder(&*self.backend);
        let place = ResultPlace::new(folder, cx.session_id(), call);
        let placeholder = ToolResult::new(call.id.clone(), call.name.clone(), "");
        let mut whole_result = std::mem::replace(result, placeholder);
        let splitter = eviction.clone();
        let (split_result, moved_text) = blocking(move || {
            let moved_text = splitter.split(&mut whole_result, &place);
            Ok((whole_result, moved_text))
        })
        .await?;
        *result = split_result;
        let Some(MovedText { text, path }) = moved_text else {
            return Ok(());
        };

        if let Err(error) = eviction.store(&*self.backend, &path, &text).await {
            let folder = eviction.folder(&*self.backend);
            let consequence = if store_in_state(cx, &folder, &path, text) {
                "is kept in the session's state"
            } else {
                "is not kept, but for its beginning and end"
            };
            cx.warn(format!(
                "filesystem: a long result of {} {consequence}: {path} was not written: {error}",
                call.name
            ));
            return Ok(());
        }

        self.limit_results(cx, path, text.len()).await;
        self.sweep(cx, eviction).await;
        Ok(())
    }

    /// Returns the result of a `read_file` call for a moved result that is only in the state.
    async fn recall(&self, cx: &RunContext, call: &ToolCall) -> Option<ToolResult> {
        let eviction = self.eviction.as_ref()?;
        if &*call.name != "read_file" {
            return None;
        }

        let path = PATH_ARGUMENTS
            .iter()
            .find_map(|name| call.args.get(name)?.as_str())?;
        let path = workspace_path(&*self.backend, path);
        let relative_path = path.strip_prefix(&eviction.folder(&*self.backend))?;
        if !relative_path.starts_with('/') || matches!(self.backend.exists(&path).await, Ok(true)) {
            return None;
        }

        let content = cx.with_state(|view| view.files().get(&*path).cloned())?;
        let backend = MemoryBackend::new();
        let mut args: Map<String, Value> = call.args.as_object().cloned().unwrap_or_default();
        args.remove("file_path");
        args.insert("path".to_owned(), "result".into());
        let read = async {
            backend.write("result", content.as_bytes()).await?;
            let tool = wick::read_file(backend);
            tool.execute(ToolContext::detached(), args.into()).await
        };
        Some(match read.await {
            Ok(output) => output.into_result(call),
            Err(error) => ToolResult::failed(call, error.to_string()),
        })
    }
}

/// Stores a result that could not be written to `path` in the state, unless the results of `folder`
/// there would have more than [`MAX_UNWRITTEN`] bytes. Returns `true` if it was stored.
fn store_in_state(cx: &RunContext, folder: &str, path: &str, text: String) -> bool {
    cx.with_state(|mut view| {
        let files = view.files().iter();
        let unwritten_files = files.filter(|(path, _)| path.starts_with(folder));
        let bytes: usize = unwritten_files.map(|(_, text)| text.len()).sum();
        let has_room = bytes.saturating_add(text.len()) <= MAX_UNWRITTEN;
        if has_room {
            view.files_mut().insert(path.into(), text.into());
        }
        has_room
    })
}

/// Returns `true` if the state has room for a file of `len` bytes at `path`; otherwise emits a
/// warning.
fn has_room(cx: &RunContext, path: &str, len: usize) -> bool {
    let other_bytes: usize = cx.with_state(|view| {
        view.files()
            .iter()
            .filter(|(other, _)| ***other != *path)
            .map(|(_, text)| text.len())
            .sum()
    });
    if len == 0 || other_bytes.saturating_add(len) <= MAX_ALL_TRACKED {
        return true;
    }

    cx.warn(format!(
        "filesystem: {path} is not kept in the state: all files in it would have more than \
         {MAX_ALL_TRACKED} bytes"
    ));
    false
}

#[async_trait]
impl Hook for FilesystemHook {
    fn name(&self) -> &str {
        "filesystem"
    }

    fn description(&self) -> &str {
        "Brings tools for files, search and the shell, and moves long results into files"
    }

    fn phases(&self) -> Phases {
        Phases::BEFORE_AGENT | Phases::WRAP_TOOL_CALL
    }

    fn tools(&self) -> Vec<String> {
        TOOLS.map(str::to_owned).into()
    }

    async fn before_agent(&self, _cx: &RunContext, mut state: AgentState) -> Result<AgentState> {
        let backend = self.backend.clone();
        // A result that is moved into a file is not shortened first.
        let is_whole = self.eviction.is_some();
        let execute = wick::execute_within(backend, is_whole, self.command_limits);
        for tool in preset::workspace(&self.backend, self.policy, execute) {
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
        self.evict(cx, &call, &mut result).await?;
        Ok(result)
    }
}
