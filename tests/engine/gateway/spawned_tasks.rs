//! Tasks of `spawn`: their number, their budget, their questions.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agentcore::gateway::{
    Delivery, Gateway, GatewayBuilder, InProcessBus, InboundMessage, MessageBus, OutboundMessage,
    ProcessOptions,
};
use agentcore::testing::FunctionModel;
use agentcore::tool::{GateRequest, PermissionGate};
use agentcore::{
    AgentBuilder, Error, ErrorKind, FuncTool, ModelEvent, ModelRequest, Result, SessionStore,
    StopReason, ThreadStore, ToolCall, ToolDecision, Usage, async_trait,
};
use futures::StreamExt;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{read, read_none, read_text, run_with, write, write_as};

fn call(name: &str, args: Value) -> ModelEvent {
    ModelEvent::ToolCall(ToolCall::new(format!("call_{name}"), name, args))
}

fn is_subagent(request: &ModelRequest) -> bool {
    request.system.to_string().contains("You are a subagent")
}

/// A model of conversations that spawn a task for each input and then repeat its result, and of
/// subagents that answer with `subagent`.
fn spawning_model(
    subagent: impl Fn(&ModelRequest) -> ModelEvent + Send + Sync + 'static,
) -> FunctionModel {
    starting_model("spawn", subagent)
}

/// The model of [`spawning_model`] with `starter` as the tool that starts subagents.
fn starting_model(
    starter: &'static str,
    subagent: impl Fn(&ModelRequest) -> ModelEvent + Send + Sync + 'static,
) -> FunctionModel {
    FunctionModel::new(move |request| {
        vec![Ok(if is_subagent(&request) {
            subagent(&request)
        } else if request.messages.last().unwrap().as_tool_result().is_some() {
            ModelEvent::Text(request.messages.last_content().into_owned())
        } else {
            let number = request.messages.len();
            let args = json!({"task": "Look", "label": "scout"});
            ModelEvent::ToolCall(ToolCall::new(format!("call_{number}"), starter, args))
        })]
    })
}

fn nap() -> FuncTool {
    let run = |_cx, _args| async {
        sleep(Duration::from_secs(60)).await;
        "awake"
    };
    FuncTool::new("nap", "Naps", json!({"type": "object"}), run)
}

#[tokio::test(start_paused = true)]
async fn task_beyond_the_limit_is_refused_until_another_has_ended() {
    let model = spawning_model(|request| match request.messages.len() {
        1 => call("nap", json!({})),
        _ => ModelEvent::Text("All quiet.".into()),
    });
    let bus = InProcessBus::default();
    let agent = AgentBuilder::new(model).tool(nap());
    let gateway = Gateway::builder(agent)
        .bus(bus.clone())
        .max_tasks(2)
        .build();
    let gateway = gateway.unwrap();
    run_with(&gateway, async {
        let mut texts = Vec::new();
        for chat in ["1", "2", "3"] {
            write_as(&bus, chat, "u1", chat, "Go").await;
            texts.push(read_text(&bus).await);
        }
        assert_eq!(texts[0], "Spawned subagent 'scout' for task: Look");
        assert_eq!(texts[1], texts[0]);
        assert!(
            texts[2].contains("no subagent was spawned: 2 tasks are in progress"),
            "{}",
            texts[2]
        );
        for _ in 0..2 {
            let notice = read_text(&bus).await;
            assert!(notice.starts_with("Task 'scout' completed."), "{notice}");
        }
        write_as(&bus, "3", "u1", "again", "Go").await;
        assert_eq!(read_text(&bus).await, texts[0]);
    })
    .await;
}

/// A bus that fails to publish the first reports about tasks.
struct Unreachable {
    inner: InProcessBus,
    remaining_errors: AtomicUsize,
}

#[async_trait]
impl MessageBus for Unreachable {
    async fn publish_inbound(&self, message: InboundMessage) -> Result<()> {
        let is_report = &*message.channel == "system";
        if is_report && self.remaining_errors.load(Ordering::Relaxed) > 0 {
            self.remaining_errors.fetch_sub(1, Ordering::Relaxed);
            return Err(Error::new(ErrorKind::Connect, "no route to the bus"));
        }
        self.inner.publish_inbound(message).await
    }

    async fn consume_inbound(&self) -> Result<Option<Delivery<InboundMessage>>> {
        self.inner.consume_inbound().await
    }

    async fn publish_outbound(&self, message: OutboundMessage) -> Result<()> {
        self.inner.publish_outbound(message).await
    }

    async fn consume_outbound(&self, channel: &str) -> Result<Option<Delivery<OutboundMessage>>> {
        self.inner.consume_outbound(channel).await
    }
}

#[tokio::test(start_paused = true)]
async fn end_of_a_task_is_reported_once_the_bus_can_be_reached() {
    let model = spawning_model(|_| ModelEvent::Text("All quiet.".into()));
    let bus = InProcessBus::default();
    let unreachable = Unreachable {
        inner: bus.clone(),
        remaining_errors: AtomicUsize::new(3),
    };
    let gateway = Gateway::builder(AgentBuilder::new(model)).bus(unreachable);
    let gateway = gateway.build().unwrap();
    run_with(&gateway, async {
        write(&bus, "m1", "Go").await;
        assert_eq!(
            read_text(&bus).await,
            "Spawned subagent 'scout' for task: Look"
        );
        let notice = read_text(&bus).await;
        assert_eq!(notice, "Task 'scout' completed.\n\nResult:\nAll quiet.");
        read_none(&bus).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn task_spends_the_budget_of_the_run_that_spawned_it() {
    let subagent_calls = Arc::new(AtomicUsize::new(0));
    let count = subagent_calls.clone();
    let model = FunctionModel::stream(move |request: ModelRequest| {
        let event = if is_subagent(&request) {
            let number = count.fetch_add(1, Ordering::Relaxed);
            ModelEvent::ToolCall(ToolCall::new(format!("nap_{number}"), "nap", json!({})))
        } else if request.messages.len() == 1 {
            call("spawn", json!({"task": "Look", "label": "scout"}))
        } else {
            ModelEvent::Text("ok".into())
        };
        let reason = match event {
            ModelEvent::ToolCall(_) => StopReason::ToolUse,
            _ => StopReason::EndTurn,
        };
        let usage = ModelEvent::Usage(Usage::new(1_000, 10));
        let events = [Ok(event), Ok(usage), Ok(ModelEvent::stop(reason))];
        async { Ok(futures::stream::iter(events).boxed()) }
    });
    let bus = InProcessBus::default();
    // The budget is enough for two calls of the conversation and three of the task.
    let agent = AgentBuilder::new(model).tool(nap()).max_total_tokens(5_050);
    let gateway = Gateway::builder(agent).bus(bus.clone()).max_tokens(10);
    let gateway = gateway.build().unwrap();
    run_with(&gateway, async {
        write(&bus, "m1", "Go").await;
        assert_eq!(read_text(&bus).await, "ok");
        let notice = read_text(&bus).await;
        assert!(notice.starts_with("Task 'scout' failed."), "{notice}");
        assert!(notice.contains("budget"), "{notice}");
        read_none(&bus).await;
    })
    .await;
    let count = subagent_calls.load(Ordering::Relaxed);
    assert!((1..=3).contains(&count), "{count} calls");
}

struct AskFor(&'static str);

#[async_trait]
impl PermissionGate for AskFor {
    async fn check(&self, request: &GateRequest) -> Result<ToolDecision> {
        if *request.call.name == *self.0 {
            return Ok(ToolDecision::ask(format!("May {} run?", self.0)));
        }
        Ok(ToolDecision::allow())
    }
}

/// Returns a gateway whose tasks ask before they `deploy`, its bus, and the number of deployments.
fn gateway_that_asks(store: &ThreadStore) -> (Gateway, InProcessBus, Arc<AtomicUsize>) {
    let (builder, bus, deployments) = builder_that_asks(store, "spawn");
    (builder.build().unwrap(), bus, deployments)
}

/// The builder for [`gateway_that_asks`], with `starter` as the tool that starts subagents.
fn builder_that_asks(
    store: &ThreadStore,
    starter: &'static str,
) -> (GatewayBuilder, InProcessBus, Arc<AtomicUsize>) {
    builder_of(starting_model(starter, deploying), store)
}

/// Returns the next event of a subagent that deploys.
fn deploying(request: &ModelRequest) -> ModelEvent {
    match request.messages.len() {
        1 => call("deploy", json!({})),
        _ => ModelEvent::Text(format!("It is {}.", request.messages.last_content())),
    }
}

/// Returns the builder of a gateway of `model` that asks before it deploys.
fn builder_of(
    model: FunctionModel,
    store: &ThreadStore,
) -> (GatewayBuilder, InProcessBus, Arc<AtomicUsize>) {
    let deployments = Arc::new(AtomicUsize::new(0));
    let count = deployments.clone();
    let deploy = FuncTool::new(
        "deploy",
        "Deploys",
        json!({"type": "object"}),
        move |_cx, _args| {
            count.fetch_add(1, Ordering::Relaxed);
            async { "deployed" }
        },
    );
    let bus = InProcessBus::default();
    let agent = AgentBuilder::new(model)
        .tool(deploy)
        .permissions(AskFor("deploy"))
        .store(store.clone());
    (Gateway::builder(agent).bus(bus.clone()), bus, deployments)
}

#[tokio::test(start_paused = true)]
async fn question_of_a_task_is_answered_while_it_waits() {
    let (gateway, bus, deployments) = gateway_that_asks(&ThreadStore::new());
    run_with(&gateway, async {
        write(&bus, "m1", "Go").await;
        let mut texts = [read_text(&bus).await, read_text(&bus).await];
        texts.sort();
        assert!(texts[0].starts_with("May deploy run?"), "{texts:?}");
        write(&bus, "m2", "yes").await;
        let notice = read_text(&bus).await;
        assert_eq!(
            notice,
            "Task 'scout' completed.\n\nResult:\nIt is deployed."
        );
        read_none(&bus).await;
    })
    .await;
    assert_eq!(deployments.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn late_answer_to_a_task_continues_it_and_is_no_input() {
    let store = ThreadStore::new();
    let (gateway, bus, deployments) = gateway_that_asks(&store);
    run_with(&gateway, async {
        write(&bus, "m1", "Go").await;
        for _ in 0..2 {
            read(&bus).await;
        }
        sleep(Duration::from_secs(301)).await;
        // The task waits: it has neither ended nor failed.
        read_none(&bus).await;
        // Only the person who was asked can answer.
        write_as(&bus, "1", "bob", "m2", "yes").await;
        let reply = read(&bus).await;
        assert_eq!(&*reply.id, "m2:reply");
        assert_eq!(deployments.load(Ordering::Relaxed), 0);
        read(&bus).await;

        write(&bus, "m3", "yes").await;
        let notice = read_text(&bus).await;
        assert_eq!(
            notice,
            "Task 'scout' completed.\n\nResult:\nIt is deployed."
        );
        read_none(&bus).await;
    })
    .await;
    assert_eq!(deployments.load(Ordering::Relaxed), 1);
    let messages = store.get("tg:1").unwrap().messages;
    assert_eq!(messages.user_messages().count(), 2);

    // The answer is delivered again, to another process.
    let (gateway, bus, deployments) = gateway_that_asks(&store);
    run_with(&gateway, async {
        write(&bus, "m3", "yes").await;
        read_none(&bus).await;
    })
    .await;
    assert_eq!(deployments.load(Ordering::Relaxed), 0);
    let messages = store.get("tg:1").unwrap().messages;
    assert_eq!(messages.user_messages().count(), 2);
}

#[tokio::test(start_paused = true)]
async fn task_that_waits_for_a_late_answer_leaves_its_place_to_others() {
    let store = ThreadStore::new();
    let (builder, bus, deployments) = builder_that_asks(&store, "spawn");
    let gateway = builder.max_tasks(1).build().unwrap();
    run_with(&gateway, async {
        for chat in ["1", "2"] {
            write_as(&bus, chat, "u1", chat, "Go").await;
            let mut texts = [read_text(&bus).await, read_text(&bus).await];
            texts.sort();
            assert!(texts[0].starts_with("May deploy run?"), "{texts:?}");
            assert!(
                texts[1].starts_with("Spawned subagent 'scout'"),
                "{texts:?}"
            );
            if chat == "1" {
                sleep(Duration::from_secs(301)).await;
            }
        }
        // The task of chat 2 is in progress, and that of chat 1 continues after it.
        for chat in ["2", "1"] {
            write_as(&bus, chat, "u1", &format!("{chat}-yes"), "yes").await;
            let notice = read(&bus).await;
            assert_eq!(&*notice.chat_id, chat);
            assert!(
                notice.content.ends_with("It is deployed."),
                "{}",
                notice.content
            );
        }
    })
    .await;
    assert_eq!(deployments.load(Ordering::Relaxed), 2);
}

#[tokio::test(start_paused = true)]
async fn late_choice_reaches_the_task_that_asked() {
    let store = ThreadStore::new();
    let model = spawning_model(|request| match request.messages.len() {
        1 => {
            let options = [json!({"label": "JSON"}), json!({"label": "YAML"})];
            let question = json!({"question": "Which?", "header": "Format", "options": options});
            call("AskUserQuestion", json!({"questions": [question]}))
        }
        _ => ModelEvent::Text(format!("It is {}.", request.messages.last_content())),
    });
    let bus = InProcessBus::default();
    let agent = AgentBuilder::new(model).store(store.clone());
    let gateway = Gateway::builder(agent).bus(bus.clone()).build().unwrap();
    run_with(&gateway, async {
        write(&bus, "m1", "Go").await;
        let mut texts = [read_text(&bus).await, read_text(&bus).await];
        texts.sort();
        assert!(texts[1].starts_with("Which?"), "{texts:?}");
        sleep(Duration::from_secs(301)).await;
        write(&bus, "m2", "2").await;
        let notice = read_text(&bus).await;
        assert_eq!(notice, "Task 'scout' completed.\n\nResult:\nIt is YAML.");
        read_none(&bus).await;
    })
    .await;
    let messages = store.get("tg:1").unwrap().messages;
    assert_eq!(messages.user_messages().count(), 1);
}

#[tokio::test(start_paused = true)]
async fn tasks_of_a_turn_without_history_wait_for_late_answers_until_the_last_has_ended() {
    let store = ThreadStore::new();
    let model = FunctionModel::new(|request| {
        let events = if is_subagent(&request) {
            vec![deploying(&request)]
        } else if request.messages.len() == 1 {
            let spawn = |label: &str| {
                let args = json!({"task": "Look", "label": label});
                ModelEvent::ToolCall(ToolCall::new(format!("call_{label}"), "spawn", args))
            };
            vec![spawn("one"), spawn("two")]
        } else {
            vec![ModelEvent::Text("ok".into())]
        };
        events.into_iter().map(Ok).collect()
    });
    let (builder, bus, deployments) = builder_of(model, &store);
    let gateway = builder.build().unwrap();
    run_with(&gateway, async {
        let options = ProcessOptions::new("tg:1", "tg", "1", "Go").with_sender("u1");
        let reply = gateway.run_agent_loop(options.without_history()).await;
        assert_eq!(reply.unwrap(), "ok");
        for _ in 0..2 {
            assert!(read_text(&bus).await.starts_with("May deploy run?"));
        }
        sleep(Duration::from_secs(301)).await;
        for id in ["m1", "m2"] {
            write(&bus, id, "yes").await;
            let notice = read_text(&bus).await;
            assert!(notice.ends_with("It is deployed."), "{notice}");
        }
        read_none(&bus).await;
    })
    .await;
    assert_eq!(deployments.load(Ordering::Relaxed), 2);
    let sessions = store.list().await.unwrap();
    let ids: Vec<&str> = sessions.iter().map(|info| &*info.id).collect();
    assert_eq!(ids, ["tg:1"]);
}

#[tokio::test(start_paused = true)]
async fn message_from_before_the_question_of_a_task_is_no_answer_to_it() {
    let (builder, bus, deployments) = builder_that_asks(&ThreadStore::new(), "spawn");
    let gateway = builder.build().unwrap();
    run_with(&gateway, async {
        write(&bus, "m1", "Go").await;
        for _ in 0..2 {
            read(&bus).await;
        }
        sleep(Duration::from_secs(301)).await;
        let mut early = InboundMessage::new("tg", "1", "u1", "yes").with_id("m2");
        early.published_at_us = Some(1);
        bus.publish_inbound(early).await.unwrap();
        let reply = read(&bus).await;
        assert_eq!(&*reply.id, "m2:reply");
    })
    .await;
    assert_eq!(deployments.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn run_ends_with_the_bus_although_a_task_asks() {
    let (gateway, bus, _) = gateway_that_asks(&ThreadStore::new());
    let chat = async {
        write(&bus, "m1", "Go").await;
        for _ in 0..2 {
            read(&bus).await;
        }
        bus.close();
    };
    let both = async { tokio::join!(gateway.run(), chat) };
    let limit = Duration::from_secs(301);
    let (outcome, ()) = tokio::time::timeout(limit, both).await.expect("it ends");
    outcome.unwrap();
}

#[tokio::test(start_paused = true)]
async fn question_of_a_subagent_that_is_not_answered_in_time_is_denied() {
    let store = ThreadStore::new();
    let (builder, bus, deployments) = builder_that_asks(&store, "subagent");
    let gateway = builder.build().unwrap();
    run_with(&gateway, async {
        write(&bus, "m1", "Go").await;
        assert!(read_text(&bus).await.starts_with("May deploy run?"));
        let reply = read(&bus).await;
        assert_eq!(&*reply.id, "m1:reply");
        assert!(
            reply.content.contains("cannot be answered"),
            "{}",
            reply.content
        );
    })
    .await;
    assert_eq!(deployments.load(Ordering::Relaxed), 0);
    assert!(store.get("tg:1").unwrap().pending.is_empty());
}
