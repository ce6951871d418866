//! Reading a file by lines.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::backend::Backend;
use crate::error::BoxError;
use crate::tool::{ToolError, ToolOutput};
use crate::util::text;

/// So many lines are shown unless a call asks for another number.
const MAX_LINES: usize = 2_000;
/// A longer line is cut.
const MAX_LINE_CHARS: usize = 2_000;
/// More than this is not shown at once, however many lines it is.
const MAX_CHARS: usize = 256 * 1024;
/// So far into a file lines are looked for.
const MAX_SCAN: u64 = 256 * 1024 * 1024;
const CHUNK: usize = 256 * 1024;
/// A file with a NUL byte near its start is binary.
const SNIFF: usize = 8 * 1024;
const BOM: &[u8] = b"\xEF\xBB\xBF";

/// Lines of a file with their numbers, as `cat -n` shows them.
pub(super) async fn numbered(
    backend: &dyn Backend,
    path: &str,
    offset: Option<u64>,
    limit: Option<usize>,
) -> Result<ToolOutput, BoxError> {
    let first = offset.unwrap_or(1).max(1);
    let page = Page::read(backend, path, first, limit.unwrap_or(MAX_LINES)).await?;
    let mut shown = String::new();
    if page.is_lossy {
        shown.push_str("[not UTF-8: invalid bytes are shown as \u{FFFD}]\n");
    }
    for (line, number) in page.lines.iter().zip(first..) {
        shown.push_str(&format!("{number:>6}\t{line}\n"));
    }
    if let Some(note) = page.note(first) {
        shown.push_str(&note);
    }
    Ok(ToolOutput::new(shown.trim_end_matches('\n')))
}

/// A file as it is; or some lines of it. What is not UTF-8 comes as `base64:` and its bytes.
pub(super) async fn raw(
    backend: &dyn Backend,
    path: &str,
    offset: Option<u64>,
    limit: Option<usize>,
) -> Result<ToolOutput, BoxError> {
    if offset.is_some() || limit.is_some() {
        let first = offset.unwrap_or(1).max(1);
        let page = Page::read(backend, path, first, limit.unwrap_or(MAX_LINES)).await?;
        let mut shown = page.lines.join("\n");
        if let Some(note) = page.note(first) {
            shown.push('\n');
            shown.push_str(&note);
        }
        return Ok(ToolOutput::new(shown));
    }
    let content = backend.read(path).await?;
    Ok(match std::str::from_utf8(&content) {
        Ok(text) => ToolOutput::new(text),
        Err(_) => ToolOutput::new(format!("base64:{}", STANDARD.encode(&content))),
    })
}

#[derive(Default)]
struct Page {
    lines: Vec<String>,
    /// How many lines there are, if the end was seen.
    total: Option<u64>,
    is_lossy: bool,
}

impl Page {
    async fn read(
        backend: &dyn Backend,
        path: &str,
        first: u64,
        limit: usize,
    ) -> Result<Self, BoxError> {
        let mut page = Self::default();
        let mut line = Line::default();
        let (mut number, mut position, mut chars) = (1, 0_u64, 0);
        loop {
            let chunk = backend.read_range(path, position, CHUNK).await?;
            if position == 0 && chunk.iter().take(SNIFF).any(|byte| *byte == 0) {
                let size = backend.stat(path).await?.size;
                let text = format!("{path} is a binary file ({size} bytes), not text");
                return Err(ToolError::new(text).into());
            }
            let mut rest = match position {
                0 => chunk.strip_prefix(BOM).unwrap_or(&chunk),
                _ => &chunk[..],
            };
            position += chunk.len() as u64;
            let at_end = chunk.is_empty();
            while !rest.is_empty() || (at_end && line.has_begun) {
                if number >= first && (page.lines.len() >= limit || chars >= MAX_CHARS) {
                    return Ok(page);
                }
                let end = memchr::memchr(b'\n', rest);
                line.push(&rest[..end.unwrap_or(rest.len())]);
                rest = end.map_or(&[], |end| &rest[end + 1..]);
                if end.is_none() && !at_end {
                    break;
                }
                let done = std::mem::take(&mut line);
                if number >= first {
                    let (shown, is_lossy) = done.shown();
                    page.is_lossy |= is_lossy;
                    chars += shown.len();
                    page.lines.push(shown);
                }
                number += 1;
            }
            if at_end {
                page.total = Some(number - 1);
                return Ok(page);
            }
            if position >= MAX_SCAN {
                let text =
                    format!("line {first} of {path} was not found in its first {position} bytes");
                return Err(ToolError::new(text).into());
            }
        }
    }

    /// What the lines alone do not say.
    fn note(&self, first: u64) -> Option<String> {
        let next = first + self.lines.len() as u64;
        match self.total {
            None => Some(format!("... (more lines follow; go on with offset {next})")),
            Some(0) => Some("(empty file)".to_owned()),
            Some(total) if first > total => {
                let lines = if total == 1 { "line" } else { "lines" };
                Some(format!("(the file has only {total} {lines})"))
            }
            Some(_) => None,
        }
    }
}

/// A line of any length, of which the start is kept.
#[derive(Default)]
struct Line {
    kept: Vec<u8>,
    len: usize,
    has_begun: bool,
}

impl Line {
    fn push(&mut self, bytes: &[u8]) {
        // A character takes four bytes at most.
        let room = (MAX_LINE_CHARS * 4 + 4).saturating_sub(self.kept.len());
        self.kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
        self.len += bytes.len();
        self.has_begun = true;
    }

    /// The text, and whether some of it is not UTF-8.
    fn shown(&self) -> (String, bool) {
        let is_whole = self.kept.len() == self.len;
        let bytes = match is_whole {
            true => self.kept.strip_suffix(b"\r").unwrap_or(&self.kept),
            false => &self.kept,
        };
        let is_lossy = match std::str::from_utf8(bytes) {
            Ok(_) => false,
            // Only where it was cut?
            Err(error) => is_whole || error.error_len().is_some(),
        };
        let text = String::from_utf8_lossy(bytes);
        let (kept, cut) = text::head(&text, MAX_LINE_CHARS);
        let shown = match cut > 0 || !is_whole {
            true => format!("{kept}... (line of {} bytes cut)", self.len),
            false => kept.to_owned(),
        };
        (shown, is_lossy)
    }
}
