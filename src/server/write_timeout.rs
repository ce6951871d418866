//! A timeout for writes to a peer that does not read.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// The time within which a blocked write must make progress.
const WRITE_TIME: Duration = Duration::from_secs(30);

/// The time that writes may be blocked in all while a peer reads [`MIN_BYTES`]: 1 KiB/s.
const SLOW_TIME: Duration = Duration::from_secs(60);

/// The bytes that a peer has to read within [`SLOW_TIME`] of blocked writes.
const MIN_BYTES: usize = 60 * 1024;

/// A stream whose writes fail once one has waited for 30 seconds without progress, or once they
/// have waited for 60 seconds in all before the peer has read 60 KiB. A stream that has nothing to
/// write may be idle for any time.
#[derive(Debug)]
pub(super) struct WriteTimeout<S> {
    stream: S,
    /// The beginning and the deadline of the blocked write.
    blocked_write: Option<(Instant, Pin<Box<Sleep>>)>,
    /// The time for which earlier writes were blocked, and the bytes that were written, since the
    /// last [`MIN_BYTES`].
    blocked_time: Duration,
    bytes: usize,
}

impl<S> WriteTimeout<S> {
    pub(super) fn new(stream: S) -> Self {
        Self {
            stream,
            blocked_write: None,
            blocked_time: Duration::ZERO,
            bytes: 0,
        }
    }

    /// Returns the outcome of a write, or an error if it has been blocked for too long.
    fn checked<T>(
        &mut self,
        cx: &mut Context<'_>,
        outcome: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            if let Some((begin, _)) = self.blocked_write.take() {
                self.blocked_time += begin.elapsed();
            }
            return outcome;
        }

        let time = WRITE_TIME.min(SLOW_TIME.saturating_sub(self.blocked_time));
        let (_, deadline) = self
            .blocked_write
            .get_or_insert_with(|| (Instant::now(), Box::pin(sleep(time))));
        deadline.as_mut().poll(cx).map(|()| {
            let text = "the peer reads too slowly";
            Err(io::Error::new(io::ErrorKind::TimedOut, text))
        })
    }

    /// Returns the outcome of a write like [`checked`](Self::checked), after its bytes were
    /// counted.
    fn counted(
        &mut self,
        cx: &mut Context<'_>,
        outcome: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let outcome = self.checked(cx, outcome);
        if let Poll::Ready(Ok(len)) = &outcome {
            self.bytes = self.bytes.saturating_add(*len);
            if self.bytes >= MIN_BYTES {
                (self.bytes, self.blocked_time) = (0, Duration::ZERO);
            }
        }
        outcome
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
        self.counted(cx, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.counted(cx, outcome)
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
        let (near, mut far) = duplex(MIN_BYTES);
        let mut stream = WriteTimeout::new(near);
        let bytes = vec![0; 8 * MIN_BYTES];
        let reader = async {
            for _ in 0..8 {
                sleep(Duration::from_secs(20)).await;
                far.read_exact(&mut vec![0; MIN_BYTES]).await.unwrap();
            }
        };
        let (outcome, ()) = tokio::join!(stream.write_all(&bytes), reader);
        outcome.unwrap();
        sleep(Duration::from_secs(600)).await;
        let (outcome, _) = tokio::join!(stream.write_all(&[0]), far.read_u8());
        outcome.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn write_to_a_peer_that_reads_a_byte_a_second_fails_after_60_seconds() {
        let (near, mut far) = duplex(16);
        let mut stream = WriteTimeout::new(near);
        let begin = Instant::now();
        let reader = async {
            while far.read_u8().await.is_ok() {
                sleep(Duration::from_secs(1)).await;
            }
        };
        let bytes = vec![0; 1024 * 1024];
        let error = tokio::select! {
            outcome = stream.write_all(&bytes) => outcome.unwrap_err(),
            () = reader => unreachable!(),
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!((59..=61).contains(&begin.elapsed().as_secs()));
    }
}
