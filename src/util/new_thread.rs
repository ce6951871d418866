//! Work that takes much memory, on a thread that ends with it.

use std::hint::black_box;
use std::panic::resume_unwind;
use std::thread;

use tokio::runtime::Handle;

use crate::error::{Error, ErrorKind, Result};

/// The size of an allocation that is freed after the work, in bytes. When so much is freed at once,
/// glibc joins the small pieces that were freed before and returns the end of the heap to the
/// system. It does neither for a larger allocation that it has mapped on its own.
const HEAP_TRIM_LEN: usize = 96 * 1024;

/// Runs blocking `work` that takes much memory on a thread that ends with it, and waits for it. The
/// thread belongs to the caller's runtime, if there is one.
///
/// glibc keeps some of the memory that was freed for the thread that allocated it, and for the next
/// thread to start once that one has ended. The runtime's threads for blocking work are many and
/// stay: such work on one after the other would leave memory with each of them.
///
/// # Errors
///
/// Returns the error of `work`, and [`ErrorKind::Io`] if no thread can be started.
pub(crate) fn on_new_thread<T, F>(work: F) -> Result<T>
where
    T: Send,
    F: FnOnce() -> Result<T> + Send,
{
    let runtime = Handle::try_current().ok();
    thread::scope(|scope| {
        let builder = thread::Builder::new().name("agentcore-read".to_owned());
        let thread = builder.spawn_scoped(scope, move || {
            let _entered = runtime.as_ref().map(Handle::enter);
            let outcome = work();
            drop(black_box(Vec::<u8>::with_capacity(HEAP_TRIM_LEN)));
            outcome
        });
        let thread = thread.map_err(|error| {
            let text = format!("no thread could be started: {error}");
            Error::new(ErrorKind::Io, text).with_source(error)
        })?;
        thread.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}
