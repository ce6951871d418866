//! The building blocks of every suite.

use std::fmt::Debug;

use crate::error::{Error, ErrorKind, Result};

/// The checks of a suite that failed, a line each.
#[derive(Default)]
pub(super) struct Failures(Vec<String>);

impl Failures {
    /// Records the outcome of a check.
    pub(super) fn check(&mut self, name: &str, outcome: Result<()>) {
        if let Err(error) = outcome {
            self.0.push(format!("{name}: {error}"));
        }
    }

    /// # Errors
    ///
    /// Returns [`ErrorKind::Other`] if a check failed.
    pub(super) fn finish(self) -> Result<()> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(wrong(self.0.join("\n")))
        }
    }
}

pub(super) fn wrong(text: impl Into<String>) -> Error {
    Error::new(ErrorKind::Other, text)
}

pub(super) fn same<T: PartialEq + Debug>(what: &str, found: &T, expected: &T) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(wrong(format!("{what}: {found:?} instead of {expected:?}")))
}
