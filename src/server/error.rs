//! The errors of the routes.

use std::fmt;
use std::time::Duration;

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::{Error, ErrorKind};
use crate::util::secret::redacted;

use super::runs::{RunRefusal, TooManyStreams};

/// The time after which a request that exceeded a limit may be retried.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The text for a thread whose run may be in another process.
const BUSY: &str = "the thread has a run already, maybe in another process; wait for its end, or \
                    copy the thread with /fork";

/// The text for a thread that was deleted meanwhile.
const GONE: &str = "the thread was not found; it may have expired or been deleted";

/// The body of every error.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct ErrorReply {
    /// The reason, as text for people.
    pub(super) error: String,
}

/// The error of a request: a status and a text for people.
#[derive(Debug)]
pub(super) struct ApiError {
    status: StatusCode,
    text: String,
    retry_after: Option<Duration>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl ApiError {
    pub(super) fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Self {
            status,
            text: text.into(),
            retry_after: None,
            headers: Vec::new(),
        }
    }

    pub(super) fn bad_request(text: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, text)
    }

    pub(super) fn forbidden(text: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, text)
    }

    pub(super) fn not_found(text: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, text)
    }

    pub(super) fn conflict(text: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, text)
    }

    /// Creates the error for a file whose text is too large for a reply as JSON.
    pub(super) fn too_large(file: &str) -> Self {
        let text = format!("the text of {file:?} is too large as JSON; download the file instead");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, text)
    }

    /// Creates the error for a request over a limit, for which there may be room later.
    pub(super) fn too_many(text: impl Into<String>) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, text).with_retry_after(RETRY_AFTER)
    }

    /// Creates the error for a thread that does not exist or belongs to another user.
    pub(super) fn no_thread(id: &str) -> Self {
        Self::not_found(format!("thread {id:?} not found"))
    }

    /// Creates the error for the id of another user's thread in a request that may begin a thread.
    pub(super) fn foreign_thread(id: &str) -> Self {
        Self::not_found(format!(
            "thread {id:?} is not available; leave out the id for a new thread, or choose another"
        ))
    }

    /// Creates an internal error, whose cause is in the log.
    pub(super) fn internal() -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the server failed; its log has the cause",
        )
    }

    /// Creates the error for a request during the shutdown.
    pub(super) fn closing() -> Self {
        Self::from(RunRefusal::Closing)
    }

    /// Creates an error of the workspace's file system, without the path of its root on the server.
    pub(super) fn of_files(error: &Error, root: &str) -> Self {
        use std::error::Error as _;
        use std::io;

        let source = error.source().and_then(|source| source.downcast_ref());
        let text = without_root(&error.to_string(), root);
        match source.map(io::Error::kind) {
            Some(io::ErrorKind::NotFound) => Self::not_found(text),
            Some(io::ErrorKind::FileTooLarge) => Self::new(StatusCode::PAYLOAD_TOO_LARGE, text),
            Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) => {
                Self::new(StatusCode::INSUFFICIENT_STORAGE, text)
            }
            Some(
                io::ErrorKind::IsADirectory
                | io::ErrorKind::NotADirectory
                | io::ErrorKind::InvalidInput
                | io::ErrorKind::InvalidFilename,
            ) => Self::bad_request(text),
            _ if error.kind() == ErrorKind::Io => {
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, text)
            }
            _ => Self::of_kind(error, text),
        }
    }

    /// Creates an error with `text` and the status of the error's kind. Logs `error` if the status
    /// is that of a server error.
    fn of_kind(error: &Error, text: String) -> Self {
        let status = match error.kind() {
            ErrorKind::InvalidRequest | ErrorKind::InvalidMessages => StatusCode::BAD_REQUEST,
            ErrorKind::NotFound | ErrorKind::SessionNotFound => StatusCode::NOT_FOUND,
            ErrorKind::Conflict => StatusCode::CONFLICT,
            ErrorKind::PermissionDenied => StatusCode::FORBIDDEN,
            ErrorKind::RequestTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        if status.is_server_error() {
            tracing::error!(%error, "a request failed");
        }
        Self::new(status, text)
    }

    /// Creates the error for a request that waited for the output of a failed run.
    pub(super) fn of_run(error: &Error) -> Self {
        let status = match error.kind() {
            ErrorKind::SessionBusy => return Self::busy(),
            ErrorKind::InvalidMessages | ErrorKind::InvalidRequest if error.status().is_none() => {
                StatusCode::BAD_REQUEST
            }
            ErrorKind::SessionNotFound => StatusCode::NOT_FOUND,
            ErrorKind::Conflict => StatusCode::CONFLICT,
            kind if is_of_provider(kind) => StatusCode::BAD_GATEWAY,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, error.to_string())
    }

    /// Creates the error for a thread with a run, here or in another process.
    fn busy() -> Self {
        Self::conflict(BUSY).with_retry_after(RETRY_AFTER)
    }

    pub(super) fn with_retry_after(mut self, time: Duration) -> Self {
        self.retry_after = Some(time);
        self
    }

    /// Adds a header.
    pub(super) fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    pub(super) fn status(&self) -> StatusCode {
        self.status
    }
}

/// Returns the text of an error about files, without the root of the workspace.
fn without_root(text: &str, root: &str) -> String {
    // The root of files in memory may be `/`, which reveals nothing.
    if root.len() < 2 {
        return text.to_owned();
    }
    let text = text.replace(&format!(" {root:?}"), "");
    text.replace(&format!("{root}/"), "").replace(root, ".")
}

/// Returns `true` if the model's provider, or the connection to it, caused the error.
fn is_of_provider(kind: ErrorKind) -> bool {
    use ErrorKind::*;
    matches!(
        kind,
        Connect
            | Dns
            | Tls
            | Proxy
            | Timeout
            | Auth
            | PermissionDenied
            | NotFound
            | InvalidRequest
            | ContextTooLong
            | RequestTooLarge
            | ResponseTooLarge
            | RateLimited
            | QuotaExhausted
            | Overloaded
            | Server
            | Protocol
            | StreamTruncated
            | Refused
            | EmptyResponse
    )
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        let text = match error.kind() {
            ErrorKind::SessionBusy => return Self::busy(),
            ErrorKind::SessionNotFound => GONE.to_owned(),
            _ => error.to_string(),
        };
        Self::of_kind(&error, text)
    }
}

impl From<RunRefusal> for ApiError {
    fn from(refusal: RunRefusal) -> Self {
        let status = match refusal {
            RunRefusal::Busy => StatusCode::CONFLICT,
            RunRefusal::UserRuns(_) | RunRefusal::Runs(_) => StatusCode::TOO_MANY_REQUESTS,
            RunRefusal::Closing => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self::new(status, refusal.to_string()).with_retry_after(RETRY_AFTER)
    }
}

impl From<TooManyStreams> for ApiError {
    fn from(refusal: TooManyStreams) -> Self {
        Self::too_many(refusal.to_string())
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body = ErrorReply {
            error: redacted(&self.text).into_owned(),
        };
        let mut response = (self.status, axum::Json(body)).into_response();
        let headers = response.headers_mut();
        if let Some(time) = self.retry_after {
            headers.insert(header::RETRY_AFTER, time.as_secs().max(1).into());
        }
        headers.extend(
            self.headers
                .into_iter()
                .map(|(name, value)| (Some(name), value)),
        );
        response
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn full_workspace_is_a_507() {
        for kind in [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded] {
            let error = Error::from(io::Error::from(kind));
            let status = ApiError::of_files(&error, "/work").status();
            assert_eq!(status, StatusCode::INSUFFICIENT_STORAGE);
        }
    }
}
