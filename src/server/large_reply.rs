//! Large replies, which are in memory until they are sent.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tokio::time::timeout;

use crate::util::blocking::blocking;
use crate::util::json::json_len;

use super::app::App;
use super::error::ApiError;
use super::runs::{FileListPermit, MAX_WAIT, Space};
use super::users::Caller;

/// The maximum size of the JSON of a file, in bytes, and the space that a reply takes while its
/// size is unknown. A thread may be larger.
pub(super) const MAX_BYTES: usize = 32 * 1024 * 1024;

/// The space of one reply. It is acquired before the content is read, so the unread replies of a
/// user are bounded together.
pub(super) struct ReplySpace(Space);

impl ReplySpace {
    /// Waits for the space of a reply to `caller`.
    ///
    /// # Errors
    ///
    /// Returns a 429 if the unread replies and streams of the user hold the space for 30 seconds.
    pub(super) async fn acquire(app: &App, caller: &Caller) -> Result<Self, ApiError> {
        Self::acquire_for(app, caller.id(), MAX_BYTES).await
    }

    /// Waits for the space of a reply of `len` bytes to `user`. A short reply takes none.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`acquire`](Self::acquire).
    pub(super) async fn acquire_for(
        app: &App,
        user: &Arc<str>,
        len: usize,
    ) -> Result<Self, ApiError> {
        let quota = app.runs.quota_of(user);
        match timeout(MAX_WAIT, quota.acquire_space(len)).await {
            Ok(space) => Ok(Self(space)),
            Err(_) => Err(ApiError::too_many(
                "your unread replies and streams hold the memory that you may use; read or close \
                 them and try again",
            )),
        }
    }

    /// Returns a reply with a value as JSON, in the space of its size.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`acquire`](Self::acquire).
    pub(super) async fn json_for<T>(
        app: &App,
        caller: &Caller,
        value: T,
    ) -> Result<Response, ApiError>
    where
        T: Serialize + Send + 'static,
    {
        let (value, len) = measured(value).await?;
        let space = Self::acquire_for(app, caller.id(), len).await?;
        space.json(value).await
    }

    /// Returns a body that keeps the space of its bytes until it is sent or dropped.
    pub(super) fn body(self, bytes: Vec<u8>) -> Body {
        Body::from(self.0.hold(bytes))
    }

    /// Returns a reply with a value as JSON.
    pub(super) async fn json<T>(self, value: T) -> Result<Response, ApiError>
    where
        T: Serialize + Send + 'static,
    {
        // The space is held until the JSON is written, also if the client has left.
        let (space, bytes) = blocking(move || Ok((self, serde_json::to_vec(&value)?))).await?;
        let headers = [(header::CONTENT_TYPE, "application/json")];
        Ok((StatusCode::OK, headers, space.body(bytes)).into_response())
    }
}

/// Waits for the permit to list files or skills.
///
/// # Errors
///
/// Returns a 429 if other requests of the user that list files or skills take 30 seconds.
pub(super) async fn file_list_permit(
    app: &App,
    caller: &Caller,
) -> Result<FileListPermit, ApiError> {
    let permit = timeout(MAX_WAIT, app.runs.quota_of(caller.id()).acquire_file_list()).await;
    permit.map_err(|_| {
        ApiError::too_many(
            "your other requests list files or skills; wait for one of them and try again",
        )
    })
}

/// Measures a value as JSON, on a thread for blocking work.
pub(super) async fn measured<T>(value: T) -> Result<(T, usize), ApiError>
where
    T: Serialize + Send + 'static,
{
    let measured = blocking(move || {
        let len = json_len(&value);
        Ok((value, len))
    });
    Ok(measured.await?)
}
