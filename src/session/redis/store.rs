//! The store of sessions on a Redis server.

use std::fmt;

use crate::error::Result;
use crate::session::forward::forward_session_store;
use crate::session::log::LogStore;
use crate::session::remote::{RemoteLog, Server as _, ServerOptions};
use crate::session::session_store::SessionStore;

use super::address::Address;
use super::server::Keys;

/// A store of sessions on a Redis server. Any machine can continue them.
///
/// ```no_run
/// use agentcore::AgentBuilder;
/// use agentcore::session::RedisStore;
/// use agentcore::testing::ScriptedModel;
///
/// # let run = async {
/// let store = RedisStore::open("rediss://agent:secret@redis.example.com")?;
/// let model = ScriptedModel::new().say("Hello!");
/// let agent = AgentBuilder::new(model).store(store).build()?;
/// agent.session("th_1").run("Hi").await?;
/// # Ok::<(), agentcore::Error>(()) };
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(run)?;
/// # Ok::<(), agentcore::Error>(())
/// ```
///
/// # Durability
///
/// A session is as durable as the server's data. Set `appendonly yes`. From Redis 7.2 on, each
/// write waits until it is in the append-only file on the disk (`WAITAOF`), which requires
/// `appendfsync everysec` or `always`: with `no`, every write fails. Older servers need
/// `appendfsync always`: with `everysec`, a server or machine that is killed loses acknowledged
/// writes of the last second or two, and without an append-only file everything since the last
/// snapshot. When it cannot wait, the store logs one warning. A failover to a replica loses
/// the writes that the replica had not received. When the last writes of a holder were lost, its
/// next write is refused, as if the session had been leased by another store.
///
/// The server must not evict keys: `maxmemory-policy noeviction`. With `allkeys-*` it discards
/// whole sessions. Their ids are stored separately, so that using such a session is an error
/// ([`Corrupt`](crate::ErrorKind::Corrupt)) instead of beginning a new one. With `volatile-*`,
/// leases may end early.
///
/// All sessions are in the server's memory. A session has at most 256 MiB
/// ([`ServerOptions::max_session_bytes`]), and never more than 512 MiB, the maximum size of a value
/// on the server. One of more than 8 MiB takes up to three times its size, for snapshots. When the
/// memory is used up, sessions can still be read and removed.
///
/// # Keys
///
/// `PREFIX:log:ID` has a session, `PREFIX:lease:ID` its lease, `PREFIX:damaged:ID` its damaged
/// parts, and `PREFIX:digests:ID` their digests. `PREFIX:sessions` has the ids, and
/// `PREFIX:version` the version of the keys. Keys of a newer version are not touched. A write is an
/// atomic script (`EVAL`). A cluster cannot be used, because the keys of a script would be on
/// several of its nodes.
///
/// Leases expire on the server, and calls are retried: see [`ServerOptions`].
///
/// # TLS
///
/// `rediss://` needs the feature `tls`; a server is trusted if the system's certificate store
/// trusts it for the host's name. `redis://` is without TLS, and `redis+unix:///PATH` is a local
/// socket.
///
/// The store connects on first use. Clones share one store and its connections. No password is part
/// of an error, of `Debug` or of a log line.
#[derive(Clone)]
pub struct RedisStore(LogStore<RemoteLog<Keys>>);

impl RedisStore {
    /// Creates the store on the server at `url`. Connects on first use.
    ///
    /// # Errors
    ///
    /// Returns [`Config`](crate::ErrorKind::Config) if the URL is not valid, or needs a feature
    /// that is off.
    pub fn open(url: impl AsRef<str>) -> Result<Self> {
        Self::with_options(url, ServerOptions::default())
    }

    /// Creates the store on the server at `url`, with options.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`open`](Self::open), and an error if the options are not valid.
    pub fn with_options(url: impl AsRef<str>, options: ServerOptions) -> Result<Self> {
        options.check()?;
        let address = Address::read(url.as_ref())?;
        let timeout = options.timeout;
        let lease_time = options.lease_time;
        let keys = Keys::new(address, &options.prefix, timeout, lease_time);
        Ok(Self(RemoteLog::store(keys, options)))
    }
}

forward_session_store!([impl SessionStore for RedisStore], |store| store.0);

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let log = self.0.log();
        f.debug_struct("RedisStore")
            .field("server", &log.server().name())
            .field("options", log.options())
            .finish()
    }
}
