//! The Messages API.

mod answers;
mod binding;
mod call_ids;
mod hosted;
mod models;
mod requests;
mod server;
