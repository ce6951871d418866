//! Suites that hold an implementation to a trait's contract.
//!
//! They never panic and report all failures at once, so that they can run inside any test
//! framework.

mod backend;
mod checks;
mod model;
mod session_store;

pub use backend::backend;
pub use model::model;
pub use session_store::{session_store, shared_session_store};
