//! Commands: a shell in a session of its own, its output, and its end.

mod capture;
mod environment;
mod group;
mod jobs;
mod shell;

pub(super) use jobs::Jobs;
pub(super) use shell::{Settings, Shell};
