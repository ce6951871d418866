//! The limits of the contents that are kept.

#[cfg(unix)]
use std::io;
#[cfg(unix)]
use std::sync::Mutex;

#[cfg(unix)]
use crate::util::sync::lock;

const MIB: u64 = 1024 * 1024;

/// The bytes that are added to a folder, or refused, until its files are counted again: other
/// processes add and remove some.
#[cfg(unix)]
const RECOUNT: u64 = 64 * MIB;

/// The most bytes that are kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Of a file.
    pub(super) file: u64,
    /// Of the records of a session, with the contents in them.
    pub(super) session: u64,
    /// Of the records of all sessions of a folder.
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
    /// The reason why content of `len` bytes is not added to a session with `session_bytes`.
    pub(super) fn refuse_for_session(&self, session_bytes: u64, len: u64) -> Option<String> {
        let max = self.session;
        (session_bytes.saturating_add(len) > max).then(|| {
            format!(
                "it had {len} bytes, and the checkpoints of its session have {session_bytes} of the \
                 {max} that they may have; remove them, or raise FileCheckpoints::max_session_size"
            )
        })
    }

    /// The reason why content of `len` bytes is not added to a folder that is full.
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
pub(super) struct FolderTotal(Mutex<Option<Total>>);

#[cfg(unix)]
#[derive(Debug)]
struct Total {
    bytes: u64,
    /// The bytes that were added or refused since they were counted.
    since: u64,
}

#[cfg(unix)]
impl Total {
    /// The bytes in `slot`, which are counted if they are not known, or may have changed.
    fn counted(
        slot: &mut Option<Self>,
        count: impl FnOnce() -> io::Result<u64>,
    ) -> io::Result<&mut Self> {
        slot.take_if(|total| total.since >= RECOUNT);
        Ok(match slot {
            Some(total) => total,
            slot => slot.insert(Self {
                bytes: count()?,
                since: 0,
            }),
        })
    }

    fn has_room(&mut self, len: u64, max: u64) -> bool {
        let has_room = self.bytes.saturating_add(len) <= max;
        if !has_room {
            self.since += len.max(MIB);
        }
        has_room
    }
}

#[cfg(unix)]
impl FolderTotal {
    /// Adds `len` bytes that are about to be written, unless there are more than `max` then, and
    /// returns `true` if so. Those that call this side by side get no more than `max` together.
    pub(super) fn reserve(
        &self,
        len: u64,
        max: u64,
        count: impl FnOnce() -> io::Result<u64>,
    ) -> io::Result<bool> {
        let mut slot = lock(&self.0);
        let total = Total::counted(&mut slot, count)?;
        let has_room = total.has_room(len, max);
        if has_room {
            total.bytes += len;
            total.since += len;
        }
        Ok(has_room)
    }

    /// Returns `true` if `len` bytes could be reserved.
    pub(super) fn has_room(
        &self,
        len: u64,
        max: u64,
        count: impl FnOnce() -> io::Result<u64>,
    ) -> io::Result<bool> {
        Ok(Total::counted(&mut lock(&self.0), count)?.has_room(len, max))
    }

    /// Counts the files again when the bytes are needed: some were removed, or not written.
    pub(super) fn clear(&self) {
        *lock(&self.0) = None;
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn reserved_bytes_of_many_threads_stay_within_the_limit() {
        let total = FolderTotal::default();
        let granted = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        let reserved = (0..50).map(|_| total.reserve(3, 1_000, || Ok(100)));
                        reserved
                            .filter(|reserved| *reserved.as_ref().unwrap())
                            .count()
                    })
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .sum::<usize>()
        });
        assert_eq!(granted, 300);
    }

    #[test]
    fn folder_is_counted_again_after_changes_and_refusals() {
        let total = FolderTotal::default();
        let counts = std::cell::Cell::new(0);
        let count = || {
            counts.set(counts.get() + 1);
            Ok(10)
        };
        assert!(total.reserve(5, 15, count).unwrap());
        assert!(!total.reserve(1, 15, count).unwrap());
        assert_eq!(counts.get(), 1);
        total.clear();
        assert!(total.reserve(1, 15, count).unwrap());
        for _ in 0..64 {
            assert!(!total.reserve(10, 15, count).unwrap());
        }
        assert_eq!(counts.get(), 2);
        assert!(!total.reserve(10, 15, count).unwrap());
        assert_eq!(counts.get(), 3);
    }
}
