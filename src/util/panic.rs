//! Catches panics of hooks, tools and other code of users, and converts them into text.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::{FutureExt, Stream, StreamExt};

use super::secret::redacted;

/// Calls `f`. Returns the message of its panic if it panics.
pub(crate) fn catch<T>(f: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(f)).map_err(into_message)
}

/// Awaits `future`. Returns the message of its panic if it panics.
pub(crate) fn catch_async<F: Future>(future: F) -> impl Future<Output = Result<F::Output, String>> {
    let unwind = AssertUnwindSafe(future).catch_unwind();
    unwind.map(|outcome| outcome.map_err(into_message))
}

/// A future or stream whose drop never panics. It may be dropped while another panic unwinds, where
/// a second panic would abort the process.
pub(crate) struct DropContained<T> {
    /// `None` only while it is dropped.
    inner: Option<T>,
    what: &'static str,
}

impl<T> DropContained<T> {
    /// Wraps a value. `what` names it in the log.
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
        if let Err(text) = catch(|| drop(inner)) {
            tracing::warn!("{} panicked while it was cancelled: {text}", self.what);
        }
    }
}

/// Drops the payload of a panic and returns its message.
pub(crate) fn into_message(payload: Box<dyn Any + Send>) -> String {
    let text = message(&*payload);
    // The drop may panic, as may the drop of the payload of that panic, which is leaked.
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(payload);
    }
    text
}

/// Returns the message of a panic payload without secrets, or a fixed text for payloads that are
/// not strings.
fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a value that is not a string");
    redacted(text).into_owned()
}

#[cfg(test)]
mod tests {
    use std::panic::panic_any;

    use futures::executor::block_on;

    use super::*;

    struct PanicsWhenDropped(u32);

    impl Drop for PanicsWhenDropped {
        fn drop(&mut self) {
            if let Some(depth) = self.0.checked_sub(1) {
                panic_any(PanicsWhenDropped(depth));
            }
        }
    }

    #[test]
    fn payload_that_panics_when_it_is_dropped_is_contained() {
        for depth in [0, 1, 2] {
            let outcome = catch(|| panic_any(PanicsWhenDropped(depth)));
            assert_eq!(outcome, Err("a value that is not a string".to_owned()));
            let future = async { panic_any(PanicsWhenDropped(depth)) };
            let outcome: Result<(), _> = block_on(catch_async(future));
            assert_eq!(outcome, Err("a value that is not a string".to_owned()));
        }
    }
}
