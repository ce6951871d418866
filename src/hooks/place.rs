//! The position of a path relative to a workspace.

use crate::backend::Backend;
use crate::util::path::lexical;

/// `path` from the backend's root on, as one text for each place: what the agent sees, and what
/// every tool takes.
pub(super) fn absolute(backend: &dyn Backend, path: &str) -> String {
    if path.starts_with('/') {
        return lexical(path);
    }
    lexical(&format!("{}/{path}", backend.root()))
}
