//! The uploads in progress.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use crate::util::sync::lock;

use super::error::ApiError;
use super::users::Caller;

/// The maximum number of concurrent uploads, whose bodies are in memory.
const MAX_UPLOADS: usize = 16;

/// The maximum number of concurrent uploads of one user.
const MAX_USER_UPLOADS: usize = 2;

/// The number of uploads in progress of each user. Clones share it.
#[derive(Clone, Default)]
pub(super) struct Uploads(Arc<Mutex<HashMap<Arc<str>, usize>>>);

/// The permit for one upload, released on drop.
#[derive(Debug)]
pub(super) struct UploadPermit {
    uploads: Uploads,
    user: Arc<str>,
}

impl Uploads {
    /// Starts an upload of a user.
    pub(super) fn begin(&self, caller: &Caller) -> Result<UploadPermit, ApiError> {
        let mut counts = lock(&self.0);
        if counts.get(caller.id()).copied().unwrap_or(0) >= MAX_USER_UPLOADS {
            return Err(ApiError::too_many(format!(
                "you have {MAX_USER_UPLOADS} uploads in progress, which is the limit; wait for one \
                 to end"
            )));
        }
        if counts.values().sum::<usize>() >= MAX_UPLOADS {
            return Err(ApiError::too_many(format!(
                "the server has {MAX_UPLOADS} uploads in progress, which is the limit; try again later"
            )));
        }
        *counts.entry(caller.id().clone()).or_default() += 1;
        Ok(UploadPermit {
            uploads: self.clone(),
            user: caller.id().clone(),
        })
    }
}

impl Drop for UploadPermit {
    fn drop(&mut self) {
        let mut counts = lock(&self.uploads.0);
        if let Some(count) = counts.get_mut(&self.user) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.user);
            }
        }
    }
}

impl fmt::Debug for Uploads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count: usize = lock(&self.0).values().sum();
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
        let uploads = Uploads::default();
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
        assert!(lock(&uploads.0).is_empty());
    }
}
