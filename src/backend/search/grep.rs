//! The search in contents.

use std::io::{self, Read};

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, MmapChoice, Searcher, SearcherBuilder};
use ignore::overrides::OverrideBuilder;
use ignore::types::TypesBuilder;

use crate::error::Result;
use crate::util::Cancellation;

use super::super::failure::invalid;
use super::super::filter::PathFilter;
use super::base::{folder, relative};
use super::cost;
use super::driver::Haystack;
use super::matcher::{Checked, Interruptible};
use super::pattern;
use super::query::{GrepFile, GrepMatches, GrepMode, GrepQuery};
use super::rules::absolute;
use super::sink::Lines;
use super::walk::Filter;

/// The maximum size of a compiled expression, in bytes.
const MAX_REGEX: usize = 10 * 1024 * 1024;
/// The maximum size of the cache of a search's states, in bytes.
const MAX_STATES: usize = 8 * 1024 * 1024;

/// The maximum size of the lines found, in bytes: cut lines count as they are shown, and each line
/// counts 64 bytes more.
const MAX_TEXT: usize = 8 * 1024 * 1024;

/// A search for the lines of a [`GrepQuery`], and its matches so far.
#[derive(Debug)]
pub(in super::super) struct Grepper {
    pub(super) base: String,
    matcher: RegexMatcher,
    searcher: Searcher,
    glob: Option<String>,
    file_type: Option<String>,
    multiline: bool,
    cancellation: Cancellation,
    mode: GrepMode,
    /// The number of lines, or of files, that may still be added.
    room: usize,
    /// The size of the lines that may still be added, in bytes.
    text_room: usize,
    path_filter: PathFilter,
    matches: GrepMatches,
}

impl Grepper {
    pub(super) fn new(
        query: &GrepQuery,
        roots: &[&str],
        cancellation: Cancellation,
    ) -> Result<Self> {
        let heap_limit = cost::searched_at_once(&query.pattern)?;
        let path = query.path.as_deref().unwrap_or("");
        let base = folder(relative(path, roots)?.split('/'));
        let mut builder = RegexMatcherBuilder::new();
        builder
            .multi_line(true)
            .case_insensitive(query.ignore_case)
            .dot_matches_new_line(query.multiline)
            .size_limit(MAX_REGEX)
            .dfa_size_limit(MAX_STATES);
        if !query.multiline {
            builder.line_terminator(Some(b'\n'));
        }

        let matcher = builder
            .build(&query.pattern)
            .map_err(|error| invalid(error.to_string()))?;
        let searcher = SearcherBuilder::new()
            .line_number(true)
            .multi_line(query.multiline)
            .before_context(query.before)
            .after_context(query.after)
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(Some(heap_limit))
            .memory_map(MmapChoice::never())
            .build();
        Ok(Self {
            base,
            matcher,
            searcher,
            glob: query.glob.clone(),
            file_type: query.file_type.clone(),
            multiline: query.multiline,
            cancellation,
            mode: query.mode,
            room: query.limit,
            text_room: MAX_TEXT,
            path_filter: query.filter.clone(),
            matches: GrepMatches::default(),
        })
    }

    pub(super) fn filter(&self) -> Result<Filter> {
        let mut overrides = OverrideBuilder::new(absolute(&self.base));
        if let Some(glob) = &self.glob {
            pattern::check(glob).map_err(|error| invalid(error.to_string()))?;
            overrides
                .add(glob)
                .map_err(|error| invalid(error.to_string()))?;
        }

        let mut types = TypesBuilder::new();
        types.add_defaults();
        if let Some(name) = &self.file_type {
            types.select(name);
        }

        Ok(Filter {
            hidden: false,
            overrides: overrides
                .build()
                .map_err(|error| invalid(error.to_string()))?,
            types: types.build().map_err(|error| invalid(error.to_string()))?,
        })
    }

    /// Searches a file. Returns `false` if no further files are needed.
    pub(super) fn search_file(&mut self, path: String, content: Haystack<'_>) -> bool {
        if !self.path_filter.shows(&path) {
            self.matches.withheld = true;
            return true;
        }

        let mut file = GrepFile {
            path,
            ..GrepFile::default()
        };

        let gives_way = self.matches.files.is_empty();
        let mut lines = Lines::new(&mut file, self.mode, self.room, self.text_room, gives_way);
        let outcome = match content {
            Haystack::File(content) => self.search(content, &mut lines),
            Haystack::Bytes(content) => self.search(content, &mut lines),
            Haystack::Unreadable => {
                self.matches.skipped += 1;
                return true;
            }
        };

        let overflowed = lines.overflowed;
        let binary = lines.binary;
        let text_room = lines.text_room();
        if self.cancellation.is_cancelled() {
            self.matches.truncated = true;
            return false;
        }

        if outcome.is_err() {
            self.matches.skipped += 1;
        }

        // Lines before the first NUL byte of a binary file are not reported either. A file without
        // a counted match may have one for which there was no room: then the search ends below.
        if binary || (file.count == 0 && !overflowed) {
            return true;
        }

        self.text_room = text_room;
        if self.mode == GrepMode::Lines {
            self.room -= file.lines.len().min(self.room);
        } else if self.room == 0 {
            self.matches.truncated = true;
            return false;
        } else {
            self.room -= 1;
        }

        // Context whose match has no room is not reported.
        if file.count > 0 {
            self.matches.files.push(file);
        }

        self.matches.truncated |= overflowed;
        !overflowed
    }

    fn search(&mut self, content: impl Read, lines: &mut Lines<'_>) -> io::Result<()> {
        let matcher = Interruptible {
            regex: &self.matcher,
            multiline: self.multiline,
            cancellation: &self.cancellation,
        };
        let content = Checked {
            reader: content,
            cancellation: &self.cancellation,
        };
        self.searcher.search_reader(matcher, content, lines)
    }

    pub(super) fn finish(mut self, truncated: bool) -> GrepMatches {
        self.matches.truncated |= truncated;
        self.matches
    }
}
