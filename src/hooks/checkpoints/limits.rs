//! The limits of the contents that are stored.

#[cfg(unix)]
use std::io;
#[cfg(unix)]
use std::sync::Mutex;

#[cfg(unix)]
use crate::util::sync::lock;

const MIB: u64 = 1024 * 1024;

/// The number of bytes that are reserved or refused before the files of a folder are counted again,
/// because other processes add and remove files.
#[cfg(unix)]
const RECOUNT: u64 = 64 * MIB;

/// The limits of the contents that are stored, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// The limit of a file.
    pub(super) file: u64,
    /// The limit of the records of a session, with the contents in them.
    pub(super) session: u64,
    /// The limit of the records of all sessions of a folder.
    pub(super) total: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            file: 32 * MIB,
            session: 512 * MIB,
            total: 4096 * MIB,
        }
    }
}

impl Limits {
    /// Returns the reason why content of `len` bytes is not added to a session with
    /// `session_bytes`, or `None` if it is.
    pub(super) fn refuse_for_session(&self, session_bytes: u64, len: u64) -> Option<String> {
        let max = self.session;
        (session_bytes.saturating_add(len) > max).then(|| {
            format!(
                "it had {len} bytes, and the checkpoints of its session have {session_bytes} of the \
                 {max} that they may have; remove them, or raise FileCheckpoints::max_session_size"
            )
        })
    }

    /// Returns the reason why content of `len` bytes is not added to a folder that is full.
    #[cfg(unix)]
    pub(super) fn refuse_for_total(&self, len: u64) -> String {
        let max = self.total;
        format!(
            "it had {len} bytes, and the checkpoints of all sessions have almost the {max} that they \
             may have; remove some, or raise FileCheckpoints::max_total_size"
        )
    }
}

/// The bytes of all files of a folder, which are counted when they are needed.
#[cfg(unix)]
#[derive(Debug, Default)]
pub(super) struct FolderTotal(Mutex<Totals>);

#[cfg(unix)]
#[derive(Debug, Default)]
struct Totals {
    /// The bytes of the files, and the reserved bytes. `None` until the files are counted.
    bytes: Option<u64>,
    /// The bytes that were reserved or refused since the files were counted.
    since: u64,
    /// The bytes that were reserved and may not be in the files yet.
    pending: u64,
}

/// Bytes of a folder that are being written. Drop it when they are written.
#[cfg(unix)]
#[derive(Debug)]
pub(super) struct Reservation<'a> {
    total: &'a FolderTotal,
    len: u64,
}

#[cfg(unix)]
impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        lock(&self.total.0).pending -= self.len;
    }
}

#[cfg(unix)]
impl Totals {
    /// Returns `true` if `len` bytes may be added. The files are counted if their bytes are not
    /// known, or may have changed.
    fn has_room(
        &mut self,
        len: u64,
        max: u64,
        count: impl FnOnce() -> io::Result<u64>,
    ) -> io::Result<bool> {
        let bytes = match self.bytes {
            Some(bytes) if self.since < RECOUNT => bytes,
            _ => {
                self.since = 0;
                count()?.saturating_add(self.pending)
            }
        };
        self.bytes = Some(bytes);
        let has_room = bytes.saturating_add(len) <= max;
        if !has_room {
            // However small, at most 64 refusals are made without a new count.
            self.since += len.max(MIB);
        }
        Ok(has_room)
    }
}

#[cfg(unix)]
impl FolderTotal {
    /// Reserves `len` bytes that are about to be written. Returns `None` if the total would exceed
    /// `max`. Concurrent callers get no more than `max` together.
    pub(super) fn reserve(
        &self,
        len: u64,
        max: u64,
        count: impl FnOnce() -> io::Result<u64>,
    ) -> io::Result<Option<Reservation<'_>>> {
        let mut totals = lock(&self.0);
        if !totals.has_room(len, max, count)? {
            return Ok(None);
        }
        totals.bytes = totals.bytes.map(|bytes| bytes + len);
        totals.since += len;
        totals.pending += len;
        Ok(Some(Reservation { total: self, len }))
    }

    /// Returns `true` if `len` bytes could be reserved.
    pub(super) fn has_room(
        &self,
        len: u64,
        max: u64,
        count: impl FnOnce() -> io::Result<u64>,
    ) -> io::Result<bool> {
        lock(&self.0).has_room(len, max, count)
    }

    /// Discards the count, because files were removed or not written. The files are counted again
    /// when the bytes are needed.
    pub(super) fn clear(&self) {
        lock(&self.0).bytes = None;
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    /// Each thread is refused often enough that the files are counted again meanwhile.
    #[test]
    fn reserved_bytes_of_many_threads_stay_within_the_limit() {
        let total = FolderTotal::default();
        let reserve = |_| total.reserve(3, 1_000, || Ok(100)).unwrap();
        let granted = std::thread::scope(|scope| {
            let thread = || (0..90).filter_map(reserve).collect::<Vec<_>>();
            [(); 8]
                .map(|()| scope.spawn(thread))
                .map(|thread| thread.join().unwrap())
        });
        assert_eq!(granted.iter().map(Vec::len).sum::<usize>(), 300);
        drop(granted);
        total.clear();
        assert!(total.has_room(900, 1_000, || Ok(100)).unwrap());
    }

    #[test]
    fn folder_is_counted_again_after_changes_and_refusals() {
        let total = FolderTotal::default();
        let counts = std::cell::Cell::new(0);
        let is_reserved = |len| {
            let count = || {
                counts.set(counts.get() + 1);
                Ok(10)
            };
            total.reserve(len, 15, count).unwrap().is_some()
        };
        assert!(is_reserved(5));
        assert!(!is_reserved(1));
        assert_eq!(counts.get(), 1);
        total.clear();
        assert!(is_reserved(1));
        for _ in 0..64 {
            assert!(!is_reserved(10));
        }
        assert_eq!(counts.get(), 2);
        assert!(!is_reserved(10));
        assert_eq!(counts.get(), 3);
    }
}
