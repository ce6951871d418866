//! The folders of this machine that agents share.

use std::collections::HashMap;
use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};

use crate::backend::LocalBackend;
use crate::error::{Error, ErrorKind, Result};
use crate::util::sync::lock;

/// The folders of this machine that agents share: each is open once, however many agents use it.
/// Clones are the same folders.
#[derive(Clone, Default)]
pub(super) struct OpenFolders(Arc<Mutex<HashMap<FolderKey, Weak<LocalBackend>>>>);

/// The path of a folder and its identity: a folder that was replaced is another one.
#[derive(PartialEq, Eq, Hash)]
struct FolderKey {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl OpenFolders {
    /// Returns the backend of a folder, and opens it if no agent uses it.
    pub(super) fn open(&self, path: &Path) -> Result<Arc<LocalBackend>> {
        let metadata = std::fs::metadata(path).map_err(|error| {
            let text = format!("cannot open the folder {}: {error}", path.display());
            Error::new(ErrorKind::Io, text).with_source(error)
        })?;
        let key = FolderKey {
            path: path.to_owned(),
            device: metadata.dev(),
            inode: metadata.ino(),
        };

        let mut folders = lock(&self.0);
        if let Some(backend) = folders.get(&key).and_then(Weak::upgrade) {
            return Ok(backend);
        }
        let backend = Arc::new(LocalBackend::new(path)?);
        folders.retain(|_, backend| backend.strong_count() > 0);
        folders.insert(key, Arc::downgrade(&backend));
        Ok(backend)
    }
}

impl fmt::Debug for OpenFolders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OpenFolders")
            .field(&lock(&self.0).len())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_is_open_once_until_it_is_replaced_or_no_longer_used() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("skills");
        std::fs::create_dir(&path).unwrap();
        let folders = OpenFolders::default();
        let first = folders.open(&path).unwrap();
        assert!(Arc::ptr_eq(&first, &folders.clone().open(&path).unwrap()));

        std::fs::rename(&path, parent.path().join("old")).unwrap();
        folders.open(&path).unwrap_err();
        std::fs::create_dir(&path).unwrap();
        let second = folders.open(&path).unwrap();
        assert!(!Arc::ptr_eq(&first, &second));

        drop((first, second));
        let _third = folders.open(&path).unwrap();
        assert_eq!(lock(&folders.0).len(), 1);
    }
}
