//! The unreadable parts of a stored session.

use std::fmt;

/// A part of a stored session that could not be read. The data before and after it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Damage {
    /// The offset at which it begins, in bytes from the beginning of the stored data.
    pub offset: u64,
    /// The length in bytes; 0 where records are missing.
    pub len: u64,
    /// The kind of the damage.
    pub kind: DamageKind,
    /// The location of the unreadable bytes, once a writer has set them aside.
    pub kept_in: Option<String>,
}

/// The kind of a damaged part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DamageKind {
    /// The last write is incomplete. It was never acknowledged.
    TornTail,
    /// Bytes that are not a record, or a record that was changed after it was written.
    Corrupt,
    /// Records that should be at this offset are missing.
    Missing,
    /// A duplicate record, or a record of a writer that had been replaced.
    Stale,
}

impl Damage {
    /// Creates the report of a damaged part of `len` bytes at `offset`.
    pub fn new(kind: DamageKind, offset: u64, len: u64) -> Self {
        Self {
            offset,
            len,
            kind,
            kept_in: None,
        }
    }
}

/// The maximum number of damaged parts of a session that are reported one by one.
const MAX_REPORTED: usize = 20;

/// Returns the texts of the warnings about these parts: one for each of the first, and one for all
/// others.
pub(crate) fn damage_texts(damage: &[Damage]) -> impl Iterator<Item = String> + '_ {
    let (first, others) = damage.split_at(damage.len().min(MAX_REPORTED));
    let others_text = (!others.is_empty()).then(|| {
        let lens = others.iter().map(|damage| damage.len);
        let bytes = lens.fold(0, u64::saturating_add);
        let count = others.len();
        format!("{count} more parts with {bytes} bytes are damaged, repeated or missing")
    });
    first.iter().map(ToString::to_string).chain(others_text)
}

#[cfg(feature = "session-log")]
impl Damage {
    /// Returns the same part in pieces of at most `most` bytes.
    pub(crate) fn pieces(&self, most: u64) -> impl Iterator<Item = Self> + '_ {
        (0..self.len.div_ceil(most).max(1))
            .map(move |number| number * most)
            .map(move |start| Self {
                offset: self.offset.saturating_add(start),
                len: (self.len - start).min(most),
                ..self.clone()
            })
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
