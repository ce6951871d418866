//! Behaviour of the crate through its public API, one module a subject.

mod prices;
