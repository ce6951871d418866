//! Folders that last.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf, absolute};

/// The folder, made if need be, for its owner alone, by the path that no link is in. `sync` waits
/// until the names in a folder are durable.
pub(crate) fn make_folder(
    path: &Path,
    sync: impl Fn(&Path) -> io::Result<()>,
) -> io::Result<PathBuf> {
    let keep_name = |folder: &Path| match folder.parent().map(&sync) {
        // Nothing more can be done in a folder that may not be read.
        Some(Err(error)) if error.kind() != io::ErrorKind::PermissionDenied => Err(error),
        _ => Ok(()),
    };
    let full = absolute(path)?;
    let folders = full.ancestors();
    let missing: Vec<_> = folders.take_while(|folder| !folder.is_dir()).collect();
    if let Some(found) = full.ancestors().nth(missing.len()) {
        // Whoever made it may not have come to this.
        keep_name(&fs::canonicalize(found)?)?;
    }
    for folder in missing.into_iter().rev() {
        match DirBuilder::new().mode(0o700).create(folder) {
            // Somebody else was faster.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => {}
            made => made?,
        }
        keep_name(folder)?;
    }
    fs::canonicalize(full)
}

/// Waits until the names in a folder are durable.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn every_folder_that_is_made_is_made_to_last() {
        let held = tempfile::tempdir().unwrap();
        let held = held.path().canonicalize().unwrap();
        fs::create_dir(held.join("real")).unwrap();
        symlink("real", held.join("link")).unwrap();
        let synced = RefCell::new(Vec::new());
        let sync = |folder: &Path| {
            // Its name is there by then.
            synced.borrow_mut().push(folder.canonicalize()?);
            sync_folder(folder)
        };
        let make = |path: &Path| make_folder(path, sync).unwrap();
        let real = held.join("real");
        let (a, b) = (real.join("a"), real.join("a/b"));
        assert_eq!(make(&held.join("link/a/b/c")), b.join("c"));
        assert_eq!(synced.take(), [&*held, &*real, &*a, &*b]);
        assert_eq!(make(&held.join("link/a/b/c")), b.join("c"));
        assert_eq!(synced.take(), [&*b]);
        assert_eq!(make(&real.join("new/../d/")), real.join("d"));
        for folder in ["a", "a/b", "a/b/c", "new", "d"] {
            let found = fs::metadata(real.join(folder)).unwrap();
            assert_eq!(found.permissions().mode() & 0o777, 0o700, "{folder}");
        }
        fs::write(real.join("file"), "").unwrap();
        assert!(make_folder(&real.join("file/a"), sync).is_err());
        assert!(make_folder(&real.join("file"), sync).is_err());
    }
}
