//! The agent loop: its requests, their order, and its counts.

use std::time::Duration;

use agentcore::ToolDecision;
use agentcore::model::{ModelProfile, Prices};
use agentcore::testing::{FunctionModel, ScriptedModel, Step, StrictModel};
use agentcore::{
    ErrorKind, ExitReason, FuncTool, Message, SdkMessage, StopReason, ToolCall, Usage,
};
use serde_json::json;

use crate::kit::{
    Gate, agent, any_object, collect, echo, kinds, logged, progress, result_texts, results, roles,
    watch,
};

#[tokio::test]
async fn text_response_emits_init_answer_and_result() {
    let agent = agent(ScriptedModel::new().say("Hello")).build().unwrap();
    let messages = collect(agent.run("Hi")).await;
    assert_eq!(
        kinds(&messages),
        ["system/init", "assistant", "result/success"]
    );
    let result = messages.last().unwrap().as_result().unwrap();
    assert_eq!(result.result.as_deref(), Some("Hello"));
    assert_eq!(result.terminal_reason.as_deref(), Some("completed"));
    assert_eq!(result.stop_reason.as_deref(), Some("end_turn"));
    assert!(!result.is_error && result.errors.is_empty());
}

#[tokio::test]
async fn single_tool_call_emits_progress_and_result_before_the_answer() {
    let model = StrictModel::new(
        ScriptedModel::new()
            .call("echo", json!({"text": "x"}))
            .expect(|request| assert_eq!(request.messages.last_content(), "x"))
            .say("done"),
    );
    let agent = agent(model.clone()).tool(echo()).build().unwrap();
    let (messages, output) = watch(agent.run("Go")).await;
    assert_eq!(
        kinds(&messages),
        [
            "system/init",
            "assistant",
            "tool_progress",
            "tool_progress",
            "user",
            "assistant",
            "result/success"
        ]
    );
    let data: Vec<_> = progress(&messages)
        .iter()
        .map(|progress| progress.data.clone().unwrap())
        .collect();
    assert_eq!(
        data,
        [
            json!({"state": "started", "args": {"text": "x"}}),
            json!({"state": "done", "is_error": false, "output": "x"}),
        ]
    );
    let output = output.unwrap();
    assert_eq!(roles(&output.messages), "user assistant tool assistant");
    assert_eq!((output.turns, &*output.text), (2, "done"));
    model.inner().assert_finished();
}

#[tokio::test]
async fn results_of_several_tool_calls_are_one_user_message() {
    let model = ScriptedModel::new()
        .calls(["a", "b", "c"].map(|text| ("echo", json!({"text": text}))))
        .say("done");
    let agent = agent(StrictModel::new(model)).tool(echo()).build().unwrap();
    let (messages, output) = watch(agent.run("Go")).await;
    assert_eq!(result_texts(&output.unwrap().messages), ["a", "b", "c"]);
    let shown: Vec<_> = messages
        .iter()
        .filter_map(|message| match message {
            SdkMessage::User(user) => Some(user.messages.len()),
            _ => None,
        })
        .collect();
    assert_eq!(shown, [3], "all results are one user message");
}

#[tokio::test]
async fn tool_error_is_an_error_result_and_the_run_continues() {
    let broken = FuncTool::new("broken", "Fails", any_object(), |_cx, _args| async {
        Err::<String, _>("no such file".into())
    });

    let model = ScriptedModel::new()
        .call("broken", json!({}))
        .say("It failed.");
    let agent = agent(model).tool(broken).build().unwrap();
    let (messages, output) = watch(agent.run("Go")).await;
    let output = output.unwrap();
    let result = &results(&output.messages)[0];
    assert!(result.is_error);
    assert_eq!(result.content.text(), "Error: no such file");
    assert_eq!(output.end, ExitReason::EndTurn);
    let done = progress(&messages)[1].data.clone().unwrap();
    assert_eq!(
        done,
        json!({"state": "done", "is_error": true, "output": "Error: no such file"})
    );
}

#[tokio::test]
async fn max_turns_ends_the_run_with_error_max_turns() {
    let mut model = ScriptedModel::new();
    for n in 0..3 {
        model = model.call("echo", json!({"text": n.to_string()}));
    }

    let agent = agent(model).tool(echo()).max_turns(3).build().unwrap();
    let (messages, output) = watch(agent.run("Go")).await;
    let output = output.unwrap();
    assert_eq!((output.end, output.turns), (ExitReason::MaxTurns, 3));
    output.messages.validate_for_model().unwrap();
    let result = messages.last().unwrap().as_result().unwrap();
    assert_eq!(kinds(&messages).last().unwrap(), "result/error_max_turns");
    assert!(result.is_error && result.errors[0].contains("3 turns"));
}

fn sonnet() -> ModelProfile {
    ModelProfile::default().with_prices(Prices::new(3.0, 15.0).with_cache(0.3, 3.75))
}

fn usage() -> Usage {
    Usage::new(1000, 500).with_cache(200, 100)
}

#[tokio::test]
async fn cost_and_usage_are_summed_by_model() {
    let model = ScriptedModel::new()
        .with_profile(sonnet())
        .with_usage(usage())
        .call("echo", json!({"text": "x"}))
        .say("done");
    let agent = agent(model).tool(echo()).build().unwrap();
    let (messages, output) = watch(agent.run("Go")).await;
    let result = messages.last().unwrap().as_result().unwrap();
    assert!((result.total_cost_usd.unwrap() - 2.0 * 0.010935).abs() < 1e-12);
    assert_eq!(result.usage, usage() + usage());
    let by_model = &result.model_usage["scripted:model"];
    assert!((by_model.cost_usd.unwrap() - 2.0 * 0.010935).abs() < 1e-12);
    assert_eq!(by_model.context_window, 128_000);
    assert_eq!(output.unwrap().cost, result.total_cost_usd);
}

#[tokio::test]
async fn cost_is_none_for_a_model_without_a_price() {
    let model = ScriptedModel::new().with_usage(usage()).say("done");
    let output = agent(model).build().unwrap().run("Go").await.unwrap();
    assert_eq!((output.cost, output.usage), (None, usage()));
}

#[tokio::test]
async fn exceeded_budget_ends_the_run_with_error_max_budget_usd() {
    let model = ScriptedModel::new()
        .with_profile(sonnet())
        .with_usage(usage())
        .call("echo", json!({"text": "x"}));
    let agent = agent(model)
        .tool(echo())
        .max_output_tokens(100)
        .max_budget_usd(0.01)
        .build()
        .unwrap();
    let (messages, output) = watch(agent.run("Go")).await;
    let output = output.unwrap();
    assert_eq!((output.end, output.turns), (ExitReason::MaxBudget, 1));
    output.messages.validate_for_model().unwrap();
    assert_eq!(
        kinds(&messages).last().unwrap(),
        "result/error_max_budget_usd"
    );
}

#[tokio::test]
async fn budget_for_a_model_without_a_price_is_a_config_error() {
    let build = |builder: agentcore::AgentBuilder| builder.max_budget_usd(1.0).build();
    let error = build(agent(ScriptedModel::new())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(build(agent(ScriptedModel::new()).allow_unpriced()).is_ok());
    let nan = agent(ScriptedModel::new()).max_budget_usd(f64::NAN).build();
    assert_eq!(nan.unwrap_err().kind(), ErrorKind::Config);
}

#[tokio::test]
async fn token_limit_reduces_max_output_tokens() {
    let model = ScriptedModel::new()
        .expect(|request| assert_eq!(request.max_output_tokens, Some(90)))
        .step(Step::text("short").usage(Usage::new(10, 90)));
    let agent = agent(model.clone())
        .max_total_tokens(100)
        .token_counter(Ten)
        .build()
        .unwrap();
    let output = agent.run("Go").await.unwrap();
    assert_eq!(output.end, ExitReason::EndTurn);
    model.assert_finished();
}

/// Counts ten tokens for every message, and none for other text.
struct Ten;

impl agentcore::message::TokenCounter for Ten {
    fn count_text(&self, _text: &str) -> u64 {
        0
    }

    fn count_message(&self, _message: &Message) -> u64 {
        10
    }
}

#[tokio::test(start_paused = true)]
async fn max_duration_ends_the_run_with_max_duration() {
    let slow = FuncTool::new("slow", "Slow", any_object(), |_cx, _args| async {
        crate::kit::sleep(61).await;
        "done"
    });
    let model = ScriptedModel::new().call("slow", json!({}));
    let agent = agent(model)
        .tool(slow)
        .max_duration(Duration::from_secs(60))
        .build()
        .unwrap();
    assert_eq!(agent.run("Go").await.unwrap().end, ExitReason::MaxDuration);
}

#[tokio::test]
async fn denied_tool_call_does_not_run_and_is_reported() {
    let log = crate::kit::Log::default();
    let model = ScriptedModel::new().call("write", json!({})).say("Sorry.");
    let agent = agent(model)
        .tool(logged("write", &log))
        .permissions(Gate(|_: &_| ToolDecision::deny("not on my watch")))
        .build()
        .unwrap();
    let (messages, output) = watch(agent.run("Go")).await;
    let output = output.unwrap();
    assert_eq!(result_texts(&output.messages), ["Error: not on my watch"]);
    assert_eq!(log.len(), 0);
    assert_eq!(output.permission_denials.len(), 1);
    assert_eq!(
        kinds(&messages),
        [
            "system/init",
            "assistant",
            "system/permission_denied",
            "user",
            "assistant",
            "result/success"
        ]
    );
}

#[tokio::test]
async fn stop_reason_tool_use_without_calls_ends_the_turn() {
    let step = Step::text("That is all.").stop(StopReason::ToolUse);
    let agent = agent(ScriptedModel::new().step(step)).build().unwrap();
    let output = agent.run("Go").await.unwrap();
    assert_eq!((output.end, output.turns), (ExitReason::EndTurn, 1));
}

#[tokio::test]
async fn unknown_tool_is_an_error_result_with_suggestions() {
    let model = ScriptedModel::new()
        .call("Ehco", json!({}))
        .call("frobnicate", json!({}))
        .say("done");
    let agent = agent(model).tool(echo()).build().unwrap();
    let output = agent.run("Go").await.unwrap();
    assert_eq!(
        result_texts(&output.messages),
        [
            r#"Error: unknown tool "Ehco". Did you mean: echo? Available tools: echo"#,
            r#"Error: unknown tool "frobnicate". Available tools: echo"#,
        ]
    );
}

#[tokio::test]
async fn first_unknown_names_of_a_response_are_compared_with_many_tools() {
    let tools = (0..1_000).map(|number| {
        let name = format!("tool_{number:04}");
        FuncTool::new(name, "Acts", any_object(), |_cx, _args| async { "ran" })
    });
    let calls = (0..40).map(|number| (format!("tol_{number:04}"), json!({})));
    let model = ScriptedModel::new()
        .calls(calls)
        .call("tol_0001", json!({}))
        .say("done");
    let agent = agent(model).tools(tools).build().unwrap();
    let output = agent.run("Go").await.unwrap();
    let texts = result_texts(&output.messages);
    let has_hint = |text: &&String| text.contains("Did you mean: tool_");
    assert_eq!(texts[..40].iter().filter(has_hint).count(), 17);
    assert!(texts[0].contains("Did you mean: tool_0000"), "{}", texts[0]);
    // The limit of comparisons applies to each response.
    assert!(has_hint(&&texts[40]), "{}", texts[40]);
}

#[tokio::test]
async fn messages_are_numbered_in_stream_order() {
    let model = ScriptedModel::new()
        .step(Step::text("Look: ").and_call("echo", json!({"text": "x"})))
        .say("done");
    let agent = agent(model)
        .tool(echo())
        .include_partial_messages(true)
        .build()
        .unwrap();
    let messages = collect(agent.run("Go")).await;
    let mut order = kinds(&messages);
    order.dedup();
    assert_eq!(
        order,
        [
            "system/init",
            "stream_event",
            "assistant",
            "tool_progress",
            "user",
            "stream_event",
            "assistant",
            "result/success"
        ]
    );
    let numbers: Vec<_> = messages.iter().map(SdkMessage::seq).collect();
    let expected: Vec<_> = (0..messages.len() as u64).collect();
    assert_eq!(numbers, expected, "numbers are the order of the stream");
}

#[tokio::test]
async fn awaited_run_equals_collected_run() {
    let make = || {
        let model = ScriptedModel::new()
            .call("echo", json!({"text": "x"}))
            .say("done");
        agent(model).tool(echo()).build().unwrap()
    };

    let awaited = make().run("Go").await.unwrap();
    let (messages, collected) = watch(make().run("Go")).await;
    let collected = collected.unwrap();
    assert_eq!(awaited.messages, collected.messages);
    assert_eq!(awaited.text, collected.text);
    assert_eq!(
        messages.last().unwrap().as_result().unwrap().result,
        Some(awaited.text)
    );
}

#[tokio::test]
async fn failed_run_emits_one_result_as_its_last_message() {
    let fails = FunctionModel::new(|_| vec![Err(agentcore::Error::new(ErrorKind::Auth, "no key"))]);
    let panics = FunctionModel::new(|_| panic!("boom"));
    for (model, words) in [(fails, "no key"), (panics, "boom")] {
        let mut run = agent(model).build().unwrap().run("Go");
        let mut all = Vec::new();
        while let Some(message) = run.next().await {
            all.push(message);
        }

        assert!(run.next().await.is_none());
        assert_eq!(
            kinds(&all),
            ["system/init", "result/error_during_execution"]
        );
        assert!(all[1].as_result().unwrap().errors[0].contains(words));
        let error = run.into_output().unwrap_err();
        let partial = error.partial().unwrap();
        assert_eq!(partial.end, ExitReason::Error);
        partial.messages.validate_for_model().unwrap();
    }
}

#[tokio::test]
async fn results_of_a_hundred_calls_keep_call_order() {
    let calls = (0..100).map(|n| ("echo", json!({"text": n.to_string()})));
    let model = ScriptedModel::new().calls(calls).say("done");
    let agent = agent(StrictModel::new(model)).tool(echo()).build().unwrap();
    let output = agent.run("Go").await.unwrap();
    let expected: Vec<_> = (0..100).map(|n| n.to_string()).collect();
    assert_eq!(result_texts(&output.messages), expected);
}

#[tokio::test]
async fn duplicate_and_missing_call_ids_are_made_unique() {
    let call = |id: &str, text: &str| ToolCall::new(id, "echo", json!({"text": text}));
    let model = ScriptedModel::new()
        .step(
            Step::new()
                .and_tool_call(call("x", "1"))
                .and_tool_call(call("x", "2"))
                .and_tool_call(call("", "3")),
        )
        .step(Step::new().and_tool_call(call("x", "4")))
        .say("done");
    let agent = agent(StrictModel::new(model)).tool(echo()).build().unwrap();
    let output = agent.run("Go").await.unwrap();
    assert_eq!(result_texts(&output.messages), ["1", "2", "3", "4"]);
    output.messages.validate_for_model().unwrap();
}

#[tokio::test]
async fn invalid_arguments_reach_neither_hooks_nor_tool() {
    let log = crate::kit::Log::default();
    let seen = log.clone();
    let model = ScriptedModel::new()
        .step(
            Step::new()
                .and_call_raw("echo", "{\"text\": ")
                .and_call_raw("echo", "[1]")
                .and_call_raw("echo", ""),
        )
        .say("done");
    let agent = agent(model)
        .tool(echo())
        .hook(agentcore::hook::pre_tool_use("spy", move |_cx, call| {
            seen.add(call.args.to_string());
            async { Ok(agentcore::ToolDecision::proceed()) }
        }))
        .build()
        .unwrap();
    let output = agent.run("Go").await.unwrap();
    let results = results(&output.messages);
    assert!(results[0].content.text().contains("not valid JSON"));
    assert!(results[1].content.text().contains("expected object"));
    assert_eq!(results[2].content.text(), "(no output)");
    assert_eq!(log.take(), ["{}"], "an empty text counts as no arguments");
    output.messages.validate_for_model().unwrap();
}
