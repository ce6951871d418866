//! The bus between channels and the gateway.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::error::Result;

use super::message::{InboundMessage, OutboundMessage};

/// A bus between channels and a gateway: channels publish inbound messages and consume outbound
/// ones, and the gateway does the opposite.
///
/// [`conformance::message_bus`](crate::testing::conformance::message_bus) tests a bus against these
/// rules:
///
/// * A message is published [completed](InboundMessage::completed): with an id, a session
///   and a time. A message whose id was published recently is dropped, so that publishing may be
///   repeated. Inbound messages, and the outbound messages of each channel, have separate ids.
/// * A message is delivered until one [`Delivery`] of it is acknowledged. While a delivery of a
///   message exists and is kept alive, the message is not delivered a second time. A message whose
///   delivery is given back is delivered again after the delay. A message whose delivery is dropped
///   is delivered again at some later time.
/// * Inbound messages with the same session, and outbound messages of the same channel, are
///   delivered in the order in which they were published. A message that was given back precedes
///   all later messages that have not been delivered: while it waits for its delay, the later
///   messages wait too. Messages of other sessions and of other channels do not wait.
/// * Every future is cancel safe: a message whose publishing was dropped is published or not, and
///   none is lost.
#[async_trait]
pub trait MessageBus: Send + Sync + 'static {
    /// Publishes a message of a person. Waits while the bus is full.
    ///
    /// # Errors
    ///
    /// Returns an error if the bus is closed or cannot be reached.
    async fn publish_inbound(&self, message: InboundMessage) -> Result<()>;

    /// Waits for the next message of a person. Returns `None` if the bus is closed.
    ///
    /// A gateway takes each message at once, and holds it until its turn has ended, so the bus
    /// limits the number of messages that are neither acknowledged nor given back: this waits while
    /// there are too many.
    ///
    /// # Errors
    ///
    /// Returns an error if the bus cannot be reached.
    async fn consume_inbound(&self) -> Result<Option<Delivery<InboundMessage>>>;

    /// Publishes a message to a chat. Waits while its channel is full.
    ///
    /// # Errors
    ///
    /// Returns an error if the bus is closed or cannot be reached.
    async fn publish_outbound(&self, message: OutboundMessage) -> Result<()>;

    /// Waits for the next message to a chat of this channel. Returns `None` if the bus is closed.
    ///
    /// # Errors
    ///
    /// Returns an error if the bus cannot be reached.
    async fn consume_outbound(&self, channel: &str) -> Result<Option<Delivery<OutboundMessage>>>;

    /// Returns the interval in which a receiver calls [`Delivery::keep_alive`]. Defaults to ten
    /// seconds.
    fn keep_alive_interval(&self) -> Duration {
        Duration::from_secs(10)
    }
}

#[async_trait]
impl<B: MessageBus + ?Sized> MessageBus for Arc<B> {
    async fn publish_inbound(&self, message: InboundMessage) -> Result<()> {
        (**self).publish_inbound(message).await
    }

    async fn consume_inbound(&self) -> Result<Option<Delivery<InboundMessage>>> {
        (**self).consume_inbound().await
    }

    async fn publish_outbound(&self, message: OutboundMessage) -> Result<()> {
        (**self).publish_outbound(message).await
    }

    async fn consume_outbound(&self, channel: &str) -> Result<Option<Delivery<OutboundMessage>>> {
        (**self).consume_outbound(channel).await
    }

    fn keep_alive_interval(&self) -> Duration {
        (**self).keep_alive_interval()
    }
}

/// A message from a bus, to be acknowledged. A delivery that is dropped is given back.
#[must_use = "a delivery that is dropped is given back to its bus"]
pub struct Delivery<M> {
    /// The message.
    pub message: M,
    receipt: Box<dyn Receipt>,
}

impl<M> Delivery<M> {
    /// Creates the delivery of a message. Used by buses.
    pub fn new(message: M, receipt: impl Receipt) -> Self {
        Self {
            message,
            receipt: Box::new(receipt),
        }
    }

    /// Acknowledges the message: it is not delivered again.
    ///
    /// # Errors
    ///
    /// Returns an error if the bus cannot be reached. The message may be delivered again.
    pub async fn ack(self) -> Result<()> {
        self.receipt.ack().await
    }

    /// Gives the message back, to be delivered again after `delay`.
    ///
    /// # Errors
    ///
    /// Returns an error if the bus cannot be reached. The message is delivered again, but not
    /// necessarily after `delay`.
    pub async fn give_back(self, delay: Duration) -> Result<()> {
        self.receipt.give_back(delay).await
    }

    /// Reports that the message is being processed. A bus between machines delivers a message again
    /// if its receiver neither reports, acknowledges nor gives it back for a time.
    ///
    /// # Errors
    ///
    /// Returns an error if the bus cannot be reached.
    pub async fn keep_alive(&self) -> Result<()> {
        self.receipt.keep_alive().await
    }
}

impl<M: fmt::Debug> fmt::Debug for Delivery<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delivery")
            .field("message", &self.message)
            .finish_non_exhaustive()
    }
}

/// The bus's side of a [`Delivery`]. A receipt that is dropped without an acknowledgement must give
/// the message back.
#[async_trait]
pub trait Receipt: Send + Sync + 'static {
    /// Acknowledges the message.
    ///
    /// # Errors
    ///
    /// Returns an error if the bus cannot be reached.
    async fn ack(self: Box<Self>) -> Result<()>;

    /// Gives the message back, to be delivered again after `delay`.
    ///
    /// # Errors
    ///
    /// Returns an error if the bus cannot be reached.
    async fn give_back(self: Box<Self>, delay: Duration) -> Result<()>;

    /// Reports that the message is being processed. Defaults to doing nothing.
    ///
    /// # Errors
    ///
    /// Returns an error if the bus cannot be reached.
    async fn keep_alive(&self) -> Result<()> {
        Ok(())
    }
}
