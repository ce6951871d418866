//! The runs of the server: one task each, with a log that its readers follow.

mod limits;
mod log;
mod position;
mod questions;
mod reader;
mod server_run;
mod store_id;
mod table;
mod user_quota;

pub use limits::{OnDisconnect, RunLimits};
pub(crate) use questions::AnswerOutcome;
pub(crate) use reader::Reader;
pub(crate) use server_run::ServerRun;
pub(crate) use store_id::StoreId;
pub(crate) use table::{RunKey, RunRefusal, RunTable, StartRun};
pub(crate) use user_quota::{
    FileListPermit, MAX_WAIT, Space, StorePermit, StreamPermit, TooManyStreams,
};

#[cfg(test)]
mod tests;
