//! Sessions as rows of one database file.

mod database;
mod failure;
mod file;
mod group;
#[cfg(test)]
mod group_tests;
mod log;
mod schema;
mod side_files;
mod steps;
mod store;
#[cfg(test)]
mod tests;

pub use store::SqliteStore;
