//! A reader of a run's log.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::sync::watch;

use super::super::stream::{Encoder, SseEvent};
use super::log::{Cursor, Next, Start};
use super::task::ServerRun;

/// The reason a reader cannot be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReaderRefusal {
    /// The user has too many open streams, with the limit.
    TooMany(usize),
}

impl fmt::Display for ReaderRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::TooMany(limit) = self;
        write!(
            f,
            "you have {limit} open streams, which is the limit; close one and try again"
        )
    }
}

/// The permit for one of a user's open streams, released on drop.
#[derive(Debug)]
pub(crate) struct ReaderPermit(Arc<AtomicUsize>);

impl ReaderPermit {
    /// Acquires a permit, unless the user has `limit` open streams.
    pub(super) fn take(count: Arc<AtomicUsize>, limit: usize) -> Result<Self, ReaderRefusal> {
        let add = |count: usize| (count < limit).then_some(count + 1);
        match count.fetch_update(Ordering::AcqRel, Ordering::Acquire, add) {
            Ok(_) => Ok(Self(count)),
            Err(_) => Err(ReaderRefusal::TooMany(limit)),
        }
    }
}

impl Drop for ReaderPermit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The presence of a connection that follows a run: while one exists, the run has a reader.
pub(crate) struct Presence {
    readers: Arc<Readers>,
    /// The permit of the connection, if it is a stream.
    _permit: Option<ReaderPermit>,
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

    /// The number of readers that have left.
    pub(super) fn departures(&self) -> usize {
        self.departures.load(Ordering::Acquire)
    }

    /// Waits until a reader leaves.
    pub(super) async fn left(&self) {
        self.left.notified().await;
    }
}

impl Presence {
    pub(super) fn new(readers: Arc<Readers>, permit: Option<ReaderPermit>) -> Self {
        readers.count.fetch_add(1, Ordering::AcqRel);
        Self {
            readers,
            _permit: permit,
        }
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

/// A reader of a run: a cursor in its log, and the bytes of one message.
pub(crate) struct Reader {
    run: Arc<ServerRun>,
    encoder: Encoder,
    cursor: Cursor,
    changes: watch::Receiver<u64>,
    /// The number of events of the next message that the client has received already.
    skip: usize,
    /// The events to write before the next message.
    events: Vec<SseEvent>,
    is_over: bool,
    _presence: Presence,
}

impl Reader {
    pub(super) fn new(run: Arc<ServerRun>, start: Start, presence: Presence) -> Self {
        let mut encoder = start.encoder;
        for message in &start.received {
            encoder.skip(message);
        }

        let mut events = Vec::new();
        if start.needs_snapshot {
            encoder.snapshot(&mut events);
        }

        Self {
            changes: run.log().changes(),
            run,
            encoder,
            cursor: start.cursor,
            skip: start.skip,
            events,
            is_over: false,
            _presence: presence,
        }
    }

    /// Returns the id of the run's thread.
    pub(crate) fn thread_id(&self) -> &str {
        &self.run.key().thread
    }

    /// Returns the bytes of the next message that has events; `None` at the end of the stream.
    ///
    /// # Cancel safety
    ///
    /// The future may be dropped without losing a message.
    pub(crate) async fn next(&mut self) -> Option<Bytes> {
        loop {
            if !self.events.is_empty() {
                return Some(self.take_bytes());
            }
            if self.is_over {
                return None;
            }

            self.changes.mark_unchanged();
            match self.run.log().next(&mut self.cursor) {
                Next::Message(message) => {
                    if message.is_result()
                        && let Some(state) = self.run.final_state()
                    {
                        self.encoder.set_state(&state);
                    }
                    self.encoder.push(&message, &mut self.events);
                    let skip = std::mem::take(&mut self.skip).min(self.events.len());
                    self.events.drain(..skip);
                }
                Next::Lagged => {
                    self.encoder.lagged(&mut self.events);
                    self.is_over = true;
                }
                Next::End => self.is_over = true,
                // This reader keeps the run alive, which owns the sender.
                Next::Wait => self.changes.changed().await.ok()?,
            }
        }
    }

    fn take_bytes(&mut self) -> Bytes {
        let mut bytes = Vec::new();
        for event in self.events.drain(..) {
            event.write(&mut bytes);
        }
        bytes.into()
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
