//! Reasons for the end of a run, for any stop reason of the model.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentcore::hook;
use agentcore::message::ProviderBlock;
use agentcore::model::{Compaction, CompactionRequest, Compactor, ModelProfile};
use agentcore::testing::{FunctionModel, ScriptedModel, Step, StrictModel};
use agentcore::{
    Error, ErrorKind, ExitReason, Messages, Part, Result, StopDecision, StopReason, ToolCall,
    async_trait,
};
use serde_json::json;

use crate::kit::{Log, agent, echo, kinds, logged, result_texts, roles, stored, warnings, watch};

fn says(text: &str, stop: StopReason) -> ScriptedModel {
    ScriptedModel::new().step(Step::text(text).stop(stop))
}

#[tokio::test]
async fn stop_reason_of_an_answer_without_calls_sets_the_exit_reason() {
    for (stop, end) in [
        (StopReason::EndTurn, ExitReason::EndTurn),
        (StopReason::ToolUse, ExitReason::EndTurn),
        (StopReason::StopSequence, ExitReason::StopSequence),
        (StopReason::MaxTokens, ExitReason::MaxTokens),
        (StopReason::ContextWindow, ExitReason::MaxTokens),
        (StopReason::Other("tired".into()), ExitReason::EndTurn),
    ] {
        let agent = agent(says("text", stop.clone())).build().unwrap();
        let (messages, output) = watch(agent.run("Go")).await;
        assert_eq!(output.unwrap().end, end, "{stop}");
        let warned = warnings(&messages)
            .iter()
            .any(|text| text.contains("tired"));
        assert_eq!(warned, stop == StopReason::Other("tired".into()));
    }
}

#[tokio::test]
async fn tool_calls_run_with_any_stop_reason() {
    for stop in [
        StopReason::EndTurn,
        StopReason::MaxTokens,
        StopReason::Refusal,
        StopReason::Other("tired".into()),
    ] {
        let log = Log::default();
        let model = ScriptedModel::new()
            .step(Step::call("act", json!({})).stop(stop))
            .say("done");
        let agent = agent(model).tool(logged("act", &log)).build().unwrap();
        assert_eq!(agent.run("Go").await.unwrap().text, "done");
        assert_eq!(log.take(), ["act{}"]);
    }
}

#[tokio::test]
async fn empty_answer_is_requested_once_more() {
    let model = ScriptedModel::new().step(Step::new()).say("Here.");
    let agent = agent(StrictModel::new(model)).build().unwrap();
    let (messages, output) = watch(agent.run("Go")).await;
    let output = output.unwrap();
    assert_eq!(roles(&output.messages), "user assistant");
    assert_eq!(warnings(&messages).len(), 1);
}

#[tokio::test]
async fn repeated_request_after_an_empty_answer_counts_no_turn() {
    let model = || ScriptedModel::new().step(Step::new());
    let last = agent(model().say("Here.")).max_turns(1).build().unwrap();
    let output = last.run("Go").await.unwrap();
    assert_eq!((output.end, output.turns), (ExitReason::EndTurn, 1));
    assert_eq!(output.text, "Here.");

    let empty = agent(model().step(Step::new()))
        .max_turns(1)
        .build()
        .unwrap();
    let error = empty.run("Go").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::EmptyResponse);
    assert_eq!(error.partial().unwrap().turns, 1);

    // The repeated answer may still call a tool, which is the only turn.
    let log = Log::default();
    let calling = agent(model().call("act", json!({})))
        .tool(logged("act", &log))
        .max_turns(1)
        .build()
        .unwrap();
    let output = calling.run("Go").await.unwrap();
    assert_eq!((output.end, output.turns), (ExitReason::MaxTurns, 1));
    assert_eq!(log.len(), 1);
}

#[tokio::test]
async fn paused_provider_block_after_an_empty_answer_counts_as_an_answer() {
    let raw = serde_json::value::to_raw_value(&json!({"type": "server_tool_use"})).unwrap();
    let block = Part::Opaque(ProviderBlock::new("anthropic", raw));
    let paused = Step::new()
        .and_event(agentcore::ModelEvent::Part(block))
        .stop(StopReason::PauseTurn);
    let model = ScriptedModel::new()
        .step(Step::new())
        .step(paused)
        .say("Found.");
    let output = agent(model).build().unwrap().run("Go").await.unwrap();
    assert_eq!((output.end, output.turns), (ExitReason::EndTurn, 2));
}

#[tokio::test]
async fn interrupted_part_of_a_paused_answer_is_appended_to_it() {
    let paused = Step::text("One, ").stop(StopReason::PauseTurn);
    let model = ScriptedModel::new()
        .step(paused)
        .step(Step::text("two").then_hang());
    let agent = agent(model).include_partial_messages(true).build().unwrap();
    let mut run = agent.session("s").run("Count");
    let handle = run.handle();
    let (mut seen, mut messages) = (String::new(), Vec::new());
    while let Some(message) = run.next().await {
        seen.push_str(message.text_delta().unwrap_or_default());
        if seen.ends_with("two") {
            handle.interrupt();
        }

        messages.push(message);
    }

    assert_eq!(warnings(&messages), Vec::<String>::new());
    let output = run.into_output().unwrap();
    assert_eq!(output.end, ExitReason::Interrupted);
    assert_eq!(roles(&output.messages), "user assistant");
    assert_eq!(output.messages.last().unwrap().text(), "One, two");
    assert_eq!(stored(&agent, "s").await, output.messages);
}

#[tokio::test]
async fn two_empty_answers_are_an_error() {
    for stop in [
        StopReason::EndTurn,
        StopReason::ToolUse,
        StopReason::PauseTurn,
    ] {
        let model = ScriptedModel::new()
            .step(Step::new().stop(stop.clone()))
            .step(Step::new().stop(stop));
        let agent = agent(StrictModel::new(model)).build().unwrap();
        let error = agent.session("s").run("Go").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::EmptyResponse);
        assert_eq!(roles(&stored(&agent, "s").await), "user");
    }
}

#[tokio::test]
async fn stop_sequence_without_text_ends_the_run() {
    let model = ScriptedModel::new().step(Step::new().stop(StopReason::StopSequence));
    let output = agent(model).build().unwrap().run("Go").await.unwrap();
    assert_eq!((output.end, output.turns), (ExitReason::StopSequence, 1));
    assert_eq!(roles(&output.messages), "user");
}

#[tokio::test]
async fn refused_turn_is_removed_from_the_session() {
    let model = ScriptedModel::new()
        .say("Hello.")
        .step(Step::text("No.").stop(StopReason::Refusal))
        .say("Fine.");
    let agent = agent(StrictModel::new(model)).build().unwrap();
    agent.session("s").run("Hi").await.unwrap();
    let (messages, output) = watch(agent.session("s").run("Something bad")).await;
    let output = output.unwrap();
    assert_eq!(output.end, ExitReason::Refused);
    assert!(messages.last().unwrap().as_result().unwrap().is_error);
    assert_eq!(roles(&stored(&agent, "s").await), "user assistant");
    let next = agent.session("s").run("Something good").await.unwrap();
    assert_eq!(roles(&next.messages), "user assistant user assistant");
}

#[tokio::test]
async fn refusal_after_an_empty_answer_removes_the_input() {
    let model = ScriptedModel::new()
        .step(Step::new())
        .step(Step::new().stop(StopReason::Refusal));
    let agent = agent(model).build().unwrap();
    let output = agent.session("s").run("Something bad").await.unwrap();
    assert_eq!(output.end, ExitReason::Refused);
    assert!(stored(&agent, "s").await.is_empty());
}

#[tokio::test]
async fn refused_turn_is_kept_with_keep_refused() {
    let model = says("No.", StopReason::Refusal);
    let agent = agent(model).keep_refused(true).build().unwrap();
    let output = agent.run("Something bad").await.unwrap();
    assert_eq!(roles(&output.messages), "user assistant");
}

#[tokio::test]
async fn paused_turn_is_continued_in_the_same_message() {
    let raw = serde_json::value::to_raw_value(&json!({"type": "server_tool_use"})).unwrap();
    let block = Part::Opaque(ProviderBlock::new("anthropic", raw));
    let paused = Step::text("One, ")
        .and_event(agentcore::ModelEvent::Part(block.clone()))
        .stop(StopReason::PauseTurn);
    let only_block = Step::new()
        .and_event(agentcore::ModelEvent::Part(block))
        .stop(StopReason::PauseTurn);
    let model = ScriptedModel::new()
        .step(paused)
        .step(only_block)
        .say("two.");
    let agent = agent(model.clone()).build().unwrap();
    let output = agent.session("s").run("Count").await.unwrap();
    assert_eq!(roles(&output.messages), "user assistant");
    assert_eq!(output.turns, 3);
    let parts = output.messages.last().unwrap().content().parts().len();
    assert_eq!(parts, 4, "text, block, block, text");
    assert_eq!(stored(&agent, "s").await, output.messages);
    assert_eq!(roles(&model.requests()[1].messages), "user assistant");
}

#[tokio::test]
async fn pauses_count_toward_max_turns() {
    let model = FunctionModel::new(|_| {
        vec![
            Ok(agentcore::ModelEvent::Text("and ".into())),
            Ok(agentcore::ModelEvent::stop(StopReason::PauseTurn)),
        ]
    });
    let agent = agent(model).max_turns(4).build().unwrap();
    let output = agent.run("Go").await.unwrap();
    assert_eq!((output.end, output.turns), (ExitReason::MaxTurns, 4));
}

#[tokio::test]
async fn incomplete_call_at_the_output_limit_does_not_run() {
    let log = Log::default();
    let half = |index| agentcore::ModelEvent::ToolCallStart {
        index,
        id: "half".into(),
        name: "act".into(),
    };

    let whole = ToolCall::new("whole", "act", json!({"n": 1}));
    let model = ScriptedModel::new()
        .step(
            Step::new()
                .and_tool_call(whole)
                .and_event(half(1))
                .stop(StopReason::MaxTokens),
        )
        .step(Step::new().and_event(half(0)).stop(StopReason::MaxTokens));
    let agent = agent(StrictModel::new(model))
        .tool(logged("act", &log))
        .build()
        .unwrap();
    let output = agent.run("Go").await.unwrap();
    assert_eq!(output.end, ExitReason::MaxTokens);
    assert_eq!(log.take(), ["act{\"n\":1}"]);
    output.messages.validate_for_model().unwrap();
}

#[tokio::test]
async fn before_stop_hook_continues_until_max_turns() {
    let model = FunctionModel::text(|_| "done".into());
    let more = hook::before_stop("more", |_cx, _response| async {
        Ok(StopDecision::continue_with("Are you sure?"))
    });

    let agent = agent(StrictModel::new(model))
        .hook(more)
        .max_turns(3)
        .build()
        .unwrap();
    let output = agent.run("Go").await.unwrap();
    assert_eq!((output.end, output.turns), (ExitReason::MaxTurns, 3));
    assert_eq!(
        roles(&output.messages),
        "user assistant user assistant user assistant user"
    );
}

#[tokio::test(start_paused = true)]
async fn time_limit_during_before_stop_is_named_in_the_result() {
    let stuck = hook::before_stop("stuck", |_cx, _response| async {
        std::future::pending::<()>().await;
        Ok(StopDecision::Stop)
    });
    let agent = agent(ScriptedModel::new().say("done"))
        .hook(stuck)
        .max_duration(Duration::from_secs(5))
        .build()
        .unwrap();
    let (messages, output) = watch(agent.run("Go")).await;
    assert_eq!(output.unwrap().end, ExitReason::MaxDuration);
    let errors = &messages.last().unwrap().as_result().unwrap().errors;
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].starts_with("the run reached its time limit"));
}

#[tokio::test]
async fn wrap_up_adds_a_system_section_in_the_last_turns() {
    let seen: Arc<Mutex<Vec<bool>>> = Arc::default();
    let log = seen.clone();
    let model = FunctionModel::new(move |request| {
        let is_asked = request
            .system
            .sections()
            .any(|section| section.text.contains("Wrap up"));
        log.lock().unwrap().push(is_asked);
        let n = request.messages.len().to_string();
        vec![Ok(agentcore::ModelEvent::ToolCall(ToolCall::new(
            n.clone(),
            "echo",
            json!({"text": n}),
        )))]
    });

    let agent = agent(model)
        .tool(echo())
        .max_turns(4)
        .wrap_up(true)
        .build()
        .unwrap();
    agent.run("Go").await.unwrap();
    assert_eq!(*seen.lock().unwrap(), [false, false, true, true]);
}

#[tokio::test]
async fn repeated_equal_calls_add_a_warning_and_end_the_run() {
    let model = FunctionModel::new(|request| {
        let id = request.messages.len().to_string();
        vec![Ok(agentcore::ModelEvent::ToolCall(ToolCall::new(
            id,
            "echo",
            json!({"text": "x"}),
        )))]
    });

    let agent = agent(StrictModel::new(model)).tool(echo()).build().unwrap();
    let (messages, output) = watch(agent.run("Go")).await;
    let output = output.unwrap();
    assert_eq!((output.end, output.turns), (ExitReason::LoopDetected, 5));
    let warned: Vec<_> = result_texts(&output.messages)
        .iter()
        .map(|text| text.contains("third time"))
        .collect();
    assert_eq!(warned, [false, false, true, false, false]);
    let result = messages.last().unwrap().as_result().unwrap();
    assert!(result.errors[0].contains("echo"), "{:?}", result.errors);
    output.messages.validate_for_model().unwrap();
}

/// Summarizes everything but the last message.
struct Shorten {
    calls: Arc<AtomicUsize>,
    fails: bool,
}

#[async_trait]
impl Compactor for Shorten {
    fn should_compact(&self, _: &Messages, tokens: u64, _: &ModelProfile) -> bool {
        tokens > 1_000_000
    }

    async fn compact(&self, request: CompactionRequest) -> Result<Option<Compaction>> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        if self.fails {
            return Err("no summary today".into());
        }
        let through = request.messages.len() - 1;
        Ok(Some(Compaction::new("They talked.", through)))
    }
}

fn too_long() -> Error {
    Error::new(ErrorKind::ContextTooLong, "prompt is too long")
}

#[tokio::test]
async fn too_long_prompt_is_compacted_once() {
    let calls = Arc::<AtomicUsize>::default();
    let model = ScriptedModel::new()
        .say("Hello.")
        .fail(too_long())
        .expect(|request| {
            assert_eq!(roles(&request.messages), "user user");
            let summary = request.messages.get(0).unwrap().text().into_owned();
            assert!(summary.contains("They talked."), "{summary}");
        })
        .say("Short again.");
    let compactor = Shorten {
        calls: calls.clone(),
        fails: false,
    };

    let agent = agent(model.clone()).compactor(compactor).build().unwrap();
    agent.session("s").run("Hi").await.unwrap();
    let (messages, output) = watch(agent.session("s").run("More")).await;
    let output = output.unwrap();
    model.assert_finished();
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    assert!(kinds(&messages).contains(&"system/compact_boundary".to_owned()));
    let history = stored(&agent, "s").await;
    assert_eq!(roles(&history), "user assistant user assistant", "kept raw");
    assert_eq!(output.state.compaction.unwrap().through_message, 2);
}

#[tokio::test]
async fn failed_compaction_is_a_warning_and_the_run_fails() {
    let calls = Arc::<AtomicUsize>::default();
    let model = ScriptedModel::new().fail(too_long());
    let compactor = Shorten {
        calls: calls.clone(),
        fails: true,
    };

    let agent = agent(model).compactor(compactor).build().unwrap();
    let (messages, output) = watch(agent.session("s").run("Hi")).await;
    let error = output.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ContextTooLong);
    assert!(warnings(&messages)[0].contains("no summary today"));
    assert!(stored(&agent, "s").await.is_empty());
}

#[cfg(feature = "schema")]
#[tokio::test]
async fn structured_output_is_requested_again_until_it_matches_the_schema() {
    #[derive(serde::Deserialize, agentcore::schemars::JsonSchema, PartialEq, Debug)]
    struct City {
        name: String,
    }

    let schema = json!({
        "type": "object",
        "properties": {"name": {"type": "string"}},
        "required": ["name"],
    });

    let model = ScriptedModel::new()
        .say("Oslo")
        .say("{\"name\": 3}")
        .say("{\"name\": \"Oslo\"}")
        .say("{\"name\": \"Bergen\"}")
        .say("a")
        .say("b")
        .say("c");
    let agent = agent(StrictModel::new(model)).build().unwrap();
    let output = agent
        .run("Capital?")
        .output_schema("city", schema)
        .await
        .unwrap();
    assert_eq!(output.structured, Some(json!({"name": "Oslo"})));
    assert_eq!(
        roles(&output.messages),
        "user assistant user assistant user assistant"
    );
    let city: City = agent.run("Another?").output().await.unwrap();
    assert_eq!(city.name, "Bergen");
    let error = agent.run("And?").output::<City>().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StructuredOutput);
    let partial = error.partial().unwrap();
    assert_eq!(partial.end, ExitReason::StructuredOutput);
    assert_eq!(partial.text, "c");
}

#[tokio::test]
async fn invalid_input_is_rejected_before_the_session_is_created() {
    let agent = agent(ScriptedModel::new()).build().unwrap();
    for (input, words) in [
        (Messages::new(), "must not be empty"),
        (Messages::from(""), "must not be empty"),
        (Messages::from("a").ai(""), "message[1]"),
    ] {
        let error = agent.session("s").run(input).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidMessages);
        assert!(error.to_string().contains(words), "{error}");
    }
    assert!(agent.session("s").state().await.unwrap().is_none());
}
