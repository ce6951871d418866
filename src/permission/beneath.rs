//! Patterns and the folders above their paths.

use std::collections::BTreeSet;

use super::glob::{GlobToken, Match, intersect, segment, tokens};
use super::paths::{PathContext, PathOf, PathPattern, Segment, folded, is_literal, root};

/// The place of a pattern's paths below a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Beneath {
    /// None lies there.
    Impossible,
    /// Any folder may hold one.
    OnDisk,
    /// A path of the pattern may lie there.
    Possible,
}

impl PathPattern {
    /// Returns which paths of the pattern lie below `path`. With `skips_hidden`, paths with a name
    /// that begins with a dot do not count.
    pub(crate) fn beneath(
        &self,
        path: &PathOf,
        context: &PathContext,
        skips_hidden: bool,
    ) -> Beneath {
        let mut pattern = self.segments(context);
        let mut root = root(context);
        let mut path = path.clone();
        if context.folds_case {
            pattern = pattern.iter().map(folded).collect();
            root = root.iter().map(folded).collect();
            path = path.folded();
        }

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
            } else if is_above(&root) {
                Beneath::Possible
            } else {
                Beneath::OnDisk
            }
        });
        beneath.max().unwrap_or(Beneath::Impossible)
    }

    /// Returns `true` if paths of the pattern lie in the workspace, and in a file or folder with
    /// one of these names, which may have wildcards.
    pub(crate) fn has_name(&self, names: &BTreeSet<&str>, context: &PathContext) -> bool {
        let mut pattern = self.segments(context);
        let mut root = root(context);
        if context.folds_case {
            pattern = pattern.iter().map(folded).collect();
            root = root.iter().map(folded).collect();
        }
        let deep = pattern.iter().position(|segment| *segment == Segment::Deep);
        let count = root.len().min(deep.unwrap_or(pattern.len()));
        if count < root.len() && deep.is_none() || !may_agree(&pattern[..count], &root) {
            return false;
        }
        let inner = &pattern[count..];
        let begins_open = |tokens: &[GlobToken]| tokens.first() == Some(&GlobToken::Many);
        let names: Vec<_> = names
            .iter()
            .map(|name| tokens(&name.to_lowercase()))
            .collect();
        let has_name = |segment: &Segment| match folded(segment) {
            // Only the end of a name is compared with the end of another one.
            Segment::Name(name) => names.iter().any(|known| {
                let is_comparable =
                    is_literal(segment) || !begins_open(known) || begins_open(&name);
                is_comparable && intersect(known, &name)
            }),
            _ => false,
        };
        let is_all = inner.iter().all(|segment| *segment == Segment::Deep);
        !names.is_empty() && is_all || inner.iter().any(has_name)
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
                segment(wanted, given, at + 1 == path.len()) != Match::No
            }
            _ => false,
        })
}

fn is_hidden_name(segment: &Segment) -> bool {
    matches!(segment, Segment::Name(name) if name.first() == Some(&GlobToken::Char('.')))
}
