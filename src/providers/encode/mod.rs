//! Request bodies that continue the bodies of earlier turns.
//!
//! The encoder stores the body that it wrote in the request's
//! [`provider_cache`](crate::model::ModelRequest::provider_cache). The next request of the run
//! usually has the same tools, the same system prompt and the same messages with a few more at the
//! end. Messages are the last field of a body, so the next body continues the previous one: nothing
//! of a body is copied once its request is over. That also makes the prefix stable to the byte,
//! which providers' prompt caches need. A long body stays after its run, for a run that continues
//! the history.

mod cache;
mod history;
mod items;
mod kept_body;
mod section_cache;
#[cfg(test)]
mod tests;
mod wire;
mod written_groups;

pub(super) use cache::{Encoded, encode};
pub(super) use history::{History, Reasoning};
pub(super) use items::Items;
pub(super) use kept_body::KeptBody;
pub(super) use wire::{GroupPlace, Wire};
