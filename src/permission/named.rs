//! The paths that a command's words name.

use super::deep::deep_words;
use super::links::Links;
use super::paths::{PathOf, Places};
use super::shell::{Analysis, Word};
use super::words::{changes_some, path_words, shows_some, targets};

/// The words of a command that may be paths, and where links lead them.
#[derive(Debug)]
pub(super) struct NamedPaths {
    /// The paths that redirections read, and the targets of `cd`.
    pub(super) read: Vec<Named>,
    /// The paths that redirections and options write.
    pub(super) written: Vec<Named>,
    /// The targets that programs copy, move or link to.
    pub(super) targets: Vec<Named>,
    /// The starting folders of programs that search folders recursively.
    pub(super) deep: Vec<Named>,
    /// All words of all commands.
    pub(super) words: Vec<NamedWord>,
    /// True if a program shows the content of a file that a word names.
    pub(super) shows_some: bool,
    /// True if a program changes a file that a word names.
    pub(super) changes_some: bool,
    directories: Vec<Word>,
}

/// A word that may be a path.
#[derive(Debug)]
pub(super) struct Named {
    pub(super) word: Word,
    /// The possible readings, several when it holds variables of known values, each with the other
    /// paths it leads to.
    readings: Vec<(Word, Vec<Word>)>,
}

/// A word of a command, and what its program does with files.
#[derive(Debug)]
pub(super) struct NamedWord {
    pub(super) named: Named,
    /// True if the program only reads the files.
    pub(super) only_reads: bool,
    /// True if the program does not open the files.
    pub(super) speaks: bool,
}

impl Named {
    /// Returns `true` if written data is not kept there.
    pub(super) fn is_free(&self) -> bool {
        let text = self.word.literal().unwrap_or_default();
        matches!(
            text.as_str(),
            "-" | "/dev/null" | "/dev/stdout" | "/dev/stderr"
        )
    }
}

impl NamedPaths {
    pub(super) fn of(analysis: &Analysis, places: &Places) -> Self {
        let mut links = Links::new(places);
        let directories = &analysis.directories;
        let mut make_named = |word: &Word| {
            let readings = analysis.readings(word).into_iter().map(|word| {
                let link_targets = links.of_word(&word, directories);
                (word, link_targets)
            });
            let readings = readings.collect();
            let word = word.clone();
            Named { word, readings }
        };
        let read_words = analysis.reads.iter().chain(directories);
        Self {
            read: read_words.map(&mut make_named).collect(),
            written: analysis.writes.iter().map(&mut make_named).collect(),
            targets: targets(analysis).iter().map(&mut make_named).collect(),
            deep: deep_words(analysis).iter().map(&mut make_named).collect(),
            words: path_words(analysis)
                .map(|(word, only_reads, speaks)| NamedWord {
                    named: make_named(&word),
                    only_reads,
                    speaks,
                })
                .collect(),
            shows_some: shows_some(analysis),
            changes_some: changes_some(analysis),
            directories: directories.clone(),
        }
    }

    /// The paths a word may be.
    pub(super) fn paths<'a>(
        &'a self,
        named: &'a Named,
        places: &'a Places,
    ) -> impl Iterator<Item = PathOf> + 'a {
        // Worked out when asked for: all of them together would take much memory.
        named
            .readings
            .iter()
            .map(move |(word, led)| PathOf::of_word(word, places, &self.directories).or_led(led))
    }
}
