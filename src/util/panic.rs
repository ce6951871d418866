//! Keeping panics of foreign code to themselves, and turning them into text.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use futures::FutureExt;

/// Runs foreign code that is not async; the message of its panic, if it does.
pub(crate) fn contained<T>(f: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(f)).map_err(|payload| message(&*payload).to_owned())
}

/// Awaits foreign code; the message of its panic, if it does.
pub(crate) fn caught<F: Future>(future: F) -> impl Future<Output = Result<F::Output, String>> {
    let caught = AssertUnwindSafe(future).catch_unwind();
    caught.map(|outcome| outcome.map_err(|payload| message(&*payload).to_owned()))
}

/// The message of a panic payload, or a fixed text for payloads that are not strings.
pub(crate) fn message(payload: &(dyn Any + Send)) -> &str {
    payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a value that is not a string")
}
