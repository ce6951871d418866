//! The queries of searches, and their results.

use super::super::filter::PathFilter;

/// A search for the files whose path matches a pattern.
///
/// `?`, `*`, `[a-z]` and `{a,b}` match parts of one name, `**` any number of folders, including
/// none. Files excluded by `.gitignore`, `.ignore` and `.git/info/exclude` below the root are
/// omitted, and so are hidden files, unless the pattern names them: the literal folders a pattern
/// begins with are always searched, and a part that begins with a dot finds hidden names. Symbolic
/// links are not followed.
///
/// ```
/// use agentcore::backend::{Backend, GlobQuery, MemoryBackend};
///
/// # async fn example() -> agentcore::Result<()> {
/// let backend = MemoryBackend::new();
/// for path in ["lib.rs", "a/b/mod.rs", "a/notes.md"] {
///     backend.write(path, b"").await?;
/// }
/// let found = backend.glob(GlobQuery::new("**/*.rs")).await?;
/// assert_eq!(found.files, ["a/b/mod.rs", "lib.rs"]);
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GlobQuery {
    /// The pattern, matched against paths relative to `path`; an absolute one lies below the root.
    /// At most 1,024 bytes, 32 `{`, 128 `*` and 256 `,`.
    pub pattern: String,
    /// The folder to search; `None` means the root.
    pub path: Option<String>,
    /// True if a pattern without a slash is matched against names in folders below, too.
    pub any_depth: bool,
    /// The maximum number of files to return.
    pub limit: usize,
    /// The filter for files that may be found; other files do not count against the limit.
    pub filter: PathFilter,
}

impl GlobQuery {
    /// Creates a search of the whole workspace for at most 1,000 files.
    pub fn new(pattern: impl Into<String>) -> Self {
        Self {
            pattern: pattern.into(),
            path: None,
            any_depth: false,
            limit: 1_000,
            filter: PathFilter::all(),
        }
    }

    /// Sets the folder to search.
    #[must_use]
    pub fn within(mut self, path: impl Into<String>) -> Self {
        self.path = Some(path.into());
        self
    }

    /// Matches a pattern without a slash against names at any depth.
    #[must_use]
    pub fn any_depth(mut self) -> Self {
        self.any_depth = true;
        self
    }

    /// Sets the maximum number of results.
    #[must_use]
    pub fn with_limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Sets the filter for files that may be found.
    #[must_use]
    pub fn with_filter(mut self, filter: PathFilter) -> Self {
        self.filter = filter;
        self
    }
}

/// The result of a [`GlobQuery`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GlobMatches {
    /// Paths relative to the root, sorted by their bytes.
    pub files: Vec<String>,
    /// True if there may be more.
    pub truncated: bool,
    /// True if the filter left files out.
    pub withheld: bool,
}

/// A search for the lines that match a regular expression, in the syntax of the regex crate.
///
/// The files that a [`GlobQuery`] may return are searched. A file that is named as `path` is
/// searched even if it is hidden or ignored, or does not match `glob` or `file_type`. No match in a
/// binary file is returned: in one with a NUL byte that is not UTF-16 with a byte order mark. The
/// options without a setter are set as fields.
///
/// ```
/// use agentcore::backend::{Backend, GrepQuery, MemoryBackend};
///
/// # async fn example() -> agentcore::Result<()> {
/// let backend = MemoryBackend::new();
/// backend.write("a.txt", b"one foo\ntwo bar\nthree FOO\n").await?;
/// let mut query = GrepQuery::new("foo$");
/// query.ignore_case = true;
/// let found = backend.grep(query).await?;
/// let numbers: Vec<u64> = found.files[0].lines.iter().map(|line| line.number).collect();
/// assert_eq!(numbers, [1, 3]);
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GrepQuery {
    /// The regular expression. It may have at most 8 KiB, and at most 4,096 characters and classes,
    /// each counted as often as it is repeated.
    pub pattern: String,
    /// The file or folder to search; `None` means the root.
    pub path: Option<String>,
    /// A pattern files must match, as in a `.gitignore`: without a slash it is matched at any
    /// depth, with `!` in front it excludes. It has the same limits as [`GlobQuery::pattern`].
    pub glob: Option<String>,
    /// The name of one of ripgrep's file types, such as `rust` or `py`.
    pub file_type: Option<String>,
    /// True if case does not matter.
    pub ignore_case: bool,
    /// True if a match may span lines, and `.` matches a line's end.
    pub multiline: bool,
    /// The number of lines to show before each match.
    pub before: usize,
    /// The number of lines to show after each match.
    pub after: usize,
    /// The kind of result for each file.
    pub mode: GrepMode,
    /// The maximum number of lines to return, those of context included, or of files when no lines
    /// are requested.
    pub limit: usize,
    /// The filter for files that are searched.
    pub filter: PathFilter,
}

impl GrepQuery {
    /// Creates a search of the whole workspace for at most 1,000 lines.
    pub fn new(pattern: impl Into<String>) -> Self {
        Self {
            pattern: pattern.into(),
            path: None,
            glob: None,
            file_type: None,
            ignore_case: false,
            multiline: false,
            before: 0,
            after: 0,
            mode: GrepMode::Lines,
            limit: 1_000,
            filter: PathFilter::all(),
        }
    }

    /// Sets the file or folder to search.
    #[must_use]
    pub fn within(mut self, path: impl Into<String>) -> Self {
        self.path = Some(path.into());
        self
    }

    /// Sets the kind of result for each file.
    #[must_use]
    pub fn with_mode(mut self, mode: GrepMode) -> Self {
        self.mode = mode;
        self
    }

    /// Sets the maximum number of results.
    #[must_use]
    pub fn with_limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Sets the filter for files that may be found.
    #[must_use]
    pub fn with_filter(mut self, filter: PathFilter) -> Self {
        self.filter = filter;
        self
    }
}

/// The kind of result of a [`GrepQuery`] for each file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum GrepMode {
    /// The lines.
    #[default]
    Lines,
    /// Only the existence of a match.
    Files,
    /// The number of matching lines.
    Count,
}

/// The result of a [`GrepQuery`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GrepMatches {
    /// The files with a match, sorted by the bytes of their path.
    pub files: Vec<GrepFile>,
    /// True if there may be more.
    pub truncated: bool,
    /// True if the filter left files out.
    pub withheld: bool,
    /// The number of files that were not searched, because they cannot be read or have a line that
    /// is too long; with `multiline`, because the whole file is too long. The maximum length is 64
    /// MiB for an expression of texts and alternatives alone, and 8 MiB or less for others: the
    /// more the expression repeats, the lower it is.
    pub skipped: usize,
}

/// A file with a match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GrepFile {
    /// Its path relative to the root.
    pub path: String,
    /// The number of matching lines, as far as was counted; 1 in [`GrepMode::Files`].
    pub count: u64,
    /// The lines, in [`GrepMode::Lines`].
    pub lines: Vec<GrepLine>,
}

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GrepLine {
    /// Its number, from 1.
    pub number: u64,
    /// Its text without the line's end; invalid UTF-8 as `\u{FFFD}`, a long line cut.
    pub text: String,
    /// True if it matches; false if it is context of a match.
    pub is_match: bool,
}
