//! The paths in the words of a command.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

use super::links::Links;
use super::path_words::path_words;
use super::paths::{MAX_DIRECTORIES, PathContext, PathOf};
use super::shell::{Analysis, Files, SimpleCommand, Word};

/// The words of a command that may be paths, and the targets of links in them.
#[derive(Debug)]
pub(super) struct CommandPaths {
    /// The paths that redirections read, and the targets of `cd`.
    pub(super) read: Vec<PathWord>,
    /// The paths that redirections and options write.
    pub(super) written: Vec<PathWord>,
    /// The targets that programs copy, move or link to.
    pub(super) targets: Vec<PathWord>,
    /// The folders that programs read or change with all that is in them.
    pub(super) trees: Vec<TreePath>,
    /// The folders and files of projects that options name.
    pub(super) folders: Vec<PathWord>,
    /// The folders where git may work.
    pub(super) repositories: Vec<PathWord>,
    /// All words of all commands.
    pub(super) words: Vec<CommandWord>,
    /// True if a program shows the content of a file that a word names.
    pub(super) shows_files: bool,
    /// True if a program changes a file that a word names.
    pub(super) changes_files: bool,
    directories: Vec<Word>,
}

/// A word that may be a path.
#[derive(Clone, Debug)]
pub(super) struct PathWord {
    pub(super) word: Word,
    /// The possible readings, several when it holds variables of known values, each with the other
    /// paths it leads to.
    readings: Vec<(Word, Vec<Word>)>,
}

/// A folder that a program reads or changes with all that is in it.
#[derive(Debug)]
pub(super) struct TreePath {
    pub(super) path_word: PathWord,
    /// True if what is in it is changed.
    pub(super) cuts: bool,
    /// True if names that begin with a dot are left out.
    pub(super) skips_hidden: bool,
    /// True if the program follows links.
    pub(super) follows_links: bool,
}

/// A word of a command, and what its program does with files.
#[derive(Debug)]
pub(super) struct CommandWord {
    pub(super) path_word: PathWord,
    pub(super) files: Files,
    /// The folders where the words of an unknown program may start from.
    pub(super) folders: Option<Arc<[Word]>>,
    /// True if the program may change the file.
    pub(super) is_changed: bool,
}

impl PathWord {
    /// Returns `true` if written data is not kept there.
    pub(super) fn is_discarded(&self) -> bool {
        let text = self.word.literal().unwrap_or_default();
        matches!(
            text.as_str(),
            "-" | "/dev/null" | "/dev/stdout" | "/dev/stderr"
        )
    }
}

impl CommandPaths {
    pub(super) fn of(analysis: &Analysis, context: &PathContext) -> Self {
        let mut links = Links::new(context);
        let directories = &analysis.directories;
        let mut make_path_word = |word: &Word| {
            let readings = analysis.readings(word).into_iter().map(|word| {
                let link_targets = links.of_word(&word, directories);
                (word, link_targets)
            });

            let readings = readings.collect();
            let word = word.clone();
            PathWord { word, readings }
        };

        let read_words = distinct(analysis.reads.iter().chain(directories));
        let written_words = distinct(&analysis.writes);
        let targets = distinct(&analysis.targets);
        let folders = distinct(&analysis.folders);
        let repositories = distinct(repositories(analysis));
        Self {
            read: read_words.map(&mut make_path_word).collect(),
            written: written_words.map(&mut make_path_word).collect(),
            targets: targets.map(&mut make_path_word).collect(),
            folders: folders.map(&mut make_path_word).collect(),
            repositories: repositories.map(&mut make_path_word).collect(),
            trees: distinct(&analysis.trees)
                .map(|tree| TreePath {
                    path_word: make_path_word(&tree.word),
                    cuts: tree.cuts,
                    skips_hidden: tree.skips_hidden,
                    follows_links: tree.follows_links,
                })
                .collect(),
            words: distinct(path_words(analysis))
                .map(|candidate| CommandWord {
                    path_word: make_path_word(&candidate.word),
                    files: candidate.files,
                    folders: candidate.folders,
                    is_changed: candidate.is_changed,
                })
                .collect(),
            shows_files: analysis.commands.iter().any(shows_files),
            changes_files: analysis.commands.iter().any(changes_files),
            directories: directories.clone(),
        }
    }

    /// The paths that a word of an unknown program may be, from each of `folders` as well.
    pub(super) fn paths_from<'a>(
        &'a self,
        path_word: &'a PathWord,
        folders: &'a [Word],
        context: &'a PathContext,
    ) -> impl Iterator<Item = PathOf> + 'a {
        // After more, a path may be anywhere.
        let bases = self.directories.iter().chain(folders);
        let bases = bases.take(MAX_DIRECTORIES + 1).cloned();
        let bases = bases.collect::<Vec<_>>();
        let readings = path_word.readings.iter();
        readings.map(move |(word, _)| PathOf::of_word(word, context, &bases))
    }

    /// The paths that a word may be.
    pub(super) fn paths_of<'a>(
        &'a self,
        path_word: &'a PathWord,
        context: &'a PathContext,
    ) -> impl Iterator<Item = PathOf> + 'a {
        // Computed on demand, because all of them together take much memory.
        path_word.readings.iter().map(move |(word, link_targets)| {
            PathOf::of_word(word, context, &self.directories).with_link_targets(link_targets)
        })
    }
}

/// The items without those that were there before.
fn distinct<T: Clone + Eq + Hash>(items: impl IntoIterator<Item = T>) -> impl Iterator<Item = T> {
    let mut known_items = HashSet::new();
    items
        .into_iter()
        .filter(move |item| known_items.insert(item.clone()))
}

/// The folders that options of git name, and those that a command with git in it changes to.
fn repositories(analysis: &Analysis) -> impl Iterator<Item = &Word> {
    let is_git = |command: &SimpleCommand| command.program().is_some_and(|name| name == "git");
    let runs_git = analysis.commands.iter().any(is_git);
    let folders = analysis.directories.iter().filter(move |_| runs_git);
    folders.chain(&analysis.repositories)
}

/// Returns `true` if a program shows the content of a file that it is given.
fn shows_files(command: &SimpleCommand) -> bool {
    let is_file = |word: &Word| {
        let text = word.literal_prefix();
        let is_number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        !text.starts_with('-') && !is_number
    };
    command.shows && command.argv.len() > 1 && command.argv.last().is_some_and(is_file)
}

/// Returns `true` if a program changes any files.
fn changes_files(command: &SimpleCommand) -> bool {
    command.changes && command.argv.len() > 1
}
