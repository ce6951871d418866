//! The gateway: buses, turns, questions, tools.

mod background;
mod bus;
mod floods;
mod groups;
mod heartbeat;
mod lanes;
mod late_answers;
mod questions;
mod repeated_answers;
mod sessions;
mod spawned_tasks;
mod state;
mod steering;
mod summaries;
mod texts;
mod tools;
mod turns;

use std::future::Future;
use std::time::Duration;

use agentcore::gateway::{
    Gateway, GatewayBuilder, InProcessBus, InboundMessage, MessageBus, OutboundMessage,
};
use agentcore::{AgentBuilder, Model, ModelEvent, ModelStream, StopReason};
use futures::StreamExt;
use tokio::time::timeout;

/// Returns the text of a file in `tests/data/gateway`.
fn golden(name: &str) -> String {
    let path = format!("{}/tests/data/gateway/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    text.strip_suffix('\n').unwrap().to_owned()
}

/// Returns the stream of an answer of one event.
fn answer(event: ModelEvent) -> ModelStream {
    let reason = match event {
        ModelEvent::ToolCall(_) => StopReason::ToolUse,
        _ => StopReason::EndTurn,
    };
    futures::stream::iter([Ok(event), Ok(ModelEvent::stop(reason))]).boxed()
}

/// Returns the builder of a gateway of `model`, and its bus.
fn gateway_of(model: impl Model) -> (GatewayBuilder, InProcessBus) {
    let bus = InProcessBus::default();
    let builder = Gateway::builder(AgentBuilder::new(model)).bus(bus.clone());
    (builder, bus)
}

/// Runs a gateway until `chat` ends, and stops it then.
async fn run_with<T>(gateway: &Gateway, chat: impl Future<Output = T>) -> T {
    let chat = async {
        let output = chat.await;
        gateway.stop();
        output
    };
    let limit = Duration::from_secs(24 * 60 * 60);
    let both = timeout(limit, async { tokio::join!(gateway.run(), chat) }).await;
    let (outcome, output) = both.expect("the gateway and the chat end");
    outcome.unwrap();
    output
}

/// Publishes a message of `u1` in chat 1 of `tg`.
async fn write(bus: &InProcessBus, id: &str, text: &str) {
    write_as(bus, "1", "u1", id, text).await;
}

async fn write_as(bus: &InProcessBus, chat_id: &str, sender: &str, id: &str, text: &str) {
    let message = InboundMessage::new("tg", chat_id, sender, text).with_id(id);
    bus.publish_inbound(message).await.unwrap();
}

/// Returns the next message to the channel `tg`.
async fn read(bus: &InProcessBus) -> OutboundMessage {
    let delivery = bus.consume_outbound("tg").await.unwrap().unwrap();
    let message = delivery.message.clone();
    delivery.ack().await.unwrap();
    message
}

async fn read_text(bus: &InProcessBus) -> String {
    read(bus).await.content.to_string()
}

/// Asserts that no message to the channel `tg` arrives within a minute.
async fn read_none(bus: &InProcessBus) {
    let message = timeout(Duration::from_secs(60), read(bus)).await;
    assert!(message.is_err(), "{message:?}");
}
