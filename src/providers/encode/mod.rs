//! Request bodies that continue the bodies of earlier turns.
//!
//! The encoder stores the body that it wrote in the request's
//! [`provider_cache`](crate::model::ModelRequest::provider_cache). The next request of the run
//! usually has the same tools, the same system prompt and the same messages with a few more at the
//! end. Messages are the last field of a body, so the next body continues the previous one: nothing
//! of a body is copied once its request is over. That also makes the prefix stable to the byte,
//! which providers' prompt caches need. A long body stays after its run, for a run that continues
//! the history.
//!
//! # Terms
//!
//! * Wire: the form of one API, with its options ([`Wire`]).
//! * Group: consecutive messages that are written together, because each [joins](Wire::joins) the
//!   next. A group that others follow is closed: it is not written again for a history that
//!   continues this one. The last group may be written in another way once others follow it.
//! * Lifted messages: the system messages at the beginning of the history, which are sent as part
//!   of the system prompt.
//! * Tail: the volatile text of the system prompt, if it is sent after the last group, where it
//!   changes no prefix.
//! * Breakpoint: the text that marks the end of the prefix that a prompt cache stores.
//! * Sections: the encoded system prompt and the encoded tools, which are in front of the messages.
//! * Cache: the last body of a run, its sections and the offsets of its groups. A run borrows it
//!   from the connection (`KeptBody::lend` returns a `BorrowedCache`) and passes it from request to
//!   request in the `provider_cache`. After the run, the connection keeps a long one.

mod cache;
mod encoded_calls;
mod items;
mod kept_body;
mod section_cache;
#[cfg(test)]
mod tests;
mod wire;
mod written_groups;

pub(super) use cache::{Encoded, encode};
pub(super) use encoded_calls::{EncodedCalls, Reasoning};
pub(super) use items::Items;
pub(super) use kept_body::KeptBody;
pub(super) use wire::{GroupPlace, Wire};
