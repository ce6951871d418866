//! The files that a path with wildcards names.

use std::fs;
use std::io::ErrorKind;

use super::glob::{GlobToken, matches};
use super::paths::{PathContext, PathOf, Segment, text_of};

/// The most entries of a folder that are compared.
const MAX_ENTRIES: usize = 4096;

/// The existing files that a path with wildcards in its last name is expanded to: a shell makes no
/// others of it. `None` if the path has no wildcards, or if they cannot be looked up.
pub(super) fn expansions(path: &PathOf, context: &PathContext) -> Option<Vec<PathOf>> {
    if !context.follows_links {
        return None;
    }
    let expanded_paths = path.alternatives().iter().map(|path| expand(path));
    let expanded_paths: Option<Vec<_>> = expanded_paths.collect();
    Some(expanded_paths?.into_iter().flatten().collect())
}

fn expand(path: &[Segment]) -> Option<Vec<PathOf>> {
    let (last, folders) = path.split_last()?;
    let Segment::Name(pattern) = last else {
        return None;
    };
    if text_of(last).is_some() {
        return None;
    }

    let mut folder = String::new();
    for segment in folders {
        folder.push('/');
        folder.push_str(&text_of(segment)?);
    }

    let entries = match fs::read_dir(format!("{folder}/")) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Some(Vec::new()),
        Err(_) => return None,
    };
    let pattern: Vec<_> = pattern.iter().flat_map(in_lowercase).collect();
    let mut paths = Vec::new();
    for (count, entry) in entries.enumerate() {
        if count == MAX_ENTRIES {
            return None;
        }
        let name = entry.ok()?.file_name().to_string_lossy().into_owned();
        // A shell may be set to ignore case and to expand to hidden files.
        if matches(&pattern, &name.to_lowercase().chars().collect::<Vec<_>>()) {
            let name = Segment::Name(name.chars().map(GlobToken::Char).collect());
            paths.push(PathOf::of_segments([folders, &[name]].concat()));
        }
    }

    Some(paths)
}

fn in_lowercase(token: &GlobToken) -> Vec<GlobToken> {
    match token {
        GlobToken::Char(c) => c.to_lowercase().map(GlobToken::Char).collect(),
        wildcard => vec![*wildcard],
    }
}
