//! What a store found and could not read.

use std::fmt;

/// A part of a stored session that could not be read.
///
/// What stands before and behind it was read all the same.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Damage {
    /// Where it begins, in bytes from the beginning of what is stored.
    pub offset: u64,
    /// How many bytes it takes; none where records are missing.
    pub len: u64,
    /// What is wrong with it.
    pub kind: DamageKind,
    /// Where the unreadable bytes are kept, once somebody who may write has found them.
    pub kept_in: Option<String>,
}

/// What is wrong with a damaged part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DamageKind {
    /// The last write was never finished, so it was never acknowledged either.
    TornTail,
    /// Bytes that are no record, or a record that is not as it was written.
    Corrupt,
    /// Records that should be here are not.
    Missing,
    /// A record that is there already, or of a writer that had been replaced.
    Stale,
}

impl Damage {
    /// A damaged part.
    pub fn new(kind: DamageKind, offset: u64, len: u64) -> Self {
        Self {
            offset,
            len,
            kind,
            kept_in: None,
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { offset, len, .. } = self;
        match self.kind {
            DamageKind::TornTail => write!(
                f,
                "the last write was cut off: {len} bytes at offset {offset} were dropped"
            )?,
            DamageKind::Corrupt => write!(
                f,
                "{len} bytes at offset {offset} are damaged and were left out"
            )?,
            DamageKind::Missing => write!(f, "records are missing at offset {offset}")?,
            DamageKind::Stale => write!(
                f,
                "{len} bytes at offset {offset} are repeated or out of order and were left out"
            )?,
        }
        match &self.kept_in {
            Some(place) => write!(f, "; they are kept in {place}"),
            None => Ok(()),
        }
    }
}
