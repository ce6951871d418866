//! The creation of folders that survive a crash.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf, absolute};

/// Returns the folder, made if need be, for its owner alone, by the path that no link is in. `sync`
/// waits until the names in a folder are durable.
pub(crate) fn make_folder(
    path: &Path,
    sync: impl Fn(&Path) -> io::Result<()>,
) -> io::Result<PathBuf> {
    let keep_name = |folder: &Path| match folder.parent().map(&sync) {
        // A folder that may not be read cannot be synced.
        Some(Err(error)) if error.kind() != io::ErrorKind::PermissionDenied => Err(error),
        _ => Ok(()),
    };

    let full_path = absolute(path)?;
    let folders = full_path.ancestors();
    let missing_folders: Vec<_> = folders.take_while(|folder| !folder.is_dir()).collect();
    if let Some(existing) = full_path.ancestors().nth(missing_folders.len()) {
        // The process that created it may have ended before the sync.
        keep_name(&fs::canonicalize(existing)?)?;
    }

    for folder in missing_folders.into_iter().rev() {
        match DirBuilder::new().mode(0o700).create(folder) {
            // Another process created it first.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => {}
            made => made?,
        }

        keep_name(folder)?;
    }

    fs::canonicalize(full_path)
}

/// Waits until the names in a folder are durable, if its file system supports that.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    match File::open(folder)?.sync_all() {
        // `EINVAL`: some file systems do not support syncing a folder.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        outcome => outcome,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn folder_of_a_file_system_without_a_sync_is_no_error() {
        let proc = Path::new("/proc");
        if let Err(error) = File::open(proc).unwrap().sync_all() {
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
        sync_folder(proc).unwrap();
        assert!(sync_folder(Path::new("/proc/missing")).is_err());
    }

    #[test]
    fn created_folders_are_private_and_synced() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        fs::create_dir(root.join("real")).unwrap();
        symlink("real", root.join("link")).unwrap();
        let synced_folders = RefCell::new(Vec::new());
        let sync = |folder: &Path| {
            // The folder exists when it is synced.
            synced_folders.borrow_mut().push(folder.canonicalize()?);
            sync_folder(folder)
        };

        let create = |path: &Path| make_folder(path, sync).unwrap();
        let real_path = root.join("real");
        let (a, b) = (real_path.join("a"), real_path.join("a/b"));
        assert_eq!(create(&root.join("link/a/b/c")), b.join("c"));
        assert_eq!(synced_folders.take(), [&*root, &*real_path, &*a, &*b]);
        assert_eq!(create(&root.join("link/a/b/c")), b.join("c"));
        assert_eq!(synced_folders.take(), [&*b]);
        assert_eq!(create(&real_path.join("new/../d/")), real_path.join("d"));
        for folder in ["a", "a/b", "a/b/c", "new", "d"] {
            let metadata = fs::metadata(real_path.join(folder)).unwrap();
            assert_eq!(metadata.permissions().mode() & 0o777, 0o700, "{folder}");
        }

        fs::write(real_path.join("file"), "").unwrap();
        assert!(make_folder(&real_path.join("file/a"), sync).is_err());
        assert!(make_folder(&real_path.join("file"), sync).is_err());
    }
}
