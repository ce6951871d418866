//! The parameters of paths.

use std::sync::Arc;

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;

use super::super::app::App;
use super::super::error::ApiError;

/// The agent of routes without an id.
const DEFAULT_AGENT: &str = "default";

/// The maximum length of a thread's id, in bytes.
const MAX_THREAD_ID: usize = 128;

/// The parameters of a path.
#[derive(Debug)]
pub(super) struct Path {
    /// The agent: the parameter `id`, or the default one.
    pub(super) agent: Arc<str>,
    /// The thread: the parameter `thread`, or empty.
    pub(super) thread: Arc<str>,
    /// The parameter `name`, or empty.
    pub(super) name: String,
}

impl FromRequestParts<App> for Path {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let params = RawPathParams::from_request_parts(parts, app)
            .await
            .map_err(|_| ApiError::bad_request("the path is not UTF-8"))?;
        let mut path = Self {
            agent: DEFAULT_AGENT.into(),
            thread: Arc::default(),
            name: String::new(),
        };
        for (name, value) in &params {
            match name {
                "id" => path.agent = value.into(),
                "thread" => path.thread = checked_thread_id(value)?,
                "name" => value.clone_into(&mut path.name),
                // Parameters of the application that nests the router.
                _ => {}
            }
        }
        Ok(path)
    }
}

/// Checks the id of a thread from a client.
pub(super) fn checked_thread_id(id: &str) -> Result<Arc<str>, ApiError> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
    let has_length = (1..=MAX_THREAD_ID).contains(&id.len());
    if has_length && id.bytes().all(is_allowed) {
        return Ok(id.into());
    }
    Err(ApiError::bad_request(format!(
        "a thread id has 1 to {MAX_THREAD_ID} of the characters A-Z a-z 0-9 . _ : -"
    )))
}
