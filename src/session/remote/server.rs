//! The operations required of a server.

use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::session::log::{LogTail, Snapshots};
use crate::util::secret::Redactor;
use crate::util::text::truncate;

/// The reason a call failed.
#[derive(Debug)]
pub(in crate::session) enum Failure {
    /// The connection is no longer usable, or the server is not ready. The outcome of the call is
    /// unknown; it is repeated on another connection.
    Lost(Error),
    /// The server answered, and would answer the same again.
    Refused(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

/// The result of a call.
pub(in crate::session) type Outcome<T> = Result<T, Failure>;

/// The maximum number of bytes of a log that one call reads or sets aside.
pub(in crate::session) const PIECE: u64 = 1024 * 1024;

/// The maximum length of a server's text in an error, in characters.
const MAX_REASON: usize = 2_000;

/// Returns the start of a text of a server or its client, without secrets.
pub(in crate::session) fn scrub(redactor: &Redactor, text: &str) -> String {
    truncate(&redactor.redact(text), MAX_REASON).into_owned()
}

/// The lowest transfer rate, in bytes per second, that the time limits allow for.
const MIN_TRANSFER_RATE: u64 = 256 * 1024;

/// Returns the time limit of an answer for which `bytes` are transferred.
pub(in crate::session) fn timeout_for(timeout: Duration, bytes: usize) -> Duration {
    timeout + Duration::from_millis((bytes as u64).saturating_mul(1000) / MIN_TRANSFER_RATE)
}

/// The outcome of removing a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::session) enum Removal {
    /// The log was removed.
    Done,
    /// The log has another size.
    Changed,
    /// Another store has leased the session.
    Busy,
}

/// A page of the ids of all sessions.
#[derive(Debug)]
pub(in crate::session) struct IdPage {
    pub(in crate::session) ids: Vec<Arc<str>>,
    /// The place of the next page, if there is one.
    pub(in crate::session) next: Option<String>,
}

/// A lease as the server stores it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::session) struct LeaseKey {
    /// The session's id.
    pub(in crate::session) id: Arc<str>,
    /// The store's id, unique among all stores.
    pub(in crate::session) owner: Arc<str>,
    /// The number of the lease within its store.
    pub(in crate::session) number: u64,
}

/// A piece of a log.
#[derive(Debug)]
pub(in crate::session) struct ServerPiece {
    /// The parts that exist, each with its offset in the server's count.
    pub(in crate::session) parts: Vec<(u64, Vec<u8>)>,
    /// The offset of the next write, in the server's count.
    pub(in crate::session) end: u64,
}

/// The end of a log.
#[derive(Debug, Default)]
pub(in crate::session) struct ServerTail {
    /// The last bytes, and the size of the log. The size leaves out missing parts only if the whole
    /// log was read.
    pub(in crate::session) tail: LogTail,
    /// The offset of the next write, in the server's count. It differs from the size where a part
    /// is missing.
    pub(in crate::session) end: u64,
}

/// A piece of an unreadable part that is set aside.
#[derive(Debug)]
pub(in crate::session) struct DamagedPiece {
    /// The offset in the log.
    pub(in crate::session) at: u64,
    /// The description of the damage.
    pub(in crate::session) what: String,
    pub(in crate::session) bytes: Vec<u8>,
}

/// A change of a damaged log.
#[derive(Debug)]
pub(in crate::session) struct ServerRepair<'a> {
    /// The pieces to set aside.
    pub(in crate::session) damaged: &'a [DamagedPiece],
    /// The number of bytes that the log is cut to; `None` if it stays.
    pub(in crate::session) cut: Option<u64>,
}

/// A server that stores logs.
///
/// Every call may be repeated after its answer was lost, and then has the same effect. The
/// offsets that calls take and return are in the server's count, which includes the bytes of parts
/// that were lost.
pub(in crate::session) trait Server: Send + Sync + 'static {
    type Connection: Send;

    /// Returns the server's name and address, for errors; never a password.
    fn name(&self) -> &str;

    /// Returns the place where the damaged parts of a session are stored.
    fn damaged_place(&self, id: &str) -> String;

    /// Checks that a session with this id can be stored.
    fn check_id(&self, id: &str) -> Result<()>;

    /// Returns the rule by which snapshots of logs are written.
    fn snapshots(&self) -> Snapshots;

    /// Opens a connection.
    fn connect(&self) -> Outcome<Self::Connection>;

    /// Returns `false` if the connection accepts no further call.
    fn is_usable(&self, connection: &Self::Connection) -> bool;

    /// Returns a page of the ids of sessions that were written: the first page, or the page at
    /// `place`, which is the [`next`](IdPage::next) of an earlier page.
    fn ids(&self, connection: &mut Self::Connection, place: Option<&str>) -> Outcome<IdPage>;

    /// Returns the place of the page that begins with the first id after `prefix`. Returns `None`
    /// if the server does not list ids in their order, so that a list must read all pages.
    fn place_after(&self, prefix: &str) -> Option<String> {
        let _ = prefix;
        None
    }

    /// Returns the parts of a log from the offset `from` on that begin before `from + len`. Returns
    /// `None` if there is no log.
    fn read(
        &self,
        connection: &mut Self::Connection,
        id: &str,
        from: u64,
        len: u64,
    ) -> Outcome<Option<ServerPiece>>;

    /// Returns the end of each of these logs as [`Log::tail`](crate::session::Log::tail) does, in
    /// one request. An inner error concerns that log only.
    fn tails(
        &self,
        connection: &mut Self::Connection,
        ids: &[Arc<str>],
        len: u64,
    ) -> Outcome<Vec<Result<Option<ServerTail>>>>;

    /// Leases a session. Returns `false` while another store has leased it. A lease of the same
    /// owner is replaced.
    fn claim(&self, connection: &mut Self::Connection, lease: &LeaseKey) -> Outcome<bool>;

    /// Returns `true` while an owner other than `owner` has leased the session. Changes nothing.
    fn is_claimed(&self, connection: &mut Self::Connection, id: &str, owner: &str)
    -> Outcome<bool>;

    /// Extends leases, counted from now. Skips sessions that another store has leased since.
    fn renew(&self, connection: &mut Self::Connection, leases: &[LeaseKey]) -> Outcome<()>;

    /// Releases a lease, unless the session was leased again since.
    fn release(&self, connection: &mut Self::Connection, lease: &LeaseKey) -> Outcome<()>;

    /// Appends `bytes` to a log that ends at `end`. Returns `false` if another lease has replaced
    /// this one, or if the log has another end. A lease that has expired is accepted until another
    /// store leases the session.
    fn append(
        &self,
        connection: &mut Self::Connection,
        lease: &LeaseKey,
        end: u64,
        bytes: &[u8],
    ) -> Outcome<bool>;

    /// Repairs a log that ends at `end`. Returns `false` as [`append`](Self::append) does.
    fn repair(
        &self,
        connection: &mut Self::Connection,
        lease: &LeaseKey,
        end: u64,
        repair: &ServerRepair<'_>,
    ) -> Outcome<bool>;

    /// Removes everything that is stored of a session, including its lease, unless another store
    /// has leased it. With `expected_size`, removes it only if its log has that size in bytes, or
    /// no bytes.
    fn remove(
        &self,
        connection: &mut Self::Connection,
        lease: &LeaseKey,
        expected_size: Option<u64>,
    ) -> Outcome<Removal>;
}
