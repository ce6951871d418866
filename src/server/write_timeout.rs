//! A timeout for writes to a peer that does not read.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// The time within which a blocked write must make progress.
const WRITE_TIME: Duration = Duration::from_secs(30);

/// A stream whose writes fail once one has waited for 30 seconds without progress. A stream that
/// has nothing to write may be idle for any time.
#[derive(Debug)]
pub(super) struct WriteTimeout<S> {
    stream: S,
    /// The deadline of the blocked write.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<S> WriteTimeout<S> {
    pub(super) fn new(stream: S) -> Self {
        Self {
            stream,
            deadline: None,
        }
    }

    /// Returns the outcome of a write, or an error if it has been blocked for too long.
    fn checked<T>(
        &mut self,
        cx: &mut Context<'_>,
        outcome: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            self.deadline = None;
            return outcome;
        }
        let deadline = self
            .deadline
            .get_or_insert_with(|| Box::pin(sleep(WRITE_TIME)));
        match deadline.as_mut().poll(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(()) => {
                let text = format!("the peer read nothing within {} s", WRITE_TIME.as_secs());
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, text)))
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.checked(cx, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.checked(cx, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_flush(cx);
        self.checked(cx, outcome)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.checked(cx, outcome)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn write_to_a_peer_that_does_not_read_fails_after_30_seconds() {
        let (near, _far) = duplex(16);
        let mut stream = WriteTimeout::new(near);
        let begin = Instant::now();
        let error = stream.write_all(&[0; 17]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(begin.elapsed().as_secs(), 30);
    }

    #[tokio::test(start_paused = true)]
    async fn write_to_a_slow_peer_and_an_idle_stream_go_through() {
        let (near, mut far) = duplex(1);
        let mut stream = WriteTimeout::new(near);
        let reader = async {
            for _ in 0..8 {
                sleep(Duration::from_secs(20)).await;
                far.read_u8().await.unwrap();
            }
        };
        let (outcome, ()) = tokio::join!(stream.write_all(&[0; 8]), reader);
        outcome.unwrap();
        sleep(Duration::from_secs(600)).await;
        let (outcome, _) = tokio::join!(stream.write_all(&[0]), far.read_u8());
        outcome.unwrap();
    }
}
