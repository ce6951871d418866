//! Suites that check that an implementation fulfills a trait's contract.
//!
//! They never panic and report all failures at once, so that they can run inside any test
//! framework.

mod backend;
mod checks;
#[cfg(feature = "gateway")]
mod message_bus;
mod model;
#[cfg(feature = "session-log")]
mod session_log;
mod session_store;

pub use backend::backend;
#[cfg(feature = "gateway")]
pub use message_bus::message_bus;
pub use model::model;
#[cfg(feature = "session-log")]
pub use session_log::session_log;
pub use session_store::{session_store, shared_session_store};
