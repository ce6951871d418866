//! The end of a body whose answer is complete.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Sleep, sleep};

use super::http::ByteStream;
use super::yields::Yields;

/// The time to wait for the end of the body once the answer is complete. A connection whose body
/// was read to its end goes back to the pool; a connection whose body the server keeps open is
/// dropped.
const DRAIN_TIME: Duration = Duration::from_millis(25);

/// The number of times that the task yields before it sets a timer for [`DRAIN_TIME`], and again
/// after that time.
const DRAIN_YIELDS: u32 = 2;

/// The number of chunks after the end of the answer that are read and discarded.
const DRAIN_CHUNKS: usize = 16;

/// The wait for the end of a body after the last event of its answer.
#[derive(Default)]
pub(super) struct Drain {
    timer: Option<Pin<Box<Sleep>>>,
    /// The number of times that the task has yielded.
    yield_count: u32,
    /// The number of chunks that were discarded.
    chunks: usize,
}

impl Drain {
    /// Reads the rest of the body and discards it, for at most [`DRAIN_TIME`]. The caller drops the
    /// body once this is ready.
    pub(super) fn poll(
        &mut self,
        body: &mut ByteStream,
        yields: &mut Yields,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        yields.end();
        loop {
            match body.as_mut().poll_next(cx) {
                Poll::Ready(Some(Ok(_))) if self.chunks < DRAIN_CHUNKS => self.chunks += 1,
                Poll::Ready(_) => return Poll::Ready(()),
                // The end has usually arrived with the last event.
                Poll::Pending if self.yield_count < DRAIN_YIELDS => {
                    self.yield_count += 1;
                    return yields.poll(cx);
                }
                Poll::Pending => {
                    let timer = self
                        .timer
                        .get_or_insert_with(|| Box::pin(sleep(DRAIN_TIME)));
                    ready!(timer.as_mut().poll(cx));
                    // A thread that was delayed receives the end together with the timer.
                    if self.yield_count < 2 * DRAIN_YIELDS {
                        self.yield_count += 1;
                        return yields.poll(cx);
                    }
                    return Poll::Ready(());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::Arc;
    use std::task::Waker;

    use bytes::Bytes;
    use futures::{FutureExt, stream};
    use tokio::sync::oneshot;
    use tokio::task::yield_now;

    use super::*;
    use crate::error::Result;
    use crate::util::wake_count::WakeCount;

    /// Returns a body without chunks that ends when the sender is dropped.
    fn body() -> (ByteStream, oneshot::Sender<()>) {
        let (sender, mut receiver) = oneshot::channel();
        let chunks = stream::poll_fn(move |cx| {
            let _ = ready!(receiver.poll_unpin(cx));
            Poll::Ready(None::<Result<Bytes>>)
        });
        (Box::pin(chunks), sender)
    }

    #[tokio::test]
    async fn body_that_ends_during_a_yield_wakes_the_task_once() {
        let wakes = Arc::new(WakeCount::default());
        let waker = Waker::from(wakes.clone());
        let mut cx = Context::from_waker(&waker);
        let (mut body, sender) = body();
        let (mut drain, mut yields) = (Drain::default(), Yields::default());
        assert!(drain.poll(&mut body, &mut yields, &mut cx).is_pending());
        drop(sender);
        assert_eq!(wakes.get(), 1, "the end of the body");
        assert!(drain.poll(&mut body, &mut yields, &mut cx).is_ready());

        // The wakes of yields arrive while this task waits.
        yield_now().await;
        assert_eq!(wakes.get(), 1);
    }

    #[tokio::test]
    async fn yield_wakes_the_task_of_a_body_that_is_pending() {
        let wakes = Arc::new(WakeCount::default());
        let waker = Waker::from(wakes.clone());
        let (mut body, _sender) = body();
        let (mut drain, mut yields) = (Drain::default(), Yields::default());
        let polled = drain.poll(&mut body, &mut yields, &mut Context::from_waker(&waker));
        assert!(polled.is_pending());
        yield_now().await;
        assert_eq!(wakes.get(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn body_that_stays_open_is_given_up() {
        let (mut body, _sender) = body();
        let (mut drain, mut yields) = (Drain::default(), Yields::default());
        let start_time = tokio::time::Instant::now();
        poll_fn(|cx| drain.poll(&mut body, &mut yields, cx)).await;
        let waiting_time = start_time.elapsed();
        assert!(
            waiting_time >= DRAIN_TIME && waiting_time < 2 * DRAIN_TIME,
            "{waiting_time:?}"
        );
    }
}
