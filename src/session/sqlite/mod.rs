//! Sessions as rows of one database file.

mod database;
mod failure;
#[cfg(test)]
mod fault_tests;
mod file;
mod group;
#[cfg(test)]
mod group_tests;
mod log;
mod schema;
mod side_files;
mod steps;
mod store;

pub use store::SqliteStore;
