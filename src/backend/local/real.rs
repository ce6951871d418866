//! The resolution of a path's links.

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::error::Result;
use crate::util::links::follow_links;

use super::root::Root;

impl Root {
    /// Returns the absolute path without links, as it is displayed. Nothing is opened: a later open
    /// of the path checks again that the file is below the root.
    pub(super) fn real_path(&self, path: &str) -> Result<String> {
        let full_path = self.real().join(self.relative(path)?);
        let real_path = follow(&full_path).map_err(|error| self.error(path, error))?;
        let relative_path = real_path
            .strip_prefix(self.real())
            .map_err(|_| self.outside(path))?;
        let not_text = || io::Error::new(io::ErrorKind::InvalidFilename, "it is not UTF-8");
        let relative_path = relative_path
            .to_str()
            .ok_or_else(|| self.error(path, not_text()))?;
        let root = self.displayed_path().trim_end_matches('/');
        Ok(if relative_path.is_empty() {
            root.to_owned()
        } else {
            format!("{root}/{relative_path}")
        })
    }
}

/// Follows all links of the existing part of a path.
fn follow(path: &Path) -> io::Result<PathBuf> {
    match path.canonicalize() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        done => return done,
    }

    let read_link = |path: &Path| match path.read_link() {
        Ok(target) => Ok(Some(target)),
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(None),
        Err(error) => Err(error),
    };
    Ok(follow_links(path, read_link)?.ok_or(Errno::LOOP)?)
}
