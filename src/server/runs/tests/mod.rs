//! Tests of runs, their logs and their readers.

mod kit;
mod log;
mod resume;
mod shutdown;
mod table;
mod user_quota;
