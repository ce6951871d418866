//! Messages to a session with a run in progress.

use std::time::Duration;

use agentcore::gateway::{Gateway, InProcessBus, InboundMessage, MessageBus, WhenBusy};
use agentcore::testing::{FunctionModel, ScriptedModel, Step};
use agentcore::{AgentBuilder, FuncTool, ModelEvent, ThreadStore, ToolCall};
use serde_json::json;
use tokio::time::sleep;

use super::{gateway_of, read, read_none, read_text, run_with, write, write_as};

/// A model that calls `nap` for the first input, and then repeats the last input.
fn napping_model() -> FunctionModel {
    FunctionModel::new(|request| {
        let text = request.messages.last_content().into_owned();
        vec![Ok(match request.messages.len() {
            1 => ModelEvent::ToolCall(ToolCall::new("call_1", "nap", json!({}))),
            _ => ModelEvent::Text(format!("re: {text}")),
        })]
    })
}

fn nap() -> FuncTool {
    FuncTool::new(
        "nap",
        "Naps",
        json!({"type": "object"}),
        |_cx, _args| async {
            sleep(Duration::from_secs(5)).await;
            "awake"
        },
    )
}

#[tokio::test(start_paused = true)]
async fn steered_message_is_read_by_the_run_in_progress_and_answered_once() {
    let store = ThreadStore::new();
    let bus = InProcessBus::default();
    let agent = AgentBuilder::new(napping_model())
        .tool(nap())
        .store(store.clone());
    let builder = Gateway::builder(agent).bus(bus.clone());
    let gateway = builder.when_busy(WhenBusy::Steer).build().unwrap();
    run_with(&gateway, async {
        write(&bus, "a", "Count").await;
        sleep(Duration::from_secs(1)).await;
        write(&bus, "b", "No, sing").await;
        let reply = read(&bus).await;
        assert_eq!((&*reply.id, &*reply.content), ("a:reply", "re: No, sing"));
        read_none(&bus).await;
    })
    .await;
    let messages = store.get("tg:1").unwrap().messages;
    assert_eq!(messages.user_messages().count(), 2);
    assert_eq!(messages.len(), 5);
}

#[tokio::test(start_paused = true)]
async fn message_during_the_last_answer_is_answered_by_the_same_run() {
    let step = Step::text("First.").delayed(Duration::from_secs(5));
    let model = ScriptedModel::new().step(step).say("Second.");
    let (builder, bus) = gateway_of(model.clone());
    let gateway = builder.when_busy(WhenBusy::Steer).build().unwrap();
    run_with(&gateway, async {
        write(&bus, "a", "one").await;
        sleep(Duration::from_secs(1)).await;
        write(&bus, "b", "two").await;
        // The run takes another turn for a message that arrived during its last answer.
        let reply = read(&bus).await;
        assert_eq!((&*reply.id, &*reply.content), ("a:reply", "Second."));
        read_none(&bus).await;
    })
    .await;
    model.verify().unwrap();
}

fn steering_gateway(store: &ThreadStore) -> (Gateway, InProcessBus) {
    let bus = InProcessBus::default();
    let agent = AgentBuilder::new(napping_model())
        .tool(nap())
        .store(store.clone());
    let builder = Gateway::builder(agent).bus(bus.clone());
    let builder = builder.parallel_sessions(1).when_busy(WhenBusy::Steer);
    (builder.build().unwrap(), bus)
}

#[tokio::test(start_paused = true)]
async fn several_steered_messages_are_read_by_the_same_run_in_order() {
    let store = ThreadStore::new();
    let (gateway, bus) = steering_gateway(&store);
    run_with(&gateway, async {
        write(&bus, "a", "Count").await;
        sleep(Duration::from_secs(1)).await;
        write(&bus, "b", "No, sing").await;
        write(&bus, "c", "Quietly").await;
        let reply = read(&bus).await;
        assert_eq!((&*reply.id, &*reply.content), ("a:reply", "re: Quietly"));
        read_none(&bus).await;
    })
    .await;
    let messages = store.get("tg:1").unwrap().messages;
    let inputs: Vec<_> = messages.user_messages().map(|one| one.text()).collect();
    assert_eq!(inputs, ["Count", "No, sing", "Quietly"]);
}

#[tokio::test(start_paused = true)]
async fn message_of_another_chat_or_person_of_the_session_has_its_own_run_and_reply() {
    for (chat, sender) in [("2", "u1"), ("1", "u2")] {
        let (gateway, bus) = steering_gateway(&ThreadStore::new());
        let publish = async |chat: &str, sender: &str, id: &str, text: &str| {
            let message = InboundMessage::new("tg", chat, sender, text).with_id(id);
            let message = message.with_session_key("family");
            bus.publish_inbound(message).await.unwrap();
        };
        run_with(&gateway, async {
            publish("1", "u1", "a", "Count").await;
            sleep(Duration::from_secs(1)).await;
            publish(chat, sender, "b", "Sing").await;
            let replies = [read(&bus).await, read(&bus).await];
            let replies = replies.map(|one| (one.chat_id.to_string(), one.content.to_string()));
            let expected = [("1", "re: awake"), (chat, "re: Sing")];
            let expected = expected.map(|(chat, text)| (chat.to_owned(), text.to_owned()));
            assert_eq!(replies, expected);
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn message_during_a_run_of_a_direct_caller_has_its_own_reply() {
    let (gateway, bus) = steering_gateway(&ThreadStore::new());
    run_with(&gateway, async {
        let direct = gateway.process_direct("Count", "tg:1");
        let chat = async {
            sleep(Duration::from_secs(1)).await;
            write(&bus, "b", "Sing").await;
            read(&bus).await
        };
        let (text, reply) = tokio::join!(direct, chat);
        assert_eq!(text.unwrap(), "re: awake");
        assert_eq!((&*reply.id, &*reply.content), ("b:reply", "re: Sing"));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn message_does_not_overtake_one_that_waits_for_its_own_run() {
    let store = ThreadStore::new();
    let (gateway, bus) = steering_gateway(&store);
    run_with(&gateway, async {
        // The other chat holds the only permit for five seconds.
        write_as(&bus, "2", "u2", "x", "Nap").await;
        write(&bus, "a", "one").await;
        write(&bus, "b", "two").await;
        sleep(Duration::from_secs(6)).await;
        write(&bus, "c", "three").await;
        let texts = ["re: awake", "re: awake", "re: two", "re: three"];
        for text in texts {
            assert_eq!(read_text(&bus).await, text);
        }
    })
    .await;
    let messages = store.get("tg:1").unwrap().messages;
    let inputs: Vec<_> = messages.user_messages().map(|one| one.text()).collect();
    assert_eq!(inputs, ["one", "two", "three"]);
}
