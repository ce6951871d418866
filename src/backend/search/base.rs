//! The folder in which a search begins.

use crate::error::Result;

use super::super::failure::outside;

/// Returns the path without the root in front; an absolute one elsewhere is outside. `roots` are
/// the names of the root, of which errors show the first.
pub(super) fn relative<'a>(path: &'a str, roots: &[&str]) -> Result<&'a str> {
    if !path.starts_with('/') {
        return Ok(path);
    }
    for root in roots {
        match path.strip_prefix(root.trim_end_matches('/')) {
            Some("") => return Ok(""),
            Some(suffix) if suffix.starts_with('/') => return Ok(suffix.trim_start_matches('/')),
            _ => {}
        }
    }
    let displayed_root = roots.first().copied().unwrap_or_default();
    Err(outside(path, displayed_root))
}

/// Returns the folder whose path has these parts, without the parts `.` and empty parts.
pub(super) fn folder<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    let parts: Vec<&str> = parts
        .into_iter()
        .filter(|part| !matches!(*part, "" | "."))
        .collect();
    parts.join("/")
}
