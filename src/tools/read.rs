//! Reading a file by lines.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::backend::Backend;
use crate::error::BoxError;
use crate::tool::{ToolError, ToolOutput};
use crate::util::secret::{Cut, redact_cut};
use crate::util::text;

use super::args::{Args, PATH};

/// The default number of lines shown.
const DEFAULT_LINES: usize = 2_000;
/// The maximum length of a line, in characters; a longer line is cut.
const MAX_LINE_CHARS: usize = 2_000;
/// The maximum number of bytes shown at once, regardless of the number of lines.
const MAX_SHOWN: usize = 256 * 1024;
/// The maximum number of bytes of a file that are searched for lines.
const MAX_SCAN: u64 = 256 * 1024 * 1024;
/// The size of a line without its text: its number, a tab and the line ending.
const LINE_OVERHEAD: usize = 8;
/// The number of bytes that are searched for lines at once.
const CHUNK: usize = 256 * 1024;
/// The size of the start of a file, in bytes; a NUL byte in it marks a binary file.
const SNIFF: usize = 8 * 1024;
/// The prefix of a file that is not text.
const BASE64: &str = "base64:";
/// The number of bytes of a file that are read before its size is requested. Every backend can read
/// that many at once.
const PIECE: usize = 1024 * 1024;
const BOM: &[u8] = b"\xEF\xBB\xBF";

/// The body of a tool that shows lines of a file with their numbers, like `cat -n`.
pub(super) async fn read_numbered(
    backend: Arc<dyn Backend>,
    args: Args,
) -> Result<ToolOutput, BoxError> {
    let page = LinePage::load(&*backend, &args).await?;
    let mut text = String::new();
    if page.is_lossy {
        text.push_str("[not UTF-8: invalid bytes are shown as \u{FFFD}]\n");
    }

    for (line, number) in page.lines.iter().zip(page.first..) {
        text.push_str(&format!("{number:>6}\t{line}\n"));
    }

    if let Some(note) = page.note() {
        text.push_str(&note);
    }

    Ok(ToolOutput::new(text.trim_end_matches('\n')))
}

/// The body of a tool that returns a file unchanged, or some of its lines. A file that is not UTF-8
/// is returned as `base64:` and its encoded bytes.
pub(super) async fn read_raw(
    backend: Arc<dyn Backend>,
    args: Args,
) -> Result<ToolOutput, BoxError> {
    if args.number("offset").is_some() || args.count("limit").is_some() {
        let page = LinePage::load(&*backend, &args).await?;
        let mut page_text = page.lines.join("\n");
        if let Some(note) = page.note() {
            page_text.push('\n');
            page_text.push_str(&note);
        }

        return Ok(ToolOutput::new(page_text));
    }

    let path = args.text(&PATH)?;
    let max_bytes = args.max_result_bytes();
    let start = backend.read_range(path, 0, PIECE).await?;
    if start.len() < PIECE {
        let size = start.len() as u64;
        return Ok(render_file(&start, size, max_bytes));
    }

    let size = backend.stat(path).await?.size;
    if size <= max_bytes as u64 {
        return Ok(render_file(&backend.read(path).await?, size, max_bytes));
    }

    // The remainder would be cut off. The last character of these bytes may be incomplete.
    let start = backend.read_range(path, 0, max_bytes + 4).await?;
    Ok(render_file(&start, size, max_bytes))
}

/// Returns the output for a file of `size` bytes that begins with `start`, cut to `max_bytes`.
fn render_file(start: &[u8], size: u64, max_bytes: usize) -> ToolOutput {
    let size = usize::try_from(size).unwrap_or(usize::MAX);

    // A backend may return fewer bytes than requested; then the output ends where they end.
    let max_bytes = match start.len() {
        len if len < size => max_bytes.min(len.saturating_sub(4)),
        _ => max_bytes,
    };

    ToolOutput::new(match valid_text(start, size) {
        Some(text) => text::copy_cut(text, size, max_bytes),
        None => {
            let size = BASE64.len() + size.div_ceil(3).saturating_mul(4);
            let start = &start[..start.len().min(max_bytes)];
            let text = format!("{BASE64}{}", STANDARD.encode(start));
            text::copy_cut(&text, size, max_bytes)
        }
    })
}

/// Returns the text of the start of a file of `size` bytes; `None` if it is not UTF-8. The last
/// character of a start may be incomplete.
fn valid_text(start: &[u8], size: usize) -> Option<&str> {
    match std::str::from_utf8(start) {
        Ok(text) => Some(text),
        Err(error) if error.error_len().is_none() && start.len() < size => {
            std::str::from_utf8(&start[..error.valid_up_to()]).ok()
        }
        Err(_) => None,
    }
}

/// Lines of a file.
struct LinePage {
    /// The number of the first line, from 1.
    first: u64,
    lines: Vec<String>,
    /// The number of lines of the file, if its end was reached.
    total: Option<u64>,
    is_lossy: bool,
}

impl LinePage {
    /// Reads the lines that a call requests.
    async fn load(backend: &dyn Backend, args: &Args) -> Result<Self, BoxError> {
        let first = args.number("offset").unwrap_or(1).max(1);
        let limit = args.count("limit").unwrap_or(DEFAULT_LINES);
        let path = args.text(&PATH)?;
        let mut reader = PageReader::new(first, limit);
        let mut position = 0_u64;
        loop {
            let chunk = backend.read_range(path, position, CHUNK).await?;
            if position == 0 && chunk.iter().take(SNIFF).any(|byte| *byte == 0) {
                let size = backend.stat(path).await?.size;
                let text = format!("{path} is a binary file ({size} bytes), not text");
                return Err(ToolError::new(text).into());
            }

            if chunk.is_empty() {
                return Ok(reader.finish());
            }

            let text = match position {
                0 => chunk.strip_prefix(BOM).unwrap_or(&chunk),
                _ => &chunk[..],
            };
            if !reader.push(text) {
                return Ok(reader.page);
            }

            position += chunk.len() as u64;
            if position >= MAX_SCAN {
                let text = format!(
                    "the requested lines of {path} do not end within its first {position} bytes; \
                     read other lines with offset and limit"
                );
                return Err(ToolError::new(text).into());
            }
        }
    }

    /// Returns the note about everything that the lines do not show.
    fn note(&self) -> Option<String> {
        let next = self.first + self.lines.len() as u64;
        match self.total {
            None => Some(format!(
                "... (more lines follow; continue with offset {next})"
            )),
            Some(0) => Some("(empty file)".to_owned()),
            Some(total) if self.first > total => {
                let lines = if total == 1 { "line" } else { "lines" };
                Some(format!("(the file has only {total} {lines})"))
            }
            Some(_) => None,
        }
    }
}

/// Reads the lines of a page from the chunks of a file.
struct PageReader {
    page: LinePage,
    /// The maximum number of lines of the page.
    limit: usize,
    /// The line of the file that is being read.
    line: ReadLine,
    /// The number of this line, from 1.
    number: u64,
    /// The bytes that the page takes in the output.
    len: usize,
}

impl PageReader {
    fn new(first: u64, limit: usize) -> Self {
        Self {
            page: LinePage {
                first,
                lines: Vec::new(),
                total: None,
                is_lossy: false,
            },
            limit,
            line: ReadLine::default(),
            number: 1,
            len: 0,
        }
    }

    /// Reads the lines of a chunk. Returns `false` if the page is full and more lines follow.
    fn push(&mut self, chunk: &[u8]) -> bool {
        let mut start = 0;
        for end in memchr::memchr_iter(b'\n', chunk) {
            if self.is_full() {
                return false;
            }
            self.line.push(&chunk[start..end]);
            self.end_line();
            start = end + 1;
        }

        let tail = &chunk[start..];
        if tail.is_empty() {
            return true;
        }
        if self.is_full() {
            return false;
        }
        self.line.push(tail);
        true
    }

    /// Returns the page at the end of the file, whose last line may have no line ending.
    fn finish(mut self) -> LinePage {
        if self.line.len > 0 {
            self.end_line();
        }
        self.page.total = Some(self.number - 1);
        self.page
    }

    /// Returns `true` if the current line is after the last one of the page.
    fn is_full(&self) -> bool {
        let has_room = self.page.lines.len() < self.limit && self.len < MAX_SHOWN;
        self.number >= self.page.first && !has_room
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        if self.number >= self.page.first {
            let line = line.render();
            self.page.is_lossy |= line.is_lossy;
            self.len += line.text.len() + LINE_OVERHEAD;
            self.page.lines.push(line.text);
        }
        self.number += 1;
    }
}

/// A line of any length, of which only the start is kept.
#[derive(Default)]
struct ReadLine {
    start: Vec<u8>,
    len: usize,
}

/// A line as text, cut if it is too long.
struct RenderedLine {
    text: String,
    /// True if some of the line is not UTF-8.
    is_lossy: bool,
}

impl ReadLine {
    fn push(&mut self, bytes: &[u8]) {
        // A character takes four bytes at most.
        let room = (MAX_LINE_CHARS * 4 + 4).saturating_sub(self.start.len());
        self.start
            .extend_from_slice(&bytes[..bytes.len().min(room)]);
        self.len += bytes.len();
    }

    fn render(&self) -> RenderedLine {
        let is_whole = self.start.len() == self.len;
        let bytes = if is_whole {
            self.start.strip_suffix(b"\r").unwrap_or(&self.start)
        } else {
            &self.start
        };

        let is_lossy = match std::str::from_utf8(bytes) {
            Ok(_) => false,
            // An error only at the end may be caused by the cut.
            Err(error) => is_whole || error.error_len().is_some(),
        };

        let text = String::from_utf8_lossy(bytes);
        let (head, omitted_chars) = text::head(&text, MAX_LINE_CHARS);
        let text = if omitted_chars > 0 || !is_whole {
            // Redacted now: the part of a secret at the cut could not be recognized later.
            let mut head = head.to_owned();
            redact_cut(&mut head, Cut::End);
            format!("{head}... (line of {} bytes cut)", self.len)
        } else {
            head.to_owned()
        };

        RenderedLine { text, is_lossy }
    }
}
