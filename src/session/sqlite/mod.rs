//! Sessions as rows of one database file.

mod database;
mod failure;
mod form;
mod rows;
mod store;
#[cfg(test)]
mod tests;

pub use store::SqliteStore;
