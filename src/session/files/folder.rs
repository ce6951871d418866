//! Folders that last.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The folder, made if need be, for its owner alone, by the path that no link is in. `sync` waits
/// until the names in a folder are durable.
pub(in crate::session) fn make_folder(
    path: &Path,
    sync: impl Fn(&Path) -> io::Result<()>,
) -> io::Result<PathBuf> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    let path = fs::canonicalize(path)?;
    if let Some(parent) = path.parent() {
        // Its own name must last, too. Who may not read the parent did not make it.
        match sync(parent) {
            Err(error) if error.kind() != io::ErrorKind::PermissionDenied => return Err(error),
            _ => {}
        }
    }
    Ok(path)
}

/// Waits until the names in a folder are durable.
pub(in crate::session) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
