//! The moved results of the sessions in use, within their limits.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::timeout;

use crate::backend::Backend;
use crate::error::Result;
use crate::util::sync::lock;

use super::evicted_files::{self, StoredResult};

/// The size of the results of a session, unless another is set, in bytes.
pub(super) const MAX_BYTES: u64 = 128 * 1024 * 1024;

/// The number of results of a session: short ones are moved if the program sets so.
const MAX_FILES: usize = 10_000;

/// The number of sessions whose results are remembered. Those of others are listed again.
const MAX_SESSIONS: usize = 256;

/// The maximum time for listing results, and for removing some.
const TIME: Duration = Duration::from_secs(5);

/// The results of sessions. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct MovedResults(Arc<Mutex<HashMap<Arc<str>, SessionResults>>>);

/// The results of a session, the oldest first.
#[derive(Debug, Default)]
struct SessionResults {
    files: VecDeque<StoredResult>,
    bytes: u64,
}

impl SessionResults {
    fn add(&mut self, result: StoredResult) {
        let earlier = self.files.iter().position(|file| file.path == result.path);
        if let Some(earlier) = earlier.and_then(|index| self.files.remove(index)) {
            self.bytes -= earlier.bytes;
        }
        self.bytes = self.bytes.saturating_add(result.bytes);
        self.files.push_back(result);
    }

    /// Takes the oldest result out if there are too many, but not the newest.
    fn take_excess(&mut self, max_bytes: u64) -> Option<StoredResult> {
        let is_over = self.bytes > max_bytes || self.files.len() > MAX_FILES;
        if !is_over || self.files.len() < 2 {
            return None;
        }
        let oldest = self.files.pop_front()?;
        self.bytes -= oldest.bytes;
        Some(oldest)
    }
}

impl MovedResults {
    /// Adds a result that was written, and removes the oldest ones of its session from the backend
    /// until they have at most `max_bytes`. Returns their number. What takes longer than 5 seconds
    /// is left to the next result.
    ///
    /// # Errors
    ///
    /// Returns an error if the backend cannot list or remove them.
    pub(super) async fn add(
        &self,
        backend: &dyn Backend,
        session: &Arc<str>,
        result: StoredResult,
        max_bytes: u64,
    ) -> Result<usize> {
        if !lock(&self.0).contains_key(session) {
            let listing = evicted_files::oldest_first(backend, &result.path);
            let Ok(files) = timeout(TIME, listing).await else {
                return Ok(0);
            };
            self.remember(session, files?);
        }

        if let Some(results) = lock(&self.0).get_mut(session) {
            results.add(result);
        }
        let mut removed = 0;
        let removal = async {
            while let Some(oldest) = self.take_excess(session, max_bytes) {
                removed += usize::from(evicted_files::remove(backend, &oldest.path).await?);
            }
            Ok(())
        };
        let outcome = timeout(TIME, removal).await;
        outcome.unwrap_or(Ok(())).map(|()| removed)
    }

    /// Forgets the results of a session, which were removed.
    pub(super) fn forget(&self, session: &str) {
        lock(&self.0).remove(session);
    }

    fn remember(&self, session: &Arc<str>, files: Vec<StoredResult>) {
        let mut sessions = lock(&self.0);
        if sessions.len() >= MAX_SESSIONS {
            sessions.clear();
        }
        let results = sessions.entry(session.clone()).or_default();
        for file in files {
            results.add(file);
        }
    }

    fn take_excess(&self, session: &str, max_bytes: u64) -> Option<StoredResult> {
        lock(&self.0).get_mut(session)?.take_excess(max_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(number: usize, bytes: u64) -> StoredResult {
        StoredResult {
            path: format!("{number}.txt"),
            bytes,
        }
    }

    #[test]
    fn oldest_results_are_taken_out_over_a_number_and_over_a_size() {
        let mut results = SessionResults::default();
        for number in 0..=MAX_FILES {
            results.add(result(number, 1));
        }
        assert_eq!(results.take_excess(u64::MAX).unwrap().path, "0.txt");
        assert!(results.take_excess(u64::MAX).is_none());

        let mut results = SessionResults::default();
        for (number, bytes) in [(0, 10), (1, 10), (0, 20), (2, 100)] {
            results.add(result(number, bytes));
        }
        assert_eq!(results.bytes, 130);
        assert_eq!(results.take_excess(129).unwrap().path, "1.txt");
        assert_eq!(results.take_excess(119).unwrap().path, "0.txt");
        // The newest stays, however long it is.
        assert!(results.take_excess(1).is_none());
    }
}
