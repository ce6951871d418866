//! The log of a session, and the store over such logs.
//!
//! A durable store has a log for each session, to which it only appends. The stores differ in the
//! location of the log. The cost of a write depends on the size of the change, not on the length of
//! the session.
//!
//! A record is a line of JSON that begins with a checksum:
//!
//! ```text
//! {"crc":"9d1e4b02","v":1,"seq":7,"token":2,"at":1767225600000,"kind":"message","data":{..},"info":{..}}
//! ```
//!
//! | field | meaning |
//! |---|---|
//! | `crc` | CRC-32 of everything after its comma, up to the end of the line; first in every version |
//! | `v` | the version of the format; a session with a newer one is left untouched |
//! | `seq` | the number of the record in the session, from 1, to detect missing and repeated records |
//! | `token` | the lease of the writer; a token lower than one before belongs to a writer that was replaced |
//! | `at` | milliseconds since the Unix epoch |
//! | `kind`, `data` | the change; unknown kinds and fields are ignored |
//! | `info` | the summary of the session for lists; only in the last record of a write |
//!
//! A last record of more than 8 KiB has no `info`: a record of kind `mark` follows it in the same
//! write and has the `info`, so that lists read only the end of the log.
//!
//! The records of a write count only if its last record is complete. Content that a provider wrote
//! in several lines is stored in one line. If records are lost, the number of messages that were
//! lost with them follows from the number of messages in the next `info`. Positions in later
//! records are corrected, or dropped if they cannot be corrected.
//!
//! A snapshot is added each time the log has grown by the size of its last snapshot, and at least
//! by the minimum of `Snapshots`, which bounds the time of opening it: see `snapshot.rs`.

mod answered;
mod capture;
mod clock;
mod fold;
mod group;
#[cfg(test)]
mod group_tests;
mod id_sample;
mod line;
mod line_writer;
mod list;
#[cfg(test)]
mod list_tests;
mod listings;
#[cfg(test)]
mod load_tests;
#[expect(clippy::module_inception, reason = "the trait has the module's name")]
mod log;
mod log_store;
mod long_reads;
mod memory_limit;
#[cfg(test)]
mod memory_log;
mod newest;
mod old_log;
mod open_log;
#[cfg(test)]
mod open_log_tests;
#[cfg(test)]
mod piece_tests;
#[cfg(test)]
mod prune_tests;
mod queue;
mod repair;
mod scan;
mod scanner;
mod shared;
mod slot;
mod snapshot;
mod snapshot_reader;
#[cfg(test)]
mod snapshot_tests;
mod summary;
mod whole_reads;

#[cfg(any(
    feature = "jsonl",
    feature = "sqlite",
    feature = "postgres",
    feature = "redis"
))]
pub(super) use log::Each;
#[cfg(any(
    all(any(feature = "jsonl", feature = "sqlite"), unix),
    feature = "postgres",
    feature = "redis"
))]
pub(super) use log::{EachPage, collect_ids};
pub use log::{Log, LogTail, Snapshots};
pub use log_store::LogStore;
#[cfg(all(feature = "sqlite", unix))]
pub(super) use queue::Queue;
#[cfg(any(
    feature = "jsonl",
    feature = "sqlite",
    feature = "postgres",
    feature = "redis"
))]
pub(super) use queue::Queues;
pub use repair::Repair;
#[cfg(any(all(feature = "sqlite", unix), feature = "postgres", feature = "redis"))]
pub(super) use shared::changed_meanwhile;
#[cfg(any(feature = "postgres", feature = "redis"))]
pub(super) use shared::too_large;
