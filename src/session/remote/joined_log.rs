//! The joined parts of a log.

use std::ops::Range;

/// The maximum number of bytes that mark a missing part of a log.
const MAX_HOLE: u64 = 1_024;

/// The joined parts of a log, in order. A line of zeros replaces missing parts, so that they are
/// reported as damage.
#[derive(Debug)]
pub(in crate::session) struct JoinedLog {
    /// The joined bytes that were not taken yet.
    bytes: Vec<u8>,
    /// The offset after the last part; `None` before the first, if it is not known.
    next: Option<u64>,
}

impl JoinedLog {
    /// Creates the log from this offset on, or from its first part on.
    pub(in crate::session) fn new(from: Option<u64>) -> Self {
        Self {
            bytes: Vec::new(),
            next: from,
        }
    }

    /// Adds the bytes of the part at `offset` that are in the `requested` range and in no part
    /// before. A server must not make a log longer than the requested range.
    pub(in crate::session) fn add(&mut self, offset: u64, part: &[u8], requested: &Range<u64>) {
        let start = offset.max(requested.start).max(self.next.unwrap_or(0));
        let end = offset.saturating_add(part.len() as u64).min(requested.end);
        if start >= end {
            return;
        }

        // Both are within the part.
        let [from, to] = [start - offset, end - offset].map(|index| index as usize);
        let (offset, part) = (start, &part[from..to]);
        self.fill(offset.saturating_sub(self.next.unwrap_or(offset)));
        self.bytes.extend_from_slice(part);
        self.next = Some(offset.saturating_add(part.len() as u64));
    }

    /// Ends the log at this offset.
    pub(in crate::session) fn end(&mut self, end: u64) {
        self.fill(end.saturating_sub(self.next.unwrap_or(0)));
        self.next = Some(end);
    }

    /// Returns the bytes that were joined since the last call.
    pub(in crate::session) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    fn fill(&mut self, hole: u64) {
        if let Some(zeros) = hole.min(MAX_HOLE).checked_sub(1) {
            let len = self.bytes.len() + usize::try_from(zeros).unwrap_or_default();
            self.bytes.resize(len, 0);
            self.bytes.push(b'\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_beyond_the_requested_bytes_are_cut() {
        let mut log = JoinedLog::new(Some(10));
        log.add(0, &[b'a'; 5], &(10..20));
        log.add(8, b"aabbcc", &(10..20));
        log.add(12, b"xxdddd", &(10..20));
        log.add(14, b"yy", &(10..20));
        log.add(18, &[b'e'; 100], &(10..20));
        log.add(1 << 40, b"f", &(10..20));
        assert_eq!(log.take(), b"bbccddddee");
        log.add(21, b"gg", &(20..30));
        log.end(25);
        assert_eq!(log.take(), b"\ngg\0\n");
    }
}
