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
    let missing = path
        .ancestors()
        .take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists())
        .count();
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    let path = fs::canonicalize(path)?;
    // The names must last, too; that of the last one also when somebody else has just made it.
    for parent in path.ancestors().skip(1).take(missing.max(1)) {
        match sync(parent) {
            // Who may not read the parent made nothing in it.
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

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn every_new_name_lasts() {
        let held = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(held.path()).unwrap();
        for (path, expected) in [
            ("a/b/c", &["a/b", "a", ""][..]),
            ("a/b/c", &["a/b"]),
            ("a/b/d/e", &["a/b/d", "a/b"]),
        ] {
            let synced = RefCell::new(Vec::new());
            let made = make_folder(&root.join(path), |folder| {
                synced.borrow_mut().push(folder.to_owned());
                sync_folder(folder)
            });
            assert_eq!(made.unwrap(), root.join(path));
            let expected: Vec<_> = expected.iter().map(|path| root.join(path)).collect();
            // Compared by what they are made of: `root/` is `root`.
            assert!(synced.into_inner().iter().eq(&expected), "{path}");
        }
    }
}
