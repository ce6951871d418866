//! The operations required of a server.

use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::session::log::{LogTail, Snapshots};

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

pub(in crate::session) type Outcome<T> = Result<T, Failure>;

/// The maximum number of bytes of a log that one call reads or sets aside.
pub(in crate::session) const PIECE: u64 = 1024 * 1024;

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
    /// Its log is of another size.
    Changed,
    /// Another store has leased it.
    Busy,
}

/// A part of the ids of all sessions.
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
    /// The parts that are there, each with its offset in the server's count.
    pub(in crate::session) parts: Vec<(u64, Vec<u8>)>,
    /// The offset of the next write, in the server's count.
    pub(in crate::session) end: u64,
}

/// The end of a log.
#[derive(Debug, Default)]
pub(in crate::session) struct ServerTail {
    /// The bytes, and how many there are in all.
    pub(in crate::session) tail: LogTail,
    /// The offset of the next write, in the server's count. It differs from the size where a part
    /// is missing.
    pub(in crate::session) end: u64,
}

/// An unreadable part that is put aside.
#[derive(Debug)]
pub(in crate::session) struct DamagedPart {
    pub(in crate::session) at: u64,
    pub(in crate::session) what: String,
    pub(in crate::session) bytes: Vec<u8>,
}

/// A change of a damaged log.
#[derive(Debug)]
pub(in crate::session) struct ServerRepair<'a> {
    /// The parts to put aside.
    pub(in crate::session) damaged: &'a [DamagedPart],
    /// The number of bytes that the log is cut to; `None` if it stays.
    pub(in crate::session) cut: Option<u64>,
}

/// A server that stores logs.
///
/// Every call may be repeated after its answer was lost, and then has the same effect.
pub(in crate::session) trait Server: Send + Sync + 'static {
    type Connection: Send;

    /// Returns the server's name and address, for errors; never a password.
    fn name(&self) -> &str;

    /// Returns the place where the damaged parts of a session are stored.
    fn damaged_place(&self, id: &str) -> String;

    /// Checks that a session with this id can be stored.
    fn check_id(&self, id: &str) -> Result<()>;

    fn connect(&self) -> Outcome<Self::Connection>;

    /// Returns `false` for a connection on which nothing more can be asked.
    fn is_usable(&self, connection: &Self::Connection) -> bool;

    /// Returns some ids of sessions that were written: the first ids, or the ids from the `next` of
    /// a page on.
    fn ids(&self, connection: &mut Self::Connection, place: Option<&str>) -> Outcome<IdPage>;

    /// Returns the parts of a log from the offset `from` on, which begin before `from + len`.
    fn read(
        &self,
        connection: &mut Self::Connection,
        id: &str,
        from: u64,
        len: u64,
    ) -> Outcome<Option<ServerPiece>>;

    /// Returns the time at which logs get snapshots.
    fn snapshots(&self) -> Snapshots;

    /// Returns the end of each of these logs, all asked for at once. An inner error concerns that
    /// log only.
    fn tails(
        &self,
        connection: &mut Self::Connection,
        ids: &[Arc<str>],
        len: u64,
    ) -> Outcome<Vec<Result<Option<ServerTail>>>>;

    /// Leases a session; false while another store has it. A lease of the same owner is replaced.
    fn claim(&self, connection: &mut Self::Connection, lease: &LeaseKey) -> Outcome<bool>;

    /// Returns `true` while another owner has a lease of the session. Changes nothing.
    fn is_claimed(&self, connection: &mut Self::Connection, id: &str, owner: &str)
    -> Outcome<bool>;

    /// Renews leases from now, except leases of sessions that were leased elsewhere in between.
    fn renew(&self, connection: &mut Self::Connection, leases: &[LeaseKey]) -> Outcome<()>;

    /// Releases a lease, if it is still this one.
    fn release(&self, connection: &mut Self::Connection, lease: &LeaseKey) -> Outcome<()>;

    /// Writes at `end`; `false` if the lease is another's or the log does not end there. A lease
    /// that has expired is accepted while no other store has taken it.
    fn append(
        &self,
        connection: &mut Self::Connection,
        lease: &LeaseKey,
        end: u64,
        bytes: &[u8],
    ) -> Outcome<bool>;

    /// Repairs a log that ends at `end`; returns `false` as `append` does.
    fn repair(
        &self,
        connection: &mut Self::Connection,
        lease: &LeaseKey,
        end: u64,
        repair: &ServerRepair<'_>,
    ) -> Outcome<bool>;

    /// Removes all there is of a session that no other store has leased, and leaves no lease. With
    /// a `size`, only while its log has that many bytes, or none.
    fn remove(
        &self,
        connection: &mut Self::Connection,
        lease: &LeaseKey,
        size: Option<u64>,
    ) -> Outcome<Removal>;
}
