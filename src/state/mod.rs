//! The state of a session, and the stores that keep it.
//!
//! [`AgentState`] is one conversation. A [`SessionStore`] keeps such states; [`ThreadStore`] does
//! so in memory, by default for an hour after the last access. The others each have a feature:
//! `session::JsonlStore` (`jsonl`) keeps sessions in files, `session::SqliteStore` (`sqlite`) in
//! one database, `session::PostgresStore` (`postgres`) and `session::RedisStore` (`redis`) on a
//! server, where any machine can continue them.

mod agent_state;
mod damage;
mod forward;
mod info;
mod inputs;
mod lease;
mod message_info;
mod open_calls;
mod size;
mod snapshot;
mod store;
mod thread_store;
mod threads;

pub use agent_state::{AgentState, PendingCall};
pub(crate) use agent_state::{Files, changed_files};
pub use damage::{Damage, DamageKind};
pub use info::SessionInfo;
#[cfg(feature = "__log")]
pub(crate) use inputs::InputsChanged;
pub(crate) use inputs::{Inputs, Known};
pub use lease::Lease;
pub(crate) use message_info::Infos;
pub use message_info::MessageInfo;
#[cfg(feature = "__log")]
pub(crate) use open_calls::OpenCalls;
pub(crate) use snapshot::{cut, title_of};
pub(crate) use store::not_found;
pub use store::{Record, SessionStore, StoredSession};
#[cfg(feature = "__log")]
pub(crate) use store::{busy, check_id, exists, taken_over};
pub use thread_store::ThreadStore;
