//! The paths in the words of a command.

use super::links::Links;
use super::path_words::{changes_files, path_words, shows_files, targets};
use super::paths::{PathContext, PathOf};
use super::recursive::start_folders;
use super::shell::{Analysis, Word};

/// The words of a command that may be paths, and the targets of links in them.
#[derive(Debug)]
pub(super) struct CommandPaths {
    /// The paths that redirections read, and the targets of `cd`.
    pub(super) read: Vec<PathWord>,
    /// The paths that redirections and options write.
    pub(super) written: Vec<PathWord>,
    /// The targets that programs copy, move or link to.
    pub(super) targets: Vec<PathWord>,
    /// The starting folders of programs that search folders recursively.
    pub(super) start_folders: Vec<PathWord>,
    /// All words of all commands.
    pub(super) words: Vec<CommandWord>,
    /// True if a program shows the content of a file that a word names.
    pub(super) shows_files: bool,
    /// True if a program changes a file that a word names.
    pub(super) changes_files: bool,
    directories: Vec<Word>,
}

/// A word that may be a path.
#[derive(Debug)]
pub(super) struct PathWord {
    pub(super) word: Word,
    /// The possible readings, several when it holds variables of known values, each with the other
    /// paths it leads to.
    readings: Vec<(Word, Vec<Word>)>,
}

/// A word of a command, and what its program does with files.
#[derive(Debug)]
pub(super) struct CommandWord {
    pub(super) path_word: PathWord,
    /// True if the program only reads the files.
    pub(super) only_reads: bool,
    /// True if the program may change the file.
    pub(super) is_changed: bool,
    /// True if the program does not open the files.
    pub(super) ignores_files: bool,
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

        let read_words = analysis.reads.iter().chain(directories);
        Self {
            read: read_words.map(&mut make_path_word).collect(),
            written: analysis.writes.iter().map(&mut make_path_word).collect(),
            targets: targets(analysis).iter().map(&mut make_path_word).collect(),
            start_folders: start_folders(analysis)
                .iter()
                .map(&mut make_path_word)
                .collect(),
            words: path_words(analysis)
                .map(|candidate| CommandWord {
                    path_word: make_path_word(&candidate.word),
                    only_reads: candidate.only_reads,
                    is_changed: candidate.is_changed,
                    ignores_files: candidate.ignores_files,
                })
                .collect(),
            shows_files: shows_files(analysis),
            changes_files: changes_files(analysis),
            directories: directories.clone(),
        }
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
