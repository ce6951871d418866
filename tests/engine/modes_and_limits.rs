//! Permission modes without a gate, and the limits of a run other than turns.

use agentcore::model::{ModelProfile, Prices};
use agentcore::sdk::{Level, SystemKind};
use agentcore::testing::{FunctionModel, ScriptedModel};
use agentcore::tool::{GateRequest, SideEffect};
use agentcore::{
    ErrorKind, ExitReason, FuncTool, PermissionMode, RunContext, ToolDecision, ToolRegistry, Usage,
    hook,
};
use futures::StreamExt;
use serde_json::json;
use std::sync::{Arc, Mutex};

use crate::kit::{Gate, Log, agent, any_object, echo, logged, result_texts};

fn looking() -> FuncTool {
    FuncTool::new("look", "Looks", any_object(), |_, _| async { "seen" })
        .side_effect(SideEffect::ReadOnly)
}

#[tokio::test]
async fn plan_mode_denies_mutating_tools_without_a_gate() {
    let log = Log::default();
    let model = ScriptedModel::new()
        .calls([("act", json!({})), ("look", json!({}))])
        .say("planned");
    let agent = agent(model)
        .tools([logged("act", &log), looking()])
        .permission_mode(PermissionMode::Plan)
        .build()
        .unwrap();
    let output = agent.run("Go").await.unwrap();
    assert_eq!(log.take(), Vec::<String>::new());
    let texts = result_texts(&output.messages);
    assert!(texts[0].contains("plan mode"), "{texts:?}");
    assert_eq!(texts[1], "seen");
    assert_eq!(output.permission_denials.len(), 1);
}

#[tokio::test]
async fn dont_ask_mode_denies_calls_that_need_an_answer() {
    let agent = agent(
        ScriptedModel::new()
            .call("echo", json!({"text": "x"}))
            .say("ok"),
    )
    .tool(echo())
    .permissions(Gate(|_: &GateRequest| ToolDecision::ask("sure?")))
    .permission_mode(PermissionMode::DontAsk)
    .build()
    .unwrap();
    let run = agent.run("Go");
    let _responder = run.responder();
    let texts = result_texts(&run.await.unwrap().messages);
    assert!(texts[0].contains("dontAsk mode"), "{texts:?}");
}

#[tokio::test]
async fn tool_allowed_by_the_registry_runs_without_a_question() {
    let mut registry = ToolRegistry::new();
    registry.register(echo()).unwrap();
    registry.allow("echo");
    let model = ScriptedModel::new()
        .call("echo", json!({"text": "x"}))
        .say("ok");
    let agent = agent(model)
        .registry(&registry)
        .permissions(Gate(|_: &GateRequest| ToolDecision::ask("sure?")))
        .build()
        .unwrap();
    assert_eq!(
        result_texts(&agent.run("Go").await.unwrap().messages),
        ["x"]
    );
}

#[tokio::test]
async fn switch_to_a_model_without_a_price_under_a_budget_is_an_error() {
    let priced = ModelProfile::default().with_prices(Prices::new(1.0, 1.0));
    let first = ScriptedModel::new().with_profile(priced);
    let agent = agent(first)
        .tool(echo())
        .max_budget_usd(1.0)
        .build()
        .unwrap();
    let run = agent.run("Go");
    run.handle()
        .set_model(FunctionModel::text(|_| "free?".into()));
    let error = run.await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("price"), "{error}");
}

#[tokio::test]
async fn interrupted_answer_counts_toward_cost() {
    let profile = ModelProfile::default().with_prices(Prices::new(1.0, 1.0));
    let events = vec![
        Ok(agentcore::ModelEvent::Text("half".into())),
        Ok(agentcore::ModelEvent::Usage(Usage::new(1_000_000, 0))),
    ];
    let model = FunctionModel::stream(move |_request| {
        let head = futures::stream::iter(events.clone_events());
        async move { Ok(head.chain(futures::stream::pending()).boxed()) }
    })
    .with_profile(profile);
    let agent = agent(model).build().unwrap();
    let mut run = agent.run("Go");
    while futures::poll!(run.next()).is_ready() {}
    run.handle().interrupt();
    let output = run.await.unwrap();
    assert_eq!(output.end, ExitReason::Interrupted);
    assert_eq!(output.cost, Some(1.0));
}

/// Clones results of events that contain no errors, since errors are not `Clone`.
trait CloneEvents {
    fn clone_events(&self) -> Vec<agentcore::Result<agentcore::ModelEvent>>;
}

impl CloneEvents for Vec<agentcore::Result<agentcore::ModelEvent>> {
    fn clone_events(&self) -> Vec<agentcore::Result<agentcore::ModelEvent>> {
        self.iter().flatten().cloned().map(Ok).collect()
    }
}

#[tokio::test]
async fn event_emitted_after_the_result_is_dropped() {
    let context = Arc::new(Mutex::new(None::<RunContext>));
    let keep = hook::before_agent_with("keep", context.clone(), |context, cx, state| async move {
        *context.lock().unwrap() = Some(cx);
        Ok(state)
    });

    let agent = agent(ScriptedModel::new().say("done"))
        .hook(keep)
        .build()
        .unwrap();
    let mut run = agent.run("Go");
    let mut last = None;
    while let Some(message) = run.next().await {
        last = Some(message);
    }

    assert!(last.unwrap().is_result());
    let cx = context.lock().unwrap().take().unwrap();
    cx.emit(SystemKind::Informational {
        content: "late".into(),
        level: Level::Info,
        tool_use_id: None,
    });

    assert_eq!(run.next().await, None);
}

#[tokio::test]
async fn repeated_calls_run_with_loop_detection_disabled() {
    let mut model = ScriptedModel::new();
    for _ in 0..7 {
        model = model.call("look", json!({}));
    }

    let agent = agent(model.say("done"))
        .tool(looking())
        .loop_detection(false)
        .build()
        .unwrap();
    let output = agent.run("Go").await.unwrap();
    assert_eq!(output.end, ExitReason::EndTurn);
    assert!(
        result_texts(&output.messages)
            .iter()
            .all(|text| text == "seen")
    );
}

#[tokio::test]
async fn invalid_output_schema_name_is_an_error() {
    let agent = agent(ScriptedModel::new()).build().unwrap();
    let error = agent
        .run("Go")
        .output_schema("not a name", json!({"type": "object"}))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("output schema"), "{error}");
    assert_eq!(error.partial().unwrap().turns, 0);
}

#[tokio::test(start_paused = true)]
async fn time_limit_ends_a_hanging_model_or_tool() {
    let limit = std::time::Duration::from_secs(10);
    let silent = agent(ScriptedModel::new().hang()).max_duration(limit);
    let busy = agent(ScriptedModel::new().call("nap", json!({})))
        .tool(FuncTool::new("nap", "Sleeps", any_object(), |_, _| async {
            tokio::time::sleep(std::time::Duration::from_secs(100)).await;
            "rested"
        }))
        .max_duration(limit);
    for builder in [silent, busy] {
        let began = tokio::time::Instant::now();
        let mut run = builder.build().unwrap().run("Go");
        let mut result = None;
        while let Some(message) = run.next().await {
            result = message.as_result().cloned();
        }

        let (result, output) = (result.unwrap(), run.into_output().unwrap());
        assert_eq!(output.end, ExitReason::MaxDuration);
        assert_eq!(result.terminal_reason.as_deref(), Some("budget_exhausted"));
        assert!(
            result.errors[0].contains("time limit"),
            "{:?}",
            result.errors
        );
        assert_eq!(began.elapsed(), limit);
        output.messages.validate_for_model().unwrap();
    }
}

#[tokio::test]
async fn budget_covers_the_price_of_long_cache_writes() {
    // A dollar for each token.
    let dear = 1e6;
    let cheap = Prices::new(1.0, 0.0);
    let long = Prices::new(1.0, 0.0).with_long_cache(dear);
    for (prices, is_covered) in [
        (cheap, true),
        (cheap.with_long_cache(dear), false),
        (cheap.with_long(0, long), false),
    ] {
        let profile = ModelProfile::default().with_prices(prices);
        let model = ScriptedModel::new().with_profile(profile).say("done");
        let agent = agent(model).max_budget_usd(0.5).build().unwrap();
        let output = agent.run("Hi").await.unwrap();
        assert_eq!(output.end == ExitReason::EndTurn, is_covered, "{prices:?}");
    }
}
