//! The store of sessions in an SQLite database.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use crate::error::Result;
use crate::session::forward::forward_session_store;
use crate::session::log::{LogStore, Queue, Queues};
use crate::session::session_store::SessionStore;

use super::database::{BUSY_TIMEOUT, Database};

/// A store of sessions in one SQLite database, to which any number of processes may write.
///
/// An acknowledged write is on the disk (write-ahead log, flushed with every transaction). Writes
/// of several sessions that arrive while an earlier write is stored share one transaction. After a
/// crash or on a full disk, a write is complete or absent, and a failed write does not affect
/// others. Damaged parts of a session are omitted, put into the table `damaged` and reported, and
/// everything after them is read. Another program's database, or one of a newer version, is not
/// touched.
///
/// A lease is a lock on its own file in the folder `PATH-locks`, so it also excludes other
/// processes and other stores over the database, and it ends with the process that took it. Use a
/// local disk: on a network file system, neither SQLite's locks nor these are reliable.
///
/// Other programs may have about 100 tables and indexes in the database, each of at most 4 KiB of
/// SQL and 200 columns. A database with more is not opened.
///
/// The database is created with mode 0600, its folder and the folder of the locks with 0700.
/// `PATH-wal` and `PATH-shm` are part of the database while it is open: to copy it while it is in
/// use, run `sqlite3 PATH .backup`. SQLite maps `PATH-shm` into memory, so a program that truncates
/// that file meanwhile ends this process by a signal. The space of a deleted session is reused; the
/// file does not shrink.
///
/// An id is refused if it has more than 240 bytes once every character except `a` to `z`, digits,
/// `-` and `_` is written as `%XX`.
///
/// While another process writes, a write waits up to 10 seconds, counted from the last call whose
/// write is in the same transaction. Inside a tokio runtime, blocking work runs on the runtime's
/// threads for blocking work; all waiting writes together occupy one of these threads. A write that
/// has begun is completed even if its future is dropped. Clones share one store.
///
/// ```
/// use agentcore::session::SqliteStore;
/// use agentcore::testing::ScriptedModel;
/// use agentcore::{AgentBuilder, SessionStore};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("sessions.db");
/// # let run = async {
/// let model = ScriptedModel::new().say("Hello!");
/// let agent = AgentBuilder::new(model).store(SqliteStore::open(&path)?).build()?;
/// agent.session("th_1").run("Hi").await?;
///
/// // Later, in another process.
/// let model = ScriptedModel::new().say("Still here.");
/// let agent = AgentBuilder::new(model).store(SqliteStore::open(&path)?).build()?;
/// let output = agent.session("th_1").run("Are you there?").await?;
/// assert_eq!(output.messages.len(), 4);
/// let list = agent.store().list().await?;
/// assert_eq!((list[0].title.as_deref(), list[0].messages), (Some("Hi"), 4));
/// # Ok::<(), agentcore::Error>(()) };
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(run)?;
/// # Ok::<(), agentcore::Error>(())
/// ```
#[derive(Clone)]
pub struct SqliteStore(LogStore<Database>);

impl SqliteStore {
    /// Opens the database at `path`. Creates it, and its folder, if it does not exist. Blocks the
    /// thread.
    ///
    /// # Errors
    ///
    /// Returns an error of the kind
    ///
    /// * [`Config`](crate::ErrorKind::Config) if the file is not a database of this crate, or the
    ///   path is `:memory:` (use [`ThreadStore`](crate::ThreadStore) instead);
    /// * [`VersionTooNew`](crate::ErrorKind::VersionTooNew) if a newer version of this crate
    ///   created it;
    /// * [`Corrupt`](crate::ErrorKind::Corrupt) if it is damaged;
    /// * [`Io`](crate::ErrorKind::Io) if it cannot be created or may not be written, or if the
    ///   path is a link to a file that is missing.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::with_busy_timeout(path.as_ref(), BUSY_TIMEOUT)
    }

    /// Opens a store whose writes wait at most `busy_timeout` for others.
    pub(super) fn with_busy_timeout(path: &Path, busy_timeout: Duration) -> Result<Self> {
        let writers = Queue::default();
        let database = Database::open(path, busy_timeout, writers.clone())?;
        let option = "SqliteStore::with_max_session_bytes";
        let queues = Queues {
            readers: Some(Queue::default()),
            listers: Some(Queue::default()),
            writers: Some(writers),
        };
        Ok(Self(LogStore::named(database, option, queues)))
    }

    /// Sets the limit of one session's log in bytes, for all clones of this store. Defaults to 256
    /// MiB. A log has all records of its session, and a snapshot each time it has grown by the size
    /// of the last one, at least by 1 MiB.
    ///
    /// A session over the limit is neither read nor written; the [`Io`](crate::ErrorKind::Io) error
    /// names its size and this option. A write that would exceed the limit is refused, and the
    /// session stays readable: [`fork`](crate::SessionStore::fork) copies it to a new id, whose log
    /// has only the present state and takes more writes. An
    /// [`export`](crate::SessionStore::export) that is [imported](crate::SessionStore::import)
    /// under a new id has the same effect.
    ///
    /// The memory of a session is limited, too: to a third of this limit, or to 16 MiB if that is
    /// more. It is estimated from the text of each record before the record is parsed: a text takes
    /// up to four times its bytes, short objects up to a hundred times theirs.
    ///
    /// A log is read piece by piece. No record may exceed 64 MiB: a write of one is refused, and a
    /// longer line is damage.
    #[must_use]
    pub fn with_max_session_bytes(self, bytes: u64) -> Self {
        self.0.set_max_session_bytes(bytes);
        self
    }

    /// Returns the path of the database.
    pub fn path(&self) -> &Path {
        self.0.log().path()
    }

    /// Returns the database, to inject faults in tests.
    #[cfg(test)]
    pub(super) fn database(&self) -> &Database {
        self.0.log()
    }
}

forward_session_store!([impl SessionStore for SqliteStore], |store| store.0);

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore")
            .field("path", &self.path())
            .finish()
    }
}
