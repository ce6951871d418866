//! The parts of a log in a row.

/// The maximum number of bytes that mark a missing part of a log.
const MAX_HOLE: u64 = 1_024;

/// The parts of a log in a row, of which some may be missing. A line of zeros replaces these, so
/// that they are reported as damage.
#[derive(Debug)]
pub(in crate::session) struct JoinedLog {
    /// The bytes that were not taken yet.
    bytes: Vec<u8>,
    /// The offset behind the last part; `None` before the first, if it is not known.
    next: Option<u64>,
}

impl JoinedLog {
    /// The log from this offset on, or from its first part on.
    pub(in crate::session) fn new(from: Option<u64>) -> Self {
        Self {
            bytes: Vec::new(),
            next: from,
        }
    }

    /// Adds the part at this offset.
    pub(in crate::session) fn add(&mut self, offset: u64, part: &[u8]) {
        if part.is_empty() {
            return;
        }
        self.fill(offset.saturating_sub(self.next.unwrap_or(offset)));
        self.bytes.extend_from_slice(part);
        self.next = Some(offset.saturating_add(part.len() as u64));
    }

    /// Ends the log at this offset.
    pub(in crate::session) fn end(&mut self, end: u64) {
        self.fill(end.saturating_sub(self.next.unwrap_or(0)));
        self.next = Some(end);
    }

    /// The bytes since this was called last.
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
