//! Running CPU-bound work on a separate thread.

use std::io;
use std::thread;

use tokio::sync::oneshot;

use crate::util::Cancellation;

/// The stack size, with room for the recursion that a hostile input can cause within the limits of
/// the caller. Untouched pages of a stack cost nothing.
const STACK: usize = 64 * 1024 * 1024;

/// Runs `f` on a new thread. Returns `None` if it panicked.
///
/// Dropping the future cancels the token passed to `f`, but does not stop the thread: `f` must
/// check the token within a bounded amount of work.
///
/// # Errors
///
/// Returns an error if the system cannot start a thread.
pub(super) async fn on_own_thread<T: Send + 'static>(
    f: impl FnOnce(&Cancellation) -> T + Send + 'static,
) -> io::Result<Option<T>> {
    let (sender, receiver) = oneshot::channel();
    let builder = thread::Builder::new()
        .name("agentcore-compute".to_owned())
        .stack_size(STACK);
    let stop = Cancellation::default();
    let _guard = stop.guard();
    // The receiver is gone if the call was dropped.
    builder.spawn(move || drop(sender.send(f(&stop))))?;
    Ok(receiver.await.ok())
}
