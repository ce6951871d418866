//! Gateways of agents that hand conversations over to each other.

use std::time::Duration;

use agentcore::gateway::{Gateway, InProcessBus};
use agentcore::subagent::Handoffs;
use agentcore::testing::ScriptedModel;
use agentcore::tool::{GateRequest, PermissionGate};
use agentcore::{AgentBuilder, FuncTool, Result, ThreadStore, ToolDecision, async_trait};
use serde_json::json;
use tokio::time::sleep;

use super::{read, read_none, read_text, run_with, write, write_as};

/// Returns a gateway of the agents `triage`, which is the first, and `billing`, and its bus.
fn gateway_of_group(
    triage: AgentBuilder,
    billing: AgentBuilder,
    store: &ThreadStore,
) -> (Gateway, InProcessBus) {
    let bus = InProcessBus::default();
    let group = Handoffs::builder("triage", triage)
        .agent("billing", "Invoices and refunds", billing)
        .store(store.clone());
    let gateway = Gateway::handoffs(group).bus(bus.clone()).build().unwrap();
    (gateway, bus)
}

fn scripted(triage: &ScriptedModel, billing: &ScriptedModel) -> (AgentBuilder, AgentBuilder) {
    (
        AgentBuilder::new(triage.clone()),
        AgentBuilder::new(billing.clone()),
    )
}

fn to_billing() -> serde_json::Value {
    json!({"agent": "billing"})
}

#[tokio::test(start_paused = true)]
async fn message_is_answered_by_the_agent_that_its_conversation_was_handed_to() {
    let triage = ScriptedModel::new()
        .call("handoff", to_billing())
        .say("Hello, chat 2.");
    let billing = ScriptedModel::new().say("I refund it.").say("Tomorrow.");
    let (first, second) = scripted(&triage, &billing);
    let (gateway, bus) = gateway_of_group(first, second, &ThreadStore::new());
    run_with(&gateway, async {
        write(&bus, "m1", "I was charged twice").await;
        let reply = read(&bus).await;
        assert_eq!((&*reply.id, &*reply.content), ("m1:reply", "I refund it."));
        write(&bus, "m2", "When?").await;
        assert_eq!(read_text(&bus).await, "Tomorrow.");
        // A new conversation begins with the first agent.
        write_as(&bus, "2", "u2", "m3", "Hi").await;
        assert_eq!(read_text(&bus).await, "Hello, chat 2.");
        read_none(&bus).await;
    })
    .await;
    triage.verify().unwrap();
    billing.verify().unwrap();
}

#[tokio::test(start_paused = true)]
async fn message_to_a_group_that_is_delivered_twice_is_answered_once() {
    let store = ThreadStore::new();
    let triage = ScriptedModel::new().call("handoff", to_billing());
    let billing = ScriptedModel::new().say("I refund it.");
    for _ in 0..2 {
        let (first, second) = scripted(&triage, &billing);
        let (gateway, bus) = gateway_of_group(first, second, &store);
        run_with(&gateway, async {
            write(&bus, "m1", "Twice!").await;
            let reply = read(&bus).await;
            assert_eq!((&*reply.id, &*reply.content), ("m1:reply", "I refund it."));
        })
        .await;
    }
    triage.verify().unwrap();
    billing.verify().unwrap();
    assert_eq!(store.get("tg:1").unwrap().messages.len(), 4);
}

struct AskForHandoffs;

#[async_trait]
impl PermissionGate for AskForHandoffs {
    async fn check(&self, request: &GateRequest) -> Result<ToolDecision> {
        Ok(match &*request.call.name {
            "handoff" => ToolDecision::ask("May billing take over?"),
            _ => ToolDecision::allow(),
        })
    }
}

#[tokio::test(start_paused = true)]
async fn late_permission_hands_the_conversation_over_and_the_other_agent_replies() {
    let triage = ScriptedModel::new().call("handoff", to_billing());
    let billing = ScriptedModel::new().say("I refund it.");
    let (first, second) = scripted(&triage, &billing);
    let first = first.permissions(AskForHandoffs);
    let (gateway, bus) = gateway_of_group(first, second, &ThreadStore::new());
    run_with(&gateway, async {
        write(&bus, "m1", "Twice!").await;
        assert!(read_text(&bus).await.starts_with("May billing take over?"));
        sleep(Duration::from_secs(301)).await;
        read_none(&bus).await;
        write(&bus, "m2", "yes").await;
        let reply = read(&bus).await;
        assert_eq!((&*reply.id, &*reply.content), ("m2:reply", "I refund it."));
        read_none(&bus).await;
    })
    .await;
    triage.verify().unwrap();
    billing.verify().unwrap();
}

struct AskForRefunds;

#[async_trait]
impl PermissionGate for AskForRefunds {
    async fn check(&self, request: &GateRequest) -> Result<ToolDecision> {
        Ok(match &*request.call.name {
            "refund" => ToolDecision::ask("May refund run?"),
            _ => ToolDecision::allow(),
        })
    }
}

#[tokio::test(start_paused = true)]
async fn late_permission_next_to_a_handoff_is_used_by_the_agent_that_asked() {
    let calls = [("refund", json!({})), ("handoff", to_billing())];
    let triage = ScriptedModel::new().calls(calls).say("It is refunded.");
    let billing = ScriptedModel::new().say("Tomorrow.");
    let (first, second) = scripted(&triage, &billing);
    let any_object = json!({"type": "object"});
    let refund = FuncTool::new("refund", "Refunds", any_object, |_cx, _args| async {
        "refunded"
    });
    let first = first.tool(refund).permissions(AskForRefunds);
    let (gateway, bus) = gateway_of_group(first, second, &ThreadStore::new());
    run_with(&gateway, async {
        write(&bus, "m1", "Twice!").await;
        assert!(read_text(&bus).await.starts_with("May refund run?"));
        sleep(Duration::from_secs(301)).await;
        read_none(&bus).await;
        write(&bus, "m2", "yes").await;
        assert_eq!(read_text(&bus).await, "It is refunded.");
        write(&bus, "m3", "When?").await;
        assert_eq!(read_text(&bus).await, "Tomorrow.");
    })
    .await;
    triage.verify().unwrap();
    billing.verify().unwrap();
}

#[tokio::test(start_paused = true)]
async fn tool_message_of_the_agent_that_took_over_takes_the_place_of_the_reply() {
    let triage = ScriptedModel::new().call("handoff", to_billing());
    let billing = ScriptedModel::new()
        .call("message", json!({"content": "On it."}))
        .say("Sent.");
    let (first, second) = scripted(&triage, &billing);
    let (gateway, bus) = gateway_of_group(first, second, &ThreadStore::new());
    run_with(&gateway, async {
        write(&bus, "m1", "Twice!").await;
        assert_eq!(read_text(&bus).await, "On it.");
        read_none(&bus).await;
    })
    .await;
    billing.verify().unwrap();
}
