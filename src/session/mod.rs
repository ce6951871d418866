//! The state of a session, and the stores for sessions.
//!
//! [`AgentState`] is one conversation. A [`SessionStore`] stores such states; [`ThreadStore`] does
//! so in memory, by default for an hour after the last access. The others each have a feature:
//! `JsonlStore` (`jsonl`) stores sessions in files, `SqliteStore` (`sqlite`) in one database,
//! `PostgresStore` (`postgres`) and `RedisStore` (`redis`) on a server, where any machine can
//! continue them. `LogStore` (`session-log`) makes a durable store of any storage that can append.

mod agent_state;
mod damage;
mod descendants;
mod errors;
mod file_name_len;
#[cfg(all(any(feature = "jsonl", feature = "sqlite"), unix))]
mod files;
mod forward;
mod info;
mod inputs;
mod json;
#[cfg(all(feature = "jsonl", unix))]
mod jsonl;
mod lease;
#[cfg(feature = "session-log")]
mod log;
mod memory;
mod message_info;
mod open_calls;
mod owned_session;
mod page;
#[cfg(feature = "postgres")]
mod postgres;
mod record;
#[cfg(feature = "redis")]
mod redis;
#[cfg(any(feature = "postgres", feature = "redis"))]
mod remote;
mod session_store;
mod size;
#[cfg(all(feature = "sqlite", unix))]
mod sqlite;
mod stored;
mod text_cost;
mod tool_state;

#[cfg(feature = "redis")]
pub use self::redis::RedisStore;
pub(crate) use agent_state::belongs_to_other_user;
pub use agent_state::{AgentState, PendingCall};
pub(crate) use agent_state::{Files, changed_files};
pub(crate) use damage::damage_texts;
pub use damage::{Damage, DamageKind};
#[cfg(feature = "session-log")]
pub(crate) use descendants::descendants;
#[cfg(feature = "session-log")]
pub(crate) use errors::already_exists;
pub(crate) use errors::not_found;
pub(crate) use file_name_len::{MAX_FILE_NAME, file_name_len};
pub use info::SessionInfo;
pub use inputs::InputsChange;
pub(crate) use inputs::{InputState, Inputs};
pub(crate) use json::{cut, title_of};
#[cfg(all(feature = "jsonl", unix))]
pub use jsonl::JsonlStore;
pub use lease::Lease;
#[cfg(feature = "session-log")]
pub use log::{Log, LogStore, LogTail, Repair, Snapshots};
pub use memory::ThreadStore;
pub(crate) use message_info::Infos;
pub use message_info::MessageInfo;
pub(crate) use owned_session::{ChildSearch, OwnedSession};
pub use page::{ListQuery, SessionPage};
#[cfg(feature = "postgres")]
pub use postgres::PostgresStore;
pub use record::Record;
#[cfg(any(feature = "postgres", feature = "redis"))]
pub use remote::ServerOptions;
pub use session_store::SessionStore;
#[cfg(feature = "session-log")]
pub(crate) use session_store::check_id;
#[cfg(all(feature = "sqlite", unix))]
pub use sqlite::SqliteStore;
pub use stored::StoredSession;
pub(crate) use tool_state::ToolState;
