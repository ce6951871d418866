//! Media: their check before a request is sent, and their forms in it.

mod address;
mod check;
mod placeholder;

pub(super) use address::address;
pub(super) use check::{Target, check};
pub(super) use placeholder::{is_left_out, placeholder};
