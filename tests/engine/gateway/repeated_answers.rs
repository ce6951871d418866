//! Answers to questions that are delivered twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use agentcore::gateway::{
    Delivery, Gateway, InProcessBus, InboundMessage, MessageBus, OutboundMessage, Receipt,
};
use agentcore::session::Record;
use agentcore::testing::{ScriptedModel, Step};
use agentcore::tool::{GateRequest, PermissionGate};
use agentcore::{
    AgentBuilder, Error, ErrorKind, FuncTool, Result, SessionStore, ThreadStore, ToolDecision,
    async_trait,
};
use serde_json::json;
use tokio::sync::Mutex;
use tokio::time::sleep;

use super::{read, read_none, read_text, run_with, write};
use crate::kit::spied_store::{Spied, Spy};

struct AskToDeploy;

#[async_trait]
impl PermissionGate for AskToDeploy {
    async fn check(&self, request: &GateRequest) -> Result<ToolDecision> {
        if &*request.call.name == "deploy" {
            return Ok(ToolDecision::ask(format!("May {} run?", request.call.args)));
        }
        Ok(ToolDecision::allow())
    }
}

/// An agent that asks before it deploys, and counts the deployments.
fn agent(model: ScriptedModel, store: &ThreadStore, count: &Arc<AtomicUsize>) -> AgentBuilder {
    let count = count.clone();
    let deploy = FuncTool::new(
        "deploy",
        "Deploys",
        json!({"type": "object"}),
        move |_cx, _args| {
            count.fetch_add(1, Ordering::Relaxed);
            async { "deployed" }
        },
    );
    AgentBuilder::new(model)
        .tool(deploy)
        .permissions(AskToDeploy)
        .store(store.clone())
}

fn gateway_with(agent: AgentBuilder) -> (Gateway, InProcessBus) {
    let bus = InProcessBus::default();
    let gateway = Gateway::builder(agent).bus(bus.clone()).build().unwrap();
    (gateway, bus)
}

#[tokio::test(start_paused = true)]
async fn answer_that_another_process_gets_again_is_no_input() {
    let (store, count) = (ThreadStore::new(), Arc::default());
    let model = ScriptedModel::new()
        .call("deploy", json!({}))
        .say("Done.")
        .say("Hello.");
    let (gateway, bus) = gateway_with(agent(model.clone(), &store, &count));
    run_with(&gateway, async {
        write(&bus, "m1", "Deploy").await;
        read(&bus).await;
        write(&bus, "m2", "yes").await;
        assert_eq!(read_text(&bus).await, "Done.");
    })
    .await;

    let (gateway, bus) = gateway_with(agent(model.clone(), &store, &count));
    run_with(&gateway, async {
        write(&bus, "m2", "yes").await;
        read_none(&bus).await;
        assert_eq!(store.get("tg:1").unwrap().messages.len(), 4);
        write(&bus, "m3", "Hi").await;
        assert_eq!(read_text(&bus).await, "Hello.");
    })
    .await;
    assert_eq!(count.load(Ordering::Relaxed), 1);
    model.verify().unwrap();
}

/// Fails the first append that records the start of a call.
#[derive(Default)]
struct RefusesStart(AtomicBool);

#[async_trait]
impl Spy for RefusesStart {
    async fn append(&self, records: &[Record]) -> Result<()> {
        let mut records = records.iter();
        let has_start = records.any(|record| matches!(record, Record::ToolStarted { .. }));
        if has_start && !self.0.swap(true, Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Io, "disk full"));
        }
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn answer_whose_first_write_fails_is_stored_with_the_next() {
    let (store, count) = (ThreadStore::new(), Arc::default());
    let model = ScriptedModel::new()
        .call("deploy", json!({}))
        .step(Step::text("Done.").delayed(Duration::from_secs(60)));
    let spied = Spied(store.clone(), RefusesStart::default());
    let (gateway, bus) = gateway_with(agent(model, &store, &count).store(spied));
    run_with(&gateway, async {
        write(&bus, "m1", "Deploy").await;
        read(&bus).await;
        write(&bus, "m2", "yes").await;

        // The call has failed, and the model has not answered yet.
        sleep(Duration::from_secs(30)).await;
        let stored = store.load("tg:1").await.unwrap().unwrap();
        assert_eq!(stored.state.messages.len(), 3);
        let ids = stored.input_ids;
        assert!(ids.iter().any(|id| id.contains("m2")), "{ids:?}");
        assert_eq!(read_text(&bus).await, "Done.");
    })
    .await;
    assert_eq!(count.load(Ordering::Relaxed), 0);
}

/// Delays the append that records the start of the second call.
struct LateStart;

#[async_trait]
impl Spy for LateStart {
    async fn append(&self, records: &[Record]) -> Result<()> {
        let is_second = |record: &Record| match record {
            Record::ToolStarted { call_id } => &**call_id == "call_2",
            _ => false,
        };
        if records.iter().any(is_second) {
            sleep(Duration::from_secs(90)).await;
        }
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn answer_whose_write_takes_long_is_stored_with_a_write_next_to_it() {
    let (store, count) = (ThreadStore::new(), Arc::default());
    let model = ScriptedModel::new()
        .calls([("look", json!({})), ("deploy", json!({}))])
        .say("Done.");
    let object = json!({"type": "object"});
    let look = FuncTool::new("look", "Looks", object, |_cx, _args| async {
        sleep(Duration::from_secs(30)).await;
        "seen"
    });
    let agent = agent(model.clone(), &store, &count).tool(look);
    let (gateway, bus) = gateway_with(agent.store(Spied(store.clone(), LateStart)));
    run_with(&gateway, async {
        write(&bus, "m1", "Deploy").await;
        read(&bus).await;
        write(&bus, "m2", "yes").await;

        // The first call has ended, and the second one has not begun.
        sleep(Duration::from_secs(60)).await;
        assert_eq!(count.load(Ordering::Relaxed), 0);
        let ids = store.load("tg:1").await.unwrap().unwrap().input_ids;
        assert!(ids.iter().any(|id| id.contains("m2")), "{ids:?}");
        assert_eq!(read_text(&bus).await, "Done.");
    })
    .await;
    assert_eq!(count.load(Ordering::Relaxed), 1);
    model.verify().unwrap();
}

#[tokio::test(start_paused = true)]
async fn late_answer_that_another_process_gets_again_has_the_same_reply() {
    let (store, count) = (ThreadStore::new(), Arc::default());
    let model = ScriptedModel::new().call("deploy", json!({})).say("Done.");
    let (gateway, bus) = gateway_with(agent(model.clone(), &store, &count));
    run_with(&gateway, async {
        write(&bus, "m1", "Deploy").await;
        read(&bus).await;
        sleep(Duration::from_secs(301)).await;
        write(&bus, "m2", "yes").await;
        assert_eq!(read_text(&bus).await, "Done.");
    })
    .await;

    let (gateway, bus) = gateway_with(agent(model.clone(), &store, &count));
    run_with(&gateway, async {
        write(&bus, "m2", "yes").await;
        let reply = read(&bus).await;
        assert_eq!((&*reply.id, &*reply.content), ("m2:reply", "Done."));
    })
    .await;
    assert_eq!(count.load(Ordering::Relaxed), 1);
    assert_eq!(store.get("tg:1").unwrap().messages.len(), 4);
    model.verify().unwrap();
}

#[tokio::test(start_paused = true)]
async fn late_answer_whose_run_was_interrupted_continues_it_when_it_is_delivered_again() {
    let (store, count) = (ThreadStore::new(), Arc::default());
    let model = ScriptedModel::new().call("deploy", json!({})).hang();
    let (gateway, bus) = gateway_with(agent(model, &store, &count));
    let chat = async {
        write(&bus, "m1", "Deploy").await;
        read(&bus).await;
        sleep(Duration::from_secs(301)).await;
        write(&bus, "m2", "yes").await;
        sleep(Duration::from_secs(60)).await;
    };
    tokio::select! {
        outcome = gateway.run() => panic!("{outcome:?}"),
        () = chat => {}
    }
    drop(gateway);

    let model = ScriptedModel::new().say("Done.");
    let (gateway, bus) = gateway_with(agent(model.clone(), &store, &count));
    run_with(&gateway, async {
        write(&bus, "m2", "yes").await;
        let reply = read(&bus).await;
        assert_eq!((&*reply.id, &*reply.content), ("m2:reply", "Done."));
        read_none(&bus).await;
    })
    .await;
    assert_eq!(count.load(Ordering::Relaxed), 1);
    assert_eq!(store.get("tg:1").unwrap().messages.len(), 4);
    model.verify().unwrap();
}

/// A bus that delivers one message twice.
struct RepeatingBus {
    bus: InProcessBus,
    id: &'static str,
    copy: Mutex<Option<InboundMessage>>,
}

struct NoReceipt;

#[async_trait]
impl Receipt for NoReceipt {
    async fn ack(self: Box<Self>) -> Result<()> {
        Ok(())
    }

    async fn give_back(self: Box<Self>, _delay: Duration) -> Result<()> {
        Ok(())
    }
}

#[async_trait]
impl MessageBus for RepeatingBus {
    async fn publish_inbound(&self, message: InboundMessage) -> Result<()> {
        self.bus.publish_inbound(message).await
    }

    async fn consume_inbound(&self) -> Result<Option<Delivery<InboundMessage>>> {
        if let Some(copy) = self.copy.lock().await.take() {
            return Ok(Some(Delivery::new(copy, NoReceipt)));
        }
        let delivery = self.bus.consume_inbound().await?;
        if let Some(delivery) = &delivery
            && *delivery.message.id == *self.id
        {
            *self.copy.lock().await = Some(delivery.message.clone());
        }
        Ok(delivery)
    }

    async fn publish_outbound(&self, message: OutboundMessage) -> Result<()> {
        self.bus.publish_outbound(message).await
    }

    async fn consume_outbound(&self, channel: &str) -> Result<Option<Delivery<OutboundMessage>>> {
        self.bus.consume_outbound(channel).await
    }
}

#[tokio::test(start_paused = true)]
async fn answer_that_is_delivered_twice_answers_one_question() {
    let (store, count) = (ThreadStore::new(), Arc::default());
    let model = ScriptedModel::new()
        .calls([("deploy", json!({"to": "a"}))])
        .calls([("deploy", json!({"to": "b"}))])
        .say("Done.");
    let bus = InProcessBus::default();
    let repeating_bus = RepeatingBus {
        bus: bus.clone(),
        id: "m2",
        copy: Mutex::default(),
    };
    let agent = agent(model.clone(), &store, &count);
    let gateway = Gateway::builder(agent).bus(repeating_bus).build().unwrap();
    run_with(&gateway, async {
        write(&bus, "m1", "Deploy").await;
        assert!(read_text(&bus).await.starts_with(r#"May {"to":"a"} run?"#));
        write(&bus, "m2", "yes").await;
        assert!(read_text(&bus).await.starts_with(r#"May {"to":"b"} run?"#));
        read_none(&bus).await;
        assert_eq!(count.load(Ordering::Relaxed), 1);
        write(&bus, "m3", "no").await;
        assert_eq!(read_text(&bus).await, "Done.");
        read_none(&bus).await;
    })
    .await;
    assert_eq!(count.load(Ordering::Relaxed), 1);
    let messages = store.get("tg:1").unwrap().messages;
    assert_eq!(messages.user_messages().count(), 1);
    model.verify().unwrap();
}
