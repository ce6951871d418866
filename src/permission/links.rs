//! Where paths lead once symbolic links are followed.

use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::util::path::lexical;

use super::paths::Places;

/// Links that do not lead anywhere yet are followed one by one; after more, they lead in a circle.
const MOST_LINKS: usize = 40;

/// The other path that `path` leads to through links; `None` when it is what it is called, when
/// nobody knows where it begins, or when this machine does not have it.
///
/// A path in the workspace is told as one, whatever links lead to the workspace itself.
pub(super) fn destination(path: &str, places: &Places) -> Option<String> {
    let workspace = places.workspace.as_deref();
    let full = match (path.strip_prefix("~/"), places.home.as_deref()) {
        (Some(rest), Some(home)) => Path::new(home).join(rest),
        _ if path.starts_with('/') => PathBuf::from(path),
        _ => Path::new(workspace?).join(path),
    };
    let real = resolve(&full, MOST_LINKS)?;
    let within = workspace.and_then(|workspace| {
        let beneath = real.strip_prefix(fs::canonicalize(workspace).ok()?).ok()?;
        Some(Path::new(workspace).join(beneath))
    });
    let told = lexical(&within.unwrap_or(real).to_string_lossy());
    (told != lexical(&full.to_string_lossy())).then_some(told)
}

/// Follows all links of what is there of a path, also one whose target is not: a write would make
/// it.
fn resolve(path: &Path, links: usize) -> Option<PathBuf> {
    if let Ok(real) = fs::canonicalize(path) {
        return Some(real);
    }
    let Some(Component::Normal(name)) = path.components().next_back() else {
        return None;
    };
    let parent = resolve(path.parent()?, links)?;
    let full = parent.join(name);
    match fs::read_link(&full) {
        Ok(target) => resolve(&parent.join(target), links.checked_sub(1)?),
        Err(_) => Some(full),
    }
}
