//! The records of sessions in a folder, whose size is limited.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use crate::error::Result;

use super::folder::Folder;
use super::index::SessionIndex;
use super::limits::{FolderTotal, Limits};
use super::record::Fault;
use super::storage::{NewRecord, RecordWrite, no_room};

/// The storage of checkpoints in a folder.
pub(super) struct FolderStorage {
    folder: Folder,
    total: FolderTotal,
}

impl FolderStorage {
    pub(super) fn new(folder: Folder) -> Self {
        Self {
            folder,
            total: FolderTotal::default(),
        }
    }

    /// Adds the readable records to an index.
    pub(super) fn load(&self, session: &str, index: &mut SessionIndex) -> Result<()> {
        self.folder.read(session, index)?;
        Ok(())
    }

    /// Adds the records that the index does not have. An incomplete last record is described in
    /// the index as its damage; any other record that cannot be read is an error.
    pub(super) fn update(&self, session: &str, index: &mut SessionIndex) -> Result<()> {
        let previous_damage = index.damage.take();
        match self.folder.read(session, index)? {
            None => Ok(()),
            Some(Fault::Torn(torn)) => {
                let damage = self.folder.describe_torn(session, &torn);
                if previous_damage.as_deref() != Some(&*damage) {
                    tracing::warn!("{damage}");
                }

                index.damage = Some(damage.into());
                Ok(())
            }
            Some(fault) => Err(self.folder.unreadable(session, &fault)),
        }
    }

    /// Returns the reason why content of `len` bytes cannot be added, or `None` if it can.
    pub(super) fn refusal(&self, len: u64, limits: &Limits) -> Result<Option<String>> {
        let has_room = self
            .total
            .has_room(len, limits.total, || self.folder.size())?;
        Ok((!has_room).then(|| limits.refuse_for_total(len)))
    }

    /// Adds a record.
    pub(super) fn write(&self, index: &mut SessionIndex, write: RecordWrite<'_>) -> Result<()> {
        let RecordWrite {
            session,
            record,
            content,
            is_durable,
            limits,
        } = write;
        let content_len = content.len() as u64;
        let file = self.folder.open_end(session, index)?;
        let start = index.end;
        let mut refusal = limits.refuse_for_session(start, content_len);
        // Dropped when the record is written.
        let mut reservation = None;
        if refusal.is_none() && !content.is_empty() {
            reservation = self
                .total
                .reserve(content_len, limits.total, || self.folder.size())?;
            if reservation.is_none() {
                refusal = Some(limits.refuse_for_total(content_len));
            }
        }

        let new_record = NewRecord::new(record, content, refusal)?;
        index.check_room(new_record.line.len() as u64)?;
        let parts = new_record.parts();
        let appended = self.folder.append(session, &file, start, parts, is_durable);
        if appended.is_err() {
            self.total.clear();
        }
        drop(reservation);
        appended?;
        index.push(new_record.at(start));
        Ok(())
    }

    /// Reads `len` bytes of a session's records from the offset `at`.
    pub(super) fn content(&self, session: &str, at: u64, len: u64) -> Result<Vec<u8>> {
        self.folder.content(session, at, len)
    }

    /// Copies parts of the records of `from`, `size` bytes in all, to the new session `to`.
    pub(super) fn copy(
        &self,
        from: &str,
        parts: &[Range<u64>],
        size: u64,
        to: &str,
        limits: &Limits,
    ) -> Result<()> {
        let reservation = self
            .total
            .reserve(size, limits.total, || self.folder.size())?;
        let Some(_reservation) = reservation else {
            return Err(no_room(&limits.refuse_for_total(size)));
        };
        let copied = self.folder.copy(from, parts, to);
        if copied.is_err() {
            self.total.clear();
        }
        copied
    }

    /// Removes the records of a session. Returns `false` if there were none.
    pub(super) fn remove(&self, session: &str) -> Result<bool> {
        let removed = self.folder.remove(session);
        self.total.clear();
        removed
    }

    /// Returns the sessions that have records, each with the time since its last record.
    pub(super) fn sessions(&self) -> Result<Vec<(Arc<str>, Option<Duration>)>> {
        self.folder.sessions()
    }
}
