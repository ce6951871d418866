//! The repository that git works in.
//!
//! A folder with `HEAD`, `objects/` and `refs/` is a repository, and its configuration may name
//! programs that git runs.

use std::path::Path;

use super::disk::Disk;
use super::paths::{PathContext, PathOf};

/// Returns `true` if git, run in the folder, works in the workspace's own repository. A folder that
/// this machine does not have may be any repository when the command runs.
pub(super) fn is_own(folder: &PathOf, context: &PathContext, disk: &Disk) -> bool {
    let workspace = context.workspace.as_deref().map(Path::new);
    let Some(workspace) = workspace.filter(|_| context.follows_links) else {
        return false;
    };
    let candidates = folder.literals();
    let mut folders = candidates
        .iter()
        .map(Path::new)
        .filter(|folder| *folder == workspace || !disk.may_look() || folder.exists())
        .peekable();
    folders.peek().is_some()
        && folder.is_known()
        && folders.all(|folder| belongs(folder, workspace, disk))
}

/// Returns `true` if no folder from `folder` up to the workspace is a repository of its own.
fn belongs(folder: &Path, workspace: &Path, disk: &Disk) -> bool {
    let is_repository = |folder: &Path| {
        let has = |name: &str| folder.join(name).symlink_metadata().is_ok();
        !disk.may_look() || has(".git") || has("HEAD") && has("objects") && has("refs")
    };
    let mut folders = folder.ancestors().take_while(|folder| *folder != workspace);
    folder.starts_with(workspace) && !folders.any(is_repository)
}
