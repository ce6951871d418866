//! What a session is made of and where it is kept.
//!
//! [`AgentState`] is one conversation. A [`SessionStore`] keeps such states; [`ThreadStore`] does
//! so in memory, for an hour after the last access unless told otherwise. The others each have a
//! feature: `session::JsonlStore` (`jsonl`) keeps sessions in files, `session::SqliteStore`
//! (`sqlite`) in one database, `session::PostgresStore` (`postgres`) and `session::RedisStore`
//! (`redis`) on a server, where any machine can go on with them.

mod agent_state;
mod damage;
mod forward;
mod infos;
mod inputs;
mod snapshot;
mod store;
mod thread_store;

pub use agent_state::{AgentState, PendingCall};
pub(crate) use agent_state::{Files, changed_files};
pub use damage::{Damage, DamageKind};
pub use infos::MessageInfo;
#[cfg(feature = "__log")]
pub(crate) use inputs::InputsChanged;
pub(crate) use inputs::Known;
pub(crate) use snapshot::cut;
pub(crate) use snapshot::title_of;
pub(crate) use store::answers;
pub(crate) use store::not_found;
pub use store::{Lease, Record, SessionInfo, SessionStore, StoredSession};
#[cfg(feature = "__log")]
pub(crate) use store::{busy, exists, taken_over};
pub use thread_store::ThreadStore;
