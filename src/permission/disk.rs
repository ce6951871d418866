//! The folders that one decision reads.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fs::{self, FileType};
use std::io::ErrorKind;
use std::path::Path;
use std::rc::Rc;

use super::glob::{GlobToken, Match, matches};
use super::paths::{Segment, text_of};

/// The maximum number of entries read of a folder.
const MAX_ENTRIES: usize = 4096;
/// The maximum work of one decision: comparisons of an entry with a rule.
const MAX_WORK: usize = 1 << 18;
/// The maximum work of a decision that is made on the executor, about 10 ms.
const SHORT_WORK: usize = 1 << 12;
/// The work of reading one entry, or of opening a folder.
const ENTRY_WORK: usize = 4;

/// The folders of this machine as one decision reads them: each once, up to a maximum of work.
#[derive(Debug)]
pub(super) struct Disk {
    work: Cell<usize>,
    max_work: usize,
    listings: RefCell<HashMap<String, Rc<Listing>>>,
    answers: RefCell<HashMap<TreeQuestion, bool>>,
}

/// A question about a folder, which is answered once.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct TreeQuestion {
    pub(super) folder: String,
    pub(super) pattern: String,
    pub(super) skips_hidden: bool,
    pub(super) follows_links: bool,
}

/// The entries of a folder.
#[derive(Debug)]
pub(super) enum Listing {
    /// There is no such folder.
    Missing,
    /// It cannot be opened.
    Closed,
    /// It has more entries than are read, or the decision has read too many.
    Unknown,
    Entries(Vec<DiskEntry>),
}

/// An entry of a folder.
#[derive(Debug)]
pub(super) struct DiskEntry {
    /// Its name; `None` if it is no text.
    pub(super) name: Option<String>,
    pub(super) is_folder: bool,
    pub(super) is_link: bool,
}

impl Default for Disk {
    fn default() -> Self {
        Self::new(MAX_WORK)
    }
}

impl Disk {
    fn new(max_work: usize) -> Self {
        Self {
            work: Cell::default(),
            max_work,
            listings: RefCell::default(),
            answers: RefCell::default(),
        }
    }

    /// Returns the folders for a decision that must not take long. Once it is
    /// [exhausted](Self::is_exhausted), the decision is made again with a default one.
    pub(super) fn short() -> Self {
        Self::new(SHORT_WORK)
    }

    /// The reason why a decision that needed more than the maximum work is a question.
    pub(super) const LIMIT: &str = "\
        it names too many folders to look through: a decision reads at most 65,536 entries, and \
        compares entries with rules at most 262,144 times";

    /// Returns `true` if the decision needed more than the maximum work.
    pub(super) fn is_exhausted(&self) -> bool {
        self.work.get() > self.max_work
    }

    /// Counts the comparison of an entry with a rule. Returns `false` if there are too many.
    pub(super) fn may_compare(&self) -> bool {
        self.spend(1)
    }

    /// Counts a look at a file. Returns `false` if there are too many.
    pub(super) fn may_look(&self) -> bool {
        self.spend(ENTRY_WORK)
    }

    fn spend(&self, work: usize) -> bool {
        self.work.set(self.work.get().saturating_add(work));
        !self.is_exhausted()
    }

    /// Returns the answer to the question, which is computed once.
    pub(super) fn answer(&self, question: TreeQuestion, compute: impl FnOnce() -> bool) -> bool {
        if let Some(answer) = self.answers.borrow().get(&question) {
            return *answer;
        }
        let answer = compute();
        self.answers.borrow_mut().insert(question, answer);
        answer
    }

    /// Returns the entries of a folder; the root is the empty path.
    pub(super) fn list(&self, folder: &str) -> Rc<Listing> {
        if let Some(listing) = self.listings.borrow().get(folder) {
            return listing.clone();
        }
        let listing = Rc::new(self.read(folder));
        self.listings
            .borrow_mut()
            .insert(folder.to_owned(), listing.clone());
        listing
    }

    fn read(&self, folder: &str) -> Listing {
        if !self.may_look() {
            return Listing::Unknown;
        }

        let path = if folder.is_empty() { "/" } else { folder };
        let directory = match fs::read_dir(path) {
            Ok(directory) => directory,
            Err(error) => match error.kind() {
                ErrorKind::NotFound | ErrorKind::NotADirectory => return Listing::Missing,
                _ => return Listing::Closed,
            },
        };
        let mut entries = Vec::new();
        for entry in directory {
            if entries.len() == MAX_ENTRIES || !self.may_look() {
                return Listing::Unknown;
            }
            let Ok(entry) = entry else {
                return Listing::Unknown;
            };

            let kind = entry.file_type();
            let is = |test: fn(&FileType) -> bool| kind.as_ref().is_ok_and(test);
            entries.push(DiskEntry {
                name: entry.file_name().into_string().ok(),
                is_folder: is(FileType::is_dir),
                is_link: is(FileType::is_symlink),
            });
        }

        Listing::Entries(entries)
    }

    /// Returns `Yes` if a path is a link, `Maybe` if it is a folder that holds one or may hold one.
    pub(super) fn has_link(&self, path: &[Segment]) -> Match {
        let Some(mut paths) = self.expand(path, true) else {
            return Match::Maybe;
        };
        let is_link = |path: &String| Path::new(path).is_symlink();
        if paths.iter().any(is_link) {
            return Match::Yes;
        }
        let mut count = 0;
        while let Some(path) = paths.pop() {
            let listing = self.list(&path);
            let entries = match &*listing {
                Listing::Missing => continue,
                Listing::Entries(entries) if count <= MAX_ENTRIES => entries,
                _ => return Match::Maybe,
            };
            count += entries.len();
            for entry in entries
                .iter()
                .filter(|entry| entry.is_link || entry.is_folder)
            {
                match &entry.name {
                    _ if entry.is_link => return Match::Maybe,
                    Some(name) => paths.push(format!("{path}/{name}")),
                    None => return Match::Maybe,
                }
            }
        }
        Match::No
    }

    /// Returns the paths that a path with wildcards is expanded to: a shell makes no others of it.
    /// `None` if they cannot be known. With `has_hidden`, a wildcard also matches a dot at the
    /// beginning.
    pub(super) fn expand(&self, path: &[Segment], has_hidden: bool) -> Option<Vec<String>> {
        let mut paths = vec![String::new()];
        for segment in path {
            let Segment::Name(pattern) = segment else {
                return None;
            };

            if let Some(name) = text_of(segment) {
                // Each path becomes longer, and takes longer to look up.
                if !self.spend(paths.len()) {
                    return None;
                }
                paths
                    .iter_mut()
                    .for_each(|path| *path += &format!("/{name}"));
                continue;
            }

            let has_hidden = has_hidden || pattern.first() == Some(&GlobToken::Char('.'));
            let pattern = pattern.iter().flat_map(in_lowercase).collect::<Vec<_>>();
            let mut next_paths = Vec::new();
            for folder in &paths {
                let listing = self.list(folder);
                let entries = match &*listing {
                    Listing::Missing => continue,
                    Listing::Closed | Listing::Unknown => return None,
                    Listing::Entries(entries) => entries,
                };
                for entry in entries {
                    if !self.may_compare() {
                        return None;
                    }

                    let name = entry.name.as_deref()?;
                    let is_visible = has_hidden || !name.starts_with('.');
                    let text = name.to_lowercase().chars().collect::<Vec<_>>();
                    // A shell may be set to ignore case.
                    if is_visible && matches(&pattern, &text) {
                        next_paths.push(format!("{folder}/{name}"));
                    }
                }
            }
            paths = next_paths;
        }

        Some(paths)
    }
}

fn in_lowercase(token: &GlobToken) -> Vec<GlobToken> {
    match token {
        GlobToken::Char(c) => c.to_lowercase().map(GlobToken::Char).collect(),
        wildcard => vec![*wildcard],
    }
}
