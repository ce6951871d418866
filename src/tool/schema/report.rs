//! The failures that a check reports, with their paths.

use super::failure::{Failure, MAX_FAILURES, push_key};
use super::validate::{NAME_EFFORT, Validator};

/// The number of bytes in the text of a failure that are written with one unit of effort.
const TEXT_LEN_A_UNIT: usize = 16;

/// A step from a value to one inside it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PathStep<'a> {
    Key(&'a str),
    Index(usize),
}

/// A value that does not match. Its path is written as a JSON pointer only if it is reported: most
/// failures are those of alternatives that are discarded.
pub(super) struct Mismatch<'a> {
    pub(super) path: Vec<PathStep<'a>>,
    pub(super) text: String,
    pub(super) kind: MismatchKind,
}

/// The kind of a mismatch, for the choice between alternatives.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum MismatchKind {
    /// A value of the wrong type.
    Type,
    /// A value that `const` or `enum` does not allow. It often means another alternative.
    Tag,
    Other,
}

impl<'a> Validator<'a> {
    /// Adds a failure at the current path, or counts it if there are too many. A failure takes
    /// effort even if it is discarded with its alternative.
    pub(super) fn fail(&mut self, kind: MismatchKind, text: impl Into<String>) {
        let text = text.into();
        let effort = self.path.len().saturating_mul(NAME_EFFORT) + text.len() / TEXT_LEN_A_UNIT;
        if self.spend(effort) {
            let path = self.path.clone();
            self.record(Mismatch { path, text, kind });
        }
    }

    /// Adds a failure, or counts it if there are too many.
    pub(super) fn record(&mut self, mismatch: Mismatch<'a>) {
        if self.mismatches.len() < MAX_FAILURES {
            self.mismatches.push(mismatch);
        } else {
            self.omitted += 1;
        }
    }
}

impl From<Mismatch<'_>> for Failure {
    fn from(mismatch: Mismatch<'_>) -> Self {
        Self {
            path: pointer(&mismatch.path),
            text: mismatch.text,
        }
    }
}

/// Returns a path as a JSON pointer.
pub(super) fn pointer(path: &[PathStep<'_>]) -> String {
    if path.is_empty() {
        return String::from("/");
    }
    let mut pointer = String::new();
    for step in path {
        match step {
            PathStep::Key(key) => push_key(&mut pointer, key),
            PathStep::Index(index) => pointer.push_str(&format!("/{index}")),
        }
    }
    pointer
}
