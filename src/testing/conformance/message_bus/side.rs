//! The two directions of a bus, as one interface.

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::timeout;

use crate::error::Result;
use crate::gateway::{Delivery, InboundMessage, MessageBus, OutboundMessage};
use crate::message::{Media, Part};

use super::super::checks::wrong;

/// The time in which a message must arrive.
pub(super) const ARRIVAL: Duration = Duration::from_secs(60);
/// The error of a check whose message has not arrived by then.
pub(super) const MISSING: &str = "no message arrived in 60 seconds";
/// The time after which a message counts as not arriving.
pub(super) const SILENCE: Duration = Duration::from_millis(300);

/// One direction of a bus, with a separate order for each `key`.
#[async_trait]
pub(super) trait Side: Sync {
    type Message: Clone + Debug + PartialEq + Send + Sync + 'static;

    fn message(&self, key: &str, id: &str) -> Self::Message;
    fn id(message: &Self::Message) -> &str;
    async fn publish(&self, message: Self::Message) -> Result<()>;
    /// Returns the next message, or `None` if the bus is closed. An inbound message may have
    /// another key.
    async fn consume(&self, key: &str) -> Result<Option<Delivery<Self::Message>>>;

    /// Publishes messages with these ids and one key.
    async fn publish_all(&self, key: &str, ids: &[&str]) -> Result<()> {
        for id in ids {
            self.publish(self.message(key, id)).await?;
        }
        Ok(())
    }

    /// Returns the next message, which must arrive soon.
    async fn arrival(&self, key: &str) -> Result<Delivery<Self::Message>> {
        match timeout(ARRIVAL, self.consume(key)).await {
            Err(_) => Err(wrong(MISSING)),
            Ok(delivery) => delivery?.ok_or_else(|| wrong("the bus is closed")),
        }
    }

    /// Checks that the next message has this id.
    async fn expect(&self, key: &str, id: &str) -> Result<Delivery<Self::Message>> {
        let delivery = self.arrival(key).await?;
        let actual_id = Self::id(&delivery.message);
        if actual_id == id {
            return Ok(delivery);
        }
        Err(wrong(format!("message {actual_id:?} instead of {id:?}")))
    }

    /// Checks that no message arrives.
    async fn expect_none(&self, key: &str) -> Result<()> {
        match timeout(SILENCE, self.consume(key)).await {
            Err(_) | Ok(Ok(None)) => Ok(()),
            Ok(Ok(Some(delivery))) => {
                let id = Self::id(&delivery.message);
                Err(wrong(format!("message {id:?} must not be delivered")))
            }
            Ok(Err(error)) => Err(error),
        }
    }
}

/// Inbound messages, in the order of each session.
pub(super) struct Inbound<'a, B>(pub(super) &'a B);

#[async_trait]
impl<B: MessageBus> Side for Inbound<'_, B> {
    type Message = InboundMessage;

    fn message(&self, key: &str, id: &str) -> InboundMessage {
        let image = Part::Image(Media::base64("image/png", "iVBORw0KGgo="));
        let text = format!("text of {id} ☃\n");
        let mut message = InboundMessage::new("telegram", "12 3", "u/1", text)
            .with_id(id)
            .with_session_key(key)
            .with_media(image)
            .with_metadata("lang", "en");
        // A time that is known stays.
        message.published_at_us = Some(1_769_936_400_000_000);
        message
    }

    fn id(message: &InboundMessage) -> &str {
        &message.id
    }

    async fn publish(&self, message: InboundMessage) -> Result<()> {
        self.0.publish_inbound(message).await
    }

    async fn consume(&self, _key: &str) -> Result<Option<Delivery<InboundMessage>>> {
        self.0.consume_inbound().await
    }
}

/// Outbound messages, in the order of each channel.
pub(super) struct Outbound<'a, B>(pub(super) &'a B);

#[async_trait]
impl<B: MessageBus> Side for Outbound<'_, B> {
    type Message = OutboundMessage;

    fn message(&self, key: &str, id: &str) -> OutboundMessage {
        OutboundMessage::new(channel_of(key), "12 3", format!("text of {id} ☃\n"))
            .with_id(id)
            .with_metadata("format", "markdown")
    }

    fn id(message: &OutboundMessage) -> &str {
        &message.id
    }

    async fn publish(&self, message: OutboundMessage) -> Result<()> {
        self.0.publish_outbound(message).await
    }

    async fn consume(&self, key: &str) -> Result<Option<Delivery<OutboundMessage>>> {
        self.0.consume_outbound(&channel_of(key)).await
    }
}

/// Returns the channel of a key, whose name has no colon.
fn channel_of(key: &str) -> String {
    key.replace(':', ".")
}
