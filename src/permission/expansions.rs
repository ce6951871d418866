//! The files that a path with wildcards names.

use super::disk::Disk;
use super::paths::{PathContext, PathOf, Segment, is_literal};

/// Returns the existing files that a path with wildcards in its last name is expanded to: a shell
/// makes no others of it. `None` if the path has no wildcards, or if they cannot be looked up.
pub(super) fn expansions(path: &PathOf, context: &PathContext, disk: &Disk) -> Option<Vec<PathOf>> {
    if !context.follows_links {
        return None;
    }
    let expanded_paths: Option<Vec<_>> = path
        .alternatives()
        .iter()
        .map(|path| expand(path, disk))
        .collect();
    Some(expanded_paths?.into_iter().flatten().collect())
}

fn expand(path: &[Segment], disk: &Disk) -> Option<Vec<PathOf>> {
    let (last, folders) = path.split_last()?;
    if is_literal(last) || !folders.iter().all(is_literal) {
        return None;
    }

    // A shell may be set to expand to hidden files.
    let paths = disk.expand(path, true)?;
    let no_context = PathContext::default();
    let paths = paths.iter().map(|path| PathOf::of_text(path, &no_context));
    Some(paths.collect())
}
