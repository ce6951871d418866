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
