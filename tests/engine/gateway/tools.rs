//! The tools `message`, `spawn` and `subagent`.

use std::time::{Duration, SystemTime};

use agentcore::backend::{Backend, MemoryBackend};
use agentcore::gateway::{self, DeliveryPolicy, Gateway, InProcessBus};
use agentcore::prompt::{ContextBuilder, MemoryStore};
use agentcore::testing::{FunctionModel, ScriptedModel};
use agentcore::{
    AgentBuilder, Error, ErrorKind, ModelEvent, ModelRequest, ThreadStore, Tool, ToolCall,
    ToolContext,
};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::kit::child_session;

use super::{answer, gateway_of, golden, read, read_none, read_text, run_with, write};

async fn error_of(tool: impl Tool, args: Value) -> String {
    let outcome = tool.execute(ToolContext::detached(), args).await;
    outcome.unwrap_err().to_string()
}

#[tokio::test]
async fn calls_without_arguments_or_a_gateway_fail_with_their_texts() {
    let to = json!({"content": "hi", "channel": "tg", "chat_id": "1"});
    assert_eq!(
        error_of(gateway::message(), json!({})).await,
        "content is required"
    );
    let error = error_of(gateway::message(), json!({"content": "hi"})).await;
    assert_eq!(error, "No target channel/chat specified");
    let error = error_of(gateway::message(), to).await;
    assert_eq!(error, "Message sending not configured");
    assert_eq!(
        error_of(gateway::spawn(), json!({})).await,
        "task is required"
    );
    assert_eq!(
        error_of(gateway::subagent(), json!({"task": " "})).await,
        "task is required"
    );
}

#[tokio::test(start_paused = true)]
async fn message_takes_the_place_of_the_reply_and_goes_to_the_own_chat() {
    let model = ScriptedModel::new()
        .call("message", json!({"content": "One moment."}))
        .expect(|request| {
            assert_eq!(request.messages.last_content(), "Message sent to tg:1");
            let result = request.messages.last().unwrap().as_tool_result().unwrap();
            assert!(result.silent && !result.is_error);
        })
        .say("Sent.")
        .say("The next reply.");
    let (builder, bus) = gateway_of(model.clone());
    let gateway = builder.build().unwrap();
    run_with(&gateway, async {
        write(&bus, "m1", "Hi").await;
        let message = read(&bus).await;
        assert_eq!((&*message.chat_id, &*message.content), ("1", "One moment."));
        assert_eq!(&*message.id, "m1:call_1");
        read_none(&bus).await;
        write(&bus, "m2", "Hi again").await;
        assert_eq!(read_text(&bus).await, "The next reply.");
    })
    .await;
    model.verify().unwrap();
}

#[tokio::test(start_paused = true)]
async fn message_to_another_chat_takes_the_place_of_the_reply_unless_set() {
    for (is_enabled, expected) in [(false, None), (true, Some("Sent."))] {
        let call = json!({"content": "News", "chat_id": "2"});
        let (builder, bus) = gateway_of(ScriptedModel::new().call("message", call).say("Sent."));
        let gateway = builder
            .reply_after_message_elsewhere(is_enabled)
            .build()
            .unwrap();
        run_with(&gateway, async {
            write(&bus, "m1", "Tell them").await;
            let message = read(&bus).await;
            assert_eq!((&*message.chat_id, &*message.content), ("2", "News"));
            match expected {
                Some(text) => assert_eq!(read_text(&bus).await, text),
                None => read_none(&bus).await,
            }
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn history_decides_about_the_reply_after_a_redelivery() {
    let store = ThreadStore::new();
    let make = |model: ScriptedModel| {
        let bus = InProcessBus::default();
        let agent = AgentBuilder::new(model).store(store.clone());
        let gateway = Gateway::builder(agent).bus(bus.clone()).build().unwrap();
        (gateway, bus)
    };
    // The process ends after the message was sent and before the answer.
    let model = ScriptedModel::new()
        .call("message", json!({"content": "On it."}))
        .hang();
    let (gateway, bus) = make(model);
    let chat = async {
        write(&bus, "m1", "Hi").await;
        read(&bus).await
    };
    tokio::select! {
        outcome = gateway.run() => panic!("{outcome:?}"),
        message = chat => assert_eq!(&*message.content, "On it."),
    }
    drop(gateway);

    let (gateway, bus) = make(ScriptedModel::new().say("Done."));
    run_with(&gateway, async {
        write(&bus, "m1", "Hi").await;
        read_none(&bus).await;
    })
    .await;
    assert_eq!(store.get("tg:1").unwrap().messages.last_content(), "Done.");
}

#[tokio::test(start_paused = true)]
async fn message_to_a_channel_without_an_adapter_is_an_error_and_the_reply_is_sent() {
    let call = json!({"content": "x", "channel": "irc"});
    let model = ScriptedModel::new()
        .call("message", call)
        .expect(|request| {
            let result = request.messages.last().unwrap().as_tool_result().unwrap();
            assert!(result.is_error);
            let text = result.content.text().into_owned();
            assert!(
                text.contains(r#"unknown channel "irc". Available channels: [tg]"#),
                "{text}"
            );
        })
        .say("It did not work.");
    let (builder, bus) = gateway_of(model.clone());
    let gateway = builder.build().unwrap();
    run_with(&gateway, async {
        write(&bus, "m1", "Hi").await;
        assert_eq!(read_text(&bus).await, "It did not work.");
    })
    .await;
    model.verify().unwrap();
}

/// A model for a lead agent that calls `tool` once, and for subagents that answer with `text`.
fn lead_model(tool: &'static str, args: Value, text: String) -> FunctionModel {
    FunctionModel::stream(move |request: ModelRequest| {
        let is_subagent = request.system.to_string().contains("You are a subagent");
        let names: Vec<_> = request
            .tools
            .iter()
            .map(|tool| tool.name.to_string())
            .collect();
        let event = if is_subagent {
            assert!(
                !names
                    .iter()
                    .any(|name| name == "spawn" || name == "subagent"),
                "{names:?}"
            );
            assert!(names.iter().any(|name| name == "message"), "{names:?}");
            ModelEvent::Text(text.clone())
        } else if request.messages.len() == 1 {
            ModelEvent::ToolCall(ToolCall::new("call_1", tool, args.clone()))
        } else {
            ModelEvent::Text(request.messages.last_content().into_owned())
        };
        async move {
            if is_subagent {
                sleep(Duration::from_secs(5)).await;
            }
            Ok(answer(event))
        }
    })
}

#[tokio::test(start_paused = true)]
async fn subagent_returns_its_result_with_label_and_iterations() {
    for (args, label) in [
        (json!({"task": "Count", "label": "counter"}), "counter"),
        (json!({"task": "Count"}), "(unnamed)"),
    ] {
        let text = "x".repeat(600);
        let (builder, bus) = gateway_of(lead_model("subagent", args, text.clone()));
        let gateway = builder.build().unwrap();
        let options = gateway::ProcessOptions::new("s", "tg", "1", "Go").with_input_id("i");
        let reply = gateway
            .run_agent_loop(options.with_response_sent())
            .await
            .unwrap();
        let expected =
            format!("Subagent task completed:\nLabel: {label}\nIterations: 1\nResult: {text}");
        assert_eq!(reply, expected);
        assert_eq!(read_text(&bus).await, format!("{}...", "x".repeat(500)));
    }
}

#[tokio::test(start_paused = true)]
async fn spawned_task_outlives_the_run_and_its_end_is_sent_to_the_chat() {
    let store = ThreadStore::new();
    let bus = InProcessBus::default();
    let model = lead_model(
        "spawn",
        json!({"task": "Look", "label": "scout"}),
        "All quiet.".into(),
    );
    let agent = AgentBuilder::new(model).store(store.clone());
    let gateway = Gateway::builder(agent).bus(bus.clone()).build().unwrap();
    run_with(&gateway, async {
        write(&bus, "m1", "Go").await;
        assert_eq!(read_text(&bus).await, golden("spawned.txt"));
        assert_eq!(gateway.active_sessions(), 0);
        let notice = read(&bus).await;
        assert_eq!(&*notice.chat_id, "1");
        assert_eq!(*notice.content, golden("finished_task.txt"));
        read_none(&bus).await;
    })
    .await;
    let child_id = child_session(&store, "tg:1:sub:spawn:call_1").await;
    assert_eq!(
        store.get(&child_id).unwrap().parent.as_deref(),
        Some("tg:1")
    );
    assert_eq!(store.get("tg:1").unwrap().messages.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn end_of_a_task_is_an_input_of_its_conversation_if_set() {
    let store = ThreadStore::new();
    let bus = InProcessBus::default();
    let model = lead_model("spawn", json!({"task": "Look"}), "All quiet.".into());
    let agent = AgentBuilder::new(model).store(store.clone());
    let builder = Gateway::builder(agent).bus(bus.clone());
    let gateway = builder
        .delivery(DeliveryPolicy::HandToAgent)
        .build()
        .unwrap();
    run_with(&gateway, async {
        write(&bus, "m1", "Go").await;
        assert_eq!(read_text(&bus).await, golden("spawned_without_label.txt"));
        // The model repeats its input.
        let text = "Task 'subagent-1' completed.\n\nResult:\nAll quiet.";
        assert_eq!(read_text(&bus).await, text);
    })
    .await;
    let state = store.get("tg:1").unwrap();
    assert_eq!(state.messages.len(), 6);
    assert_eq!(state.user_id.as_deref(), Some("u1"));
}

#[tokio::test(start_paused = true)]
async fn task_that_sent_a_message_is_not_announced() {
    let model = FunctionModel::new(|request| {
        let is_subagent = request.system.to_string().contains("You are a subagent");
        vec![Ok(match (is_subagent, request.messages.len()) {
            (false, 1) => call("spawn", json!({"task": "Look"})),
            (true, 1) => call("message", json!({"content": "Found it."})),
            _ => ModelEvent::Text("ok".into()),
        })]
    });
    let (builder, bus) = gateway_of(model);
    let gateway = builder.build().unwrap();
    run_with(&gateway, async {
        write(&bus, "m1", "Go").await;
        let mut texts = [read_text(&bus).await, read_text(&bus).await];
        texts.sort();
        assert_eq!(texts, ["Found it.", "ok"]);
        read_none(&bus).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn messages_of_two_heartbeats_whose_calls_have_one_id_are_both_sent() {
    let model = FunctionModel::new(|request| {
        vec![Ok(match request.messages.len() {
            1 => call("message", json!({"content": "News"})),
            _ => ModelEvent::Text("ok".into()),
        })]
    });
    let (builder, bus) = gateway_of(model);
    let gateway = builder.build().unwrap();
    for _ in 0..2 {
        gateway.process_heartbeat("Look", "tg", "1").await.unwrap();
        let message = tokio::time::timeout(Duration::from_secs(60), read_text(&bus)).await;
        assert_eq!(message.expect("a message arrives"), "News");
    }
}

fn call(name: &str, args: Value) -> ModelEvent {
    ModelEvent::ToolCall(ToolCall::new(format!("call_{name}"), name, args))
}

#[tokio::test(start_paused = true)]
async fn result_of_a_subagent_has_its_form() {
    for (args, name) in [
        (json!({"task": "Count", "label": "counter"}), "subagent.txt"),
        (json!({"task": "Count"}), "subagent_without_label.txt"),
    ] {
        let (builder, _bus) = gateway_of(lead_model("subagent", args, "Three.".into()));
        let gateway = builder.build().unwrap();
        assert_eq!(
            gateway.process_direct("Go", "s").await.unwrap(),
            golden(name)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn task_that_fails_is_reported_as_failed() {
    let model = FunctionModel::stream(|request: ModelRequest| async move {
        if request.system.to_string().contains("You are a subagent") {
            return Err(Error::new(ErrorKind::InvalidRequest, "no network"));
        }
        Ok(answer(match request.messages.len() {
            1 => call("spawn", json!({"task": "Look", "label": "scout"})),
            _ => ModelEvent::Text("ok".into()),
        }))
    });
    let (builder, bus) = gateway_of(model);
    let gateway = builder.build().unwrap();
    run_with(&gateway, async {
        write(&bus, "m1", "Go").await;
        let mut texts = [read_text(&bus).await, read_text(&bus).await];
        texts.sort();
        assert_eq!(texts, [golden("failed_task.txt"), "ok".to_owned()]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn message_to_a_channel_that_the_program_names_is_sent() {
    let call = json!({"content": "News", "channel": "irc", "chat_id": "#all"});
    let (builder, bus) = gateway_of(ScriptedModel::new().call("message", call).say("Sent."));
    let gateway = builder.channels(["irc"]).build().unwrap();
    run_with(&gateway, async {
        use agentcore::gateway::MessageBus;
        write(&bus, "m1", "Tell them").await;
        let delivery = bus.consume_outbound("irc").await.unwrap().unwrap();
        let message = &delivery.message;
        assert_eq!((&*message.chat_id, &*message.content), ("#all", "News"));
        delivery.ack().await.unwrap();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn memory_tools_write_to_the_memory_of_the_prompt() {
    let workspace = MemoryBackend::new();
    // 2026-02-01 09:00 in UTC.
    let morning = || SystemTime::UNIX_EPOCH + Duration::from_secs(1_769_936_400);
    let memory = MemoryStore::new(workspace.clone()).with_clock(morning);
    let memory = memory.with_zone("UTC").unwrap();
    let context = ContextBuilder::new(workspace.clone()).memory(&memory);
    let model = ScriptedModel::new()
        .call("append_daily_note", json!({"content": "Fixed the parser."}))
        .say("Noted.")
        .expect(|request| {
            let system = request.system.to_string();
            assert!(system.contains("Fixed the parser."), "{system}");
        })
        .say("The parser.");
    let (builder, _bus) = gateway_of(model.clone());
    let gateway = builder.workspace(workspace.clone()).context(context);
    let gateway = gateway.build().unwrap();
    gateway.process_direct("Note it", "s").await.unwrap();
    gateway
        .process_direct("What was fixed?", "s")
        .await
        .unwrap();
    let note = workspace.read("memory/202602/20260201.md").await.unwrap();
    assert!(note.ends_with(b"Fixed the parser."), "{note:?}");
    model.verify().unwrap();
}

#[cfg(feature = "web")]
#[tokio::test]
async fn search_provider_adds_the_tool_web_search() {
    use agentcore::tools::web::DuckDuckGo;

    let (builder, _bus) = gateway_of(ScriptedModel::new());
    let gateway = builder.search(DuckDuckGo::new()).build().unwrap();
    let tools = gateway.startup_info().await.tools;
    assert!(tools.contains(&"web_search".to_owned()), "{tools:?}");
}
