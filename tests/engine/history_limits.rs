//! Histories that would exceed memory although each answer and each result is within its limit.

use std::time::Duration;

use agentcore::hooks::SummarizationHook;
use agentcore::message::{Annotations, Citation, ProviderBlock};
use agentcore::model::{Compaction, ResponseLimits};
use agentcore::testing::{FunctionModel, ScriptedModel};
use agentcore::{
    Agent, AgentBuilder, Error, ErrorKind, FuncTool, Messages, Model, ModelEvent, Part, StopReason,
    ToolCall, ToolContext, ToolOutput,
};
use futures::future::join_all;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::kit::{Log, agent, any_object, logged, roles, sleep, stored};

/// The limit of most tests.
const LIMIT: usize = 100_000;

/// Arguments that take about `bytes` bytes in memory, and far fewer tokens.
fn args(bytes: usize) -> Value {
    json!({"a": vec![0; bytes / 37]})
}

/// A model each answer of which is `I act.` and a call of `act` with about `bytes` bytes.
fn calling(bytes: usize) -> FunctionModel {
    FunctionModel::new(move |request| {
        let call = ToolCall::new(format!("c{}", request.messages.len()), "act", args(bytes));
        vec![
            Ok(ModelEvent::Text("I act.".into())),
            Ok(ModelEvent::ToolCall(call)),
            Ok(ModelEvent::stop(StopReason::ToolUse)),
        ]
    })
}

/// A model that answers `Go` with `count` calls of `act`, each of about `bytes` bytes.
fn calling_at_once(count: usize, bytes: usize) -> FunctionModel {
    FunctionModel::new(move |request| {
        let is_first = request.messages.last().unwrap().text() == "Go";
        let calls = (0..if is_first { count } else { 0 }).map(|number| {
            let call = ToolCall::new(format!("c{number}"), "act", args(bytes));
            Ok(ModelEvent::ToolCall(call))
        });
        let end = [
            Ok(ModelEvent::Text("ok".into())),
            Ok(ModelEvent::stop(StopReason::EndTurn)),
        ];
        calls.chain(end).collect()
    })
}

fn limited(model: impl Model, log: &Log) -> AgentBuilder {
    agent(model)
        .tool(logged("act", log))
        .max_history_bytes(LIMIT)
}

/// Returns a history of one turn with a call of about `bytes` bytes.
fn turn(bytes: usize) -> Messages {
    let call = ToolCall::new("old", "act", args(bytes));
    Messages::new()
        .human("Hi")
        .ai_calling("I act.", [call])
        .tool("old", "act", "done")
        .ai("Done.")
}

/// Stores a history as the session `s`.
async fn store(agent: &Agent, messages: Messages) {
    let mut state = agentcore::AgentState::new("s");
    state.messages = messages;
    let session = agentcore::session::StoredSession::new(state);
    agent.store().create("s", session).await.unwrap();
}

#[tokio::test]
async fn calls_that_take_the_history_over_its_limit_end_the_run() {
    let log = Log::default();
    let agent = limited(calling(28_000), &log).build().unwrap();
    let error = agent.session("s").run("Go").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResponseTooLarge);
    for part in [
        "bytes in messages",
        "at most 100000 are allowed",
        "max_history_bytes",
        "compact",
        "another session",
    ] {
        assert!(error.text().contains(part), "{part}: {error}");
    }

    assert_eq!(log.len(), 3);
    let history = stored(&agent, "s").await;
    history.validate_for_model().unwrap();
    assert_eq!(
        roles(&history),
        "user assistant tool assistant tool assistant tool assistant"
    );
    assert_eq!(history.last_content(), "I act.");
    assert!(
        agent
            .store()
            .load("s")
            .await
            .unwrap()
            .unwrap()
            .state
            .message_info(7)
            .unwrap()
            .aborted
    );
}

#[tokio::test]
async fn loaded_messages_count_and_are_never_refused_by_themselves() {
    let log = Log::default();
    let model = ScriptedModel::new().call("act", args(30_000));
    let agent = limited(model, &log).build().unwrap();
    store(&agent, turn(80_000)).await;
    let error = agent.session("s").run("Go").await.unwrap_err();
    assert!(error.text().contains("would have 11"), "{error}");
    assert_eq!(log.len(), 0);
    assert_eq!(stored(&agent, "s").await.len(), 5, "the input stays");

    let model = ScriptedModel::new().say("Hello.");
    let agent = limited(model.clone(), &log).build().unwrap();
    store(&agent, turn(101_000)).await;
    let error = agent.session("s").run("Go").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResponseTooLarge);
    assert!(
        error.text().contains("the history of the session has 10"),
        "{error}"
    );
    assert_eq!(model.requests().len(), 0, "no call is paid for");
    assert!(error.text().contains("the input was removed"), "{error}");
    assert_eq!(stored(&agent, "s").await.len(), 4, "all can be read");
    let back = agent.session("s").rewind_to(0).run("Again").await.unwrap();
    assert_eq!(back.text, "Hello.");
}

#[tokio::test]
async fn session_over_the_limit_continues_after_a_compaction() {
    let log = Log::default();
    let model = ScriptedModel::new().call("act", args(60_000)).say("Done.");
    let summarizer = ScriptedModel::new().say("They acted.");
    let hook = SummarizationHook::new()
        .with_model(summarizer)
        .with_context_window(1_000_000);
    let agent = limited(model, &log).hook(hook).build().unwrap();
    store(&agent, turn(101_000)).await;
    let output = agent.session("s").run("Go").await.unwrap();
    assert_eq!(output.text, "Done.");
    assert_eq!(log.len(), 1);
    assert!(output.state.compaction.is_some());
    assert_eq!(output.messages.len(), 8, "nothing is removed");
}

#[tokio::test]
async fn covered_messages_are_limited_to_two_histories() {
    for (bytes, is_allowed) in [(180_000, true), (220_000, false)] {
        let agent = limited(calling(10), &Log::default()).max_turns(1);
        let agent = agent.build().unwrap();
        let mut state = agentcore::AgentState::new("s");
        state.messages = turn(bytes);
        state.compaction = Some(Compaction::new("They acted.", 4));
        let session = agentcore::session::StoredSession::new(state);
        agent.store().create("s", session).await.unwrap();
        match agent.session("s").run("Go").await {
            Ok(output) => assert!(is_allowed, "{output:?}"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::ResponseTooLarge);
                let names_way_out = error.text().contains("start another session");
                assert!(!is_allowed && names_way_out, "{error}");
                let count = stored(&agent, "s").await.len();
                assert_eq!(count, 4, "the input does not stay");
            }
        }
    }
}

#[tokio::test]
async fn run_cannot_compact_its_own_calls() {
    let log = Log::default();
    let summarizer = FunctionModel::new(|_| {
        vec![
            Ok(ModelEvent::Text("They acted.".into())),
            Ok(ModelEvent::stop(StopReason::EndTurn)),
        ]
    });

    let hook = SummarizationHook::new()
        .with_model(summarizer)
        .with_context_window(100);
    let agent = limited(calling(28_000), &log).hook(hook).build().unwrap();
    let error = agent.session("s").run("Go").await.unwrap_err();
    assert!(error.text().contains("max_history_bytes"), "{error}");
    assert_eq!(log.len(), 3);
}

#[tokio::test]
async fn details_that_take_too_much_memory_are_removed_with_a_note() {
    let tool = FuncTool::new(
        "detailed",
        "Has details",
        any_object(),
        |_cx, args| async move {
            let values = args["n"].as_u64().unwrap_or(1) as usize;
            ToolOutput::new("done").with_details(vec![json!({"a": 0}); values])
        },
    );
    let model = ScriptedModel::new()
        .call("detailed", json!({"n": 40}))
        .call("detailed", json!({"n": 150}))
        .call("detailed", json!({"n": 30}))
        .say("Done.");
    let agent = agent(model)
        .tool(tool)
        .max_history_bytes(LIMIT)
        .build()
        .unwrap();
    let history = agent.session("s").run("Go").await.unwrap().messages;
    let results = history.tool_messages().map(|message| {
        let result = message.as_tool_result().unwrap();
        let text = result.content.text();
        (
            result.details.is_some(),
            text.contains("details of this result were removed"),
        )
    });

    let expected = [(true, false), (false, true), (true, false)];
    assert_eq!(results.collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn texts_over_the_bytes_of_the_history_end_the_run_and_stay_up_to_three_quarters_of_what_is_left()
 {
    let log = Log::default();
    let model = FunctionModel::new(|request| {
        let id = format!("c{}", request.messages.len());
        vec![
            Ok(ModelEvent::Text("é".repeat(20_000))),
            Ok(ModelEvent::ToolCall(ToolCall::new(id, "act", json!({})))),
            Ok(ModelEvent::stop(StopReason::ToolUse)),
        ]
    });

    let agent = agent(model)
        .tool(logged("act", &log))
        .max_history_bytes(LIMIT);
    let agent = agent.build().unwrap();
    let error = agent.session("s").run("Go").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResponseTooLarge);
    assert!(error.text().contains("max_history_bytes"), "{error}");
    assert_eq!(log.len(), 2);
    let history = stored(&agent, "s").await;
    history.validate_for_model().unwrap();
    let last = history.last_content();
    assert!(
        last.len() < 14_500 && last.len() > 12_500 && last.starts_with("éé"),
        "{}",
        last.len()
    );
}

/// Returns the number of bytes that the text of an error names.
fn bytes_in(error: &Error) -> usize {
    let (_, end) = error.text().split_once(" has ").unwrap();
    let (number, _) = end.split_once(' ').unwrap();
    number.parse().unwrap()
}

#[tokio::test]
async fn text_that_is_stored_leaves_the_history_within_its_limit() {
    let answering = |max_bytes| {
        let model = FunctionModel::text(|_| "x".repeat(5_000));
        let agent = agent(model).max_history_bytes(max_bytes);
        agent.build().unwrap()
    };
    let input_bytes = bytes_in(&answering(1).run("Hi").await.unwrap_err());
    for bytes in (LIMIT - 3_000..LIMIT).step_by(50) {
        let session = answering(LIMIT).session("s");
        let error = session.clone().run("x".repeat(bytes)).await.unwrap_err();
        if error.kind() == ErrorKind::RequestTooLarge {
            continue;
        }
        let error = session.run("Hi").await.unwrap_err();
        if error.text().contains("the history of the session has") {
            let history_bytes = bytes_in(&error) - input_bytes;
            assert!(history_bytes <= LIMIT, "{bytes}: {error}");
        }
    }
}

#[tokio::test]
async fn blocks_of_providers_count_as_bytes() {
    let model = FunctionModel::new(|_| {
        let raw = serde_json::value::to_raw_value(&vec![0; 300]).unwrap();
        let block = agentcore::message::ProviderBlock::new("function", raw);
        vec![
            Ok(ModelEvent::Part(Part::Opaque(block))),
            Ok(ModelEvent::stop(StopReason::PauseTurn)),
        ]
    });

    let agent = agent(model).max_history_bytes(2_000).build().unwrap();
    let error = agent.session("s").run("Go").await.unwrap_err();
    assert!(error.text().contains("max_history_bytes"), "{error}");
    stored(&agent, "s").await.validate_for_model().unwrap();
}

#[tokio::test]
async fn extra_and_annotations_count_toward_the_history() {
    let block = || {
        let raw = serde_json::value::to_raw_value(&"x".repeat(1 << 20)).unwrap();
        ProviderBlock::new("function", raw)
    };

    let cited_text = "x".repeat(1 << 20);
    let annotations = [
        Annotations::default().with_block(block()),
        Annotations::new([Citation::new("u").with_cited_text(cited_text)]),
        Annotations::new(vec![Citation::default(); 20_000]),
    ];
    let calls = vec![ToolCall::new("c", "act", json!({})).with_extra(block())];
    let parts = annotations.map(|one| vec![Part::text("I act."), Part::Annotations(one)]);
    let parts = parts
        .into_iter()
        .chain([calls.into_iter().map(Part::from).collect()]);
    for parts in parts {
        for (max_bytes, is_allowed) in [(1 << 20, false), (3 << 20, true)] {
            let log = Log::default();
            let events = parts.iter().cloned().map(ModelEvent::Part);
            let end = ModelEvent::stop(StopReason::EndTurn);
            let has_call = matches!(parts.as_slice(), [Part::ToolCall(_)]);
            let model = ScriptedModel::new().events(events.chain([end]).map(Ok).collect());
            let model = if has_call && is_allowed {
                model.say("Done.")
            } else {
                model
            };

            let agent = agent(model)
                .tool(logged("act", &log))
                .max_history_bytes(max_bytes);
            match agent.build().unwrap().run("Go").await {
                Ok(_) => assert!(is_allowed),
                Err(error) => {
                    assert!(!is_allowed, "{error}");
                    assert!(error.text().contains("max_history_bytes"), "{error}");
                }
            }
        }
    }
}

#[tokio::test]
async fn results_share_what_an_answer_may_bring() {
    let tool = || {
        FuncTool::new("long", "Is long", any_object(), |_cx, _args| async {
            "x".repeat(100_000)
        })
    };

    for (calls, history_bytes, expected) in [
        (1, 1 << 20, 10_000),
        (2, 1 << 20, 10_000),
        (8, 1 << 20, 2_500),
        (4, 30_000, 5_050),
    ] {
        let events = (0..calls).map(|n| ToolCall::new(format!("c{n}"), "long", json!({})));
        let events = events.map(ModelEvent::ToolCall);
        let events = events
            .chain([ModelEvent::stop(StopReason::ToolUse)])
            .map(Ok);
        let model = ScriptedModel::new().events(events.collect()).say("Done.");
        let agent = agent(model)
            .tool(tool())
            .max_result_bytes(10_000)
            .max_history_bytes(history_bytes)
            .build()
            .unwrap();
        let _ = agent.session("s").run("Go").await;
        let history = stored(&agent, "s").await;
        for result in history.tool_messages() {
            let text = result.text();
            assert!(
                text.len() <= expected && text.len() > expected - 100,
                "{}",
                text.len()
            );
            assert!(text.contains("bytes are more than the limit of"), "{calls}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn session_accepts_inputs_after_a_run_that_was_dropped_during_many_calls() {
    for bytes in (0..6_000).step_by(100) {
        let agent = agent(calling_at_once(40, bytes)).tool(slow());
        let agent = agent.max_history_bytes(4 * LIMIT);
        let session = agent.build().unwrap().session("s");
        let run = timeout(Duration::from_millis(500), session.clone().run("Go")).await;
        if let Ok(outcome) = run {
            assert_eq!(outcome.unwrap_err().kind(), ErrorKind::ResponseTooLarge);
        }
        session
            .run("Hi")
            .await
            .unwrap_or_else(|error| panic!("{bytes}: {error}"));
    }
}

/// Each result has the largest content, display text and details of the smallest limit.
#[tokio::test]
async fn session_accepts_inputs_after_large_results_in_a_history_that_is_almost_full() {
    for bytes in (30_000..40_000).step_by(250) {
        let full = FuncTool::new("act", "Acts", any_object(), |_cx, _: Value| async {
            ToolOutput::new("x".repeat(2_000))
                .with_details(json!({"a": "y".repeat(600)}))
                .with_display("z".repeat(300))
        });
        let agent = agent(calling_at_once(10, bytes)).tool(full);
        let agent = agent.max_history_bytes(4 * LIMIT);
        let session = agent.build().unwrap().session("s");
        if let Err(error) = session.clone().run("Go").await {
            assert_eq!(error.kind(), ErrorKind::ResponseTooLarge);
            assert!(
                error.text().contains("with this answer"),
                "{bytes}: {error}"
            );
        }
        session
            .run("Hi")
            .await
            .unwrap_or_else(|error| panic!("{bytes}: {error}"));
    }
}

#[tokio::test]
async fn session_accepts_inputs_after_one_that_just_fits_when_it_is_repaired() {
    let calls = (0..40).map(|number| ToolCall::new(format!("c{number}"), "act", args(10)));
    let input = Messages::from("Go").ai_calling("", calls);
    let session = |max_bytes| {
        let model = FunctionModel::text(|_| "ok".into());
        let agent = agent(model).tool(slow()).max_history_bytes(max_bytes);
        agent.build().unwrap().session("s")
    };
    for max_bytes in (1_000..LIMIT).step_by(500) {
        match session(max_bytes).run(input.clone()).await {
            Err(error) if error.kind() == ErrorKind::RequestTooLarge => {}
            _ => {
                let session = session(max_bytes + 2_000);
                session.clone().run(input).await.unwrap();
                session.run("Hi").await.unwrap();
                return;
            }
        }
    }
    panic!("no limit allows the input");
}

#[tokio::test]
async fn text_counts_as_it_stands_in_a_request() {
    let text = || ScriptedModel::new().say("\u{1}".repeat(LIMIT / 5));
    let agent = agent(text()).max_history_bytes(LIMIT).build().unwrap();
    let error = agent.session("s").run("Go").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResponseTooLarge);
    let history = stored(&agent, "s").await;
    let len = history.last_content().len();
    assert!(len <= LIMIT / 8 && len > LIMIT / 9, "{len}");

    let limits = ResponseLimits::default().with_max_bytes(6_000);
    let agent = crate::kit::agent(text())
        .response_limits(limits)
        .build()
        .unwrap();
    let error = agent.session("s").run("Go").await.unwrap_err();
    assert!(error.text().contains("max_bytes"), "{error}");
    assert_eq!(stored(&agent, "s").await.last_content().len(), 1_000);
}

fn slow() -> FuncTool {
    FuncTool::new("act", "Acts", any_object(), |_cx, _: Value| async {
        sleep(1_000).await;
        "done"
    })
}

/// A tool that runs `children` children at once. Each makes one slow call of about `bytes` bytes
/// and answers `ok`. The result has the text or the error of each child.
fn delegating(children: usize, bytes: usize) -> FuncTool {
    FuncTool::new(
        "delegate",
        "Runs children",
        any_object(),
        move |cx: ToolContext, _: Value| async move {
            let child = |number: usize| {
                let cx = &cx;
                async move {
                    let model = FunctionModel::new(move |request| {
                        let end = match request.messages.len() {
                            1 => ModelEvent::ToolCall(ToolCall::new("c", "act", args(bytes))),
                            _ => ModelEvent::Text("ok".into()),
                        };
                        vec![Ok(end), Ok(ModelEvent::stop(StopReason::EndTurn))]
                    });
                    let child = agent(model).tool(slow()).build().unwrap();
                    match child
                        .session(format!("child{number}"))
                        .run_as_child(cx, "Go")
                        .await
                    {
                        Ok(output) => output.text,
                        Err(error) => error.to_string(),
                    }
                }
            };

            join_all((0..children).map(child)).await.join("\n")
        },
    )
}

#[tokio::test(start_paused = true)]
async fn histories_of_children_share_the_limit_of_their_root() {
    for (children, bytes, expected) in [(4, 15_000, 4), (4, 40_000, 2), (1, 110_000, 0)] {
        let model = ScriptedModel::new()
            .call("delegate", json!({}))
            .say("Done.");
        let agent = agent(model)
            .tool(delegating(children, bytes))
            .max_history_bytes(LIMIT);
        let output = agent.build().unwrap().run("Go").await.unwrap();
        assert_eq!(output.text, "Done.");
        let texts = output.messages.get(2).unwrap().text().into_owned();
        let ends: Vec<_> = texts.lines().collect();
        let successes = ends.iter().filter(|text| **text == "ok").count();
        assert_eq!((ends.len(), successes), (children, expected), "{texts}");
        for text in ends.iter().filter(|text| **text != "ok") {
            assert!(text.contains("those of its child runs"), "{text}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn children_one_after_another_return_their_share() {
    let model = ScriptedModel::new()
        .call("delegate", json!({"n": 1}))
        .call("delegate", json!({"n": 2}))
        .call("delegate", json!({"n": 3}))
        .say("Done.");
    let agent = agent(model)
        .tool(delegating(1, 80_000))
        .max_history_bytes(LIMIT);
    let output = agent.build().unwrap().run("Go").await.unwrap();
    let results = output.messages.tool_messages().map(|result| result.text());
    let results: Vec<_> = results.collect();
    assert!(results.iter().all(|text| text == "ok"), "{results:?}");
}

#[tokio::test]
async fn session_full_of_results_still_answers() {
    let long = FuncTool::new("long", "Is long", any_object(), |_cx, _args| async {
        "x".repeat(LIMIT)
    });
    let model = ScriptedModel::new()
        .call("long", json!({"n": 1}))
        .call("long", json!({"n": 2}))
        .call("long", json!({"n": 3}))
        .say("Done.")
        .say("Hello.");
    let agent = agent(model).tool(long).max_history_bytes(LIMIT);
    let agent = agent.build().unwrap();
    let output = agent.session("s").run("Go").await.unwrap();
    let lens: Vec<_> = output
        .messages
        .tool_messages()
        .map(|result| result.text().len())
        .collect();
    assert!(lens[0] > 70_000, "{lens:?}");
    assert_eq!(lens[1..], [1_023, 1_023]);
    assert_eq!(agent.session("s").run("Hi").await.unwrap().text, "Hello.");
}
