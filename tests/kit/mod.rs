//! Helpers of the test binaries. Each binary uses a part of them.
#![allow(dead_code, unused_imports)]

#[cfg(feature = "http")]
pub mod doubles;
pub mod effort;
pub mod hooks;
pub mod keys;
#[cfg(any(
    all(feature = "tools", unix),
    all(feature = "docker", target_os = "linux")
))]
pub mod processes;
pub mod retrying;
mod run;
#[cfg(feature = "http")]
pub mod serving;
pub mod small_stack;
pub mod spied_store;
pub mod watched;
#[cfg(all(feature = "tools", unix))]
pub mod workspace;

pub use run::*;
