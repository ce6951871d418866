//! Servers that refuse what the real ones refuse.

pub mod responses;
