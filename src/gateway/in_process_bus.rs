//! The bus inside one process.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use tokio::sync::Semaphore;

use crate::error::{Error, ErrorKind, Result};
use crate::util::json::json_len;
use crate::util::sync::lock;
use crate::util::text::quoted;

use super::bus::{Delivery, MessageBus};
use super::message::{InboundMessage, OutboundMessage};
use super::queue::{Queue, Queued};

/// The default maximum number of inbound messages, and of outbound messages of each channel.
const CAPACITY: usize = 1_024;
/// The number of channels at which messages can no longer add one. Consumers still can.
const MAX_CHANNELS: usize = 1_024;
/// The maximum size of all messages of a direction, in bytes of JSON.
const MAX_BYTES: usize = 64 * 1024 * 1024;
/// The maximum size of the messages of a channel, in bytes of JSON, so that a few unconsumed
/// channels do not block others.
const MAX_CHANNEL_BYTES: usize = MAX_BYTES / 4;

/// A bus inside one process. Its messages end with the process. Clones share it.
///
/// It stores a limited number of inbound messages that are not acknowledged, 1,024 by default, and
/// as many outbound messages for each channel. As JSON, each direction may have 64 MiB, and each
/// channel a quarter of that. Publishing waits for space. A channel that publishes and consumes in
/// the same task should therefore do both concurrently, such as with `select!`. The inbound
/// messages of one chat can fill the bus for all others: a channel that strangers write to should
/// limit the messages of each sender.
///
/// A message whose id was published recently is dropped. The bus recognizes the last ids, twice as
/// many as it can store messages.
///
/// These are errors:
///
/// * an id, or the name of a channel, a chat or a sender, of more than 1,024 bytes;
/// * the id of a session of more than 2,049 bytes;
/// * the name of a channel with a colon;
/// * an inbound message of more than 64 MiB;
/// * an outbound message to a new channel, when the bus has 1,024 channels.
#[derive(Clone)]
pub struct InProcessBus(Arc<Queues>);

struct Queues {
    inbound: Queue<InboundMessage>,
    outbound: Mutex<OutboundQueues>,
    /// The bytes of the outbound messages of all channels.
    outbound_pool: Arc<Semaphore>,
    capacity: usize,
}

/// The queues of outbound messages, by channel.
#[derive(Default)]
struct OutboundQueues {
    queues: HashMap<Arc<str>, Queue<OutboundMessage>>,
    is_closed: bool,
}

impl Queued for InboundMessage {
    fn id(&self) -> &Arc<str> {
        &self.id
    }

    fn key(&self) -> &str {
        &self.session_key
    }

    fn size(&self) -> usize {
        // A delivery shares the text and the media, and has a copy of the data of the channel.
        json_len(self) + json_len(&self.metadata)
    }

    fn check(&self, size: usize) -> Result<()> {
        self.check()?;
        if size <= MAX_BYTES {
            return Ok(());
        }
        let text = format!("a message has {size} bytes; the limit is {MAX_BYTES}; shorten it");
        Err(Error::new(ErrorKind::InvalidRequest, text))
    }
}

impl Queued for OutboundMessage {
    fn id(&self) -> &Arc<str> {
        &self.id
    }

    fn key(&self) -> &str {
        &self.channel
    }

    fn size(&self) -> usize {
        json_len(self) + json_len(&self.metadata)
    }

    fn check(&self, _size: usize) -> Result<()> {
        self.check()
    }
}

impl Default for InProcessBus {
    fn default() -> Self {
        Self::new(CAPACITY)
    }
}

impl InProcessBus {
    /// Creates a bus that stores at most `capacity` inbound messages, and as many outbound messages
    /// for each channel. A capacity of 0 counts as 1.
    ///
    /// A gateway takes each inbound message at once. A message that waits for its turn needs about
    /// 7 KB of memory in addition to its text: 7 MB in total at the default capacity, 7 GB at a
    /// capacity of a million.
    pub fn new(capacity: usize) -> Self {
        let pool = || Arc::new(Semaphore::new(MAX_BYTES));
        Self(Arc::new(Queues {
            inbound: Queue::new(capacity, MAX_BYTES, pool()),
            outbound: Mutex::default(),
            outbound_pool: pool(),
            capacity,
        }))
    }

    /// Closes the bus: publishing fails, and consuming returns `None` once no message waits. A
    /// message that is given back later is delivered to the next consumer.
    pub fn close(&self) {
        self.0.inbound.close();
        let mut channels = lock(&self.0.outbound);
        channels.is_closed = true;
        for queue in channels.queues.values() {
            queue.close();
        }
    }

    /// Returns the queue of a channel, and creates it if it is missing.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::InvalidRequest`] if it is missing and the bus has `max_channels`.
    fn channel_queue(&self, name: &str, max_channels: usize) -> Result<Queue<OutboundMessage>> {
        let mut channels = lock(&self.0.outbound);
        if let Some(queue) = channels.queues.get(name) {
            return Ok(queue.clone());
        }
        if channels.queues.len() >= max_channels {
            let name = quoted(name);
            let text = format!("cannot add channel {name}: the bus has {max_channels} already");
            return Err(Error::new(ErrorKind::InvalidRequest, text));
        }

        let pool = self.0.outbound_pool.clone();
        let queue = Queue::new(self.0.capacity, MAX_CHANNEL_BYTES, pool);
        if channels.is_closed {
            queue.close();
        }
        channels.queues.insert(name.into(), queue.clone());
        Ok(queue)
    }
}

#[async_trait]
impl MessageBus for InProcessBus {
    async fn publish_inbound(&self, message: InboundMessage) -> Result<()> {
        self.0.inbound.publish(message.completed()).await
    }

    async fn consume_inbound(&self) -> Result<Option<Delivery<InboundMessage>>> {
        Ok(self.0.inbound.consume().await)
    }

    async fn publish_outbound(&self, message: OutboundMessage) -> Result<()> {
        message.check()?;
        let queue = self.channel_queue(&message.channel, MAX_CHANNELS)?;
        queue.publish(message.completed()).await
    }

    async fn consume_outbound(&self, channel: &str) -> Result<Option<Delivery<OutboundMessage>>> {
        // Consumers are never refused: the program names their channels.
        let queue = self.channel_queue(channel, usize::MAX)?;
        Ok(queue.consume().await)
    }
}

impl fmt::Debug for InProcessBus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InProcessBus")
            .field("capacity", &self.0.capacity)
            .field("channels", &lock(&self.0.outbound).queues.len())
            .finish_non_exhaustive()
    }
}
