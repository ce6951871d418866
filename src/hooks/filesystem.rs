//! The hook with the tools for files, search and the shell.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::backend::{Backend, CommandLimits, workspace_path};
use crate::error::Result;
use crate::hook::{Hook, Next, Phases};
use crate::message::{ToolCall, ToolResult};
use crate::run::RunContext;
use crate::session::AgentState;
use crate::tools::{EditPolicy, preset, wick};
use crate::util::secret;

use super::checkpoints::unrecorded;
use super::eviction::Eviction;
use super::result_mover::ResultMover;

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

/// The default maximum size of a file in the state, in bytes.
const MAX_TRACKED: usize = 1024 * 1024;

/// The number of bytes that every backend reads at once.
const PIECE: usize = 1024 * 1024;

/// The maximum size of all files in the state together, in bytes.
const MAX_ALL_TRACKED: usize = 32 * 1024 * 1024;

/// The bytes that a file counts toward [`MAX_ALL_TRACKED`] in addition to its path and its content.
const FILE_BYTES: usize = 256;

/// Adds the tools of a workspace: `ls`, `read_file`, `write_file`, `edit_file`, `glob`, `grep` and
/// `execute`, on a [`Backend`].
///
/// # Files
///
/// Each file that a call of `write_file` or `edit_file` changes is recorded in
/// [`AgentState::files`]: its absolute path and its whole content after the call, with secrets
/// redacted. The files are stored with the session, and compaction does not remove them. Four kinds
/// of files are not recorded:
///
/// * files over 1 MiB ([`track_up_to`](Self::track_up_to) sets another limit), with a warning;
/// * files that would bring the total over 32 MiB, with a warning; each counts 256 bytes and its
///   path in addition;
/// * files that are not UTF-8;
/// * files that a command of `execute` changes. A file that was recorded before keeps its recorded
///   content, even if a command removes it.
///
/// # Long results
///
/// A result of more than 80,000 characters is moved into a file, unless its tool is one of those
/// for files and search, or `read_memory`. Its first and last 2,000 characters stay, with
/// `... (truncated X characters; full result: PATH) ...` between them. The agent can read parts of
/// the file, or search it with `grep`. Texts in the result's `details` and `display` are cut in the
/// same way; details that are still too long are omitted.
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
    /// The maximum size of a file in the state, in bytes.
    max_tracked: usize,
    /// The limits of commands instead of the backend's.
    command_limits: CommandLimits,
    result_mover: ResultMover,
}

impl FilesystemHook {
    /// Creates a hook whose tools use `backend`.
    pub fn new(backend: impl Backend) -> Self {
        let backend: Arc<dyn Backend> = Arc::new(backend);
        Self {
            policy: EditPolicy::First,
            max_tracked: MAX_TRACKED,
            command_limits: CommandLimits::default(),
            result_mover: ResultMover::new(backend.clone()),
            backend,
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
    /// Each defaults to `(limit - 100) / 2`, where `limit` is that of
    /// [`evict_over`](Self::evict_over), but at least 200 and at most 2,000. A result that would
    /// not become shorter is not moved.
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
    /// examined, for at most five seconds. Each search begins with a random session, so later ones
    /// reach the files that were left.
    #[must_use]
    pub fn keep_results_for(mut self, time: Duration) -> Self {
        self.result_mover.retention = time;
        self
    }

    /// Sets the maximum size of the moved results of a session, in bytes. Defaults to 128 MiB. When
    /// a further result exceeds it, or there are more than 10,000, the oldest are removed, with a
    /// warning; the newest stays.
    #[must_use]
    pub fn keep_results_within(mut self, bytes: u64) -> Self {
        self.result_mover.max_bytes = bytes;
        self
    }

    /// Excludes the results of this tool from being moved.
    #[must_use]
    pub fn never_evict(self, tool: impl Into<String>) -> Self {
        self.evicting(|eviction| {
            eviction.exempt_tools.insert(tool.into());
        })
    }

    /// Leaves long results in the conversation, up to
    /// [`max_result_bytes`](crate::AgentBuilder::max_result_bytes). `execute` then cuts each output
    /// stream to 100,000 characters, unless [`max_command_output`](Self::max_command_output) or the
    /// backend ([`Backend::command_limits`]) sets a limit. A later call of
    /// [`evict_over`](Self::evict_over), [`keep_ends`](Self::keep_ends),
    /// [`results_folder`](Self::results_folder) or [`never_evict`](Self::never_evict) moves results
    /// again.
    #[must_use]
    pub fn without_eviction(mut self) -> Self {
        self.result_mover.eviction = None;
        self
    }

    fn evicting(mut self, change: impl FnOnce(&mut Eviction)) -> Self {
        change(self.result_mover.eviction.get_or_insert_default());
        self
    }

    /// Removes the moved results of a session, for example when the session is deleted. Returns
    /// their number.
    ///
    /// # Errors
    ///
    /// Returns an error if the backend cannot list or remove them.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, a part of the results may be removed. A second call removes the
    /// others.
    pub async fn remove_results(&self, session: &str) -> Result<usize> {
        unrecorded(self.result_mover.remove_results(session)).await
    }

    /// Records in the run's state the file that a call has written.
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
        match self.read_beginning(path, limit.saturating_add(1)).await {
            Ok(bytes) if bytes.len() <= limit => {
                let text = String::from_utf8(bytes).ok()?;
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

    /// Reads the first `max` bytes of a file, or the whole file if it is shorter, in pieces that
    /// every backend reads at once.
    async fn read_beginning(&self, path: &str, max: usize) -> Result<Vec<u8>> {
        let mut content = Vec::new();
        loop {
            let len = max.saturating_sub(content.len()).min(PIECE);
            let offset = content.len() as u64;
            let piece = self.backend.read_range(path, offset, len).await?;
            content.extend_from_slice(&piece);
            if piece.len() < len || content.len() >= max {
                return Ok(content);
            }
        }
    }
}

/// Returns `true` if the state has room for a file of `len` bytes at `path`; otherwise emits a
/// warning.
fn has_room(cx: &RunContext, path: &str, len: usize) -> bool {
    let other_bytes: usize = cx.with_state(|view| {
        view.files()
            .iter()
            .filter(|(other, _)| ***other != *path)
            .map(|(path, text)| FILE_BYTES + path.len() + text.len())
            .sum()
    });
    if other_bytes + FILE_BYTES + path.len() + len <= MAX_ALL_TRACKED {
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
        let is_whole = self.result_mover.eviction.is_some();
        let execute = wick::execute_within(backend, is_whole, self.command_limits);
        for tool in preset::workspace(&self.backend, self.policy, execute) {
            state.register_tool(tool);
        }
        Ok(state)
    }

    async fn wrap_tool_call(&self, call: ToolCall, next: Next<ToolCall>) -> Result<ToolResult> {
        let cx = next.context();
        if let Some(result) = self.result_mover.recall(cx, &call).await {
            return Ok(result);
        }
        let mut result = next.run(call.clone()).await?;
        self.track(cx, &call, &result).await;
        // A rewind leaves the conversation as it is, which names the files of results, and the
        // ignore file is for the results of all sessions.
        unrecorded(self.result_mover.evict(cx, &call, &mut result)).await?;
        Ok(result)
    }
}
