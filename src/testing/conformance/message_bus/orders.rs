//! The checks of the order of messages.

use crate::error::Result;

use super::super::checks::same;
use super::side::{SILENCE, Side};

/// Checks that the messages of a key arrive in order.
pub(super) async fn in_order<S: Side>(side: &S) -> Result<()> {
    let ids: Vec<_> = (0..50).map(|index| format!("m{index}")).collect();
    for id in &ids {
        side.publish(side.message("th:1", id)).await?;
    }
    for id in &ids {
        side.expect("th:1", id).await?.ack().await?;
    }
    side.expect_none("th:1").await
}

/// Checks that messages that were given back precede later ones, in their order, whichever was
/// given back first.
pub(super) async fn given_back<S: Side>(side: &S) -> Result<()> {
    side.publish_all("th:1", &["m1", "m2", "m3"]).await?;
    let first = side.expect("th:1", "m1").await?;
    let second = side.expect("th:1", "m2").await?;
    first.give_back(std::time::Duration::ZERO).await?;
    drop(second);
    for id in ["m1", "m2", "m3"] {
        side.expect("th:1", id).await?.ack().await?;
    }
    Ok(())
}

/// Checks that later messages of a key wait for a message that was given back with a delay.
pub(super) async fn delayed<S: Side>(side: &S) -> Result<()> {
    side.publish_all("th:1", &["m1", "m2"]).await?;
    let first = side.expect("th:1", "m1").await?;
    first.give_back(2 * SILENCE).await?;
    side.publish_all("th:1", &["m3"]).await?;
    for id in ["m1", "m2", "m3"] {
        side.expect("th:1", id).await?.ack().await?;
    }
    Ok(())
}

/// Checks that messages of another key do not wait for a message in progress or with a delay.
pub(super) async fn other_keys<S: Side>(side: &S) -> Result<()> {
    side.publish_all("th:1", &["m1"]).await?;
    let first = side.expect("th:1", "m1").await?;
    side.publish_all("th:2", &["n1", "n2"]).await?;
    side.expect("th:2", "n1").await?.ack().await?;
    first.give_back(4 * SILENCE).await?;
    side.expect("th:2", "n2").await?.ack().await?;
    let first = side.arrival("th:1").await?;
    same("the delayed message", &S::id(&first.message), &"m1")?;
    first.ack().await
}
