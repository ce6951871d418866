//! The error type of the crate.

use std::any::Any;
use std::error::Error as StdError;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A boxed error of any type. The error type of tools, and the argument of [`Error::other`].
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// `Result` with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Removes secrets from a text; `None` when it has none.
type Redaction = fn(&str) -> Option<String>;

/// Set as soon as there is a secret. The module with the secrets is above this one.
static REDACTION: OnceLock<Redaction> = OnceLock::new();

/// The maximum length of a chain of sources that is searched for secrets.
const MAX_SOURCES: usize = 16;

/// Sets the function that removes secrets from errors. Later calls have no effect.
pub(crate) fn set_redaction(redaction: Redaction) {
    REDACTION.get_or_init(|| redaction);
}

/// The kind of an error, in classes a program can act on.
///
/// The kinds are stable; more may be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The connection could not be made, or broke before the response began.
    Connect,
    /// The host name could not be resolved.
    Dns,
    /// The TLS handshake failed. Never retried.
    Tls,
    /// A proxy refused the connection.
    Proxy,
    /// A time limit was reached: nothing arrived within the idle timeout, a store or a container
    /// did not answer in time, or the server answered 408.
    Timeout,
    /// The key is missing or was refused (401).
    Auth,
    /// The key may not do this (403), or a path is outside the workspace.
    PermissionDenied,
    /// The model, endpoint, container or background command does not exist (404).
    NotFound,
    /// The request is invalid: the provider refused it as malformed (400, 422), or an argument is
    /// invalid, such as a session id that a store cannot store.
    InvalidRequest,
    /// The request is longer than the model's context window, by [`Error::context_tokens`].
    ContextTooLong,
    /// The request body is larger than the server takes (413), or an input or a message to a run
    /// does not fit into the session's history.
    RequestTooLarge,
    /// The model's response exceeds a limit on its size, or takes the session's history over one.
    /// Never retried.
    ResponseTooLarge,
    /// Too many requests (429); see [`Error::retry_after`].
    RateLimited,
    /// A spend limit or a quota is used up. Never retried.
    QuotaExhausted,
    /// The provider is overloaded (503, 529).
    Overloaded,
    /// The provider failed (other 5xx).
    Server,
    /// The peer violated its protocol.
    Protocol,
    /// The stream ended before its terminal event.
    StreamTruncated,
    /// The model refused to answer.
    Refused,
    /// The model repeated a [`Secret`](crate::Secret) of this process in a block that must not be
    /// edited, such as signed thinking. Nothing of the response is stored. Never retried.
    SecretInAnswer,
    /// The model returned an empty response twice.
    EmptyResponse,
    /// The run's budget of money or tokens does not cover the call.
    BudgetExhausted,
    /// A [`TypedRun`](crate::run::TypedRun) ended without a value: no response matched the schema
    /// within the allowed retries, or the run ended before there was one.
    StructuredOutput,
    /// Another run has leased this session.
    SessionBusy,
    /// The session does not exist.
    SessionNotFound,
    /// Stored data is damaged.
    Corrupt,
    /// Stored data was written by a newer version; it was left untouched.
    VersionTooNew,
    /// The data has changed since it was read, or an item with this id exists already.
    Conflict,
    /// A message list breaks a rule; see the text for the index.
    InvalidMessages,
    /// A hook failed; the text names it.
    Hook,
    /// A tool failed outside a call (a registration, a lookup).
    Tool,
    /// The configuration cannot work.
    Config,
    /// The work was cancelled before it ended.
    Cancelled,
    /// A read or a write failed.
    Io,
    /// Any other error; see [`source`](StdError::source).
    Other,
}

impl ErrorKind {
    /// Returns `true` if the same request may succeed when it is sent again.
    pub fn is_retryable(self) -> bool {
        use ErrorKind::*;
        matches!(
            self,
            Connect | Dns | Timeout | RateLimited | Overloaded | Server | StreamTruncated
        )
    }
}

/// An error: its kind, a text for people, and its source.
///
/// An `Error` has the size of a pointer. Each [`Secret`](crate::Secret) that exists and has at
/// least twelve bytes is replaced by `[redacted]` in the text, the request id and the sources, in
/// the spellings that `Secret` lists. A source that contains one is replaced by its redacted text.
/// The concrete type of [`source`](StdError::source) is not part of the API.
///
/// ```
/// use agentcore::{Error, ErrorKind};
///
/// let error = Error::new(ErrorKind::RateLimited, "slow down");
/// assert!(error.is_retryable());
/// assert_eq!(error.to_string(), "slow down");
/// ```
pub struct Error {
    inner: Box<Inner>,
}

struct Inner {
    kind: ErrorKind,
    text: String,
    source: Option<BoxError>,
    retryable: Option<bool>,
    retry_after: Option<Duration>,
    request_id: Option<String>,
    status: Option<u16>,
    attachment: Option<Arc<dyn Any + Send + Sync>>,
    is_attributed: bool,
}

impl Error {
    /// Creates an error of `kind` with a text that states what was wrong, where, and what to do.
    // Cold, as are the other constructors, so that the compiler moves the code that makes the text
    // of an error out of the way of code without errors.
    #[cold]
    pub fn new(kind: ErrorKind, text: impl Into<String>) -> Self {
        Self {
            inner: Box::new(Inner {
                kind,
                text: redacted(text.into()),
                source: None,
                retryable: None,
                retry_after: None,
                request_id: None,
                status: None,
                attachment: None,
                is_attributed: false,
            }),
        }
    }

    /// Wraps any error, kept as the source, like [`std::io::Error::other`].
    ///
    /// An [`Error`] that was boxed before is returned unchanged.
    #[cold]
    pub fn other(error: impl Into<BoxError>) -> Self {
        match error.into().downcast::<Error>() {
            Ok(own) => *own,
            Err(foreign) => Self::new(ErrorKind::Other, foreign.to_string()).with_source(foreign),
        }
    }

    /// Sets the error that caused this one.
    #[must_use]
    #[cold]
    pub fn with_source(mut self, source: impl Into<BoxError>) -> Self {
        self.inner.source = Some(redacted_source(source.into()));
        self
    }

    /// Sets the time to wait that the server requested.
    #[must_use]
    pub fn with_retry_after(mut self, wait: Duration) -> Self {
        self.inner.retry_after = Some(wait);
        self
    }

    /// Sets the provider's request id.
    #[must_use]
    pub fn with_request_id(mut self, id: impl Into<String>) -> Self {
        self.inner.request_id = Some(redacted(id.into()));
        self
    }

    /// Sets the HTTP status of the response that caused the error.
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        self.inner.status = Some(status);
        self
    }

    /// Sets whether the server permits a retry (`x-should-retry`).
    #[must_use]
    pub fn with_retryable(mut self, retryable: bool) -> Self {
        self.inner.retryable = Some(retryable);
        self
    }

    /// Prepends `prefix: ` to the text, to add where the error occurred.
    #[must_use]
    #[cold]
    pub fn context(mut self, prefix: impl fmt::Display) -> Self {
        self.inner.text = redacted(format!("{prefix}: {}", self.inner.text));
        self
    }

    /// Appends a hint to the text.
    pub(crate) fn with_hint(mut self, hint: impl fmt::Display) -> Self {
        self.inner.text = format!("{}; {hint}", self.inner.text);
        self
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.inner.kind
    }

    /// Returns the text, without the source's.
    pub fn text(&self) -> &str {
        &self.inner.text
    }

    /// Returns `true` if the same request may succeed when it is sent again.
    pub fn is_retryable(&self) -> bool {
        self.inner
            .retryable
            .unwrap_or_else(|| self.inner.kind.is_retryable())
    }

    /// Returns the time the server asked to wait before the next try.
    pub fn retry_after(&self) -> Option<Duration> {
        self.inner.retry_after
    }

    /// Returns the provider's id of the failed request, for its support.
    pub fn request_id(&self) -> Option<&str> {
        self.inner.request_id.as_deref()
    }

    /// Returns the HTTP status, when there was one.
    pub fn status(&self) -> Option<u16> {
        self.inner.status
    }

    /// Marks that the text names the place of the error, so that it is not attributed to a hook it
    /// passes.
    pub(crate) fn attributed(mut self) -> Self {
        self.inner.is_attributed = true;
        self
    }

    /// Undoes [`attributed`](Self::attributed).
    pub(crate) fn unattributed(mut self) -> Self {
        self.inner.is_attributed = false;
        self
    }

    pub(crate) fn is_attributed(&self) -> bool {
        self.inner.is_attributed
    }

    /// Attaches a value that [`attachment`](Self::attachment) returns, such as the partial output
    /// of a run.
    pub(crate) fn attach(mut self, value: Arc<dyn Any + Send + Sync>) -> Self {
        self.inner.attachment = Some(value);
        self
    }

    /// Returns the attached value, if it is a `T`.
    pub(crate) fn attachment<T: Any>(&self) -> Option<&T> {
        self.inner.attachment.as_deref()?.downcast_ref()
    }
}

fn redacted(text: String) -> String {
    let redaction = REDACTION.get();
    redaction.and_then(|redact| redact(&text)).unwrap_or(text)
}

/// Returns the source itself, or its texts when one of them or of its own sources holds a secret.
fn redacted_source(source: BoxError) -> BoxError {
    let Some(redact) = REDACTION.get() else {
        return source;
    };

    let mut texts = Vec::new();
    let mut has_secret = false;
    let mut next: Option<&(dyn StdError + 'static)> = Some(&*source);
    while let Some(error) = next.filter(|_| texts.len() < MAX_SOURCES) {
        next = error.source();

        // Errors of this type were redacted when they were made, and so were their causes.
        if error.is::<Error>() && !has_secret {
            return source;
        }

        let [text, debug] = [error.to_string(), format!("{error:?}")].map(|text| {
            let replacement = redact(&text);
            has_secret |= replacement.is_some();
            replacement.unwrap_or(text)
        });

        texts.push((text, debug));
    }

    if !has_secret && next.is_none() {
        return source;
    }

    let sources = texts.into_iter().rev();
    let replacement = sources.fold(None, |source, (text, debug)| {
        Some(Box::new(Redacted {
            text,
            debug,
            source,
        }))
    });

    match replacement {
        Some(replacement) => replacement,
        None => source,
    }
}

/// The texts of an error of another crate, without the secrets in it.
struct Redacted {
    text: String,
    debug: String,
    source: Option<Box<Redacted>>,
}

impl fmt::Display for Redacted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Redacted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.debug)
    }
}

impl StdError for Redacted {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.inner.text)
    }
}

/// Readable on a line of its own, for a `main` that returns the error: the text, the kind with what
/// the server sent, then each cause. `{:#?}` writes the fields instead.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.alternate() {
            return self.fmt_fields(f);
        }

        write!(f, "{} [{:?}", self.inner.text, self.inner.kind)?;
        if let Some(status) = self.inner.status {
            write!(f, ", status {status}")?;
        }

        if let Some(id) = &self.inner.request_id {
            write!(f, ", request {id}")?;
        }

        if let Some(wait) = self.inner.retry_after {
            write!(f, ", retry after {wait:?}")?;
        }

        f.write_str("]")?;

        // A text often ends with the text of its cause.
        let mut previous_text = self.inner.text.clone();
        let mut source = self.source();
        for _ in 0..MAX_SOURCES {
            let Some(cause) = source else { break };
            let text = cause.to_string();
            if !previous_text.contains(&text) {
                write!(f, "\n  caused by: {text}")?;
            }

            previous_text = text;
            source = cause.source();
        }

        Ok(())
    }
}

impl Error {
    fn fmt_fields(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Error");
        out.field("kind", &self.inner.kind)
            .field("text", &self.inner.text);
        if let Some(status) = self.inner.status {
            out.field("status", &status);
        }

        if let Some(id) = &self.inner.request_id {
            out.field("request_id", id);
        }

        if let Some(wait) = self.inner.retry_after {
            out.field("retry_after", &wait);
        }

        if let Some(source) = &self.inner.source {
            out.field("source", source);
        }

        out.finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.inner.source.as_deref().map(|e| e as _)
    }
}

impl From<&str> for Error {
    #[cold]
    fn from(text: &str) -> Self {
        Self::new(ErrorKind::Other, text)
    }
}

impl From<String> for Error {
    #[cold]
    fn from(text: String) -> Self {
        Self::new(ErrorKind::Other, text)
    }
}

impl From<BoxError> for Error {
    #[cold]
    fn from(error: BoxError) -> Self {
        Self::other(error)
    }
}

impl From<std::io::Error> for Error {
    #[cold]
    fn from(error: std::io::Error) -> Self {
        Self::new(ErrorKind::Io, error.to_string()).with_source(error)
    }
}

impl From<serde_json::Error> for Error {
    #[cold]
    fn from(error: serde_json::Error) -> Self {
        Self::new(ErrorKind::Other, error.to_string()).with_source(error)
    }
}
