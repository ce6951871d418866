//! Where files live and commands run: the [`Backend`] trait.
//!
//! A backend is one workspace. Tools speak to it and never to the machine itself, so that the
//! same tools work on a folder, in a container and, in tests, on [`MemoryBackend`].
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

mod command;
mod contract;
mod memory;

pub use command::{Command, CommandOutput};
pub use contract::{Backend, DirEntry, EntryKind};
pub use memory::MemoryBackend;
