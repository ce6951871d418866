//! The moved results of the sessions in use, within their limits.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{Instant, timeout};

use crate::backend::Backend;
use crate::error::Result;
use crate::util::sync::lock;

use super::evicted_files::{self, StoredResult};

/// The default maximum size of the results of a session, in bytes.
pub(super) const MAX_BYTES: u64 = 128 * 1024 * 1024;

/// The maximum number of results of a session. The size alone does not limit it: a program may have
/// short results moved.
pub(super) const MAX_FILES: usize = 10_000;

/// The maximum number of sessions whose results are remembered. The results of other sessions are
/// listed again.
const MAX_SESSIONS: usize = 256;

/// The time limit for listing results, and for removing some.
const TIME_LIMIT: Duration = Duration::from_secs(5);

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
    /// Creates the results of a session from a listing, the oldest first.
    fn listed(files: Vec<StoredResult>) -> Self {
        let sizes = files.iter().map(|file| file.bytes);
        Self {
            bytes: sizes.fold(0, u64::saturating_add),
            files: files.into(),
        }
    }

    /// Adds a result as the newest.
    fn add(&mut self, result: StoredResult) {
        self.remove(&result.path);
        self.bytes = self.bytes.saturating_add(result.bytes);
        self.files.push_back(result);
    }

    fn remove(&mut self, path: &str) {
        let index = self.files.iter().position(|file| file.path == path);
        if let Some(file) = index.and_then(|index| self.files.remove(index)) {
            self.bytes = self.bytes.saturating_sub(file.bytes);
        }
    }

    /// Returns the path of the oldest result if there are too many, but not of the newest.
    fn excess(&self, max_bytes: u64) -> Option<String> {
        let is_over = self.bytes > max_bytes || self.files.len() > MAX_FILES;
        let has_older = self.files.len() > 1;
        self.files
            .front()
            .filter(|_| is_over && has_older)
            .map(|file| file.path.clone())
    }
}

impl MovedResults {
    /// Adds a result that was written, and removes the oldest ones of its session from the backend
    /// until they have at most `max_bytes`. Returns the number of removed results. After 5 seconds,
    /// the remaining ones are left to the next result.
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
            // Half of the time for the order of the results, the other half for the list itself.
            let deadline = Instant::now() + TIME_LIMIT / 2;
            let listing = evicted_files::oldest_first(backend, &result.path, deadline);
            let Ok(files) = timeout(TIME_LIMIT, listing).await else {
                return Ok(0);
            };
            self.remember(session, SessionResults::listed(files?));
        }

        if let Some(results) = lock(&self.0).get_mut(session) {
            results.add(result);
        }
        let mut removed = 0;
        let removal = async {
            while let Some(path) = self.excess(session, max_bytes) {
                removed += usize::from(evicted_files::remove(backend, &path).await?);
                // Only now, so that a file that was not removed is counted.
                self.forget_file(session, &path);
            }
            Ok(())
        };
        let outcome = timeout(TIME_LIMIT, removal).await;
        outcome.unwrap_or(Ok(())).map(|()| removed)
    }

    /// Forgets the results of a session, which were removed.
    pub(super) fn forget(&self, session: &str) {
        lock(&self.0).remove(session);
    }

    /// Keeps the results of a session, unless another call has done so meanwhile.
    fn remember(&self, session: &Arc<str>, results: SessionResults) {
        let mut sessions = lock(&self.0);
        if sessions.len() >= MAX_SESSIONS {
            sessions.clear();
        }
        sessions.entry(session.clone()).or_insert(results);
    }

    fn excess(&self, session: &str, max_bytes: u64) -> Option<String> {
        lock(&self.0).get(session)?.excess(max_bytes)
    }

    fn forget_file(&self, session: &str, path: &str) {
        if let Some(results) = lock(&self.0).get_mut(session) {
            results.remove(path);
        }
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
    fn oldest_results_are_excess_over_a_number_and_over_a_size() {
        let files = (0..MAX_FILES).map(|number| result(number, 1)).collect();
        let mut results = SessionResults::listed(files);
        assert!(results.excess(u64::MAX).is_none());
        results.add(result(MAX_FILES, 1));
        assert_eq!(results.excess(u64::MAX).unwrap(), "0.txt");
        results.remove("0.txt");
        assert!(results.excess(u64::MAX).is_none());

        let mut results = SessionResults::default();
        for (number, bytes) in [(0, 10), (1, 10), (0, 20), (2, 100)] {
            results.add(result(number, bytes));
        }
        assert_eq!(results.bytes, 130);
        assert_eq!(results.excess(129).unwrap(), "1.txt");
        results.remove("1.txt");
        assert_eq!(results.excess(119).unwrap(), "0.txt");
        results.remove("0.txt");
        // The newest stays, however long it is.
        assert!(results.excess(1).is_none());
    }

    #[test]
    fn sizes_that_exceed_any_number_are_counted_without_a_panic() {
        let huge = || (0..3).map(|number| result(number, u64::MAX / 2));
        let mut results = SessionResults::listed(huge().collect());
        huge().for_each(|file| results.add(file));
        assert_eq!(results.excess(1).unwrap(), "0.txt");
        results.remove("0.txt");
        results.remove("1.txt");
        assert!(results.excess(u64::MAX).is_none());
    }
}
