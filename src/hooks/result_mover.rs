//! [`ResultMover`], which evicts long results of tools from the conversation: it moves their texts
//! into files, and leaves excerpts.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use serde_json::{Map, Value};
use tokio::time::{Instant, timeout};

use crate::backend::{Backend, MemoryBackend, workspace_path};
use crate::error::Result;
use crate::message::{ToolCall, ToolResult};
use crate::run::RunContext;
use crate::tool::{Tool, ToolContext};
use crate::tools::wick;
use crate::util::blocking::blocking;
use crate::util::sync::lock;

use super::evicted_files::{self, StoredResult};
use super::eviction::{Eviction, MovedText, ResultPlace};
use super::moved_results::{self, MAX_FILES, MovedResults};

/// The names of the path argument of `read_file`.
const PATH_ARGUMENTS: [&str; 2] = ["file_path", "path"];

/// The maximum size of the results that are kept in the state because they could not be written, in
/// bytes: they take memory, and are stored with the session.
const MAX_UNWRITTEN: usize = 16 * 1024 * 1024;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The default time for which results are kept.
const RETENTION: Duration = DAY.saturating_mul(30);

/// The time between two searches for old results.
const SWEEP_INTERVAL: Duration = DAY;

/// The time limit of a search for old results, which delays a call.
const SWEEP_LIMIT: Duration = Duration::from_secs(5);

/// Moves long results out of the conversation, and removes old ones. Clones share the results.
#[derive(Clone, Debug)]
pub(super) struct ResultMover {
    backend: Arc<dyn Backend>,
    /// The rule for moving results; `None` leaves all of them in the conversation.
    pub(super) eviction: Option<Eviction>,
    /// The time for which moved results are kept.
    pub(super) retention: Duration,
    /// The maximum size of the moved results of a session, in bytes.
    pub(super) max_bytes: u64,
    moved_results: MovedResults,
    /// The time of the last search for old results.
    last_sweep: Arc<Mutex<Option<Instant>>>,
}

impl ResultMover {
    /// Creates a mover with the default rule and limits, which writes to `backend`.
    pub(super) fn new(backend: Arc<dyn Backend>) -> Self {
        Self {
            backend,
            eviction: Some(Eviction::default()),
            retention: RETENTION,
            max_bytes: moved_results::MAX_BYTES,
            moved_results: MovedResults::default(),
            last_sweep: Arc::default(),
        }
    }

    /// Moves a result out of the conversation if it is too long.
    ///
    /// # Errors
    ///
    /// Returns an error if the runtime shuts down meanwhile. If the backend refuses the file, the
    /// run emits a warning instead.
    pub(super) async fn evict(
        &self,
        cx: &RunContext,
        call: &ToolCall,
        result: &mut ToolResult,
    ) -> Result<()> {
        let Some(eviction) = &self.eviction else {
            return Ok(());
        };

        if !eviction.may_move(&call.name, &result.content) {
            return Ok(());
        }

        let folder = eviction.folder(&*self.backend);
        let place = ResultPlace::new(folder.clone(), cx.session_id(), call);
        let moved_text = split(eviction, place, call, result).await?;
        let Some(MovedText { text, path }) = moved_text else {
            return Ok(());
        };

        if let Err(error) = eviction.store(&*self.backend, &path, &text).await {
            let consequence = if store_in_state(cx, &folder, &path, text) {
                "is kept in the session's state"
            } else {
                "is not kept, except for its beginning and end"
            };
            cx.warn(format!(
                "filesystem: a long result of {} {consequence}: {path} was not written: {error}",
                call.name
            ));
            return Ok(());
        }

        self.limit_results(cx, path, text.len()).await;
        self.sweep(cx, &folder).await;
        Ok(())
    }

    /// Returns the result of a `read_file` call for a moved result that is only in the state.
    pub(super) async fn recall(&self, cx: &RunContext, call: &ToolCall) -> Option<ToolResult> {
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

    /// Removes the moved results of a session. Returns their number.
    ///
    /// # Errors
    ///
    /// Returns an error if the backend cannot list or remove them.
    pub(super) async fn remove_results(&self, session: &str) -> Result<usize> {
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
        let (backend, max_bytes) = (&*self.backend, self.max_bytes);
        let results = &self.moved_results;
        match results
            .add(backend, cx.session_id(), result, max_bytes)
            .await
        {
            Ok(0) => {}
            Ok(count) => cx.warn(format!(
                "filesystem: the {count} oldest moved results of the session were removed, because \
                 a session may have at most {max_bytes} bytes or {MAX_FILES} of them"
            )),
            Err(error) => cx.warn(format!(
                "filesystem: the size of the moved results was not limited: {error}"
            )),
        }
    }

    /// Removes old results from `folder`, unless that was done within the last day.
    async fn sweep(&self, cx: &RunContext, folder: &str) {
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

        // Each search begins at a random place: folders and young results stay, so searches that
        // begin at the same place might all end before they reach the old results. The keys of a
        // new `RandomState` are random.
        let first = RandomState::new().hash_one(()) as usize;
        let removal = evicted_files::remove_older(&*self.backend, folder, limit, first);
        // What this search does not reach in its time is left to later ones, which begin elsewhere.
        if let Ok(Err(error)) = timeout(SWEEP_LIMIT, removal).await {
            cx.warn(format!("filesystem: old results were not removed: {error}"));
        }
    }
}

/// Shortens a result on a thread for blocking work: its text is read several times, which would
/// delay other tasks. Returns the text to move, or `None` if the result stays as it is.
async fn split(
    eviction: &Eviction,
    place: ResultPlace,
    call: &ToolCall,
    result: &mut ToolResult,
) -> Result<Option<MovedText>> {
    let placeholder = ToolResult::new(call.id.clone(), call.name.clone(), "");
    let mut whole_result = std::mem::replace(result, placeholder);
    let eviction = eviction.clone();
    let (split_result, moved_text) = blocking(move || {
        let moved_text = eviction.split(&mut whole_result, &place);
        Ok((whole_result, moved_text))
    })
    .await?;
    *result = split_result;
    Ok(moved_text)
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
