//! Sessions that outlive the process.
//!
//! A durable store is a log for each session, to which is only ever added; what differs between
//! stores is where the log is kept. A write costs what it changes, however long the session is.
//!
//! A record is a line of JSON behind a checksum of its bytes:
//!
//! ```text
//! {"crc":"9d1e4b02","v":1,"seq":7,"token":2,"at":1767225600000,"kind":"message","data":{..},"info":{..}}
//! ```
//!
//! | field | what it is |
//! |---|---|
//! | `crc` | CRC-32 of all that follows its comma, to the line's end; always here, in every version |
//! | `v` | the version of the format; a session with a higher one than known is left untouched |
//! | `seq` | counts the session's records from 1: what is missing or repeated shows |
//! | `token` | the lease it was written under; one that goes down is of a writer that was replaced |
//! | `at` | milliseconds since the Unix epoch |
//! | `kind`, `data` | what changed; unknown kinds and fields are passed over |
//! | `info` | what lists say about the session; it stands on the last record of a write |
//!
//! Records of a write whose last one is not there do not count.

mod change;
mod diff;
#[cfg(all(any(feature = "jsonl", feature = "sqlite"), unix))]
mod files;
mod fold;
#[cfg(all(feature = "jsonl", unix))]
mod jsonl;
mod log;
mod open;
#[cfg(feature = "postgres")]
mod postgres;
mod record;
#[cfg(feature = "redis")]
mod redis;
#[cfg(any(feature = "postgres", feature = "redis"))]
mod remote;
mod scan;
#[cfg(all(feature = "sqlite", unix))]
mod sqlite;
mod store;

#[cfg(feature = "redis")]
pub use self::redis::RedisStore;
#[cfg(all(feature = "jsonl", unix))]
pub use jsonl::JsonlStore;
#[cfg(feature = "postgres")]
pub use postgres::PostgresStore;
#[cfg(any(feature = "postgres", feature = "redis"))]
pub use remote::ServerOptions;
#[cfg(all(feature = "sqlite", unix))]
pub use sqlite::SqliteStore;
