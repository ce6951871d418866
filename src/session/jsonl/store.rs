//! The store of sessions in a folder of files.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::error::Result;
use crate::session::forward::forward_session_store;
use crate::session::log::{LogStore, Queues};
use crate::session::session_store::SessionStore;

use super::disk::{Disk, System};
use super::folder::Folder;

/// A store of sessions in a folder. Each session is a file of JSON lines, to which the store only
/// appends.
///
/// An acknowledged write is on the disk (`fsync`). A write that a crash cut off is dropped when the
/// session is next leased. Damaged parts are omitted, put into `NAME.damaged` next to the file (or
/// `NAME.2.damaged`, if something else has that name) and reported, and everything after them is
/// read. A file of a newer version is not touched.
///
/// A lease is a lock on the file, so it also excludes other processes and other stores over the
/// folder, and it ends with the process that took it. Locks may not work on network file systems.
/// The store therefore detects that a file was written, removed or replaced by others, and refuses
/// the write with [`Conflict`](crate::ErrorKind::Conflict).
///
/// A file has the name of the session's id, with every character except `a` to `z`, digits, `-` and
/// `_` written as `%XX`. An id whose name would have more than 240 bytes is refused. Files are
/// created with mode 0600, the folder with 0700. The id of a deleted session can be used again.
///
/// Inside a tokio runtime, blocking work runs on the runtime's threads for blocking work. A write
/// that has begun is completed even if its future is dropped. Clones share one store.
///
/// ```
/// use agentcore::session::JsonlStore;
/// use agentcore::testing::ScriptedModel;
/// use agentcore::{AgentBuilder, SessionStore};
///
/// # let folder = tempfile::tempdir()?;
/// # let folder = folder.path();
/// # let run = async {
/// let model = ScriptedModel::new().say("Hello!");
/// let agent = AgentBuilder::new(model).store(JsonlStore::open(folder)?).build()?;
/// agent.session("th_1").run("Hi").await?;
///
/// // Later, in another process.
/// let model = ScriptedModel::new().say("Still here.");
/// let agent = AgentBuilder::new(model).store(JsonlStore::open(folder)?).build()?;
/// let output = agent.session("th_1").run("Are you there?").await?;
/// assert_eq!(output.messages.len(), 4);
/// let list = agent.store().list().await?;
/// assert_eq!((list[0].title.as_deref(), list[0].messages), (Some("Hi"), 4));
/// # Ok::<(), agentcore::Error>(()) };
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(run)?;
/// # Ok::<(), agentcore::Error>(())
/// ```
#[derive(Clone)]
pub struct JsonlStore(LogStore<Folder>);

impl JsonlStore {
    /// Opens the store in `folder`, which is created if it does not exist. Blocks the thread.
    ///
    /// # Errors
    ///
    /// Returns [`Io`](crate::ErrorKind::Io) if the folder cannot be created.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self> {
        Self::on(folder.as_ref(), Arc::new(System))
    }

    pub(super) fn on(folder: &Path, disk: Arc<dyn Disk>) -> Result<Self> {
        let folder = Folder::open(folder, disk)?;
        let option = "JsonlStore::with_max_session_bytes";
        Ok(Self(LogStore::named(folder, option, Queues::default())))
    }

    /// Sets the limit of one session's file in bytes, for all clones of this store. Defaults to 256
    /// MiB. A file has all records of its session, and a snapshot each time it has grown by the
    /// size of the last one, at least by 1 MiB.
    ///
    /// A session over the limit is neither read nor written; the [`Io`](crate::ErrorKind::Io) error
    /// names its size and this option. A write that would exceed the limit is refused, and the
    /// session stays readable: [`fork`](crate::SessionStore::fork) copies it to a new id, whose
    /// file has only the present state and takes more writes. An
    /// [`export`](crate::SessionStore::export) that is [imported](crate::SessionStore::import)
    /// under a new id has the same effect.
    ///
    /// The memory of a session is limited, too: to a third of this limit, or to 16 MiB if that is
    /// more. It is estimated from the text of each record before the record is parsed: a text takes
    /// up to four times its bytes, short objects up to a hundred times theirs.
    ///
    /// A file is read piece by piece. No record may exceed 64 MiB: a write of one is refused, and a
    /// longer line is damage.
    #[must_use]
    pub fn with_max_session_bytes(self, bytes: u64) -> Self {
        self.0.set_max_session_bytes(bytes);
        self
    }

    /// Returns the folder of the files.
    pub fn folder(&self) -> &Path {
        self.0.log().path()
    }
}

forward_session_store!([impl SessionStore for JsonlStore], |store| store.0);

impl fmt::Debug for JsonlStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JsonlStore")
            .field("folder", &self.folder())
            .finish()
    }
}
