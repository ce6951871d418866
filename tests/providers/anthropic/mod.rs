//! The Messages API.

mod answers;
mod binding;
mod budgets;
mod call_ids;
mod hosted;
mod models;
mod requests;
mod server;
