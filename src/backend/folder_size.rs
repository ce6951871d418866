//! The limits of one folder's listing.

use crate::error::Result;

use super::failure;

/// The maximum number of entries listed of one folder.
pub(super) const MAX_ENTRIES: usize = 200_000;

/// The maximum size of their names together, as they are shown, in bytes.
pub(super) const MAX_NAME_BYTES: usize = 32 * 1024 * 1024;

/// The advice about a folder that is too large.
const NARROW: &str = "name a folder in it, or list it with a command";

/// The entries of a folder that were listed so far, and the bytes of their names.
#[derive(Debug, Default)]
pub(super) struct FolderSize {
    entries: usize,
    name_bytes: usize,
}

impl FolderSize {
    /// Counts an entry of the folder at `path` by its name as it is shown. A folder that is too
    /// large is an error.
    pub(super) fn count(&mut self, path: &str, name: &str) -> Result<()> {
        self.entries += 1;
        self.name_bytes += name.len();
        let excess = if self.entries > MAX_ENTRIES {
            format!("{MAX_ENTRIES} entries")
        } else if self.name_bytes > MAX_NAME_BYTES {
            format!("{MAX_NAME_BYTES} bytes of names")
        } else {
            return Ok(());
        };
        let text = format!("has more than {excess}; {NARROW}");
        Err(failure::path_error(
            std::io::ErrorKind::FileTooLarge,
            path,
            &text,
        ))
    }
}
