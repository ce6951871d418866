//! What a session is made of and where it is kept.
//!
//! [`AgentState`] is one conversation. A [`SessionStore`] keeps such states; [`ThreadStore`] does
//! so in memory, for an hour after the last access unless told otherwise;
//! `session::JsonlStore` (feature `jsonl`) keeps them in files, `session::SqliteStore` (feature
//! `sqlite`) in one database.

mod agent_state;
mod damage;
mod forward;
mod info;
mod inputs;
mod lease;
mod snapshot;
mod store;
mod thread_store;

pub use agent_state::{AgentState, PendingCall};
pub(crate) use agent_state::{Files, changed_files};
pub use damage::{Damage, DamageKind};
pub use info::SessionInfo;
#[cfg(feature = "__log")]
pub(crate) use inputs::InputsChanged;
pub(crate) use inputs::{Inputs, Known};
pub use lease::Lease;
#[cfg(feature = "__log")]
pub(crate) use snapshot::cut;
pub(crate) use snapshot::title_of;
pub(crate) use store::answers;
pub use store::{Record, SessionStore, StoredSession};
#[cfg(feature = "__log")]
pub(crate) use store::{busy, check_id, exists, not_found, taken_over};
pub use thread_store::ThreadStore;
