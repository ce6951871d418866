//! A buffer for the start and the end of a stream.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::util::sync::lock;

use super::super::command::Captured;

/// A stream that is being read.
#[derive(Clone, Debug)]
pub(super) struct Capture(Arc<Mutex<CapturedOutput>>);

#[derive(Debug)]
struct CapturedOutput {
    half: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    omitted: u64,
}

impl Capture {
    /// Creates a buffer for `max` bytes, half from the start and half from the end.
    pub(super) fn new(max: usize) -> Self {
        Self(Arc::new(Mutex::new(CapturedOutput {
            half: max / 2,
            head: Vec::new(),
            tail: VecDeque::new(),
            omitted: 0,
        })))
    }

    /// Reads to the end of the stream, however much that is.
    pub(super) async fn read(&self, stream: Option<impl AsyncRead + Unpin>) {
        let Some(mut stream) = stream else { return };
        let mut buffer = vec![0; 16 * 1024];
        // A read error means that the pipe has ended.
        while let Ok(bytes_read @ 1..) = stream.read(&mut buffer).await {
            lock(&self.0).push(&buffer[..bytes_read]);
            // A stream of continuous output is always ready: yield to timers and other tasks.
            tokio::task::yield_now().await;
        }
    }

    /// Returns the output kept since the last call.
    pub(super) fn take(&self) -> Captured {
        lock(&self.0).take()
    }

    /// Returns the output kept since the last call, for a stream that continues. The beginning of a
    /// character or of a secret, which the next bytes may complete, stays for the next call.
    pub(super) fn take_decided(&self) -> Captured {
        let mut output = lock(&self.0);
        let (decided, open) = output.take().split_open();
        output.push(&open);
        decided
    }
}

impl CapturedOutput {
    fn take(&mut self) -> Captured {
        let head = Bytes::from(std::mem::take(&mut self.head));
        let tail = Bytes::from(Vec::from(std::mem::take(&mut self.tail)));
        Captured::new(head, tail, std::mem::take(&mut self.omitted))
    }

    fn push(&mut self, bytes: &[u8]) {
        let (head, tail) = bytes.split_at(bytes.len().min(self.half - self.head.len()));
        self.head.extend_from_slice(head);
        self.tail.extend(tail);
        let excess = self.tail.len().saturating_sub(self.half);
        self.tail.drain(..excess);
        self.omitted += excess as u64;
    }
}
