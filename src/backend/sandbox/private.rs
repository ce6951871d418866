//! [`PrivateFolder`], the temporary folder of a backend with a sandbox.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};

/// A folder that no other user may enter. Dropping it removes it.
#[derive(Debug)]
pub(super) struct PrivateFolder(PathBuf);

impl PrivateFolder {
    pub(super) fn new() -> Result<Self> {
        let base = std::env::temp_dir();
        let create_folder = || -> io::Result<PathBuf> {
            let name = format!("agentcore-{}", uuid::Uuid::new_v4().simple());
            let path = base.canonicalize()?.join(name);
            DirBuilder::new().mode(0o700).create(&path)?;
            Ok(path)
        };

        let make_error = |error: io::Error| {
            let text = format!("the sandbox needs a folder in {base:?}: {error}");
            Error::new(ErrorKind::Io, text).with_source(error)
        };

        create_folder().map(Self).map_err(make_error)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for PrivateFolder {
    fn drop(&mut self) {
        // A process that is being killed may still write there; the system cleans up the rest, as
        // with any temporary file.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
