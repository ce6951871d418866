//! A container as a workspace, through the `docker` program.

mod backend;
mod builder;
mod cli;
mod command;
mod container;
mod file_call;
mod listing;
mod reaper;
mod reply;
#[cfg(feature = "search")]
mod snapshot;

pub use backend::DockerBackend;
pub use builder::DockerBuilder;
pub use container::ContainerStatus;
