//! The validation of a call's arguments against the tool's JSON Schema. The documentation of
//! [`crate::tool`] lists the supported keywords.

mod alternatives;
mod arguments;
mod failure;
mod reference;
mod report;
mod validate;
mod value;

pub use arguments::check_arguments;
pub(crate) use arguments::check_call_arguments;
pub use failure::ArgumentError;
#[cfg(feature = "schema")]
pub(super) use failure::push_key;
