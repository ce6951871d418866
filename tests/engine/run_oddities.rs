//! Runs with unusual models, tools, hooks and callers, none of which may spoil a session.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentcore::message::ProviderBlock;
use agentcore::model::Compaction;
use agentcore::testing::{FunctionModel, ScriptedModel, Step, StrictModel};
use agentcore::tool::TaskOutcome;
use agentcore::{
    AgentBuilder, AgentState, Content, Decision, Error, ErrorKind, ExitReason, FuncTool, Message,
    Messages, ModelEvent, OnUnanswered, Part, RunContext, SdkMessage, StopDecision, StopReason,
    ThreadStore, ToolCall, ToolDecision, hook,
};
use futures::StreamExt;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::time::Instant;

fn returning(content: Content) -> FuncTool {
    FuncTool::new("look", "Looks", json!({"type": "object"}), move |_, _| {
        let content = content.clone();
        async move { content }
    })
}

fn thinking() -> ProviderBlock {
    let raw = RawValue::from_string(r#"{"thinking":"hm"}"#.into()).unwrap();
    ProviderBlock::new("scripted", raw)
}

fn warnings(messages: &[SdkMessage]) -> Vec<String> {
    messages
        .iter()
        .map(|message| serde_json::to_value(message).unwrap())
        .filter(|value| value["subtype"] == "informational")
        .map(|value| value["content"].as_str().unwrap_or_default().to_owned())
        .collect()
}

#[tokio::test]
async fn result_without_allowed_content_is_filled() {
    let call = Part::ToolCall(ToolCall::new("inner", "look", json!({})));
    for (returned, kept) in [
        (Content::from(" \n"), "(no output)"),
        (
            Content::from(vec![call, Part::Thinking(thinking())]),
            "(no output)",
        ),
        (
            Content::from(vec![Part::text(""), Part::text("seen")]),
            "seen",
        ),
    ] {
        let model = StrictModel::new(ScriptedModel::new().call("look", json!({})).say("done"));
        let agent = AgentBuilder::new(model.clone())
            .tool(returning(returned))
            .build()
            .unwrap();
        let output = agent.run("Go").await.unwrap();
        assert_eq!(output.end, ExitReason::EndTurn);
        assert_eq!(output.messages.tool_messages().last().unwrap().text(), kept);
    }
}

#[tokio::test]
async fn answer_paused_during_thinking_is_requested_again() {
    let model = ScriptedModel::new()
        .step(
            Step::new()
                .and_thinking("hm", thinking())
                .stop(StopReason::PauseTurn),
        )
        .say("done");
    let agent = AgentBuilder::new(StrictModel::new(model)).build().unwrap();
    let output = agent.run("Go").await.unwrap();
    assert_eq!(output.text, "done");
    assert_eq!(output.messages, Messages::from("Go").ai("done"));
}

#[tokio::test]
async fn steering_drops_empty_and_non_user_messages_with_warnings() {
    let model = StrictModel::new(ScriptedModel::new().call("look", json!({})).say("done"));
    let agent = AgentBuilder::new(model)
        .tool(returning("seen".into()))
        .build()
        .unwrap();
    let mut run = agent.run("Go");
    let handle = run.handle();
    for message in [
        Message::human(" "),
        Message::ai("not mine"),
        Message::tool("x", "look", "not asked for"),
        Message::human("faster"),
    ] {
        assert!(handle.steer(message));
    }

    let messages: Vec<_> = (&mut run).collect().await;
    assert_eq!(warnings(&messages).len(), 3, "{messages:?}");
    let history = run.into_output().unwrap().messages;
    assert_eq!(history.user_messages().last().unwrap().text(), "faster");
    assert_eq!(history.assistant_messages().count(), 2);
    assert_eq!(history.tool_messages().count(), 1);
}

#[tokio::test]
async fn before_stop_with_an_empty_message_is_ignored_with_a_warning() {
    let quiet = hook::before_stop("quiet", |_, _| async {
        Ok(StopDecision::continue_with(""))
    });

    let agent = AgentBuilder::new(StrictModel::new(ScriptedModel::new().say("done")))
        .hook(quiet)
        .build()
        .unwrap();
    let messages: Vec<_> = agent.run("Go").collect().await;
    assert!(warnings(&messages)[0].contains("`quiet`"), "{messages:?}");
    assert_eq!(
        messages
            .last()
            .unwrap()
            .as_result()
            .unwrap()
            .result
            .as_deref(),
        Some("done")
    );
}

#[tokio::test(start_paused = true)]
async fn interrupt_does_not_wait_for_a_before_stop_hook() {
    let slow = hook::before_stop("slow", |_, _| async {
        tokio::time::sleep(Duration::from_secs(50)).await;
        Ok(StopDecision::Stop)
    });

    let agent = AgentBuilder::new(ScriptedModel::new().say("done"))
        .hook(slow)
        .build()
        .unwrap();
    let mut run = agent.run("Go");
    let handle = run.handle();
    while !matches!(run.next().await, Some(SdkMessage::Assistant(_))) {}

    // The answer has been emitted, and the hook is running.
    assert!(futures::poll!(run.next()).is_pending());
    let start = Instant::now();
    handle.interrupt();
    let output = run.finish().await.unwrap();
    assert_eq!(output.end, ExitReason::Interrupted);
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert_eq!(output.messages, Messages::from("Go").ai("done"));
}

#[tokio::test(start_paused = true)]
async fn text_of_a_failed_attempt_is_not_kept_by_an_interrupt_in_a_later_turn() {
    let broken = vec![
        Ok(ModelEvent::Start(Box::default())),
        Ok(ModelEvent::Text("void".into())),
        Err(Error::new(ErrorKind::StreamTruncated, "cut")),
    ];
    let model = ScriptedModel::new()
        .events(broken)
        .call("look", json!({}))
        .hang();
    let agent = AgentBuilder::new(model)
        .tool(returning("seen".into()))
        .build()
        .unwrap();
    let mut run = agent.run("Go");
    let handle = run.handle();
    while !matches!(run.next().await, Some(SdkMessage::User(_))) {}
    assert!(futures::poll!(run.next()).is_pending());
    handle.interrupt();
    let output = run.finish().await.unwrap();
    assert_eq!(output.end, ExitReason::Interrupted);
    assert_eq!(output.messages.len(), 3, "{}", output.messages);
    assert_eq!(output.messages.last_content(), "seen");
}

#[tokio::test]
async fn summary_boundary_is_moved_before_an_open_call() {
    let store = ThreadStore::new();
    let mut state = AgentState::new("s");
    state.messages = Messages::from("Hi")
        .ai_calling("", [ToolCall::new("a", "look", json!({}))])
        .tool("a", "look", "seen");
    state.compaction = Some(Compaction::new("before", 2));
    store.save("s", state);
    let requests = Arc::new(Mutex::new(Vec::new()));
    let seen = requests.clone();
    let model = StrictModel::new(FunctionModel::text(move |request| {
        seen.lock().unwrap().push(request.messages.len());
        "done".into()
    }));

    let agent = AgentBuilder::new(model).store(store).build().unwrap();
    let output = agent.session("s").run("Go").await.unwrap();
    assert_eq!(output.end, ExitReason::EndTurn);

    // The request has a summary, the call, its result, and the input.
    assert_eq!(*requests.lock().unwrap(), [4]);
}

#[tokio::test]
async fn call_id_in_the_input_is_not_reused_for_model_calls() {
    let call = || ToolCall::new("a", "look", json!({}));
    let model = StrictModel::new(
        ScriptedModel::new()
            .step(Step::new().and_tool_call(call()))
            .say("done"),
    );
    let agent = AgentBuilder::new(model)
        .tool(returning("seen".into()))
        .build()
        .unwrap();
    let input = Messages::from("Hi")
        .ai_calling("", [call()])
        .tool("a", "look", "seen")
        .human("Again");
    let messages: Vec<_> = agent.run(input).collect().await;
    assert!(warnings(&messages).is_empty(), "{messages:?}");
}

#[tokio::test]
async fn background_task_spawned_after_the_run_is_dropped() {
    let context = Arc::new(Mutex::new(None::<RunContext>));
    let slot = context.clone();
    let keep = hook::before_agent("keep", move |cx, state| {
        *slot.lock().unwrap() = Some(cx);
        async { Ok(state) }
    });

    let agent = AgentBuilder::new(ScriptedModel::new().say("done"))
        .hook(keep)
        .build()
        .unwrap();
    agent.run("Go").await.unwrap();
    let cx = context.lock().unwrap().take().unwrap();
    let token = Arc::new(());
    let (held, own) = (token.clone(), cx.clone());
    cx.tasks().spawn("late", async move {
        let _held = (held, own);
        TaskOutcome::Completed(String::new())
    });

    assert!(cx.tasks().is_empty());
    assert_eq!(Arc::strong_count(&token), 1);
}

#[tokio::test]
async fn approved_call_that_ran_keeps_its_result_when_the_run_is_dropped() {
    let does = FuncTool::new("do", "Does", json!({"type": "object"}), |_, _| async {
        "done"
    });

    let hangs = FuncTool::new("wait", "Waits", json!({"type": "object"}), |_, _| async {
        std::future::pending::<()>().await;
    });

    let ask = hook::pre_tool_use("ask", |_, _| async { Ok(ToolDecision::ask("may it?")) });
    let step = Step::new()
        .and_call("do", json!({}))
        .and_call("wait", json!({}));
    let agent = AgentBuilder::new(ScriptedModel::new().step(step).say("done"))
        .tool(does)
        .tool(hangs)
        .hook(ask)
        .unanswered(OnUnanswered::Park)
        .build()
        .unwrap();
    let parked = agent.session("s").run("Go").await.unwrap();
    assert_eq!(parked.end, ExitReason::AwaitingApproval);
    let allowed: Vec<_> = parked.state.pending.iter().map(Decision::allow).collect();
    let mut run = agent.session("s").resume(allowed);

    // The first call has run, and the second one is in progress.
    while let std::task::Poll::Ready(message) = futures::poll!(run.next()) {
        assert!(message.is_some());
    }

    drop(run);
    let output = agent.session("s").run("And?").await.unwrap();
    let results: Vec<_> = output.messages.tool_messages().map(|m| m.text()).collect();
    assert_eq!(results[0], "done");
    assert!(results[1].contains("may have run"), "{results:?}");
}

#[tokio::test]
async fn refusal_keeps_results_of_approved_calls() {
    let ask = hook::pre_tool_use("ask", |_, _| async { Ok(ToolDecision::ask("may it?")) });
    let model = ScriptedModel::new()
        .call("look", json!({}))
        .step(Step::text("I will not.").stop(StopReason::Refusal));
    let agent = AgentBuilder::new(model)
        .tool(returning("seen".into()))
        .hook(ask)
        .unanswered(OnUnanswered::Park)
        .build()
        .unwrap();
    let parked = agent.session("s").run("Go").await.unwrap();
    let allowed: Vec<_> = parked.state.pending.iter().map(Decision::allow).collect();
    let resumed = agent.session("s").resume(allowed).await.unwrap();
    assert_eq!(resumed.end, ExitReason::Refused);
    assert_eq!(resumed.messages.last_content(), "seen");
}
