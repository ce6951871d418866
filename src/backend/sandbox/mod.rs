//! Limits of the access of a command, enforced by the kernel.

mod carve;
#[cfg(unix)]
mod confined;
#[cfg(target_os = "linux")]
mod filter;
mod kernel;
#[cfg(target_os = "linux")]
mod landlock;
mod policy;
#[cfg(unix)]
mod private;
mod report;

#[cfg(unix)]
pub(super) use confined::Confined;
pub use policy::Sandbox;
pub use report::{SandboxLimit, SandboxReport};
