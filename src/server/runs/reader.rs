//! A reader of a run's log.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::sync::watch;

use crate::error::Result;
use crate::sdk::SdkMessage;

use super::super::stream::{Encoder, LAGGED, SseEvent, write_events};
use super::log::{Cursor, ReadOutcome, ReaderStart};
use super::server_run::ServerRun;
use super::user_quota::{Space, StreamPermit};

/// The text for a reader that ends because the streams of its user take too much memory.
const TOO_LARGE: &str = "your open streams of long runs take as much memory as they may; close \
                         some and connect again";

/// The presence of a connection that follows a run: while one exists, the run has a reader.
pub(crate) struct Presence {
    readers: Arc<Readers>,
}

/// The connections that follow a run.
#[derive(Default)]
pub(super) struct Readers {
    count: AtomicUsize,
    departures: AtomicUsize,
    left: Notify,
}

impl Readers {
    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Returns the number of readers that have left.
    pub(super) fn departures(&self) -> usize {
        self.departures.load(Ordering::Acquire)
    }

    /// Waits until a reader leaves.
    pub(super) async fn left(&self) {
        self.left.notified().await;
    }
}

impl Presence {
    pub(super) fn new(readers: Arc<Readers>) -> Self {
        readers.count.fetch_add(1, Ordering::AcqRel);
        Self { readers }
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.readers.departures.fetch_add(1, Ordering::AcqRel);
        self.readers.count.fetch_sub(1, Ordering::AcqRel);
        self.readers.left.notify_one();
    }
}

impl fmt::Debug for Presence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Presence")
            .field("readers", &self.readers.count())
            .finish_non_exhaustive()
    }
}

/// A reader of a run: a cursor in its log. It buffers no bytes: the bytes of a message are made
/// when the connection asks for them.
pub(crate) struct Reader {
    run: Arc<ServerRun>,
    encoder: Encoder,
    cursor: Cursor,
    changes: watch::Receiver<u64>,
    /// The number of events of the next message that the client has received already.
    skip: usize,
    /// The next message, and its size as JSON in bytes.
    message: Option<(Arc<SdkMessage>, usize)>,
    /// True if the stream begins with the state of the thread.
    needs_snapshot: bool,
    is_over: bool,
    permit: StreamPermit,
    _presence: Presence,
}

impl Reader {
    pub(super) fn new(
        run: Arc<ServerRun>,
        start: ReaderStart,
        presence: Presence,
        permit: StreamPermit,
    ) -> Self {
        let mut encoder = start.encoder;
        for message in &start.received {
            encoder.skip(message);
        }

        Self {
            changes: run.log().changes(),
            run,
            encoder,
            cursor: start.cursor,
            skip: start.skip,
            message: None,
            needs_snapshot: start.needs_snapshot,
            is_over: false,
            permit,
            _presence: presence,
        }
    }

    /// Returns the id of the run's thread.
    pub(crate) fn thread_id(&self) -> &str {
        &self.run.key().thread
    }

    /// Returns the bytes of the next message that has events; `None` at the end of the stream.
    /// Waits while the streams of the user hold too many bytes that are not sent.
    ///
    /// # Cancel safety
    ///
    /// The future may be dropped without losing a message.
    pub(crate) async fn next(&mut self) -> Option<Bytes> {
        loop {
            if !self.is_over && !self.permit.grow_index(self.encoder.index_size()) {
                return Some(self.leave(TOO_LARGE));
            }
            let piece = if self.needs_snapshot {
                self.snapshot().await
            } else if let Some((message, len)) = self.message.clone() {
                self.encode(message, len).await
            } else if self.is_over {
                return None;
            } else {
                self.advance().await
            };
            if piece.is_some() {
                return piece;
            }
        }
    }

    /// Ends the stream, whose run continues. Returns its last bytes.
    fn leave(&mut self, text: &str) -> Bytes {
        self.is_over = true;
        self.needs_snapshot = false;
        self.message = None;
        let mut events = Vec::new();
        self.encoder.leave(text, &mut events);
        write_events(events).into()
    }

    /// Takes the next message from the log, or waits for one. Returns the last bytes of a reader
    /// that has lost messages.
    async fn advance(&mut self) -> Option<Bytes> {
        self.changes.mark_unchanged();
        match self.run.log().next(&mut self.cursor) {
            ReadOutcome::Message(message, len) => self.message = Some((message, len)),
            ReadOutcome::Lagged => return Some(self.leave(LAGGED)),
            ReadOutcome::End => self.is_over = true,
            ReadOutcome::Wait => {
                // Does not fail: the run, which this reader keeps, owns the sender.
                self.is_over = self.changes.changed().await.is_err();
            }
        }
        None
    }

    async fn snapshot(&mut self) -> Option<Bytes> {
        let space = self
            .permit
            .acquire_space(self.encoder.snapshot_space())
            .await;
        let len = self.encoder.snapshot_len();
        let piece = self.encoder.write(len, space, Encoder::snapshot).await;
        self.needs_snapshot = false;
        self.piece(piece)
    }

    async fn encode(&mut self, message: Arc<SdkMessage>, len: usize) -> Option<Bytes> {
        let pending_len = match &*message {
            SdkMessage::Result(_) => self.run.pending_len(),
            _ => 0,
        };
        // A snapshot counts once here, not as `snapshot_space`: most of these messages have none.
        let state_len = self.encoder.state_len(&message, pending_len);
        let events_len = len.saturating_add(state_len);
        let space = self.permit.acquire_space(events_len).await;
        let final_state = match &*message {
            SdkMessage::Result(_) => self.run.final_state().cloned(),
            _ => None,
        };
        let skip = self.skip;
        let encode = move |encoder: &mut Encoder, events: &mut Vec<SseEvent>| {
            if let Some(state) = &final_state {
                encoder.set_state(state);
            }
            encoder.push(&message, events);
            events.drain(..skip.min(events.len()));
        };
        let piece = self.encoder.write(events_len, space, encode).await;
        (self.message, self.skip) = (None, 0);
        self.piece(piece)
    }

    /// Returns the bytes of events, which hold their space; `None` without an event, and if the
    /// runtime shuts down.
    fn piece(&mut self, piece: Result<(Vec<u8>, Space)>) -> Option<Bytes> {
        self.is_over |= piece.is_err();
        let (bytes, space) = piece.ok()?;
        (!bytes.is_empty()).then(|| space.hold(bytes))
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("run", &self.run.id())
            .field("cursor", &self.cursor)
            .finish_non_exhaustive()
    }
}
