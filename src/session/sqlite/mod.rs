//! Sessions as rows of one database file.

mod database;
mod failure;
#[cfg(test)]
mod fault_tests;
mod file;
mod log;
mod schema;
mod side_files;
mod steps;
mod store;

pub use store::SqliteStore;
