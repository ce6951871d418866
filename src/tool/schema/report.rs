//! The failures that a check reports, with their paths.

use super::failure::{Failure, FailureKind, MAX_FAILURES, push_key};
use super::validate::{NAME_EFFORT, PathStep, Validator};

/// The number of bytes in the text of a failure that are written with one unit of effort.
const TEXT_LEN_A_UNIT: usize = 16;

impl Validator<'_> {
    /// Adds a failure at the current path, or counts it if there are too many. A failure takes
    /// effort even if it is discarded with its alternative.
    pub(super) fn fail(&mut self, kind: FailureKind, text: impl Into<String>) {
        let text = text.into();
        let effort = self.path.len().saturating_mul(NAME_EFFORT) + text.len() / TEXT_LEN_A_UNIT;
        if self.spend(effort) {
            self.push_failure(kind, text);
        }
    }

    /// Adds a failure without taking effort.
    pub(super) fn push_failure(&mut self, kind: FailureKind, text: String) {
        if self.failures.len() >= MAX_FAILURES {
            self.omitted += 1;
            return;
        }
        let failure = Failure {
            path: self.pointer(),
            text,
            kind,
            depth: self.path.len(),
        };
        self.failures.push(failure);
    }

    /// Adds a failure of an alternative, or counts it if there are too many.
    pub(super) fn record(&mut self, failure: Failure) {
        if self.failures.len() < MAX_FAILURES {
            self.failures.push(failure);
        } else {
            self.omitted += 1;
        }
    }

    /// Returns the current path as a JSON pointer.
    pub(super) fn pointer(&self) -> String {
        if self.path.is_empty() {
            return String::from("/");
        }
        let mut pointer = String::new();
        for step in &self.path {
            match step {
                PathStep::Key(key) => push_key(&mut pointer, key),
                PathStep::Index(index) => pointer.push_str(&format!("/{index}")),
            }
        }
        pointer
    }
}
