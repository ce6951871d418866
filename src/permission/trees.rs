//! The contents of folders at this moment.

use std::collections::VecDeque;
use std::fs;
use std::path::PathBuf;

use super::glob::Match;
use super::paths::{PathContext, PathOf, PathPattern};

/// Entries that are looked at; a folder with more may hold any.
const MAX_ENTRIES: usize = 4096;
/// The depth of folders that are looked at.
const MAX_DEPTH: usize = 12;

/// Returns `true` if a path the pattern matches lies beneath `folder`, or may lie there. Links are
/// not followed. A folder that this machine does not have holds nothing.
pub(super) fn may_hold(
    folder: &str,
    pattern: &PathPattern,
    context: &PathContext,
    skips_hidden: bool,
) -> bool {
    if !context.follows_links {
        return true;
    }

    let mut entry_count = 0;
    let mut folders = VecDeque::from([(PathBuf::from(folder), 0)]);
    while let Some((folder, depth)) = folders.pop_front() {
        let Ok(entries) = fs::read_dir(&folder) else {
            continue;
        };

        for entry in entries.flatten() {
            entry_count += 1;
            if entry_count > MAX_ENTRIES || depth > MAX_DEPTH {
                return true;
            }

            if skips_hidden && entry.file_name().as_encoded_bytes().starts_with(b".") {
                continue;
            }

            let path = entry.path();
            let is_match =
                |text: &str| pattern.catches(&PathOf::of_text(text, context), context) != Match::No;
            if path.to_str().is_none_or(is_match) {
                return true;
            }

            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push_back((path, depth + 1));
            }
        }
    }

    false
}
