//! A sink for the searcher's lines.

use std::collections::VecDeque;
use std::io;

use grep_searcher::{Searcher, Sink, SinkContext, SinkFinish, SinkMatch};

use crate::util::secret::{Cut, redact_cut};
use crate::util::text;

use super::query::{GrepFile, GrepLine, GrepMode};

/// The maximum length of a line, in characters; a longer line is cut.
const MAX_LINE_CHARS: usize = 2_000;

/// The approximate memory that a line takes in addition to its text, in bytes. It counts as text,
/// because lines may be empty.
const LINE_OVERHEAD: usize = 64;

/// The lines of one file.
pub(super) struct Lines<'a> {
    file: &'a mut GrepFile,
    mode: GrepMode,
    room: usize,
    /// True if no file has lines yet: the lines before the first match give way to it, so that a
    /// search with matches reports one.
    gives_way: bool,
    /// The lines that give way. They are reported with the match.
    first_context: VecDeque<GrepLine>,
    /// The bytes of text that may still be added.
    text_room: usize,
    /// True if a line was omitted because the limit was reached.
    pub(super) overflowed: bool,
    /// True if the file turned out to be binary.
    pub(super) binary: bool,
}

impl<'a> Lines<'a> {
    pub(super) fn new(
        file: &'a mut GrepFile,
        mode: GrepMode,
        room: usize,
        text_room: usize,
        gives_way: bool,
    ) -> Self {
        Self {
            file,
            mode,
            room,
            gives_way,
            first_context: VecDeque::new(),
            text_room,
            overflowed: false,
            binary: false,
        }
    }

    /// Returns the number of bytes of text for which there is room.
    pub(super) fn text_room(&self) -> usize {
        self.text_room
    }

    fn has_room(&self, size: usize) -> bool {
        let count = self.file.lines.len() + self.first_context.len();
        count < self.room && size <= self.text_room
    }

    fn push(&mut self, number: u64, line: &[u8], is_match: bool) -> bool {
        let gives_way = self.gives_way && !is_match && self.file.count == 0;
        let text = line_text(line);
        let size = text.len() + LINE_OVERHEAD;
        while !self.has_room(size) {
            self.overflowed = true;
            let Some(oldest) = self.first_context.pop_front() else {
                // The first match follows and may be shorter.
                return gives_way;
            };
            self.text_room += oldest.text.len() + LINE_OVERHEAD;
        }

        self.text_room -= size;
        let line = GrepLine {
            number,
            text,
            is_match,
        };
        if gives_way {
            self.first_context.push_back(line);
        } else {
            self.file.lines.extend(self.first_context.drain(..));
            self.file.lines.push(line);
        }

        true
    }
}

impl Sink for Lines<'_> {
    type Error = io::Error;

    fn matched(&mut self, _searcher: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        let first = found.line_number().unwrap_or_default();
        for (number, line) in (first..).zip(found.lines()) {
            if self.mode == GrepMode::Lines && !self.push(number, line, true) {
                return Ok(false);
            }
            self.file.count += 1;
            if self.mode == GrepMode::Files {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn context(&mut self, _searcher: &Searcher, context: &SinkContext<'_>) -> io::Result<bool> {
        let number = context.line_number().unwrap_or_default();
        Ok(self.mode != GrepMode::Lines || self.push(number, context.bytes(), false))
    }

    fn binary_data(&mut self, _searcher: &Searcher, _offset: u64) -> io::Result<bool> {
        self.binary = true;
        Ok(false)
    }

    fn finish(&mut self, _searcher: &Searcher, finish: &SinkFinish) -> io::Result<()> {
        self.binary |= finish.binary_byte_offset().is_some();
        Ok(())
    }
}

fn line_text(line: &[u8]) -> String {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    // A character takes four bytes at most, so the rest of a very long line is not decoded.
    let (prefix, suffix) = line.split_at(line.len().min(MAX_LINE_CHARS * 4));
    let prefix = String::from_utf8_lossy(prefix);
    let (head, omitted_count) = text::head(&prefix, MAX_LINE_CHARS);
    let mut text = head.to_owned();
    if omitted_count + suffix.len() > 0 {
        // Later, the part of a secret at the cut could not be recognized.
        redact_cut(&mut text, Cut::End);
        text.push_str(&format!("... (line of {} bytes cut)", line.len()));
    }
    text
}
