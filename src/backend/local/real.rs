//! The resolution of a path's links.

use std::io;
use std::path::{Component, Path, PathBuf};

use rustix::io::Errno;

use crate::error::Result;

use super::beneath::MAX_LINKS;
use super::root::Root;

impl Root {
    /// The path without links, from the root on. It names a file and opens nothing: opening it
    /// checks again that it is beneath the root.
    pub(super) fn real_path(&self, path: &str) -> Result<String> {
        let full_path = self.real().join(self.relative(path)?);
        let real_path = follow(&full_path, MAX_LINKS).map_err(|error| self.error(path, error))?;
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

/// Follows all links of the existing part of a path, also one whose target is missing: a write
/// creates it.
fn follow(path: &Path, links: usize) -> io::Result<PathBuf> {
    match path.canonicalize() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        done => return done,
    }

    let parent = follow(path.parent().unwrap_or(Path::new("/")), links)?;
    let name = match path.components().next_back() {
        Some(Component::Normal(name)) => name,
        // A missing component is not a link.
        Some(Component::ParentDir) => return Ok(parent.parent().unwrap_or(&parent).to_owned()),
        _ => return Ok(parent),
    };

    let full_path = parent.join(name);
    match full_path.read_link() {
        Ok(target) => {
            let links = links.checked_sub(1).ok_or(Errno::LOOP)?;
            follow(&parent.join(target), links)
        }
        Err(_) => Ok(full_path),
    }
}
