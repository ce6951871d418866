//! The [`Backend`] trait: the storage of files and the execution of commands.
//!
//! A backend is one workspace. Tools use it and never the machine itself, so that the same tools
//! work on a folder, in a container and, in tests, on [`MemoryBackend`].
//!
//! ```
//! use agentcore::backend::{Backend, MemoryBackend};
//!
//! # async fn example() -> agentcore::Result<()> {
//! let backend = MemoryBackend::new();
//! backend.write("src/lib.rs", b"//! empty").await?;
//! assert_eq!(&backend.read("/workspace/src/lib.rs").await?[..], b"//! empty");
//! assert!(backend.read("../secret").await.is_err());
//! # Ok(())
//! # }
//! ```

#[expect(clippy::module_inception, reason = "the trait has the module's name")]
mod backend;
mod command;
mod denied;
#[cfg(all(feature = "docker", unix))]
mod docker;
mod entry;
mod failure;
mod filter;
#[cfg(all(feature = "fs", unix))]
mod folder_size;
mod forward;
#[cfg(all(feature = "fs", unix))]
mod local;
mod memory;
#[cfg(all(feature = "process", unix))]
mod process;
#[cfg(feature = "sandbox")]
mod sandbox;
#[cfg(feature = "search")]
mod search;
mod shell;
mod workspace_path;

pub use backend::Backend;
pub use command::{BackgroundOutput, Captured, Command, CommandLimits, CommandOutput};
pub use denied::DeniedPath;
#[cfg(all(feature = "docker", unix))]
pub use docker::{ContainerStatus, DockerBackend, DockerBuilder};
pub use entry::{ContentHash, DirEntry, EntryKind, Metadata};
pub(crate) use failure::{io_kind, is_not_found};
pub use filter::PathFilter;
#[cfg(all(feature = "fs", unix))]
pub use local::LocalBackend;
pub use memory::MemoryBackend;
#[cfg(feature = "sandbox")]
pub use sandbox::{Sandbox, SandboxLimit, SandboxReport};
#[cfg(feature = "search")]
pub use search::{GlobMatches, GlobQuery, GrepFile, GrepLine, GrepMatches, GrepMode, GrepQuery};
pub use shell::Shell;
pub(crate) use workspace_path::{entry_path, workspace_path};
