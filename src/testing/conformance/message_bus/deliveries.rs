//! The checks of single deliveries.

use std::time::Duration;

use tokio::time::{Instant, timeout};

use crate::error::Result;
use crate::gateway::{InboundMessage, MessageBus, OutboundMessage};

use super::super::checks::{same, wrong};
use super::side::{ARRIVAL, Inbound, MISSING, SILENCE, Side};

/// Checks that a message arrives as it was published, once.
pub(super) async fn once<S: Side>(side: &S) -> Result<()> {
    let message = side.message("th:1", "m1");
    side.publish(message.clone()).await?;
    let delivery = side.arrival("th:1").await?;
    same("the message", &delivery.message, &message)?;
    delivery.keep_alive().await?;
    side.expect_none("th:1").await?;
    delivery.ack().await?;
    side.expect_none("th:1").await
}

/// Checks that a waiting consumer receives the next message, and that a dropped consumer loses no
/// message.
pub(super) async fn waiting<S: Side>(side: &S) -> Result<()> {
    for _ in 0..3 {
        side.expect_none("th:1").await?;
    }
    let publish = async {
        tokio::time::sleep(SILENCE).await;
        side.publish_all("th:1", &["m1", "m2"]).await
    };
    let (delivery, published) = tokio::join!(side.arrival("th:1"), publish);
    published?;
    let delivery = delivery?;
    same("the first message", &S::id(&delivery.message), &"m1")?;
    delivery.ack().await?;
    side.expect("th:1", "m2").await?.ack().await
}

/// Checks that two consumers share the messages.
pub(super) async fn two_consumers<S: Side>(side: &S) -> Result<()> {
    side.publish_all("th:1", &["m1", "m2"]).await?;
    let (one, other) = tokio::join!(side.arrival("th:1"), side.arrival("th:1"));
    let (one, other) = (one?, other?);
    let mut ids = [S::id(&one.message), S::id(&other.message)];
    ids.sort_unstable();
    same("the messages of two consumers", &ids, &["m1", "m2"])?;
    one.ack().await?;
    other.ack().await
}

/// Checks that a dropped delivery is repeated.
pub(super) async fn dropped<S: Side>(side: &S) -> Result<()> {
    side.publish_all("th:1", &["m1"]).await?;
    for _ in 0..3 {
        drop(side.expect("th:1", "m1").await?);
    }
    side.expect("th:1", "m1").await?.ack().await?;
    side.expect_none("th:1").await
}

/// Checks that a delivery that is given back is repeated, whole, after its delay.
pub(super) async fn given_back<S: Side>(side: &S) -> Result<()> {
    let message = side.message("th:1", "m1");
    side.publish(message.clone()).await?;
    let delivery = side.arrival("th:1").await?;
    delivery.give_back(Duration::ZERO).await?;
    let delivery = side.arrival("th:1").await?;
    same("the repeated message", &delivery.message, &message)?;

    let delay = 4 * SILENCE;
    let start = Instant::now();
    delivery.give_back(delay).await?;
    // The first consumer gives up during the delay, unless the machine holds it up for longer.
    let delivery = match timeout(SILENCE, side.consume("th:1")).await {
        Err(_) => side.arrival("th:1").await?,
        Ok(delivery) => delivery?.ok_or_else(|| wrong("the bus is closed"))?,
    };
    same("the delayed message", &S::id(&delivery.message), &"m1")?;
    // Clocks of servers are not exact.
    if start.elapsed() < delay - SILENCE {
        let text = format!("it came after {:?} instead of {delay:?}", start.elapsed());
        return Err(wrong(text));
    }
    delivery.ack().await?;
    side.expect_none("th:1").await
}

/// Checks that a published id is not published again, even after its message was acknowledged.
pub(super) async fn repeated<S: Side>(side: &S) -> Result<()> {
    side.publish_all("th:1", &["m1", "m1"]).await?;
    side.expect("th:1", "m1").await?.ack().await?;
    side.publish_all("th:1", &["m1", "m2"]).await?;
    side.expect("th:1", "m2").await?.ack().await?;
    side.expect_none("th:1").await
}

/// Checks that messages without an id are different messages, that a message without a session gets
/// the session of its chat, and that each message has a time.
pub(super) async fn completed<B: MessageBus>(bus: &B) -> Result<()> {
    for _ in 0..2 {
        let message = InboundMessage::new("telegram", "123", "u1", "hi");
        bus.publish_inbound(message).await?;
    }
    let (first, second) = (
        Inbound(bus).arrival("").await?,
        Inbound(bus).arrival("").await?,
    );
    let key: &str = &first.message.session_key;
    same("the session", &key, &"telegram:123")?;
    if first.message.id.is_empty() || first.message.id == second.message.id {
        return Err(wrong("a message without an id needs one of its own"));
    }
    if first.message.published_at_us.is_none() {
        return Err(wrong(
            "a message without a time needs that of its publication",
        ));
    }
    first.ack().await?;
    second.ack().await
}

/// Checks that each channel receives its own messages, and that channels have separate ids.
pub(super) async fn channels<B: MessageBus>(bus: &B) -> Result<()> {
    for channel in ["a.b", "a b"] {
        let message = OutboundMessage::new(channel, "1", channel).with_id("m1");
        bus.publish_outbound(message).await?;
    }
    for channel in ["a b", "a.b"] {
        let outcome = timeout(ARRIVAL, bus.consume_outbound(channel)).await;
        let arrival = outcome.map_err(|_| wrong(MISSING))??;
        let delivery = arrival.ok_or_else(|| wrong("the bus is closed"))?;
        let name: &str = &delivery.message.content;
        same("the channel of the message", &name, &channel)?;
        delivery.ack().await?;
    }
    Ok(())
}
