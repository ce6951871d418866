//! The uploads in progress, and the bytes that each user uploaded within a day.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

use crate::util::sync::lock;

use super::error::ApiError;
use super::users::Caller;

/// The maximum number of concurrent uploads, whose bodies are in memory.
const MAX_UPLOADS: usize = 16;

/// The maximum number of concurrent uploads of one user.
const MAX_USER_UPLOADS: usize = 2;

/// The time after which the bytes of a user are counted from zero again.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The bytes that are counted for each file in addition to its path and its content, and for each
/// copy in addition to its size.
const ENTRY_BYTES: usize = 4 * 1024;

/// The uploads of all users. Clones share them.
#[derive(Clone)]
pub(super) struct Uploads {
    users: Arc<Mutex<HashMap<Arc<str>, UserUploads>>>,
    /// The maximum number of bytes that one user uploads within a [`DAY`].
    max_bytes: u64,
}

struct UserUploads {
    /// The number of uploads in progress.
    open_count: usize,
    /// The bytes that were uploaded and copied since `day_start`.
    bytes: u64,
    /// The time of the first of these bytes.
    day_start: Instant,
}

impl UserUploads {
    fn new() -> Self {
        Self {
            open_count: 0,
            bytes: 0,
            day_start: Instant::now(),
        }
    }

    fn is_idle(&self) -> bool {
        self.open_count == 0 && (self.bytes == 0 || self.day_start.elapsed() >= DAY)
    }
}

/// The permit for one upload, released on drop.
#[derive(Debug)]
pub(super) struct UploadPermit {
    uploads: Uploads,
    user: Arc<str>,
}

impl Uploads {
    pub(super) fn new(max_bytes: u64) -> Self {
        Self {
            users: Arc::default(),
            max_bytes,
        }
    }

    /// Starts an upload of a user.
    ///
    /// # Errors
    ///
    /// Returns a 429 if the user or the server has too many uploads in progress.
    pub(super) fn begin(&self, caller: &Caller) -> Result<UploadPermit, ApiError> {
        let mut users = lock(&self.users);
        users.retain(|_, user| !user.is_idle());
        let user_count = users.get(caller.id()).map_or(0, |user| user.open_count);
        if user_count >= MAX_USER_UPLOADS {
            return Err(ApiError::too_many(format!(
                "you have {MAX_USER_UPLOADS} uploads in progress, which is the limit; wait for one \
                 to end"
            )));
        }
        if users.values().map(|user| user.open_count).sum::<usize>() >= MAX_UPLOADS {
            return Err(ApiError::too_many(format!(
                "the server has {MAX_UPLOADS} uploads in progress, which is the limit; try again later"
            )));
        }
        let user = users.entry(caller.id().clone());
        user.or_insert_with(UserUploads::new).open_count += 1;
        Ok(UploadPermit {
            uploads: self.clone(),
            user: caller.id().clone(),
        })
    }

    /// Counts a copy of this size that is about to be made for a user.
    ///
    /// # Errors
    ///
    /// Returns a 429 if the user has uploaded and copied too much within a day.
    pub(super) fn count_copy(&self, caller: &Caller, bytes: usize) -> Result<(), ApiError> {
        let mut users = lock(&self.users);
        users.retain(|_, user| !user.is_idle());
        self.count(&mut users, caller.id(), bytes.saturating_add(ENTRY_BYTES))
    }

    /// Counts bytes of a user. A day begins with the first bytes after the end of the day before.
    fn count(
        &self,
        users: &mut HashMap<Arc<str>, UserUploads>,
        user: &Arc<str>,
        bytes: usize,
    ) -> Result<(), ApiError> {
        let user = users.entry(user.clone()).or_insert_with(UserUploads::new);
        if user.day_start.elapsed() >= DAY {
            user.bytes = 0;
        }
        if user.bytes == 0 {
            user.day_start = Instant::now();
        }
        let max_bytes = self.max_bytes;
        let total = user.bytes.saturating_add(bytes as u64);
        if total > max_bytes {
            let text = format!(
                "you have uploaded and copied {} bytes since the first upload of this day, and the \
                 limit is {max_bytes}; try again later",
                user.bytes
            );
            let time = DAY.saturating_sub(user.day_start.elapsed());
            return Err(ApiError::too_many(text).with_retry_after(time));
        }
        user.bytes = total;
        Ok(())
    }
}

impl UploadPermit {
    /// Counts a file that is about to be written, with its path.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`count`](Self::count).
    pub(super) fn count_file(&self, path: &str, content: &[u8]) -> Result<(), ApiError> {
        self.count(content.len() + path.len() + ENTRY_BYTES)
    }

    /// Counts bytes that are about to be written.
    ///
    /// # Errors
    ///
    /// Returns a 429 if the user has uploaded and copied too much within a day.
    fn count(&self, bytes: usize) -> Result<(), ApiError> {
        let mut users = lock(&self.uploads.users);
        self.uploads.count(&mut users, &self.user, bytes)
    }
}

impl Drop for UploadPermit {
    fn drop(&mut self) {
        if let Some(user) = lock(&self.uploads.users).get_mut(&self.user) {
            user.open_count -= 1;
        }
    }
}

impl fmt::Debug for Uploads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let users = lock(&self.users);
        let count: usize = users.values().map(|user| user.open_count).sum();
        f.debug_tuple("Uploads").field(&count).finish()
    }
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;

    use super::super::users::User;
    use super::*;

    #[test]
    fn upload_over_a_limit_is_refused_until_one_ends() {
        let uploads = Uploads::new(1);
        let begin = |user: &str| uploads.begin(&Caller(User::new(user)));
        let mut permits = Vec::new();
        for number in 0..16 {
            permits.push(begin(&format!("u{}", number / 2)).unwrap());
        }
        assert_eq!(
            begin("u8").unwrap_err().status(),
            StatusCode::TOO_MANY_REQUESTS
        );
        permits.pop();
        assert!(
            begin("u0")
                .unwrap_err()
                .to_string()
                .starts_with("you have 2")
        );
        drop(begin("u8").unwrap());
        permits.clear();
        drop(begin("u9").unwrap());
        assert_eq!(lock(&uploads.users).len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_over_the_limit_of_a_day_are_refused_until_it_ends() {
        let uploads = Uploads::new(100);
        let count = |user: &str, bytes| {
            let permit = uploads.begin(&Caller(User::new(user)))?;
            permit.count(bytes)
        };
        count("a", 60).unwrap();
        tokio::time::advance(DAY / 2).await;
        count("a", 40).unwrap();
        let error = count("a", 1).unwrap_err();
        assert_eq!(error.status(), StatusCode::TOO_MANY_REQUESTS);
        assert!(error.to_string().contains("100 bytes"), "{error}");
        let copy = |bytes| uploads.count_copy(&Caller(User::new("a")), bytes);
        copy(0).unwrap_err();
        count("b", 100).unwrap();
        count("c", 101).unwrap_err();

        tokio::time::advance(DAY / 2).await;
        count("a", 100).unwrap();
        count("a", 1).unwrap_err();
    }
}
