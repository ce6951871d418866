//! Work that blocks or takes long, on the runtime's threads for blocking work.

use std::panic::resume_unwind;

use tokio::runtime::Handle;

use crate::error::{Error, ErrorKind, Result};
use crate::util::Cancellation;

/// Runs `work` on the runtime's threads for blocking work, or on this thread if there is no
/// runtime.
///
/// # Errors
///
/// Returns the error of `work`, and [`ErrorKind::Cancelled`] if the runtime shuts down before the
/// work begins.
///
/// # Panics
///
/// Panics if `work` panics.
///
/// # Cancel safety
///
/// Once the future has been polled, the work runs to its end even if the future is dropped, unless
/// the runtime shuts down before the work begins.
pub(crate) async fn blocking<T, F>(work: F) -> Result<T>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T> + Send + 'static,
{
    let Ok(runtime) = Handle::try_current() else {
        return work();
    };
    match runtime.spawn_blocking(work).await {
        Ok(outcome) => outcome,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            Err(_) => Err(Error::new(ErrorKind::Cancelled, "the runtime is shut down")),
        },
    }
}

/// A call whose arguments have texts of at least this many bytes is compared with rules on a thread
/// for blocking work: the analysis of a command of this length may take milliseconds.
pub(crate) const LARGE_CALL: usize = 2 * 1024;

/// Work on a text of at least this many bytes runs on a thread for blocking work.
pub(crate) const LARGE_TEXT: usize = 256 * 1024;

/// Runs `work` on a text of `len` bytes. If the text is long, runs it on a thread for blocking
/// work.
pub(crate) async fn blocking_if_large<T, F>(len: usize, work: F) -> Result<T>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    if len < LARGE_TEXT {
        return Ok(work());
    }
    blocking(move || Ok(work())).await
}

/// Like [`blocking`], for work that ends early when the future is dropped. `work` receives a
/// cancellation and checks it after each bounded amount of work.
pub(crate) async fn blocking_until_dropped<T, F>(work: F) -> Result<T>
where
    T: Send + 'static,
    F: FnOnce(&Cancellation) -> Result<T> + Send + 'static,
{
    let cancellation = Cancellation::default();
    let _guard = cancellation.guard();
    blocking(move || work(&cancellation)).await
}

/// Like [`blocking`], for work that `cancellation` ends. Work that has not begun when it is
/// cancelled does not begin, and [`ErrorKind::Cancelled`] is returned. Work that has begun checks
/// `cancellation` itself, after each bounded amount of work.
#[cfg_attr(not(feature = "search"), expect(dead_code))]
pub(crate) async fn blocking_until<T, F>(cancellation: &Cancellation, work: F) -> Result<T>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T> + Send + 'static,
{
    let cancellation = cancellation.clone();
    blocking(move || {
        if cancellation.is_cancelled() {
            return Err(Error::new(ErrorKind::Cancelled, "the call is over"));
        }
        work()
    })
    .await
}
