//! The folders from which a command resolves relative paths.

use super::paths::{PathContext, Segment, resolve, root};
use super::shell::{Analysis, Part, Use, Word};

/// The number of changes of folder up to which each folder is resolved from all before it as well;
/// with more, a relative path may be anywhere.
pub(super) const MAX_DIRECTORIES: usize = 4;
/// The maximum number of folders that are resolved if there are more, from the workspace alone.
const MAX_BASES: usize = 16;

/// The folders that a command changes to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Folders {
    /// The folders as the command names them.
    pub(super) directories: Vec<Word>,
    /// The folders that they may be; the first one is the workspace.
    pub(super) bases: Vec<Vec<Segment>>,
}

impl Folders {
    pub(super) fn new(directories: Vec<Word>, context: &PathContext) -> Self {
        let bases = bases(&directories, context);
        Self { directories, bases }
    }

    /// Returns the folders of a command.
    pub(super) fn of(analysis: &Analysis, context: &PathContext) -> Self {
        Self::new(analysis.used(Use::Directory).cloned().collect(), context)
    }

    /// Returns the same folders as paths of another context.
    pub(super) fn in_context(&self, context: &PathContext) -> Self {
        Self::new(self.directories.clone(), context)
    }

    /// Returns the word with `$PWD` in the place of its beginning, if that is a folder that the
    /// command has left: `~-/x`, `~1/x`, `$OLDPWD/x`.
    pub(super) fn left_word(&self, word: &Word) -> Option<Word> {
        if self.directories.is_empty() {
            return None;
        }
        let is_index = |c: char| c.is_ascii_digit() || "+-".contains(c);
        let is_left = match word.parts.first()? {
            Part::Home(name) => name.starts_with(is_index),
            part => part.variable() == Some("OLDPWD"),
        };
        is_left.then(|| {
            let mut word = word.clone();
            word.parts[0] = Part::Value {
                name: Some("PWD".to_owned()),
                quoted: true,
            };
            word
        })
    }
}

/// Returns the workspace and the folders that a command may be in after it changed to some of
/// these.
fn bases(directories: &[Word], context: &PathContext) -> Vec<Vec<Segment>> {
    let mut bases = vec![root(context)];
    let is_known = directories.len() <= MAX_DIRECTORIES;
    if !is_known {
        bases.push(vec![Segment::Unknown]);
    }

    for directory in followed(directories) {
        let count = if is_known { bases.len() } else { 1 };
        for at in 0..count {
            let next = resolve(directory, &bases[at], context);
            if !bases.contains(&next) {
                bases.push(next);
            }
        }
    }
    bases
}

/// Returns the directories from which relative paths are resolved.
fn followed(directories: &[Word]) -> Vec<&Word> {
    if directories.len() <= MAX_DIRECTORIES {
        return directories.iter().collect();
    }
    let mut followed = Vec::new();
    for directory in directories.iter().take(4 * MAX_BASES) {
        if followed.len() < MAX_BASES && !followed.contains(&directory) {
            followed.push(directory);
        }
    }
    followed
}
