//! The folder in which a search begins.

use crate::error::Result;

use super::super::failure::outside;

/// Returns the path without the root in front; an absolute one elsewhere is outside.
pub(super) fn relative<'a>(path: &'a str, root: &str) -> Result<&'a str> {
    if !path.starts_with('/') {
        return Ok(path);
    }
    match path.strip_prefix(root.trim_end_matches('/')) {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => Ok(rest.trim_start_matches('/')),
        _ => Err(outside(path, root)),
    }
}

/// Returns the folder whose path has these parts, without the parts `.` and empty parts.
pub(super) fn folder<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    let parts: Vec<&str> = parts
        .into_iter()
        .filter(|part| !matches!(*part, "" | "."))
        .collect();
    parts.join("/")
}
