//! The repair of a damaged log.

use std::fmt;

use crate::error::Result;
use crate::session::Damage;

use super::log::Each;

/// Reads a log piece by piece.
type Read<'a> = &'a dyn Fn(Each<'_>) -> Result<bool>;

/// The repair of a damaged log, for [`Log::repair`](crate::session::Log::repair).
pub struct Repair<'a> {
    content: Content<'a>,
    parts: Vec<&'a Damage>,
    truncate_to: Option<u64>,
}

/// The bytes of a log that is repaired.
#[derive(Clone, Copy)]
pub(super) enum Content<'a> {
    /// All of them.
    Whole(&'a [u8]),
    /// The bytes of a log that is too long to be read at once.
    Stored(Read<'a>),
}

impl<'a> Repair<'a> {
    pub(super) fn new(
        content: Content<'a>,
        parts: Vec<&'a Damage>,
        truncate_to: Option<u64>,
    ) -> Self {
        Self {
            content,
            parts,
            truncate_to,
        }
    }

    /// Creates the repair of a log that is in memory.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn of(log: &'a [u8], parts: Vec<&'a Damage>, truncate_to: Option<u64>) -> Self {
        Self::new(Content::Whole(log), parts, truncate_to)
    }

    /// Returns `true` if there are parts to set aside.
    pub fn has_parts(&self) -> bool {
        !self.parts.is_empty()
    }

    /// Calls `set_aside` with each damaged part and its bytes, in the order of the log. A part
    /// where records are missing has no bytes. This reads a log that is too long to be in memory
    /// again, through [`Log::read`](crate::session::Log::read).
    ///
    /// # Errors
    ///
    /// Returns the first error of `set_aside`, and an error if the log cannot be read again.
    pub fn for_each_part(
        &self,
        mut set_aside: impl FnMut(&Damage, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let read = match self.content {
            Content::Stored(read) => read,
            Content::Whole(bytes) => {
                let mut parts = self.parts.iter();
                return parts.try_for_each(|damage| set_aside(damage, part_of(bytes, 0, damage)));
            }
        };

        let mut parts = self.parts.iter().peekable();
        let mut offset = 0_u64;
        let mut part = Vec::new();
        read(&mut |piece| {
            let end = offset.saturating_add(piece.len() as u64);
            while let Some(damage) = parts.peek().filter(|damage| damage.offset < end) {
                part.extend_from_slice(part_of(piece, offset, damage));
                if end_of(damage) > end {
                    break;
                }

                set_aside(damage, &part)?;
                part.clear();
                parts.next();
            }

            offset = end;
            Ok(())
        })?;

        // Where records are missing at the end, no byte follows.
        parts.try_for_each(|damage| set_aside(damage, &std::mem::take(&mut part)))
    }

    /// Returns the size to truncate the log to, in bytes; `None` if it stays as it is.
    pub fn truncate_to(&self) -> Option<u64> {
        self.truncate_to
    }
}

impl fmt::Debug for Repair<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Repair")
            .field("parts", &self.parts)
            .field("truncate_to", &self.truncate_to)
            .finish_non_exhaustive()
    }
}

fn end_of(damage: &Damage) -> u64 {
    damage.offset.saturating_add(damage.len)
}

/// Returns the damaged bytes of a piece of a log that begins at this offset.
fn part_of<'a>(piece: &'a [u8], offset: u64, damage: &Damage) -> &'a [u8] {
    let index = |place: u64| {
        let index = usize::try_from(place.saturating_sub(offset));
        index.map_or(piece.len(), |index| index.min(piece.len()))
    };
    &piece[index(damage.offset)..index(end_of(damage))]
}
