//! The Messages API.

mod answers;
mod binding;
mod hosted;
mod models;
mod requests;
mod server;
