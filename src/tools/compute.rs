//! Work that computes, beside the run instead of in it.

use std::io;
use std::thread;

use tokio::sync::oneshot;

/// Room for what a hostile input makes recurse, within the limits its caller sets; pages that
/// are never touched cost nothing.
const STACK: usize = 64 * 1024 * 1024;

/// Runs `f` on a thread of its own. `None` when it panicked.
///
/// Dropping the future does not stop the thread: `f` has to end by itself.
///
/// # Errors
///
/// When the system has no thread to give.
pub(super) async fn beside<T: Send + 'static>(
    f: impl FnOnce() -> T + Send + 'static,
) -> io::Result<Option<T>> {
    let (sender, receiver) = oneshot::channel();
    let builder = thread::Builder::new()
        .name("agentcore-compute".to_owned())
        .stack_size(STACK);
    // Nobody may wait for the answer any more.
    builder.spawn(move || drop(sender.send(f())))?;
    Ok(receiver.await.ok())
}
