//! The end of a body whose answer is complete.

use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::{Sleep, sleep};

use super::http::ByteStream;

/// The time to wait for the end of the body once the answer is complete. A connection whose body
/// was read to its end goes back to the pool; a connection whose body the server keeps open is
/// dropped.
const DRAIN_TIME: Duration = Duration::from_millis(25);

/// The number of times that the task yields before it sets a timer for [`DRAIN_TIME`], and again
/// after that time.
const DRAIN_YIELDS: u32 = 8;

/// The number of chunks after the end of the answer that are read and discarded.
const DRAIN_CHUNKS: usize = 16;

/// The wait for the end of a body after the last event of its answer.
#[derive(Default)]
pub(super) struct Drain {
    timer: Option<Pin<Box<Sleep>>>,
    /// The number of times that the task has yielded.
    yields: u32,
    /// The number of chunks that were discarded.
    chunks: usize,
}

impl Drain {
    /// Reads the rest of the body and discards it, for at most [`DRAIN_TIME`]. The caller drops the
    /// body once this is ready.
    pub(super) fn poll(&mut self, body: &mut ByteStream, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            match body.as_mut().poll_next(cx) {
                Poll::Ready(Some(Ok(_))) if self.chunks < DRAIN_CHUNKS => self.chunks += 1,
                Poll::Ready(_) => return Poll::Ready(()),
                // The end has usually arrived with the last event, and the connection's task only
                // has to run to pass it on. A timer would wake the thread that waits for events.
                Poll::Pending if self.yields < DRAIN_YIELDS => return self.poll_yield(cx),
                Poll::Pending => {
                    let timer = self
                        .timer
                        .get_or_insert_with(|| Box::pin(sleep(DRAIN_TIME)));
                    ready!(timer.as_mut().poll(cx));
                    // A thread that was delayed receives the end together with the timer.
                    if self.yields < 2 * DRAIN_YIELDS {
                        return self.poll_yield(cx);
                    }
                    return Poll::Ready(());
                }
            }
        }
    }

    /// Lets other tasks run before this one is polled again.
    fn poll_yield(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.yields += 1;
        pin!(yield_now()).poll(cx)
    }
}
