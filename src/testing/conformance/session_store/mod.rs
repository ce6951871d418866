//! The contract of [`SessionStore`](crate::SessionStore).

mod check;
mod contents;
mod copies;
mod handles;
mod leases;
mod lists;
mod suite;

pub use suite::{session_store, shared_session_store};
