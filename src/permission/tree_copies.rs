//! Links that lie where a folder is copied to, and through which its files are written.

use std::collections::{HashSet, VecDeque};
use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use super::disk::{Disk, Listing};
use super::folders::Folders;
use super::glob::Match;
use super::path_words::path_words;
use super::paths::{PathContext, PathOf, Segment, best_match};
use super::shell::{Analysis, TreeCopy, Use, Word};

/// The maximum number of entries that are examined for one copy. With more, and a link among those
/// examined, the copy may write any file.
const MAX_ENTRIES: usize = 4096;

/// A path that a command changes.
struct Change {
    command: Option<usize>,
    path: PathOf,
    /// True if anything may be put below it.
    is_place: bool,
}

/// A command line that copies folders.
struct Line<'a> {
    context: &'a PathContext,
    disk: &'a Disk,
    /// The folders that the line changes to.
    folders: &'a Folders,
    /// The changes by the commands of the line.
    changes: Vec<Change>,
    /// True if the line has one command only: nothing in it changes the source before the copy.
    is_alone: bool,
}

/// Returns the links through which the copied files may be written, each with [`Use::Target`].
pub(super) fn written_links(
    analysis: &Analysis,
    context: &PathContext,
    disk: &Disk,
    folders: &Folders,
) -> Vec<(Use, Word)> {
    if !context.follows_links || analysis.tree_copies.is_empty() {
        return Vec::new();
    }

    let is_alone = analysis.covered().count() < 2;
    let line = Line {
        context,
        disk,
        folders,
        changes: changes(analysis, context, folders),
        is_alone,
    };
    let copies = analysis.tree_copies.iter();
    let links = copies.flat_map(|copy| line.links_of(copy));
    links.map(|link| (Use::Target, link)).collect()
}

/// Returns the changes by the commands of a line: to words that they change, to the targets of
/// redirections, and below the places where they put what may be a link or hold one.
fn changes(analysis: &Analysis, context: &PathContext, folders: &Folders) -> Vec<Change> {
    let words = path_words(analysis)
        .filter(|((at, whole), (_, word_use))| {
            word_use.is_changed || analysis.commands[*at].changes_last(whole)
        })
        .map(|((command, _), (word, _))| (Some(command), word, false));
    let redirections = analysis.redirections.iter();
    let redirections = redirections.map(|(command, word)| (*command, word.clone(), false));
    let arrivals = analysis.arrivals.iter();
    let arrivals = arrivals.map(|arrival| (Some(arrival.command), arrival.target.clone(), true));
    let changes = words.chain(redirections).chain(arrivals);
    let changes = changes.map(|(command, word, is_place)| {
        let path = PathOf::of_word(&word, context, folders);
        Change {
            command,
            path: path.compared(context).into_owned(),
            is_place,
        }
    });
    changes.collect()
}

impl Line<'_> {
    /// Returns the links through which a copy may write.
    fn links_of(&self, copy: &TreeCopy) -> Vec<Word> {
        if !PathOf::of_word(&copy.target, self.context, self.folders).is_known() {
            return vec![copy.target.clone()];
        }

        let has_any_names = self.has_any_names(copy);
        let mut comparison = Comparison::new(self.disk, copy.follows_links);
        // Behind a link, `..` is not the folder of the link.
        let context = PathContext {
            keeps_parents: true,
            ..self.context.clone()
        };
        let folders = self.folders.in_context(&context);
        for (context, folders) in [(self.context, self.folders), (&context, &folders)] {
            let sources = PathOf::of_word(&copy.source, context, folders).0;
            let targets = PathOf::of_word(&copy.target, context, folders).0;
            // Both begin at the same folder.
            let has_pairs = sources.len() == targets.len();
            for (at, target) in targets.iter().enumerate() {
                let sources = sources.iter().enumerate();
                for (_, source) in sources.filter(|(index, _)| !has_pairs || *index == at) {
                    comparison.compare((!has_any_names).then_some(source.as_slice()), target);
                }
            }
        }
        comparison.links()
    }

    /// Returns `true` if the copied files may have names that the source does not have now.
    fn has_any_names(&self, copy: &TreeCopy) -> bool {
        let source = PathOf::of_word(&copy.source, self.context, self.folders);
        let may_be_made = || self.is_missing(&source) || self.is_changed(copy.command, &source);
        !source.is_known() || !self.is_alone && may_be_made()
    }

    fn is_missing(&self, source: &PathOf) -> bool {
        let paths = source.0.iter();
        let mut paths = paths
            .filter_map(|path| self.disk.expand(path, true))
            .flatten();
        !paths.any(|path| self.disk.may_look() && fs::symlink_metadata(&path).is_ok())
    }

    /// Returns `true` if another command may change what is in the source.
    fn is_changed(&self, command: usize, source: &PathOf) -> bool {
        let source = source.compared(self.context);
        let is_in_source = |change: &Change| {
            let mut sources = source.0.iter();
            sources.any(|source| best_match(source, &change.path, true) != Match::No)
        };
        let is_around_source = |change: &Change| {
            let mut places = change.path.0.iter();
            change.is_place && places.any(|place| best_match(place, &source, true) != Match::No)
        };
        self.changes.iter().any(|change| {
            change.command != Some(command)
                && (!self.disk.may_compare() || is_in_source(change) || is_around_source(change))
        })
    }
}

/// The comparison of the folders that are copied with those that they are copied to.
struct Comparison<'a> {
    disk: &'a Disk,
    /// True if links among the copied files are followed.
    follows_links: bool,
    /// The pairs of folders that were compared.
    pairs: HashSet<(Option<String>, String)>,
    entry_count: usize,
    /// The links that have the names of copied files.
    links: Vec<Word>,
    /// True if any link lies in the target.
    has_link: bool,
    /// True if a part of the target is not known.
    is_incomplete: bool,
}

impl<'a> Comparison<'a> {
    fn new(disk: &'a Disk, follows_links: bool) -> Self {
        Self {
            disk,
            follows_links,
            pairs: HashSet::new(),
            entry_count: 0,
            links: Vec::new(),
            has_link: false,
            is_incomplete: false,
        }
    }

    /// Returns the links with the names of copied files. If there may be others, an unknown word,
    /// which may be any link, is among them.
    fn links(mut self) -> Vec<Word> {
        if self.is_incomplete && self.has_link || self.disk.is_exhausted() {
            self.links.push(Word::unknown());
        }
        self.links
    }

    /// Compares the folders of a path with those that they are copied to, or into. Without a
    /// source, the copied files may have any names.
    fn compare(&mut self, source: Option<&[Segment]>, target: &[Segment]) {
        let Some(targets) = self.disk.expand(target, true) else {
            self.is_incomplete = true;
            return;
        };
        let sources: Vec<_> = match source.map(|source| self.disk.expand(source, true)) {
            Some(Some(sources)) => sources.into_iter().map(Some).collect(),
            _ => vec![None],
        };
        let disk = self.disk;
        let is_folder = |path: &String| disk.may_look() && Path::new(&join(path, "")).is_dir();
        let sources = sources.iter();
        for source in sources.filter(|source| source.iter().all(is_folder)) {
            let name = source.as_deref().map(Path::new).and_then(Path::file_name);
            let name = name.and_then(OsStr::to_str);
            for target in &targets {
                let inner_target = name.map(|name| join(target, name));
                for target in [Some(target.clone()), inner_target].into_iter().flatten() {
                    self.compare_folders(source.clone(), target);
                }
            }
        }
    }

    /// Compares two folders, and the folders that are in both, and records each link in the target
    /// that has the name of a copied file. Without a source, any name may be one.
    fn compare_folders(&mut self, source: Option<String>, target: String) {
        let mut folders = VecDeque::from([(source, target)]);
        while let Some((source, target)) = folders.pop_front() {
            let pair = (source, target);
            if pair.0.as_ref() == Some(&pair.1) || !self.pairs.insert(pair.clone()) {
                continue;
            }

            let (source, target) = pair;
            for name in self.names(source.as_deref(), &target) {
                if !self.disk.may_look() {
                    return;
                }
                let original = source.as_deref().map(|source| join(source, &name));
                let place = join(&target, &name);
                let Ok(metadata) = fs::symlink_metadata(&place) else {
                    continue;
                };
                let kind = metadata.file_type();
                let is_folder = match &original {
                    Some(original) => self.makes_folder(original),
                    None => Some(kind.is_dir()),
                };
                let Some(is_folder) = is_folder else {
                    continue;
                };

                if kind.is_symlink() {
                    self.has_link = true;
                    self.links.push(Word::from_text(place.clone()));
                }
                // Some versions of the programs copy to the folder that a link leads to.
                if is_folder && (kind.is_dir() || kind.is_symlink()) {
                    folders.push_back((original, place));
                }
            }
        }
    }

    /// Returns the names of the links and folders in a target; if it cannot be listed, those of all
    /// that is copied there.
    fn names(&mut self, source: Option<&str>, target: &str) -> Vec<String> {
        let mut listing = self.disk.list(target);
        let is_closed = matches!(*listing, Listing::Closed | Listing::Unknown);
        if let Some(source) = source.filter(|_| is_closed) {
            listing = self.disk.list(source);
        }
        let entries = match &*listing {
            Listing::Missing => return Vec::new(),
            Listing::Closed | Listing::Unknown => {
                self.is_incomplete = true;
                return Vec::new();
            }
            Listing::Entries(entries) => entries,
        };

        self.has_link |= !is_closed && entries.iter().any(|entry| entry.is_link);
        self.entry_count += entries.len();
        if self.entry_count > MAX_ENTRIES {
            self.is_incomplete = true;
            return Vec::new();
        }

        let entries = entries.iter();
        let entries = entries.filter(|entry| is_closed || entry.is_link || entry.is_folder);
        let mut names = Vec::new();
        for entry in entries {
            match &entry.name {
                Some(name) => names.push(name.clone()),
                None => self.is_incomplete = true,
            }
        }
        names
    }

    /// Returns `true` if a copy of what lies at a path is a folder; `None` if it is a link, or if
    /// nothing lies there.
    fn makes_folder(&self, original: &str) -> Option<bool> {
        let metadata = if self.follows_links {
            fs::metadata(original)
        } else {
            fs::symlink_metadata(original)
        };
        let kind = metadata.ok()?.file_type();
        (!kind.is_symlink()).then_some(kind.is_dir())
    }
}

fn join(folder: &str, name: &str) -> String {
    format!("{folder}/{name}")
}
