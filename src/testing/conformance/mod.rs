//! Suites that hold an implementation against a trait's contract.
//!
//! They never panic and return everything that is wrong at once, so that they can run inside any
//! test framework.

mod backend;
mod model;
mod session_store;

pub use backend::backend;
pub use model::model;
pub use session_store::session_store;
