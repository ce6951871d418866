//! Paths in a workspace.

use crate::util::path::lexical;

use super::backend::Backend;

/// Returns the absolute form of `path`, which is the same for every spelling of it. A relative path
/// starts at the backend's root.
pub(crate) fn workspace_path(backend: &dyn Backend, path: &str) -> String {
    if path.starts_with('/') {
        return lexical(path);
    }
    lexical(&format!("{}/{path}", backend.root()))
}

/// Returns the path of an entry of a folder, which may be the empty path of the root.
pub(crate) fn entry_path(folder: &str, name: &str) -> String {
    if folder.is_empty() {
        return name.to_owned();
    }
    format!("{}/{name}", folder.trim_end_matches('/'))
}
