//! Control of a run from outside: interrupts, steering, another model, repeated inputs.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use agentcore::agent::RetryPolicy;
use agentcore::testing::{ScriptedModel, Step, StrictModel};
use agentcore::{
    AgentBuilder, Error, ErrorKind, ExitReason, FuncTool, ModelEvent, PermissionMode, Role,
    RunHandle, SdkMessage, hook,
};
use serde_json::json;

use crate::kit::{
    Gate, Log, agent, echo, kinds, logged, result_texts, roles, sleep, stored, stuck, watch,
};

fn after(seconds: u64, handle: RunHandle, act: impl FnOnce(RunHandle) + Send + 'static) {
    tokio::spawn(async move {
        sleep(seconds).await;
        act(handle);
    });
}

#[tokio::test(start_paused = true)]
async fn interrupt_during_a_model_call_keeps_the_partial_answer() {
    for keep in [true, false] {
        let model = ScriptedModel::new()
            .step(Step::text("Once upon a").then_hang())
            .say("Good.");
        let agent = agent(StrictModel::new(model))
            .keep_interrupted(keep)
            .build()
            .unwrap();
        let run = agent.session("s").run("Tell");
        after(1, run.handle(), |handle| handle.interrupt());
        let (messages, output) = watch(run).await;
        let output = output.unwrap();
        assert_eq!(output.end, ExitReason::Interrupted);
        assert_eq!(output.text, if keep { "Once upon a" } else { "" });
        let expected = if keep { "user assistant" } else { "user" };
        assert_eq!(roles(&stored(&agent, "s").await), expected);
        let aborted = messages
            .iter()
            .any(|message| matches!(message, SdkMessage::Assistant(event) if event.aborted));
        assert_eq!(aborted, keep);
        agent.session("s").run("Again").await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn text_of_a_failed_attempt_is_not_kept_after_an_interrupt() {
    let truncated = || Err(Error::new(ErrorKind::StreamTruncated, "cut"));
    let model = ScriptedModel::new()
        .events(vec![Ok(ModelEvent::Text("stale".into())), truncated()])
        .call("echo", json!({"text": "x"}))
        .hang();
    let agent = agent(model).tool(echo()).build().unwrap();
    let run = agent.run("Go");
    after(600, run.handle(), |handle| handle.interrupt());
    let output = run.await.unwrap();
    assert_eq!(output.end, ExitReason::Interrupted);
    assert_eq!(roles(&output.messages), "user assistant tool");
}

#[tokio::test(start_paused = true)]
async fn interrupt_during_tool_calls_keeps_finished_results() {
    let log = Log::default();
    let model = ScriptedModel::new()
        .calls([
            ("echo", json!({"text": "quick"})),
            ("stuck", json!({})),
            ("alone", json!({})),
        ])
        .say("Good.");
    let agent = agent(StrictModel::new(model))
        .tools([echo(), stuck(), logged("alone", &log).exclusive()])
        .build()
        .unwrap();
    let run = agent.session("s").run("Go");
    after(1, run.handle(), |handle| handle.interrupt());
    let (messages, output) = watch(run).await;
    let output = output.unwrap();
    assert_eq!(output.end, ExitReason::Interrupted);
    let texts = result_texts(&output.messages);
    assert_eq!(texts[0], "quick");
    assert!(texts[1].contains("may have had an effect"), "{}", texts[1]);
    assert!(texts[2].contains("did not run"), "{}", texts[2]);
    assert_eq!(log.len(), 0);
    let result = messages.last().unwrap().as_result().unwrap();
    assert_eq!(result.terminal_reason.as_deref(), Some("aborted_tools"));
    agent.session("s").run("Again").await.unwrap();
}

#[tokio::test]
async fn run_stopped_before_its_first_poll_stores_nothing() {
    let agent = agent(ScriptedModel::new()).build().unwrap();
    let run = agent.session("s").run("Go");
    run.handle().abort();
    run.handle().interrupt();
    let (messages, output) = watch(run).await;
    assert_eq!(
        output.unwrap().end,
        ExitReason::Aborted,
        "the stronger wins"
    );
    assert_eq!(
        kinds(&messages),
        ["system/init", "result/error_during_execution"]
    );
    assert!(agent.session("s").state().await.unwrap().is_none());
}

#[tokio::test]
async fn interrupt_between_turns_keeps_the_tool_results() {
    let agent = agent(ScriptedModel::new().call("echo", json!({"text": "x"})))
        .tool(echo())
        .build()
        .unwrap();
    let mut run = agent.run("Go");
    let handle = run.handle();
    while let Some(message) = run.next().await {
        if matches!(message, SdkMessage::User(_)) {
            handle.interrupt();
        }
    }

    handle.interrupt();
    assert_eq!(handle.exit_reason(), Some(ExitReason::Interrupted));
    let output = run.into_output().unwrap();
    assert_eq!(result_texts(&output.messages), ["x"]);
}

#[tokio::test]
async fn steering_message_is_sent_with_the_next_turn() {
    let model = ScriptedModel::new()
        .call("echo", json!({"text": "x"}))
        .expect(|request| assert_eq!(request.messages.last_content(), "Stop that"))
        .say("Stopped.");
    let agent = agent(StrictModel::new(model)).tool(echo()).build().unwrap();
    let mut run = agent.run("Go");
    let handle = run.handle();
    while let Some(message) = run.next().await {
        if matches!(message, SdkMessage::User(_)) && handle.turn_count() == 1 {
            handle.steer("Stop that");
        }
    }

    assert!(!handle.steer("too late"));
    let output = run.into_output().unwrap();
    assert_eq!(
        roles(&output.messages),
        "user assistant tool user assistant"
    );
}

#[tokio::test]
async fn messages_over_the_limits_of_a_turn_are_not_accepted() {
    let slot = Arc::new(OnceLock::<RunHandle>::new());
    let handle = slot.clone();
    let tool = FuncTool::new(
        "act",
        "Acts",
        json!({"type": "object"}),
        move |_cx, _args| {
            let handle = handle.get().unwrap();
            let accepted = (0..300).filter(|_| handle.steer("More")).count();
            async move { accepted.to_string() }
        },
    );
    let large_text = "a".repeat(9 << 20);
    let handle = slot.clone();
    let large = FuncTool::new(
        "fill",
        "Fills",
        json!({"type": "object"}),
        move |_cx, _args| {
            let handle = handle.get().unwrap();
            let accepted = (0..4).filter(|_| handle.steer(large_text.clone())).count();
            async move { accepted.to_string() }
        },
    );
    let model = ScriptedModel::new()
        .call("act", json!({}))
        .call("fill", json!({}))
        .say("Done.");
    let agent = AgentBuilder::new(model).tool(tool).tool(large);
    let agent = agent.build().unwrap();
    let run = agent.session("s").run("Go");
    slot.set(run.handle()).unwrap();
    let output = run.await.unwrap();
    let results = output.messages.by_role(Role::Tool);
    let results: Vec<_> = results.map(|result| result.text()).collect();
    assert_eq!(results, ["256", "2"]);
    assert_eq!(output.messages.user_messages().count(), 1 + 256 + 2);
}

#[tokio::test]
async fn steering_while_the_run_ends_is_rejected() {
    let slot = Arc::new(OnceLock::<RunHandle>::new());
    let late = hook::after_agent_with("late", slot.clone(), |slot, _cx, state| async move {
        assert!(
            !slot.get().unwrap().steer("Wait"),
            "no later turn would read it"
        );
        Ok(state)
    });

    let agent = agent(ScriptedModel::new().say("a"))
        .hook(late)
        .build()
        .unwrap();
    let run = agent.run("Go");
    slot.set(run.handle()).unwrap();
    let (messages, _) = watch(run).await;
    assert_eq!(crate::kit::warnings(&messages), [""; 0]);
}

#[tokio::test]
async fn set_model_takes_effect_in_the_next_turn() {
    let first = ScriptedModel::new().call("echo", json!({"text": "x"}));
    let second = ScriptedModel::new().with_id("other:model").say("done");
    let agent = agent(first).tool(echo()).build().unwrap();
    let mut run = agent.run("Go");
    let handle = run.handle();
    while let Some(message) = run.next().await {
        if matches!(message, SdkMessage::Assistant(_)) {
            handle.set_model(second.clone());
        }
    }

    let names: Vec<_> = handle.stats().by_model.into_keys().collect();
    assert_eq!(names, ["other:model", "scripted:model"].map(Arc::from));
}

#[tokio::test]
async fn set_permission_mode_takes_effect_at_the_next_call() {
    let seen = Log::default();
    let modes = seen.clone();
    let gate = Gate(move |request: &agentcore::tool::GateRequest| {
        modes.add(request.mode.as_str());
        agentcore::ToolDecision::allow()
    });

    let model = ScriptedModel::new()
        .calls([
            ("echo", json!({"text": "a"})),
            ("echo", json!({"text": "b"})),
        ])
        .say("done");
    let slot = Arc::new(OnceLock::<RunHandle>::new());
    let switch =
        hook::post_tool_use_with("switch", slot.clone(), |slot, _, _, result| async move {
            let handle = slot.get().unwrap();
            handle.set_permission_mode(PermissionMode::BypassPermissions);
            Ok(result)
        });
    let agent = agent(model)
        .tool(echo().exclusive())
        .hook(switch)
        .permissions(gate)
        .build()
        .unwrap();
    let run = agent.run("Go");
    slot.set(run.handle()).unwrap();
    run.await.unwrap();
    assert_eq!(seen.take(), ["default", "bypassPermissions"]);
}

#[tokio::test]
async fn input_sent_again_with_its_id_is_stored_once() {
    let model = ScriptedModel::new()
        .fail(Error::new(ErrorKind::Auth, "no key"))
        .say("Paris.");
    let agent = agent(StrictModel::new(model.clone())).build().unwrap();
    let send = || agent.session("s").input_id("i1").run("Capital of France?");
    assert!(send().await.is_err());
    let output = send().await.unwrap();
    assert_eq!(roles(&output.messages), "user assistant");
    let again = send().await.unwrap();
    assert_eq!((&*again.text, again.turns), ("Paris.", 0));
    assert_eq!(roles(&again.messages), "user assistant");
    model.assert_finished();
}

#[tokio::test(start_paused = true)]
async fn retry_emits_api_retry_and_supersedes_partial_messages() {
    let model = ScriptedModel::new()
        .events(vec![
            Ok(ModelEvent::Text("Hal".into())),
            Err(Error::new(ErrorKind::Overloaded, "busy").with_status(529)),
        ])
        .say("Hello");
    let agent = agent(model).include_partial_messages(true).build().unwrap();
    let (messages, output) = watch(agent.run("Hi")).await;
    assert_eq!(output.unwrap().text, "Hello");
    let kinds = kinds(&messages);
    let at = |kind: &str| kinds.iter().position(|other| other == kind).unwrap();
    assert!(at("system/api_retry") < at("system/stream_restart"));
    let first = serde_json::to_value(&messages[at("stream_event")]).unwrap();
    let restart = serde_json::to_value(&messages[at("system/stream_restart")]).unwrap();
    assert_eq!(restart["supersedes"], json!([first["uuid"]]));
}

#[tokio::test(start_paused = true)]
async fn permanent_errors_are_not_retried() {
    for (kind, tries) in [
        (ErrorKind::Auth, 1),
        (ErrorKind::QuotaExhausted, 1),
        (ErrorKind::Overloaded, 3),
    ] {
        let mut model = ScriptedModel::new();
        for _ in 0..tries {
            model = model.fail(Error::new(kind, "no"));
        }
        let agent = agent(model.clone())
            .retry(RetryPolicy::default().with_max_retries(2))
            .build()
            .unwrap();
        assert_eq!(agent.run("Hi").await.unwrap_err().kind(), kind);
        model.assert_finished();
    }
}

#[tokio::test(start_paused = true)]
async fn handle_of_a_running_session_waits_for_its_end() {
    let model = ScriptedModel::new()
        .say("done")
        .delayed(Duration::from_secs(5));
    let agent = agent(model).build().unwrap();
    assert!(agent.handle("s").is_none());
    let mut run = agent.session("s").run("Go");
    let ended = tokio::spawn({
        let agent = agent.clone();
        async move {
            sleep(1).await;
            agent.handle("s").unwrap().wait().await
        }
    });

    while run.next().await.is_some() {}
    assert_eq!(ended.await.unwrap(), Some(ExitReason::EndTurn));
    assert!(agent.handle("s").is_none());
}
