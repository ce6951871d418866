//! The skills of a workspace: the search for them, and their list in the system prompt.

mod catalog;
mod find;

pub use catalog::Skill;
pub(crate) use catalog::{MAX_CATALOG, catalog};
#[cfg(feature = "time")]
pub(super) use catalog::{elements, one_line};
pub(crate) use find::find;
