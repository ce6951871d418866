//! A bounded queue whose messages are acknowledged.

use std::collections::{BTreeMap, HashSet};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{Notify, Semaphore};
use tokio::task::consume_budget;
use tokio::time::{Instant, sleep_until};

use crate::error::{Error, ErrorKind, Result};
use crate::util::sync::lock;

use super::bus::{Delivery, Receipt};
use super::newest_ids::NewestIds;

/// The maximum delay of a returned message: a year. The clock may not be able to represent a longer
/// delay.
const MAX_DELAY: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// A message of a queue.
pub(super) trait Queued: Clone + Send + Sync + 'static {
    /// Returns the id of the message.
    fn id(&self) -> &Arc<str>;
    /// Returns the ordering key. Deliveries of messages with the same key begin in order.
    fn key(&self) -> &str;
    /// Returns the number of bytes that the message takes in the queue and in a delivery.
    fn size(&self) -> usize;
    /// Checks the lengths of the id and the names, and the size.
    fn check(&self, size: usize) -> Result<()>;
}

/// A queue of messages between publishers and consumers. Clones share it.
pub(super) struct Queue<M>(Arc<Shared<M>>);

impl<M> Clone for Queue<M> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

struct Shared<M> {
    state: Mutex<QueueState<M>>,
    /// The space for messages that are not acknowledged, in messages and in bytes.
    space: Semaphore,
    bytes: Semaphore,
    max_bytes: usize,
    /// The bytes that this queue shares with others.
    pool: Arc<Semaphore>,
    /// Notified when the messages or their times have changed.
    change: Notify,
}

struct QueueState<M> {
    /// The messages to deliver, by their numbers in the order in which they were published.
    messages: BTreeMap<u64, QueueEntry<M>>,
    /// The number of messages that were published so far.
    published: u64,
    /// The ids that were published last.
    ids: NewestIds,
    is_closed: bool,
}

/// A message that waits for its delivery or its acknowledgement.
struct QueueEntry<M> {
    message: M,
    /// The permits that the message holds in `bytes` and `pool`.
    bytes: u32,
    /// The time before which the message is not delivered.
    ready_at: Option<Instant>,
}

/// The next message to deliver, or the event that the consumer waits for.
enum NextDelivery<M> {
    /// A message that is ready, with its number.
    Message(u64, QueueEntry<M>),
    /// No message is ready before this time.
    At(Instant),
    /// The queue is empty.
    Change,
    /// The queue is empty and closed.
    End,
}

impl<M: Queued> Queue<M> {
    /// Creates a queue of at most `capacity` messages that are not acknowledged, at least one, and
    /// of at most `max_bytes` bytes, which it takes from a pool of at least as many. A message that
    /// is longer than `max_bytes` takes all of them. The queue recognizes the last
    /// `2 * capacity` ids.
    pub(super) fn new(capacity: usize, max_bytes: usize, pool: Arc<Semaphore>) -> Self {
        let capacity = capacity.clamp(1, Semaphore::MAX_PERMITS);
        Self(Arc::new(Shared {
            state: Mutex::new(QueueState {
                messages: BTreeMap::new(),
                published: 0,
                ids: NewestIds::new(capacity.saturating_mul(2)),
                is_closed: false,
            }),
            space: Semaphore::new(capacity),
            bytes: Semaphore::new(max_bytes),
            max_bytes,
            pool,
            change: Notify::new(),
        }))
    }

    /// Adds a message, unless one with the same id was published recently. Waits for space.
    pub(super) async fn publish(&self, message: M) -> Result<()> {
        let size = message.size();
        message.check(size)?;
        let bytes = size.min(self.0.max_bytes) as u32;
        let permit = self.0.space.acquire().await.map_err(|_| closed())?;
        let bytes_permit = self.0.bytes.acquire_many(bytes);
        let bytes_permit = bytes_permit.await.map_err(|_| closed())?;
        let pool_permit = self.0.pool.acquire_many(bytes);
        let pool_permit = pool_permit.await.map_err(|_| closed())?;
        let mut state = lock(&self.0.state);
        if state.is_closed {
            return Err(closed());
        }
        if !state.ids.add(message.id()) {
            return Ok(());
        }
        permit.forget();
        bytes_permit.forget();
        pool_permit.forget();
        let number = state.published;
        state.published += 1;
        let entry = QueueEntry {
            message,
            bytes,
            ready_at: None,
        };
        state.messages.insert(number, entry);
        drop(state);
        self.0.change.notify_waiters();
        Ok(())
    }

    /// Waits for the next message; `None` if the queue is closed and empty.
    pub(super) async fn consume(&self) -> Option<Delivery<M>> {
        // A dropped message is delivered again at once. A consumer that drops every message must
        // not occupy its thread.
        consume_budget().await;
        loop {
            let mut change = pin!(self.0.change.notified());
            change.as_mut().enable();
            let next = lock(&self.0.state).next(Instant::now());
            match next {
                NextDelivery::Message(number, entry) => {
                    let message = entry.message.clone();
                    let receipt = QueueReceipt {
                        queue: self.0.clone(),
                        number,
                        entry: Some(entry),
                    };
                    return Some(Delivery::new(message, receipt));
                }
                NextDelivery::At(time) => tokio::select! {
                    () = change => {}
                    () = sleep_until(time) => {}
                },
                NextDelivery::Change => change.await,
                NextDelivery::End => return None,
            }
        }
    }

    /// Refuses further messages, and ends `consume` once there are none.
    pub(super) fn close(&self) {
        lock(&self.0.state).is_closed = true;
        self.0.space.close();
        self.0.bytes.close();
        self.0.pool.close();
        self.0.change.notify_waiters();
    }
}

impl<M: Queued> QueueState<M> {
    /// Takes the first message that is ready and whose key has no earlier message that waits for
    /// its time. Messages of a key may be in delivery at the same time.
    fn next(&mut self, now: Instant) -> NextDelivery<M> {
        let mut delayed_keys: HashSet<&str> = HashSet::new();
        let mut next_time: Option<Instant> = None;
        let mut ready_number = None;
        for (number, entry) in &self.messages {
            let key = entry.message.key();
            match entry.ready_at.filter(|time| *time > now) {
                _ if delayed_keys.contains(key) => {}
                Some(time) => {
                    delayed_keys.insert(key);
                    next_time = Some(next_time.map_or(time, |earlier| earlier.min(time)));
                }
                None => {
                    ready_number = Some(*number);
                    break;
                }
            }
        }

        let ready = ready_number.and_then(|number| self.messages.remove_entry(&number));
        match (ready, next_time) {
            (Some((number, entry)), _) => NextDelivery::Message(number, entry),
            (None, Some(time)) => NextDelivery::At(time),
            (None, None) if self.is_closed => NextDelivery::End,
            (None, None) => NextDelivery::Change,
        }
    }
}

/// The receipt of a message, which owns the right to give it back.
struct QueueReceipt<M: Queued> {
    queue: Arc<Shared<M>>,
    number: u64,
    entry: Option<QueueEntry<M>>,
}

impl<M: Queued> QueueReceipt<M> {
    fn put_back(&mut self, delay: Duration) {
        let ready_at = (!delay.is_zero()).then(|| Instant::now() + delay.min(MAX_DELAY));
        let Some(entry) = self.entry.take() else {
            return;
        };
        let entry = QueueEntry { ready_at, ..entry };
        let mut state = lock(&self.queue.state);
        state.messages.insert(self.number, entry);
        drop(state);
        self.queue.change.notify_waiters();
    }
}

#[async_trait]
impl<M: Queued> Receipt for QueueReceipt<M> {
    async fn ack(mut self: Box<Self>) -> Result<()> {
        if let Some(entry) = self.entry.take() {
            self.queue.space.add_permits(1);
            self.queue.bytes.add_permits(entry.bytes as usize);
            self.queue.pool.add_permits(entry.bytes as usize);
        }
        Ok(())
    }

    async fn give_back(mut self: Box<Self>, delay: Duration) -> Result<()> {
        self.put_back(delay);
        Ok(())
    }
}

impl<M: Queued> Drop for QueueReceipt<M> {
    fn drop(&mut self) {
        self.put_back(Duration::ZERO);
    }
}

fn closed() -> Error {
    Error::new(ErrorKind::Cancelled, "the bus is closed")
}
