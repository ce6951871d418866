//! [`FileCheckpoints`], which stores the files of a workspace before they change.

use std::collections::HashMap;
use std::fmt;
#[cfg(unix)]
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::backend::Backend;
use crate::error::{Error, ErrorKind, Result};
use crate::util::blocking::blocking;
use crate::util::sync::lock;

use super::active_runs::ActiveRuns;
use super::cached_index::CachedIndex;
use super::capture::join_root;
#[cfg(unix)]
use super::folder::Folder;
#[cfg(unix)]
use super::folder_storage::FolderStorage;
use super::index::MessageChanges;
use super::limits::Limits;
use super::memory_storage::MemoryStorage;
use super::report::Checkpoint;
use super::storage::Storage;

/// The maximum number of contents that are read and stored concurrently: each may have the size of
/// the largest file.
const MAX_CAPTURES: usize = 2;

/// Stores the files of a workspace before they change, so that they can be rewound to their state
/// before a message of the user.
///
/// It is a [`Backend`] around another one, and a [`Hook`](crate::Hook) that records the message
/// after which a change is made. Add it to the agent as both, and create the agent's tools with it,
/// not with the inner backend:
///
/// ```
/// use agentcore::backend::{Backend, MemoryBackend};
/// use agentcore::hooks::{FileCheckpoints, RewindMode};
/// use agentcore::testing::ScriptedModel;
/// use agentcore::{AgentBuilder, BoxError, FuncTool};
/// use serde_json::json;
///
/// # async fn example() -> agentcore::Result<()> {
/// let files = FileCheckpoints::new(MemoryBackend::new());
/// files.write("notes.md", b"mine\n").await?;
/// // Or the built-in tools, on `files`: `tools::preset::coding(files.clone())`.
/// let tidy = FuncTool::new("tidy", "Tidies up", json!({"type": "object"}), |cx, _| async move {
///     let files = cx.backend().ok_or("no backend")?;
///     files.write("notes.md", b"the agent's\n").await?;
///     Ok::<_, BoxError>("tidy")
/// });
/// let agent = AgentBuilder::new(ScriptedModel::new().call("tidy", json!({})).say("Done."))
///     .tool(tidy)
///     .hook(files.clone())
///     .backend(files.clone())
///     .build()?;
/// agent.session("s").run("Tidy my notes").await?;
///
/// let preview = files.rewind("s", 0, RewindMode::DryRun).await?;
/// assert_eq!(preview.to_string(), "change /workspace/notes.md (+1 -1 lines)\n");
/// files.rewind("s", 0, RewindMode::SkipChanged).await?;
/// assert_eq!(&files.read("notes.md").await?[..], b"mine\n");
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
///
/// # What is stored
///
/// Before the first change of a file after a message, its content and mode are stored, or the fact
/// that it did not exist. They are stored again before a later change if the file was changed from
/// outside in between. With [`open`](Self::open), they are on the disk before the change is made,
/// in one file per session, and outlive the process. With [`new`](Self::new), they are in memory.
///
/// A change is refused if its record cannot be stored, if the session has 100,000 records, or while
/// another process has locked the session's file.
///
/// A message is named by its position in the session's history, as
/// [`Session::fork_at`](crate::Session::fork_at) counts: `rewind("s", 4, ..)` and `fork_at("t", 4)`
/// take files and conversation to the same moment. Changes by subagents belong to the message that
/// their parent works on. When a hook replaces the history, for example to shorten it, positions
/// are counted in the new history, and files cannot be rewound to a moment before the replacement.
/// Add this hook after hooks that replace the history, so that it receives the new history, and
/// before [`MemoryHook`](crate::hooks::MemoryHook) and other hooks that write files when a run
/// begins.
///
/// # Workspaces
///
/// Each file is stored with the workspace it belongs to: the path of the [root](Backend::root),
/// with links resolved if the root is a folder of this machine. A session that is used in several
/// workspaces may have its checkpoints in one folder. Rewinding changes only the files of its own
/// workspace, and reports files of other workspaces as
/// [`Elsewhere`](crate::hooks::RewindOutcome::Elsewhere).
///
/// A workspace that was moved counts as another workspace, and containers with the same root count
/// as the same workspace: give each container its own folder of checkpoints. Checkpoints of older
/// versions of this crate do not name their workspace; they count as checkpoints of the workspace
/// in which they are used.
///
/// # What is not stored
///
/// * Changes made by commands (`Bash`, `execute`, `exec`), because commands write files directly. A
///   file that the agent wrote and a command changed or removed later counts as changed from
///   outside.
/// * Files over 32 MiB, unless [`max_file_size`](Self::max_file_size) sets another limit, files
///   that would make the checkpoints of the session or the folder larger than
///   [`max_session_size`](Self::max_session_size) or [`max_total_size`](Self::max_total_size), and
///   symbolic links that are removed. They are reported as not stored.
/// * Folders: folders that were created stay, empty, and a file is not restored if a folder has its
///   path. Folders that are created again have the mode of new folders.
/// * The owner, group, times and extended attributes of a file, and its mode if the backend reports
///   none ([`Metadata::mode`](crate::backend::Metadata::mode)): the file is then restored with the
///   mode of new files.
/// * The files that `FilesystemHook` moves long results into: the conversation still names them.
/// * Changes outside runs, such as changes by the program itself. A write by a task that a tool or
///   a hook spawned, or by another hook before this hook has received the run, counts for every run
///   that is in progress in this workspace.
///
/// Different paths of one file, through links, count as one file if the backend can resolve them
/// ([`Backend::real_path`]).
///
/// # Privacy
///
/// Whole files are stored, with any secrets in them. The folder and its files are accessible to
/// their owner alone, and the folder must not be inside the workspace. A file that is not readable
/// for all users is never readable for more users while it is rewound.
///
/// # Damage
///
/// Every function that reads damaged checkpoints fails. When the next checkpoint is stored, the
/// damaged checkpoints are put aside under a name that ends in `.damaged`, and new ones are begun.
/// If only the end of the last record is missing, the records before it are read, and
/// [`Rewind::damage`], the next run and the log warn of the incomplete one: its change may never
/// have been made, because the process ended first. The incomplete record is put aside in the same
/// way.
///
/// [`Rewind::damage`]: crate::hooks::Rewind::damage
///
/// # Removal
///
/// Nothing is removed automatically: the checkpoints of a session that is deleted or pruned remain.
/// Use [`prune`](Self::prune) to remove checkpoints by age, and [`forget`](Self::forget) to remove
/// the checkpoints of one session. After a whole store was pruned, call `forget` for each session
/// that it no longer has, as in the loop below. The default store never has the session of an
/// [`Agent::run`](crate::Agent::run), so do not use the loop while such a run is in progress.
///
/// ```
/// use agentcore::SessionStore;
/// use agentcore::backend::{Backend, MemoryBackend};
/// use agentcore::hooks::FileCheckpoints;
/// use agentcore::ThreadStore;
///
/// # async fn example() -> agentcore::Result<()> {
/// # let (store, files) = (ThreadStore::new(), FileCheckpoints::new(MemoryBackend::new()));
/// SessionStore::delete(&store, "s").await?;
/// files.forget("s").await?;
///
/// for id in files.sessions().await? {
///     if store.load(&id).await?.is_none() {
///         files.forget(&id).await?;
///     }
/// }
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone)]
pub struct FileCheckpoints {
    pub(super) inner: Arc<Inner>,
    pub(super) limits: Limits,
}

pub(super) struct Inner {
    pub(super) backend: Arc<dyn Backend>,
    /// The root of the workspace, as records name it. With a folder of checkpoints, its links are
    /// resolved if it is a folder of this machine.
    pub(super) root: Arc<str>,
    pub(super) storage: Storage,
    pub(super) runs: ActiveRuns,
    pub(super) indexes: Mutex<HashMap<Arc<str>, CachedIndex>>,
    /// The locks that serialize the changes of one file.
    pub(super) path_locks: [tokio::sync::Mutex<()>; 64],
    /// The permits to read and store the content of a file.
    pub(super) captures: Semaphore,
    /// The lock that serializes the rewinding of files, because each file is read twice.
    pub(super) rewinding: tokio::sync::Mutex<()>,
}

impl FileCheckpoints {
    /// Creates checkpoints in memory, where they stay until they are [forgotten](Self::forget).
    /// Contents of files take at most 32 MiB; further contents are not stored. Changes are refused
    /// once all checkpoints, with the records of changes, take 64 MiB.
    pub fn new(backend: impl Backend) -> Self {
        let root = backend.root().into();
        let storage = Storage::Memory(MemoryStorage::default());
        Self::on(Arc::new(backend), root, storage)
    }

    /// Opens the checkpoints in this folder, which is created if it does not exist. Blocks while it
    /// accesses the disk.
    ///
    /// # Errors
    ///
    /// Returns [`Io`](ErrorKind::Io) if the folder cannot be created, and
    /// [`Config`](ErrorKind::Config) if it is inside the workspace, where the agent could change
    /// it.
    #[cfg(unix)]
    pub fn open(backend: impl Backend, folder: impl AsRef<Path>) -> Result<Self> {
        let folder = Folder::open(folder.as_ref())?;
        let real_root = Path::new(backend.root()).canonicalize();
        if real_root
            .as_ref()
            .is_ok_and(|real_root| folder.path().starts_with(real_root))
        {
            let text = format!(
                "the folder of checkpoints, {}, is inside the workspace; use a folder outside of it",
                folder.path().display()
            );
            return Err(Error::new(ErrorKind::Config, text));
        }

        let real_root = real_root
            .ok()
            .and_then(|real_root| Some(real_root.to_str()?.into()));
        let root = real_root.unwrap_or_else(|| backend.root().into());
        let storage = Storage::Folder(FolderStorage::new(folder));
        Ok(Self::on(Arc::new(backend), root, storage))
    }

    fn on(backend: Arc<dyn Backend>, root: Arc<str>, storage: Storage) -> Self {
        let inner = Inner {
            backend,
            root,
            storage,
            runs: ActiveRuns::default(),
            indexes: Mutex::default(),
            path_locks: [const { tokio::sync::Mutex::const_new(()) }; 64],
            captures: Semaphore::new(MAX_CAPTURES),
            rewinding: tokio::sync::Mutex::default(),
        };

        Self {
            inner: Arc::new(inner),
            limits: Limits::default(),
        }
    }

    /// Sets the size of the largest file whose content is stored, in bytes. Defaults to 32 MiB. A
    /// file is read into memory as a whole.
    #[must_use]
    pub fn max_file_size(mut self, bytes: u64) -> Self {
        self.limits.file = bytes;
        self
    }

    /// Sets the size of the checkpoints of a session, in bytes, beyond which contents of files are
    /// no longer stored. Defaults to 512 MiB.
    #[must_use]
    pub fn max_session_size(mut self, bytes: u64) -> Self {
        self.limits.session = bytes;
        self
    }

    /// Sets the size of the folder of checkpoints, in bytes, beyond which contents of files are no
    /// longer stored. Defaults to 4 GiB. Bytes that other processes add to the folder are counted
    /// when this process has added 64 MiB.
    #[must_use]
    pub fn max_total_size(mut self, bytes: u64) -> Self {
        self.limits.total = bytes;
        self
    }

    /// Returns the messages of a session after which files were changed, oldest first.
    ///
    /// # Errors
    ///
    /// Returns an error if the folder cannot be read.
    pub async fn checkpoints(&self, session: &str) -> Result<Vec<Checkpoint>> {
        let root = self.inner.backend.root().to_owned();
        self.with_index(session, move |_, index| {
            let messages = index.messages().into_iter();
            let checkpoint = |(message, changes): (usize, MessageChanges)| {
                let files = changes.files.iter();
                let paths = files.map(|(other_root, path)| {
                    join_root(other_root.as_deref().unwrap_or(&root), path)
                });
                Checkpoint {
                    message,
                    title: changes.title,
                    files: paths.collect(),
                }
            };

            Ok(messages.map(checkpoint).collect())
        })
        .await
    }

    /// Copies the checkpoints of a session, as
    /// [`Session::fork`](crate::Session::fork) copies the conversation.
    ///
    /// # Errors
    ///
    /// Returns [`Conflict`](ErrorKind::Conflict) if the new session already has checkpoints,
    /// [`Config`](ErrorKind::Config) if the copy exceeds the limit of checkpoints in memory or of
    /// the folder, and an error if the folder cannot be read or written.
    ///
    /// # Cancel safety
    ///
    /// Once the future has been polled, the copy is made even if the future is dropped.
    pub async fn fork(&self, from: &str, to: &str) -> Result<()> {
        self.fork_at(from, to, usize::MAX).await
    }

    /// Copies the checkpoints of the session's first `messages` messages, as
    /// [`Session::fork_at`](crate::Session::fork_at) copies the messages. The copy cannot rewind
    /// changes made after them, nor changes made before the history was last replaced.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`fork`](Self::fork).
    ///
    /// # Cancel safety
    ///
    /// The same as for [`fork`](Self::fork).
    pub async fn fork_at(&self, from: &str, to: &str, messages: usize) -> Result<()> {
        let from_id = from.to_owned();
        let to_id = to.to_owned();
        let limits = self.limits;
        self.with_index(from, move |inner, index| {
            let parts = index.ranges_before(messages);
            if !parts.is_empty() {
                inner.storage.copy(&from_id, &parts, &to_id, &limits)?;

                // An index that was read before the file existed is empty.
                lock(&inner.indexes).remove(to_id.as_str());
            }

            Ok(())
        })
        .await
    }

    /// Removes the checkpoints of a session, as [`Session::delete`](crate::Session::delete) removes
    /// the conversation. Returns `false` if there were none.
    ///
    /// # Errors
    ///
    /// Returns [`Io`](ErrorKind::Io) if they cannot be removed,
    /// [`SessionBusy`](ErrorKind::SessionBusy) if another process has locked them, and
    /// [`InvalidRequest`](ErrorKind::InvalidRequest) if the id is empty or too long for a file
    /// name.
    ///
    /// # Cancel safety
    ///
    /// Once the future has been polled, the checkpoints are removed even if the future is dropped.
    pub async fn forget(&self, session: &str) -> Result<bool> {
        let inner = self.inner.clone();
        let session = Arc::<str>::from(session);
        blocking(move || {
            let shared = inner.index(&session);
            let mut index = lock(&shared);
            *index = None;
            let removed = inner.storage.remove(&session);
            let mut indexes = lock(&inner.indexes);

            // Kept if another task waits for it, because all tasks share one index.
            if Arc::strong_count(&shared) == 2 {
                indexes.remove(&session);
            }

            removed
        })
        .await
    }

    /// Returns the ids of the sessions that have checkpoints, sorted.
    ///
    /// # Errors
    ///
    /// Returns [`Io`](ErrorKind::Io) if the folder cannot be read.
    pub async fn sessions(&self) -> Result<Vec<Arc<str>>> {
        let inner = self.inner.clone();
        blocking(move || {
            let mut sessions: Vec<_> = inner
                .storage
                .sessions()?
                .into_iter()
                .map(|(id, _)| id)
                .collect();
            sessions.sort_unstable();
            Ok(sessions)
        })
        .await
    }

    /// Removes the checkpoints of each session whose newest checkpoint is at least `older_than`
    /// old. Sessions that have a run in progress in this process are skipped. Returns the number of
    /// sessions whose checkpoints were removed. Checkpoints in memory have no age and stay.
    ///
    /// # Errors
    ///
    /// Returns [`Io`](ErrorKind::Io) if the folder cannot be read. If checkpoints cannot be
    /// removed, returns the first error after all other sessions were tried:
    /// [`Io`](ErrorKind::Io), or [`SessionBusy`](ErrorKind::SessionBusy) if another process has
    /// locked them.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the checkpoints of each session are either removed or complete.
    pub async fn prune(&self, older_than: Duration) -> Result<usize> {
        let inner = self.inner.clone();
        let sessions = blocking(move || inner.storage.sessions()).await?;
        let mut removed = 0;
        let mut first_error = Ok(());
        for (session, age) in sessions {
            let is_old = age.is_some_and(|age| age >= older_than);
            if !is_old || self.inner.runs.is_busy(&session) {
                continue;
            }

            match self.forget(&session).await {
                Ok(is_removed) => removed += usize::from(is_removed),
                Err(error) => first_error = first_error.and(Err(error)),
            }
        }

        first_error.map(|()| removed)
    }
}

impl fmt::Debug for FileCheckpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileCheckpoints")
            .field("backend", &self.inner.backend)
            .finish_non_exhaustive()
    }
}
