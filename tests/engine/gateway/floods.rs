//! Models, channels and buses that would take all memory or block all others.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agentcore::gateway::{
    Delivery, DeliveryPolicy, Gateway, InProcessBus, InboundMessage, MessageBus, OutboundMessage,
    Receipt,
};
use agentcore::testing::{FunctionModel, ScriptedModel};
use agentcore::{
    AgentBuilder, ErrorKind, ModelEvent, ModelRequest, Result, StopReason, ToolCall, async_trait,
};
use futures::StreamExt;
use serde_json::json;
use tokio::time::sleep;

use super::{answer, gateway_of, read_none, read_text, run_with, write};

const MIB: usize = 1 << 20;

#[tokio::test(start_paused = true)]
async fn close_wakes_a_message_that_waits_for_the_space_of_others() {
    let bus = InProcessBus::default();
    let publish = |channel: &str, bytes: usize| {
        let message = OutboundMessage::new(channel, "1", "x".repeat(bytes));
        bus.publish_outbound(message)
    };
    // Together, four channels may hold all bytes of the bus.
    for channel in ["a", "b", "c", "d"] {
        publish(channel, 16 * MIB).await.unwrap();
    }
    let close = async {
        sleep(Duration::from_secs(1)).await;
        bus.close();
    };
    let (published, ()) = tokio::join!(publish("e", 1), close);
    assert_eq!(published.unwrap_err().kind(), ErrorKind::Cancelled);
    assert!(publish("f", 1).await.is_err());
}

#[tokio::test]
async fn long_names_are_refused() {
    let bus = InProcessBus::default();
    let long = "n".repeat(2_050);
    for (message, name) in [
        (InboundMessage::new(&*long, "1", "u1", "hi"), "channel"),
        (InboundMessage::new("tg", &*long, "u1", "hi"), "chat"),
        (InboundMessage::new("tg", "1", &*long, "hi"), "sender"),
        (
            InboundMessage::new("tg", "1", "u1", "hi").with_session_key(&*long),
            "session",
        ),
    ] {
        let error = bus.publish_inbound(message).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidRequest);
        let text = error.to_string();
        assert!(text.contains(name) && text.contains("2050 bytes"), "{text}");
    }

    for message in [
        OutboundMessage::new(&*long, "1", "hi"),
        OutboundMessage::new("tg", &*long, "hi"),
    ] {
        let error = bus.publish_outbound(message).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidRequest);
    }
    assert!(format!("{bus:?}").contains("channels: 0"), "{bus:?}");
}

#[tokio::test(start_paused = true)]
async fn channel_that_takes_no_reply_holds_up_no_other() {
    let bus = InProcessBus::new(2);
    let agent = AgentBuilder::new(FunctionModel::text(|_| "ok".into()));
    let builder = Gateway::builder(agent).bus(bus.clone());
    let gateway = builder.parallel_sessions(1).build().unwrap();
    for _ in 0..2 {
        let message = OutboundMessage::new("stuck", "1", "It is full.");
        bus.publish_outbound(message).await.unwrap();
    }
    run_with(&gateway, async {
        let message = InboundMessage::new("stuck", "1", "u1", "Hi");
        bus.publish_inbound(message).await.unwrap();
        write(&bus, "m1", "Hi").await;
        assert_eq!(read_text(&bus).await, "ok");
    })
    .await;
}

/// A bus whose deliveries never return from `keep_alive`.
struct Hanging(InProcessBus);

struct HangingReceipt(Delivery<InboundMessage>);

#[async_trait]
impl MessageBus for Hanging {
    async fn publish_inbound(&self, message: InboundMessage) -> Result<()> {
        self.0.publish_inbound(message).await
    }

    async fn consume_inbound(&self) -> Result<Option<Delivery<InboundMessage>>> {
        let delivery = self.0.consume_inbound().await?;
        Ok(delivery.map(|delivery| {
            let message = delivery.message.clone();
            Delivery::new(message, HangingReceipt(delivery))
        }))
    }

    async fn publish_outbound(&self, message: OutboundMessage) -> Result<()> {
        self.0.publish_outbound(message).await
    }

    async fn consume_outbound(&self, channel: &str) -> Result<Option<Delivery<OutboundMessage>>> {
        self.0.consume_outbound(channel).await
    }
}

#[async_trait]
impl Receipt for HangingReceipt {
    async fn ack(self: Box<Self>) -> Result<()> {
        self.0.ack().await
    }

    async fn give_back(self: Box<Self>, delay: Duration) -> Result<()> {
        self.0.give_back(delay).await
    }

    async fn keep_alive(&self) -> Result<()> {
        pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn turn_goes_on_while_a_report_to_the_bus_hangs() {
    let bus = InProcessBus::default();
    let model = ScriptedModel::new()
        .say("ok")
        .delayed(Duration::from_secs(60));
    let builder = Gateway::builder(AgentBuilder::new(model));
    let gateway = builder.bus(Hanging(bus.clone())).build().unwrap();
    run_with(&gateway, async {
        write(&bus, "m1", "Hi").await;
        assert_eq!(read_text(&bus).await, "ok");
    })
    .await;
}

fn spawn(id: &str) -> ModelEvent {
    ModelEvent::ToolCall(ToolCall::new(id, "spawn", json!({"task": "Look"})))
}

fn is_subagent(request: &ModelRequest) -> bool {
    request.system.to_string().contains("You are a subagent")
}

#[tokio::test(start_paused = true)]
async fn tasks_of_a_conversation_at_once_are_limited() {
    // Each input is the number of tasks to start.
    let model = FunctionModel::stream(|request: ModelRequest| async move {
        let input = request.messages.last().unwrap().text().into_owned();
        if is_subagent(&request) {
            sleep(Duration::from_secs(60)).await;
            return Ok(answer(ModelEvent::Text("Done.".to_owned())));
        }
        let Ok(count) = input.parse::<usize>() else {
            let results = request.messages.iter().rev();
            let results = results.map_while(|message| message.as_tool_result());
            let failures = results.filter(|result| result.is_error).count();
            let text = format!("{failures} failed: {input}");
            return Ok(answer(ModelEvent::Text(text)));
        };
        let calls = (0..count).map(|number| Ok(spawn(&format!("call_{input}_{number}"))));
        let end = [Ok(ModelEvent::stop(StopReason::ToolUse))];
        Ok(futures::stream::iter(calls.chain(end).collect::<Vec<_>>()).boxed())
    });
    let (builder, bus) = gateway_of(model);
    let gateway = builder.build().unwrap();
    run_with(&gateway, async {
        write(&bus, "m1", "18").await;
        let text = read_text(&bus).await;
        assert!(
            text.starts_with("2 failed: Error: too many tasks"),
            "{text}"
        );
        assert!(text.contains("16 at most"), "{text}");
        for _ in 0..16 {
            assert!(read_text(&bus).await.starts_with("Task '"));
        }

        // Tasks that have ended do not count.
        write(&bus, "m2", "1").await;
        let text = read_text(&bus).await;
        assert!(text.starts_with("0 failed: Spawned"), "{text}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn tasks_that_follow_each_other_without_a_person_are_limited() {
    let inputs = Arc::new(AtomicUsize::new(0));
    // Each input starts a task, and so does the report of each task.
    let model = FunctionModel::new({
        let inputs = inputs.clone();
        move |request| {
            let last = request.messages.last().unwrap();
            let event = if is_subagent(&request) || request.tools.is_empty() {
                // Subagents and the summarizer of the long session only answer.
                ModelEvent::Text("All quiet.".to_owned())
            } else if last.as_tool_result().is_some() {
                ModelEvent::Text(last.text().into_owned())
            } else {
                let number = inputs.fetch_add(1, Ordering::Relaxed);
                spawn(&format!("call_{number}"))
            };
            vec![Ok(event)]
        }
    });
    let (builder, bus) = gateway_of(model);
    let builder = builder.delivery(DeliveryPolicy::HandToAgent);
    let gateway = builder.build().unwrap();
    run_with(&gateway, async {
        for (id, expected) in [("m1", 9), ("m2", 18)] {
            write(&bus, id, "Go").await;
            for _ in 0..8 {
                assert!(read_text(&bus).await.starts_with("Spawned"));
            }
            let text = read_text(&bus).await;
            assert!(text.contains("8 tasks have followed each other"), "{text}");
            read_none(&bus).await;
            assert_eq!(inputs.load(Ordering::Relaxed), expected);
        }
    })
    .await;
}
