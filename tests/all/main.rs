//! Behaviour of the crate through its public API, one module a subject.

mod messages_json;
mod messages_repair;
mod messages_validate;
mod pretty;
mod text;
mod tokens;
