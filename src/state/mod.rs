//! What a session is made of and where it is kept.
//!
//! [`AgentState`] is one conversation. A [`SessionStore`] keeps such states; [`ThreadStore`] does
//! so in memory, for an hour after the last access unless told otherwise.

mod agent_state;
mod inputs;
mod store;
mod thread_store;

pub use agent_state::{AgentState, PendingCall};
pub(crate) use inputs::Known;
pub use store::{Lease, Record, SessionInfo, SessionStore, StoredSession};
pub use thread_store::ThreadStore;
