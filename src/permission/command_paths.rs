//! The paths in the words of a command.

use std::borrow::Cow;
use std::collections::HashSet;
use std::hash::Hash;

use super::disk::{Disk, Listing};
use super::folders::{Folders, MAX_DIRECTORIES};
use super::glob::Match;
use super::leads::leads;
use super::links::Links;
use super::open_files::reopened;
use super::path_words::{WordUse, path_words};
use super::paths::{PathContext, PathOf};
use super::shell::{Analysis, Part, SimpleCommand, Tree, Use, Word};
use super::tree_copies::written_links;

/// The words of a command that may be paths, and the targets of links in them.
#[derive(Debug)]
pub(super) struct CommandPaths {
    /// The paths with a known use.
    paths: Vec<(Use, PathWord)>,
    /// The words of all commands, and parts of them, that may name files.
    pub(super) words: Vec<(PathWord, WordUse)>,
    /// True if a program shows the content of a file that a word names.
    pub(super) shows_files: bool,
    /// True if a program changes a file that a word names.
    pub(super) changes_files: bool,
    folders: Folders,
    runs_git: bool,
    has_project: bool,
    begins_with_cd: bool,
    /// The folders that the command changes to in which a program that writes may run.
    pub(super) work_folders: Vec<PathWord>,
    /// True if a command may make a folder that another one writes to.
    may_make_folders: bool,
    /// True if the line has one command only.
    pub(super) is_alone: bool,
    /// True if a wildcard may match the name of an option, which may make a program follow links.
    has_option_names: bool,
}

/// A word that may be a path.
#[derive(Clone, Debug)]
pub(super) struct PathWord {
    pub(super) word: Word,
    /// The other paths it leads to.
    link_targets: Vec<Word>,
    /// False if it is not known to be a path, or to be in a command that runs.
    pub(super) is_certain: bool,
    /// True if the command itself makes a part of the word that is not known.
    pub(super) is_made: bool,
    /// `Yes` if it is written through a link that another command puts there, `Maybe` if it may
    /// lead through one.
    pub(super) lead: Match,
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

    /// Returns `true` if what is written there may change any file.
    pub(super) fn is_led(&self) -> bool {
        self.lead == Match::Yes && !self.is_discarded()
    }
}

impl CommandPaths {
    /// Returns the number of paths that are compared with each rule.
    pub(super) fn count(&self) -> usize {
        self.paths.len() + self.words.len()
    }

    pub(super) fn of(analysis: &Analysis, context: &PathContext, disk: &Disk) -> Self {
        let folders = Folders::of(analysis, context);
        let mut links = Links::new(Cow::Borrowed(&folders), context, disk);
        let leads = leads(analysis, context, disk, &mut links);
        let mut make_path_word = |word: &Word, is_certain| {
            // Rules are compared with the wildcards, so links that these match count.
            let pattern = with_wildcards(word);
            PathWord {
                word: word.clone(),
                link_targets: links.of_word(pattern.as_ref().unwrap_or(word)),
                is_certain,
                is_made: analysis.makes(word),
                lead: leads.get(word).copied().unwrap_or(Match::No),
            }
        };

        let reopened = reopened(analysis, context, &folders);
        let has_option_names = has_option_names(analysis, context, disk, &folders);
        let written_links = written_links(analysis, context, disk, &folders);
        let other_paths = reopened.into_iter().chain(written_links);
        let work_folders = analysis.work_folders.iter();
        let own_paths = analysis.paths.iter().cloned().enumerate();
        let own_paths = own_paths.map(|(at, path)| (path, !analysis.possible_paths.contains(&at)));
        let paths = distinct(own_paths.chain(other_paths.map(|path| (path, true))));
        Self {
            paths: paths
                .map(|((path_use, word), is_certain)| (path_use, make_path_word(&word, is_certain)))
                .collect(),
            words: distinct(path_words(analysis).map(|(_, word)| word))
                .map(|(word, word_use)| (make_path_word(&word, word_use.is_certain), word_use))
                .collect(),
            shows_files: analysis.commands.iter().any(shows_files),
            changes_files: analysis.commands.iter().any(changes_files),
            begins_with_cd: analysis.begins_with_cd,
            has_project: analysis.has_project,
            work_folders: work_folders
                .map(|word| make_path_word(word, true))
                .collect(),
            folders,
            may_make_folders: analysis.commands.iter().filter(|c| c.is_writer()).count() > 1,
            is_alone: analysis.covered().count() < 2,
            has_option_names,
            runs_git: analysis
                .commands
                .iter()
                .any(|command| command.program().is_some_and(|name| name == "git")),
        }
    }

    /// Returns the paths with one of these uses.
    pub(super) fn used(&self, uses: &[Use]) -> impl Iterator<Item = &PathWord> {
        self.paths
            .iter()
            .filter(|(path_use, _)| uses.contains(path_use))
            .map(|(_, path_word)| path_word)
    }

    /// Returns the paths that a program copies, moves, links or unpacks to, at this moment.
    pub(super) fn targets<'a>(
        &'a self,
        context: &PathContext,
        disk: &Disk,
    ) -> impl Iterator<Item = &'a PathWord> {
        self.paths.iter().filter_map(move |(path_use, path_word)| {
            let is_target = match path_use {
                Use::Target => true,
                Use::TargetInFolder => self.may_be_in_folder(path_word, context, disk),
                _ => false,
            };
            is_target.then_some(path_word)
        })
    }

    /// Returns `true` if the path above a word is a folder, or may be one when its command runs.
    fn may_be_in_folder(&self, path_word: &PathWord, context: &PathContext, disk: &Disk) -> bool {
        if self.may_make_folders || !context.follows_links {
            return true;
        }

        let is_folder = |folder: &String| !matches!(*disk.list(folder), Listing::Missing);
        let path = self.path_of(path_word, context);
        let mut alternatives = path.0.iter();
        let is_in_folder = alternatives.any(|path| {
            let folder = &path[..path.len().saturating_sub(1)];
            let folders = disk.expand(folder, true);
            folders.is_none_or(|folders| folders.iter().any(is_folder))
        });
        is_in_folder || !path.is_known()
    }

    /// Returns the folders that are changed, or read, with all that is in them.
    pub(super) fn trees(&self, changes: bool) -> impl Iterator<Item = (Tree, &PathWord)> {
        let may_follow = self.has_option_names;
        let linked = if changes { Tree::CHANGE } else { Tree::READ };
        self.paths.iter().filter_map(move |(path_use, path_word)| {
            let mut tree = match path_use {
                Use::Tree(tree) if tree.changes == changes => *tree,
                Use::Linked => return Some((linked, path_word)),
                _ => return None,
            };
            tree.follows_links |= may_follow;
            Some((tree, path_word))
        })
    }

    /// Returns the paths that a word may be when its command runs.
    pub(super) fn path_at_run(&self, path_word: &PathWord, context: &PathContext) -> PathOf {
        self.path_of_word(&path_word.word, context)
            .with_link_targets(&path_word.link_targets)
    }

    /// Returns the paths that a word may be when its command runs, without following links.
    pub(super) fn path_of_word(&self, word: &Word, context: &PathContext) -> PathOf {
        let path = PathOf::of_word(word, context, &self.folders);
        if self.begins_with_cd {
            path.in_directory()
        } else {
            path
        }
    }

    /// Returns the folders with one of these uses; with `adds_changes`, also the folders that the
    /// command changes to or makes links to.
    fn with_changes(&self, uses: &[Use], adds_changes: bool) -> impl Iterator<Item = &PathWord> {
        let is_other =
            move |path_use| adds_changes && matches!(path_use, Use::Directory | Use::Linked);
        self.paths
            .iter()
            .filter(move |(path_use, _)| uses.contains(path_use) || is_other(*path_use))
            .map(|(_, path_word)| path_word)
    }

    /// Returns `true` if the command changes its folder, or makes a link.
    pub(super) fn changes_places(&self) -> bool {
        !self.folders.directories.is_empty() || self.used(&[Use::Linked]).next().is_some()
    }

    /// Returns `true` if a program may run in a folder whose name is not known: one that the
    /// command makes up, or one behind many changes.
    pub(super) fn may_run_anywhere(&self) -> bool {
        let mut folders = self.used(&[Use::Directory]);
        self.folders.directories.len() > MAX_DIRECTORIES || folders.any(|folder| folder.is_made)
    }

    /// Returns the folders that a program works on as on its project.
    pub(super) fn projects(&self) -> impl Iterator<Item = &PathWord> {
        self.with_changes(&[Use::Project, Use::Source], self.has_project)
    }

    /// Returns the folders where git may work.
    pub(super) fn repositories(&self) -> impl Iterator<Item = &PathWord> {
        self.with_changes(&[Use::Repository], self.runs_git)
    }

    /// Returns the paths that a word may be, with wildcards in the places of its numbers. The paths
    /// of rules are compared with these.
    pub(super) fn path_with_numbers(&self, path_word: &PathWord, context: &PathContext) -> PathOf {
        let pattern = with_wildcards(&path_word.word);
        let word = pattern.as_ref().unwrap_or(&path_word.word);
        PathOf::of_word(word, context, &self.folders).with_link_targets(&path_word.link_targets)
    }

    /// Returns the paths that a word may be. They are computed on demand, because all of them
    /// together take much memory.
    pub(super) fn path_of(&self, path_word: &PathWord, context: &PathContext) -> PathOf {
        PathOf::of_word(&path_word.word, context, &self.folders)
            .with_link_targets(&path_word.link_targets)
    }
}

/// Returns the word with wildcards in the places of its numbers; `None` if it has none, or another
/// part that is not known. A number has neither a slash nor a dot. A program that fails prints
/// none, so one between two slashes, or next to a dot that may be the name of a folder, stays
/// unknown.
fn with_wildcards(word: &Word) -> Option<Word> {
    if word.is_number() {
        return Some(Word::default().followed_by("?*"));
    }
    let parts = &word.parts;
    if !parts.iter().any(Part::is_number) {
        return None;
    }
    let mut pattern = Word::default();
    for (at, part) in parts.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|at| parts[at].text());
        let behind = parts.get(at + 1).and_then(Part::text);
        match part {
            part if part.is_number() => {
                let begins = before.is_none_or(|text| text.is_empty() || text.ends_with('/'));
                if begins && behind.is_some_and(|text| text.starts_with('/')) {
                    return None;
                }
                pattern.parts.extend([Part::Glob('*'), Part::Glob('*')]);
            }
            // Files that a process has open lie there.
            Part::Text { text, .. } if text.contains("/proc") || text.contains("/fd") => {
                return None;
            }
            Part::Text { text, .. } => {
                let count = text.split('/').count();
                let is_joined =
                    |name: usize| name == 0 && at > 0 || name + 1 == count && at + 1 < parts.len();
                let mut names = text.split('/').enumerate();
                if names.any(|(name, text)| text == ".." || text == "." && is_joined(name)) {
                    return None;
                }
                pattern.parts.push(part.clone());
            }
            Part::Glob(_) | Part::Home(_) => pattern.parts.push(part.clone()),
            _ => return None,
        }
    }
    Some(pattern)
}

/// Returns `true` if a wildcard of a line that works on folders matches a file whose name begins
/// with a dash: the program takes it for an option.
fn has_option_names(
    analysis: &Analysis,
    context: &PathContext,
    disk: &Disk,
    folders: &Folders,
) -> bool {
    let is_tree = |(path_use, _): &(Use, Word)| matches!(path_use, Use::Tree(_));
    if !context.follows_links || !analysis.paths.iter().any(is_tree) {
        return false;
    }

    let words = analysis.commands.iter().flat_map(|command| {
        let words = command.argv.iter().skip(1);
        words.take_while(|word| !word.is("--"))
    });
    let words = words.filter(|word| matches!(word.parts.first(), Some(Part::Glob(_))));
    let is_option = |path: &String| {
        let name = path.rsplit_once('/');
        name.is_some_and(|(_, name)| name.starts_with('-'))
    };
    distinct(words).any(|word| {
        let paths = PathOf::of_word(word, context, folders).0;
        let mut places = folders.bases.iter().zip(&paths);
        places.any(|(base, path)| {
            // The first name of the word, in each folder where it may begin.
            let names = path.get(..=base.len());
            names.is_some_and(|names| {
                let paths = disk.expand(names, false);
                paths.is_none_or(|paths| paths.iter().any(is_option))
            })
        })
    })
}

/// Returns the items without repetitions.
fn distinct<T: Clone + Eq + Hash>(items: impl IntoIterator<Item = T>) -> impl Iterator<Item = T> {
    let mut known_items = HashSet::new();
    items
        .into_iter()
        .filter(move |item| known_items.insert(item.clone()))
}

/// Returns `true` if a program reads or shows the content of a file that it is given.
fn shows_files(command: &SimpleCommand) -> bool {
    let is_last = command.argv.len() > 1 && command.argv.last().is_some_and(Word::may_be_file);
    command.reads_operand || command.shows && is_last
}

/// Returns `true` if a program changes any files.
fn changes_files(command: &SimpleCommand) -> bool {
    command.makes_archive || command.changes && command.argv.len() > 1
}
