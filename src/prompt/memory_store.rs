//! Long-term memory and daily notes.

use std::sync::Arc;
use std::time::SystemTime;

use jiff::civil::Date;
use tokio::sync::Mutex;

use crate::backend::{Backend, ContentHash, is_not_found};
use crate::error::{Error, ErrorKind, Result};
use crate::util::text::floor_char_boundary;

use super::local_clock::LocalClock;

const LONG_TERM: &str = "memory/MEMORY.md";
const SEPARATOR: &str = "\n\n---\n\n";
/// The maximum number of bytes read of a file.
const MAX_BYTES: usize = 256 * 1024;
/// The days of notes in the text for the prompt.
const DAYS: u32 = 3;
/// The maximum number of days whose notes are read.
const MAX_DAYS: u32 = 366;

/// Long-term memory and daily notes, in files of a workspace.
///
/// Long-term memory is `memory/MEMORY.md`, and the notes of a day are `memory/YYYYMM/YYYYMMDD.md`,
/// by the local calendar. A missing file counts as empty. The first 256 KiB of a long file are
/// read; bytes that are not UTF-8 are replaced. Clones share it.
///
/// ```
/// use std::time::{Duration, SystemTime};
///
/// use agentcore::backend::MemoryBackend;
/// use agentcore::prompt::MemoryStore;
///
/// # async fn example() -> agentcore::Result<()> {
/// let clock = || SystemTime::UNIX_EPOCH + Duration::from_secs(1_769_936_400);
/// let memory = MemoryStore::new(MemoryBackend::new()).with_clock(clock).with_zone("UTC")?;
/// memory.append_today("Fixed the parser.").await?;
/// memory.append_today("Began the lexer.").await?;
/// assert_eq!(memory.today_file()?, "memory/202602/20260201.md");
/// assert_eq!(memory.read_today().await?, "# 2026-02-01\n\nFixed the parser.\nBegan the lexer.");
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct MemoryStore {
    backend: Arc<dyn Backend>,
    clock: LocalClock,
    /// Locked while notes are appended, so that a day has one heading.
    appending: Arc<Mutex<()>>,
}

/// The long-term memory that a run read or wrote last, as a value of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryVersion {
    /// There was no file.
    Missing,
    /// The whole file.
    Whole(ContentHash),
    /// The start of a file that is too long.
    Start,
    /// The whole file, of which the result of `read_memory` has only the start.
    Cut,
}

/// The text for the system prompt.
#[derive(Debug)]
pub(crate) struct MemoryContext {
    pub(crate) text: String,
    /// The number of bytes at the beginning of `text` that are the heading and the text of
    /// long-term memory.
    pub(crate) long_term_len: usize,
    /// `None` if long-term memory cannot be read.
    pub(crate) version: Option<MemoryVersion>,
    /// The errors of the files that cannot be read.
    pub(crate) errors: Vec<Error>,
}

impl MemoryStore {
    /// Creates a store on the files of a workspace, by the clock and in the time zone of the
    /// system.
    pub fn new(backend: impl Backend) -> Self {
        Self {
            backend: Arc::new(backend),
            clock: LocalClock::system(),
            appending: Arc::default(),
        }
    }

    /// Sets the clock, such as a fixed one in tests.
    #[must_use]
    pub fn with_clock(mut self, clock: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        self.clock = self.clock.with_clock(Arc::new(clock));
        self
    }

    /// Sets the time zone that days are counted in, by its IANA name.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Config`] if there is no such zone.
    pub fn with_zone(mut self, name: &str) -> Result<Self> {
        self.clock = self.clock.with_zone(name)?;
        Ok(self)
    }

    /// Returns the path of long-term memory.
    pub fn long_term_file(&self) -> &'static str {
        LONG_TERM
    }

    /// Returns the path of today's notes.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Other`] if the clock is outside the calendar.
    pub fn today_file(&self) -> Result<String> {
        Ok(file_of(self.clock.today()?))
    }

    /// Reads long-term memory.
    ///
    /// # Errors
    ///
    /// Returns the backend's error.
    pub async fn read_long_term(&self) -> Result<String> {
        self.read(LONG_TERM).await
    }

    /// Replaces long-term memory, also if it has changed since it was read.
    ///
    /// # Errors
    ///
    /// Returns the backend's error, and [`ErrorKind::InvalidRequest`] if the text has more than 256
    /// KiB.
    pub async fn write_long_term(&self, text: &str) -> Result<()> {
        check_size(text)?;
        self.backend.write(LONG_TERM, text.as_bytes()).await
    }

    /// Replaces long-term memory if it still has the version that the run has read, so that no text
    /// is lost that another run wrote or that was not read. Returns the new version. Without a
    /// version, it is always replaced.
    pub(crate) async fn replace_long_term(
        &self,
        text: &str,
        version: Option<MemoryVersion>,
    ) -> Result<MemoryVersion> {
        check_size(text)?;
        let content = text.as_bytes();
        match version {
            None => self.backend.write(LONG_TERM, content).await?,
            Some(MemoryVersion::Missing) => {
                let outcome = self.backend.create_new(LONG_TERM, content).await;
                outcome.map_err(to_conflict)?;
            }
            Some(MemoryVersion::Whole(hash)) => {
                let write = self.backend.write_if_unchanged(LONG_TERM, hash, content);
                write.await.map_err(to_conflict)?;
            }
            Some(MemoryVersion::Start) => {
                let text = format!(
                    "{LONG_TERM} is longer than the {MAX_BYTES} bytes that are read of it, and the \
                     remaining text would be lost; shorten the file, and call read_memory again"
                );
                return Err(Error::new(ErrorKind::Conflict, text));
            }
            Some(MemoryVersion::Cut) => {
                let text = format!(
                    "the result of read_memory was cut, and the remaining text of {LONG_TERM} \
                     would be lost; call read_memory again without other calls, or shorten the file"
                );
                return Err(Error::new(ErrorKind::Conflict, text));
            }
        }
        Ok(MemoryVersion::Whole(ContentHash::of(content)))
    }

    /// Reads today's notes.
    ///
    /// # Errors
    ///
    /// Returns the backend's error, and the errors of [`today_file`](Self::today_file).
    pub async fn read_today(&self) -> Result<String> {
        self.read(&self.today_file()?).await
    }

    /// Appends to today's notes. The first note of a day is written below a heading with the date.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`read_today`](Self::read_today), and
    /// [`ErrorKind::InvalidRequest`] if the notes of the day would have more than 256 KiB.
    pub async fn append_today(&self, text: &str) -> Result<()> {
        check_size(text)?;
        let _appending = self.appending.lock().await;
        let today = self.clock.today()?;
        let path = file_of(today);
        let notes = self.read(&path).await?;
        let text = if notes.is_empty() {
            format!("# {today}\n\n{text}")
        } else {
            format!("\n{text}")
        };
        let len = notes.len() + text.len();
        if len > MAX_BYTES {
            let text = format!(
                "with this note, {path} would have {len} bytes, more than {MAX_BYTES}; shorten the \
                 note, or the file"
            );
            return Err(Error::new(ErrorKind::InvalidRequest, text));
        }
        self.backend.append(&path, text.as_bytes()).await
    }

    /// Reads the notes of the newest `days` days, today among them, the newest first, with a line
    /// `---` between two days. Days without notes are omitted, and days with which the text would
    /// have more than 256 KiB. At most 366 days are read.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`read_today`](Self::read_today).
    pub async fn recent_daily_notes(&self, days: u32) -> Result<String> {
        let mut errors = Vec::new();
        let notes = self.read_daily_notes(days, &mut errors).await;
        first_error(errors)?;
        Ok(notes)
    }

    /// Reads the [recent notes](Self::recent_daily_notes), without the days that cannot be read.
    async fn read_daily_notes(&self, days: u32, errors: &mut Vec<Error>) -> String {
        let mut notes = String::new();
        let days = self.clock.newest_days(days.min(MAX_DAYS));
        for day in ok_or_add(days, errors) {
            let text = ok_or_add(self.read(&file_of(day)).await, errors);
            let text = text.trim_end();
            let gap = if notes.is_empty() { "" } else { SEPARATOR };
            if text.is_empty() || notes.len() + gap.len() + text.len() > MAX_BYTES {
                continue;
            }
            notes.push_str(gap);
            notes.push_str(text);
        }
        notes
    }

    /// Returns the text for the system prompt: long-term memory and the notes of three days, each
    /// below its heading; empty if there is neither. A line after long-term memory reports that
    /// it is cut.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`read_today`](Self::read_today).
    pub async fn memory_context(&self) -> Result<String> {
        let context = self.read_context().await;
        first_error(context.errors)?;
        Ok(context.text)
    }

    /// Reads the text for the system prompt, without the files that cannot be read.
    pub(crate) async fn read_context(&self) -> MemoryContext {
        let mut errors = Vec::new();
        let long_term = self.read_start(LONG_TERM).await;
        let long_term = long_term.map(|(text, version)| (text, Some(version)));
        let (mut long_term, version) = ok_or_add(long_term, &mut errors);
        if matches!(version, Some(MemoryVersion::Start)) {
            long_term.push_str(&format!("\n\n({})", cut_note()));
        }

        let has_long_term = !long_term.trim().is_empty();
        let notes = self.read_daily_notes(DAYS, &mut errors).await;
        let sections = [
            ("Long-term Memory", long_term),
            ("Recent Daily Notes", notes),
        ];
        let parts: Vec<_> = sections
            .iter()
            .filter(|(_, text)| !text.trim().is_empty())
            .map(|(heading, text)| format!("## {heading}\n\n{}", text.trim_end()))
            .collect();
        let long_term_part = parts.first().filter(|_| has_long_term);
        MemoryContext {
            text: parts.join(SEPARATOR),
            long_term_len: long_term_part.map_or(0, String::len),
            version,
            errors,
        }
    }

    /// Returns the present time in the zone of the notes.
    #[cfg(feature = "yaml")]
    pub(super) fn now(&self) -> Result<String> {
        self.clock.now()
    }

    /// Returns the files that [`memory_context`](Self::memory_context) reads.
    pub(crate) fn context_files(&self) -> Vec<String> {
        // Without a date there are no notes, and `memory_context` fails.
        let days = self.clock.newest_days(DAYS).unwrap_or_default();
        let notes = days.into_iter().map(file_of);
        std::iter::once(LONG_TERM.to_owned()).chain(notes).collect()
    }

    async fn read(&self, path: &str) -> Result<String> {
        Ok(self.read_start(path).await?.0)
    }

    /// Reads the text of a file, or the start of a long one, and its version.
    async fn read_start(&self, path: &str) -> Result<(String, MemoryVersion)> {
        let content = match self.backend.read_range(path, 0, MAX_BYTES + 1).await {
            Ok(content) => content,
            Err(error) if is_not_found(&error) => {
                return Ok((String::new(), MemoryVersion::Missing));
            }
            Err(error) => return Err(error),
        };
        let text = String::from_utf8_lossy(&content);
        // Replacement characters may be longer than the bytes that they replace.
        let len = floor_char_boundary(&text, MAX_BYTES);
        let version = if len < text.len() {
            MemoryVersion::Start
        } else {
            MemoryVersion::Whole(ContentHash::of(&content))
        };
        Ok((
            text[..len].trim_start_matches('\u{feff}').to_owned(),
            version,
        ))
    }
}

/// Returns the note about long-term memory that is cut.
pub(super) fn cut_note() -> String {
    format!("{LONG_TERM} is cut: the first {MAX_BYTES} bytes are read")
}

/// Returns the value. Adds the error, and returns an empty value, if there is none.
fn ok_or_add<T: Default>(outcome: Result<T>, errors: &mut Vec<Error>) -> T {
    outcome.unwrap_or_else(|error| {
        errors.push(error);
        T::default()
    })
}

fn first_error(errors: Vec<Error>) -> Result<()> {
    errors.into_iter().next().map_or(Ok(()), Err)
}

fn file_of(day: Date) -> String {
    day.strftime("memory/%Y%m/%Y%m%d.md").to_string()
}

/// Returns the error for long-term memory that has changed. It names the tool, because other tools
/// that read the file do not count.
fn to_conflict(error: Error) -> Error {
    if error.kind() != ErrorKind::Conflict && !is_not_found(&error) {
        return error;
    }
    let text = format!(
        "{LONG_TERM} has changed since it was read; read it with read_memory, and write it again"
    );
    Error::new(ErrorKind::Conflict, text)
}

fn check_size(text: &str) -> Result<()> {
    if text.len() <= MAX_BYTES {
        return Ok(());
    }
    let text = format!(
        "a memory of {} bytes is more than {MAX_BYTES}; shorten it",
        text.len()
    );
    Err(Error::new(ErrorKind::InvalidRequest, text))
}
