//! Patterns and the folders above their paths.

use std::fs;

use super::glob::{GlobToken, Match, intersect, match_segment, tokens};
use super::paths::{PathContext, PathOf, PathPattern, Segment, folded, is_literal, root};

/// The place of a pattern's paths below a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Beneath {
    /// None lies there.
    Impossible,
    /// Wildcards of the pattern may match a path there: the disk shows whether they do.
    OnDisk,
    /// The pattern names a file or folder there, or the workspace lies there.
    Possible,
}

impl PathContext {
    /// Returns the paths of the workspace as they are compared: its own, and that without links.
    pub(super) fn workspace_folders(&self) -> PathOf {
        let workspace = self.workspace.as_ref().filter(|_| self.follows_links);
        let real_path = workspace.and_then(|path| fs::canonicalize(path).ok());
        let real_path = real_path.as_ref().and_then(|path| path.to_str());
        let real_folders = real_path.map(|path| PathOf::of_text(path, self));
        let mut folders = real_folders.map_or_else(Vec::new, |path| path.0);
        folders.push(root(self));
        PathOf(folders).compared(self).into_owned()
    }
}

impl PathPattern {
    /// Returns the segments of a rule to deny or to ask, as they are compared with paths.
    pub(super) fn compared(&self, context: &PathContext) -> Vec<Segment> {
        let mut pattern = self.segments(context);
        if context.folds_case {
            pattern
                .iter_mut()
                .for_each(|segment| *segment = folded(segment));
        }
        pattern
    }

    /// Returns which paths of the pattern lie below `path`. With `skips_hidden`, paths with a name
    /// that begins with a dot do not count.
    pub(crate) fn beneath(
        &self,
        path: &PathOf,
        context: &PathContext,
        skips_hidden: bool,
    ) -> Beneath {
        let pattern = self.compared(context);
        let root = PathOf(vec![root(context)]);
        let (root, path) = (root.compared(context), path.compared(context));
        // The names before the first wildcard.
        let end = pattern.iter().position(|segment| !is_literal(segment));
        let fixed = &pattern[..end.unwrap_or(pattern.len())];
        let beneath = path.0.iter().map(|path| {
            let hides = |segments: &[Segment]| skips_hidden && segments.iter().any(is_hidden_name);
            let is_above =
                |folder: &[Segment]| path.len() <= folder.len() && may_agree(folder, path);
            if !fixed.is_empty() && is_above(fixed) {
                return if hides(&pattern[path.len()..]) {
                    Beneath::Impossible
                } else {
                    Beneath::Possible
                };
            }

            let is_open =
                fixed.len() < pattern.len() && fixed.len() <= path.len() && may_agree(fixed, path);
            if !is_open || hides(&pattern[fixed.len()..]) {
                Beneath::Impossible
            } else if is_above(&root.0[0]) {
                Beneath::Possible
            } else {
                Beneath::OnDisk
            }
        });
        beneath.max().unwrap_or(Beneath::Impossible)
    }

    /// Returns `true` if paths of the pattern may lie in the workspace, but for its folder of git.
    /// The workspace has the paths `folders` ([`PathContext::workspace_folders`]).
    pub(crate) fn may_lie_in_project(&self, context: &PathContext, folders: &PathOf) -> bool {
        let pattern = self.compared(context);
        let is_deep = |segment: &Segment| *segment == Segment::Deep;
        let count = pattern.iter().position(is_deep).unwrap_or(pattern.len());
        let may_lie_in = |folder: &Vec<Segment>| {
            let (above, inner) = pattern.split_at(count.min(folder.len()));
            let first = inner.iter().find(|segment| !is_deep(segment));
            let is_of_git = first.is_some_and(|name| *name == Segment::Name(tokens(".git")));
            may_agree(above, folder) && !is_of_git
        };
        let has_unknown_home = context.home.is_none() && self.text().starts_with('~');
        has_unknown_home || folders.0.iter().any(may_lie_in)
    }

    /// Returns `true` if the pattern may be about a file, or about one in a folder if the text ends
    /// in a slash. A name alone is that of a file in any folder of the project.
    pub(crate) fn may_be_of(&self, file: &str, context: &PathContext) -> bool {
        let path = PathOf::of_text(file, context);
        if self.catches(&path, context) == Match::Yes {
            return true;
        }
        if file.contains('/') {
            let beneath = self.beneath(&path, context, false);
            return file.ends_with('/') && beneath == Beneath::Possible;
        }
        let mut name = Segment::Name(tokens(file));
        if context.folds_case {
            name = folded(&name);
        }
        match (self.compared(context).last(), &name) {
            (Some(Segment::Name(own)), Segment::Name(name)) => {
                let is_hidden = own.first() == Some(&GlobToken::Char('.'));
                let is_open = |name: &[GlobToken]| name.first() == Some(&GlobToken::Many);
                own[..] != [GlobToken::Many]
                    && !(is_hidden && is_open(name))
                    && intersect(own, name)
            }
            _ => false,
        }
    }
}

/// Returns `true` if the names of a pattern and the names of a path may be the same, up to the
/// length of the shorter one.
fn may_agree(pattern: &[Segment], path: &[Segment]) -> bool {
    pattern
        .iter()
        .zip(path)
        .enumerate()
        .all(|(at, pair)| match pair {
            (Segment::Name(wanted), Segment::Name(given)) => {
                match_segment(wanted, given, at + 1 == path.len()) != Match::No
            }
            _ => false,
        })
}

fn is_hidden_name(segment: &Segment) -> bool {
    matches!(segment, Segment::Name(name) if name.first() == Some(&GlobToken::Char('.')))
}
