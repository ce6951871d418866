//! The public store.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::error::Result;
use crate::session::store::{LogStore, session_store_of_log};
use crate::state::{AgentState, Lease, Record, SessionInfo, StoredSession};

use super::disk::{Disk, System};
use super::folder::Folder;

/// Sessions in a folder, one file of JSON lines each, only ever added to.
///
/// What is acknowledged is on the disk (`fsync`). A write that a crash cut off is dropped when
/// the session is next leased; what is damaged is left out, put into `NAME.damaged` beside the
/// file and reported, and everything behind it is read. A file of a newer version is not touched.
///
/// A lease is a lock on the file, so it also holds against other processes and other stores over
/// the folder, and ends with the process that holds it. Locks of network file systems may not
/// hold: a file that somebody else has written is then noticed, and the write refused with
/// [`Conflict`](crate::ErrorKind::Conflict).
///
/// File names are the ids with everything but `a` to `z`, digits, `-` and `_` as `%XX`, at most
/// 240 bytes; an id that would take more is refused. Files are made with mode 0600, the folder
/// with 0700. A session's name, once deleted, is free again.
///
/// Inside a tokio runtime its blocking work runs on the runtime's threads for that; a write that
/// has begun is finished also when its future is dropped. Clones share one store.
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
    /// The store in this folder, which is made if need be.
    ///
    /// # Errors
    ///
    /// [`Io`](crate::ErrorKind::Io) when the folder cannot be made.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self> {
        Self::on(folder.as_ref(), Arc::new(System))
    }

    pub(super) fn on(folder: &Path, disk: Arc<dyn Disk>) -> Result<Self> {
        Ok(Self(LogStore::new(Folder::open(folder, disk)?)))
    }

    /// Where the files are.
    pub fn folder(&self) -> &Path {
        self.0.log().path()
    }
}

session_store_of_log!(JsonlStore);

impl fmt::Debug for JsonlStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JsonlStore")
            .field("folder", &self.folder())
            .finish()
    }
}
