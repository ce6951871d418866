//! Reading a file by lines.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::backend::Backend;
use crate::error::BoxError;
use crate::tool::{ToolError, ToolOutput};
use crate::util::text;

use super::args::{Args, PATH};

/// The default number of lines shown.
const MAX_LINES: usize = 2_000;
/// The maximum length of a line, in characters; a longer line is cut.
const MAX_LINE_CHARS: usize = 2_000;
/// The maximum number of bytes shown at once, regardless of the number of lines.
const MAX_SHOWN: usize = 256 * 1024;
/// The maximum number of bytes of a file that are searched for lines.
const MAX_SCAN: u64 = 256 * 1024 * 1024;
/// The size of a line without its text: its number, a tab and the line ending.
const LINE_OVERHEAD: usize = 8;
const CHUNK: usize = 256 * 1024;
/// The size of the start of a file, in bytes; a NUL byte in it marks a binary file.
const SNIFF: usize = 8 * 1024;
/// The prefix of a file that is not text.
const BASE64: &str = "base64:";
/// The number of bytes of a file that are read before its size is requested. Backends read as much
/// in one piece.
const PIECE: usize = 1024 * 1024;
const BOM: &[u8] = b"\xEF\xBB\xBF";

/// Returns the body of a tool that shows lines of a file with their numbers, like `cat -n`.
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

/// Returns the body of a tool that returns a file unchanged, or some of its lines. A file that is
/// not UTF-8 is returned as `base64:` and its encoded bytes.
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
        let page = Self {
            first: args.number("offset").unwrap_or(1).max(1),
            lines: Vec::new(),
            total: None,
            is_lossy: false,
        };
        let limit = args.count("limit").unwrap_or(MAX_LINES);
        page.read(backend, args.text(&PATH)?, limit).await
    }

    async fn read(
        mut self,
        backend: &dyn Backend,
        path: &str,
        limit: usize,
    ) -> Result<Self, BoxError> {
        let mut line = ReadLine::default();
        let mut number = 1;
        let mut position = 0_u64;
        let mut len = 0;
        loop {
            let chunk = backend.read_range(path, position, CHUNK).await?;
            if position == 0 && chunk.iter().take(SNIFF).any(|byte| *byte == 0) {
                let size = backend.stat(path).await?.size;
                let text = format!("{path} is a binary file ({size} bytes), not text");
                return Err(ToolError::new(text).into());
            }

            let mut remaining = match position {
                0 => chunk.strip_prefix(BOM).unwrap_or(&chunk),
                _ => &chunk[..],
            };

            position += chunk.len() as u64;
            let at_end = chunk.is_empty();
            while !remaining.is_empty() || (at_end && line.has_begun) {
                let is_full = self.lines.len() >= limit || len >= MAX_SHOWN;
                if number >= self.first && is_full {
                    return Ok(self);
                }

                let end = memchr::memchr(b'\n', remaining);
                line.push(&remaining[..end.unwrap_or(remaining.len())]);
                remaining = end.map_or(&[], |end| &remaining[end + 1..]);
                if end.is_none() && !at_end {
                    break;
                }

                let finished_line = std::mem::take(&mut line);
                if number >= self.first {
                    len += self.add(&finished_line);
                }

                number += 1;
            }

            if at_end {
                self.total = Some(number - 1);
                return Ok(self);
            }

            if position >= MAX_SCAN {
                let first = self.first;
                let text =
                    format!("line {first} of {path} was not found in its first {position} bytes");
                return Err(ToolError::new(text).into());
            }
        }
    }

    /// Adds a line and returns the bytes that it takes in the output.
    fn add(&mut self, line: &ReadLine) -> usize {
        let line = line.render();
        self.is_lossy |= line.is_lossy;
        let len = line.text.len() + LINE_OVERHEAD;
        self.lines.push(line.text);
        len
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

/// A line of any length, of which only the start is kept.
#[derive(Default)]
struct ReadLine {
    kept: Vec<u8>,
    len: usize,
    has_begun: bool,
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
        let room = (MAX_LINE_CHARS * 4 + 4).saturating_sub(self.kept.len());
        self.kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
        self.len += bytes.len();
        self.has_begun = true;
    }

    fn render(&self) -> RenderedLine {
        let is_whole = self.kept.len() == self.len;
        let bytes = if is_whole {
            self.kept.strip_suffix(b"\r").unwrap_or(&self.kept)
        } else {
            &self.kept
        };

        let is_lossy = match std::str::from_utf8(bytes) {
            Ok(_) => false,
            // An error only at the end may be caused by the cut.
            Err(error) => is_whole || error.error_len().is_some(),
        };

        let text = String::from_utf8_lossy(bytes);
        let (head, omitted_chars) = text::head(&text, MAX_LINE_CHARS);
        let text = if omitted_chars > 0 || !is_whole {
            format!("{head}... (line of {} bytes cut)", self.len)
        } else {
            head.to_owned()
        };

        RenderedLine { text, is_lossy }
    }
}
