//! The store of sessions in a PostgreSQL database.

use std::fmt;

use crate::error::Result;
use crate::session::forward::forward_session_store;
use crate::session::log::LogStore;
use crate::session::remote::{RemoteLog, Server as _, ServerOptions};
use crate::session::session_store::SessionStore;

use super::address::Address;
use super::server::Database;

/// A store of sessions in a PostgreSQL database. Any machine can continue them.
///
/// ```no_run
/// use agentcore::AgentBuilder;
/// use agentcore::session::PostgresStore;
/// use agentcore::testing::ScriptedModel;
///
/// # let run = async {
/// let store = PostgresStore::open("postgres://agent:secret@db.example.com/app?sslmode=require")?;
/// let model = ScriptedModel::new().say("Hello!");
/// let agent = AgentBuilder::new(model).store(store).build()?;
/// agent.session("th_1").run("Hi").await?;
/// # Ok::<(), agentcore::Error>(()) };
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(run)?;
/// # Ok::<(), agentcore::Error>(())
/// ```
///
/// # Tables
///
/// The tables are `PREFIX_sessions`, `PREFIX_log`, `PREFIX_damaged` and `PREFIX_schema`, in the
/// first schema of the `search_path`.
///
/// * Missing tables are created, even by several processes at the same time. A user without the
///   right to create tables can use tables that the store has created for another user. Tables of a
///   newer version are not touched.
/// * A write is one statement, and its rows have at most 64 KiB. An acknowledged write is
///   committed; if `synchronous_commit` is off, it is turned on for each write. A pooler between
///   the store and the database may assign connections by transaction.
/// * Damaged parts are omitted, put into `PREFIX_damaged` and reported. The index of this table is
///   `PREFIX_damaged_of`. A table of an earlier version gets it from the first user who may create
///   it, and is used without it until then.
/// * An id may have 1,000 bytes, and no NUL.
///
/// Leases expire by the clock of the server, and calls are retried: see [`ServerOptions`].
///
/// # Several hosts
///
/// With `postgres://one.example.com,two.example.com/app`, the first host that can be reached and
/// accepts writes is used. A standby is skipped, as with `target_session_attrs=read-write`.
///
/// # TLS
///
/// With the feature `tls`, a server is trusted if the system's certificate store trusts it for the
/// host's name. `sslmode=require` is refused without the feature. With `prefer`, the default, TLS
/// is used when the server offers it, except to this machine itself; a server that offers it and is
/// not trusted is an error. `disable` never uses it. `verify-ca` and `verify-full` are the same as
/// `require`, because the server is always verified. `channel_binding=require` is refused.
///
/// The store connects on first use. Clones share one store and its connections. No password is part
/// of an error, of `Debug` or of a log line.
#[derive(Clone)]
pub struct PostgresStore(LogStore<RemoteLog<Database>>);

impl PostgresStore {
    /// Creates the store in the database at `url`: a URL, or `host=db user=agent ..`. Connects on
    /// first use.
    ///
    /// # Errors
    ///
    /// Returns [`Config`](crate::ErrorKind::Config) if the URL is not valid, or needs a feature
    /// that is off.
    pub fn open(url: impl AsRef<str>) -> Result<Self> {
        Self::with_options(url, ServerOptions::default())
    }

    /// Creates the store in the database at `url`, with options.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`open`](Self::open), and an error if the options are not valid.
    pub fn with_options(url: impl AsRef<str>, options: ServerOptions) -> Result<Self> {
        options.check()?;
        let address = Address::read(url.as_ref())?;
        let timeout = options.timeout;
        let lease_time = options.lease_time;
        let database = Database::new(address, &options.prefix, timeout, lease_time);
        Ok(Self(RemoteLog::store(database, options)))
    }
}

forward_session_store!([impl SessionStore for PostgresStore], |store| store.0);

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let log = self.0.log();
        f.debug_struct("PostgresStore")
            .field("server", &log.server().name())
            .field("options", log.options())
            .finish()
    }
}
