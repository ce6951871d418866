//! Messages that are answers to questions, and those that are not.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agentcore::gateway::{DeliveryPolicy, Gateway, InProcessBus, InboundMessage, MessageBus};
use agentcore::testing::{FunctionModel, ScriptedModel};
use agentcore::tool::{GateRequest, PermissionGate};
use agentcore::{
    AgentBuilder, FuncTool, Model, ModelEvent, ModelRequest, Result, ThreadStore, ToolCall,
    ToolDecision, async_trait, tools,
};
use serde_json::json;
use tokio::time::sleep;

use super::{read, read_none, read_text, run_with, write};

struct AskToDeploy;

#[async_trait]
impl PermissionGate for AskToDeploy {
    async fn check(&self, request: &GateRequest) -> Result<ToolDecision> {
        Ok(match &*request.call.name {
            "deploy" => ToolDecision::ask("May deploy run?"),
            _ => ToolDecision::allow(),
        })
    }
}

/// An agent that asks before it deploys, and counts the deployments.
fn agent(model: impl Model, store: &ThreadStore, deployments: &Arc<AtomicUsize>) -> AgentBuilder {
    let count = deployments.clone();
    let any = || json!({"type": "object"});
    let deploy = FuncTool::new("deploy", "Deploys", any(), move |_cx, _args| {
        count.fetch_add(1, Ordering::Relaxed);
        async { "deployed" }
    });
    let look = FuncTool::new("look", "Looks for a second", any(), |_cx, _args| async {
        sleep(Duration::from_secs(1)).await;
        "seen"
    });
    AgentBuilder::new(model)
        .tools([deploy, look, tools::request_user_input()])
        .permissions(AskToDeploy)
        .store(store.clone())
}

fn gateway_with(agent: AgentBuilder) -> (Gateway, InProcessBus) {
    let bus = InProcessBus::default();
    let gateway = Gateway::builder(agent).bus(bus.clone()).build().unwrap();
    (gateway, bus)
}

fn last(expected: &'static str) -> impl Fn(&ModelRequest) {
    move |request| assert_eq!(request.messages.last_content(), expected)
}

/// Sends a message whose call waits for a late answer.
async fn park(bus: &InProcessBus) {
    write(bus, "m1", "Deploy").await;
    read(bus).await;
    sleep(Duration::from_secs(301)).await;
}

#[tokio::test(start_paused = true)]
async fn message_from_before_a_question_is_an_input_and_allows_nothing() {
    for text in ["yes", "Also buy milk"] {
        let (store, deployments) = (ThreadStore::new(), Arc::default());
        let model = ScriptedModel::new()
            .call("look", json!({}))
            .call("deploy", json!({}))
            .expect(last(text))
            .say("Not deployed.");
        let (gateway, bus) = gateway_with(agent(model.clone(), &store, &deployments));
        run_with(&gateway, async {
            write(&bus, "m1", "Deploy").await;
            sleep(Duration::from_millis(500)).await;
            write(&bus, "m2", text).await;
            assert!(read_text(&bus).await.starts_with("May deploy run?"));
            let reply = read(&bus).await;
            assert_eq!((&*reply.id, &*reply.content), ("m2:reply", "Not deployed."));
        })
        .await;
        assert_eq!(deployments.load(Ordering::Relaxed), 0, "{text}");
        model.verify().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn message_from_before_a_question_of_another_process_allows_nothing() {
    let (store, deployments) = (ThreadStore::new(), Arc::default());
    let other_bus = InProcessBus::default();
    write(&other_bus, "m2", "yes").await;

    let model = ScriptedModel::new().call("deploy", json!({}));
    let (gateway, bus) = gateway_with(agent(model, &store, &deployments));
    run_with(&gateway, park(&bus)).await;
    assert_eq!(store.get("tg:1").unwrap().pending.len(), 1);

    let model = ScriptedModel::new().expect(last("yes")).say("Yes what?");
    let agent = agent(model.clone(), &store, &deployments);
    let gateway = Gateway::builder(agent).bus(other_bus.clone());
    let gateway = gateway.build().unwrap();
    run_with(&gateway, async {
        assert_eq!(read_text(&other_bus).await, "Yes what?");
    })
    .await;
    assert_eq!(deployments.load(Ordering::Relaxed), 0);
    model.verify().unwrap();
}

#[tokio::test(start_paused = true)]
async fn message_that_was_on_its_way_when_a_question_was_asked_is_no_answer() {
    let (store, deployments) = (ThreadStore::new(), Arc::default());
    let model = ScriptedModel::new()
        .call("deploy", json!({}))
        .say("Done.")
        .expect(last("yes"))
        .say("Yes what?");
    let (gateway, bus) = gateway_with(agent(model.clone(), &store, &deployments));
    run_with(&gateway, async {
        write(&bus, "m1", "Deploy").await;
        read(&bus).await;
        let mut early = InboundMessage::new("tg", "1", "u1", "yes").with_id("m2");
        early.published_at_us = Some(1);
        bus.publish_inbound(early).await.unwrap();
        read_none(&bus).await;
        assert_eq!(deployments.load(Ordering::Relaxed), 0);
        write(&bus, "m3", "yes").await;
        assert_eq!(read_text(&bus).await, "Done.");
        let reply = read(&bus).await;
        assert_eq!((&*reply.id, &*reply.content), ("m2:reply", "Yes what?"));
    })
    .await;
    assert_eq!(deployments.load(Ordering::Relaxed), 1);
    model.verify().unwrap();
}

#[tokio::test(start_paused = true)]
async fn message_after_a_question_has_expired_is_an_input() {
    let city = json!({"question": "Which city?"});
    for (tool, args) in [("deploy", json!({})), ("request_user_input", city)] {
        let (store, deployments) = (ThreadStore::new(), Arc::default());
        let model = ScriptedModel::new().call(tool, args);
        let (gateway, bus) = gateway_with(agent(model, &store, &deployments));
        run_with(&gateway, park(&bus)).await;
        let mut state = store.get("tg:1").unwrap();
        state.pending[0].expires_at_ms = Some(1);
        store.save("tg:1", state);

        let model = ScriptedModel::new().expect(last("yes")).say("Too late.");
        let (gateway, bus) = gateway_with(agent(model.clone(), &store, &deployments));
        run_with(&gateway, async {
            write(&bus, "m2", "yes").await;
            assert_eq!(read_text(&bus).await, "Too late.", "{tool}");
        })
        .await;
        assert_eq!(deployments.load(Ordering::Relaxed), 0);
        assert!(store.get("tg:1").unwrap().pending.is_empty());
        model.verify().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn end_of_a_task_leaves_the_question_of_its_conversation_open() {
    let (store, deployments) = (ThreadStore::new(), Arc::default());
    let model = FunctionModel::new(|request| {
        let count = request.messages.len();
        let call = |name: &str, args| {
            ModelEvent::ToolCall(ToolCall::new(format!("{name}_{count}"), name, args))
        };
        let is_subagent = request.system.to_string().contains("You are a subagent");
        match (is_subagent, count) {
            (true, _) => vec![Ok(call("look", json!({})))],
            (false, 1) => vec![
                Ok(call("spawn", json!({"task": "Look", "label": "scout"}))),
                Ok(call("deploy", json!({}))),
            ],
            (false, _) => vec![Ok(ModelEvent::Text("Done.".into()))],
        }
    });
    let bus = InProcessBus::default();
    let gateway = Gateway::builder(agent(model, &store, &deployments))
        .bus(bus.clone())
        .ask_timeout(Duration::from_secs(5))
        .delivery(DeliveryPolicy::HandToAgent)
        .build()
        .unwrap();
    run_with(&gateway, async {
        write(&bus, "m1", "Deploy").await;
        assert!(read_text(&bus).await.starts_with("May deploy run?"));
        // The task calls `look` until it reaches its limit, and then reports.
        let notice = read_text(&bus).await;
        assert!(notice.starts_with("Task 'scout' "), "{notice}");
        assert_eq!(store.get("tg:1").unwrap().pending.len(), 1);
        write(&bus, "m2", "yes").await;
        let reply = read(&bus).await;
        assert_eq!((&*reply.id, &*reply.content), ("m2:reply", "Done."));
    })
    .await;
    assert_eq!(deployments.load(Ordering::Relaxed), 1);
    assert_eq!(
        store.get("tg:1").unwrap().messages.user_messages().count(),
        1
    );
}

#[tokio::test(start_paused = true)]
async fn late_answer_to_one_of_several_questions_keeps_the_earlier_answers() {
    let question = |text: &str, labels: [&str; 2], is_multiple: bool| {
        let options = labels.map(|label| json!({"label": label}));
        json!({"question": text, "header": "H", "options": options, "multiSelect": is_multiple})
    };
    let questions = [
        question("Which format?", ["JSON", "YAML"], false),
        question("Which sizes?", ["Small", "Large"], true),
        question("Which colour?", ["Red", "Blue"], false),
    ];
    let result = "Which sizes?\n> Small, Large\n\nWhich format?\n> YAML\n\n\
        This question was not asked: Which colour?";
    let (store, deployments) = (ThreadStore::new(), Arc::default());
    let model = ScriptedModel::new()
        .call("AskUserQuestion", json!({"questions": questions}))
        .expect(last(result))
        .say("Thanks.");
    let (gateway, bus) = gateway_with(agent(model.clone(), &store, &deployments));
    run_with(&gateway, async {
        write(&bus, "m1", "Go").await;
        assert!(read_text(&bus).await.starts_with("Which format?"));
        write(&bus, "m2", "2").await;
        assert!(read_text(&bus).await.starts_with("Which sizes?"));
        sleep(Duration::from_secs(301)).await;
        write(&bus, "m3", "1, 2").await;
        assert_eq!(read_text(&bus).await, "Thanks.");
    })
    .await;
    model.verify().unwrap();
}
