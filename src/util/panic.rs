//! The containment of panics of foreign code, which become text.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::{FutureExt, Stream, StreamExt};

use super::secret::redacted;

/// Runs foreign code that is not async; the message of its panic, if it does.
pub(crate) fn contained<T>(f: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(f)).map_err(|payload| message(&*payload))
}

/// Awaits foreign code; the message of its panic, if it does.
pub(crate) fn caught<F: Future>(future: F) -> impl Future<Output = Result<F::Output, String>> {
    let unwind = AssertUnwindSafe(future).catch_unwind();
    unwind.map(|outcome| outcome.map_err(|payload| message(&*payload)))
}

/// A foreign future or stream whose panics stay inside when it is dropped half-way: what drops it
/// may be on the way of another panic.
pub(crate) struct DropContained<T> {
    /// `None` only while it is dropped.
    inner: Option<T>,
    what: &'static str,
}

impl<T> DropContained<T> {
    /// `what` it is, for the log.
    pub(crate) fn new(inner: T, what: &'static str) -> Self {
        let inner = Some(inner);
        Self { inner, what }
    }
}

impl<F: Future + Unpin> Future for DropContained<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        match &mut self.inner {
            Some(inner) => inner.poll_unpin(cx),
            None => Poll::Pending,
        }
    }
}

impl<S: Stream + Unpin> Stream for DropContained<S> {
    type Item = S::Item;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<S::Item>> {
        match &mut self.inner {
            Some(inner) => inner.poll_next_unpin(cx),
            None => Poll::Ready(None),
        }
    }
}

impl<T> Drop for DropContained<T> {
    fn drop(&mut self) {
        let inner = self.inner.take();
        if let Err(text) = contained(|| drop(inner)) {
            tracing::warn!("{} panicked while it was cancelled: {text}", self.what);
        }
    }
}

/// The message of a panic payload without secrets, or a fixed text for payloads that are not
/// strings.
pub(crate) fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a value that is not a string");
    redacted(text).into_owned()
}
