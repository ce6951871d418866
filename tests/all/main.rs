//! Behaviour of the crate through its public API, one module a subject.

#[cfg(feature = "http")]
mod fault_server;
mod testing_kit;
