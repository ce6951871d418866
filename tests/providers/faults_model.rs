//! Unusual or invalid answers of a model, as they arrive from a server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use agentcore::testing::{FaultServer, Reply};
use agentcore::{
    AgentBuilder, ErrorKind, ExitReason, FuncTool, Messages, Result, RunOutput, SdkMessage,
};
use serde_json::{Value, json};

use crate::faults_kit::Api::{self, Anthropic as A, OpenAi as O};
use crate::faults_kit::{ALL, Call, accepted, blocks};
use crate::kit::{Log, any_object, echo, logged, result_texts, results, warnings, watch};

struct Played {
    output: Result<RunOutput>,
    shown: Vec<SdkMessage>,
    bodies: Vec<Value>,
}

/// Runs an agent on these replies. Checks that the API would accept each request, and that the
/// history is valid.
async fn play(
    api: Api,
    replies: impl IntoIterator<Item = Reply>,
    set: impl FnOnce(AgentBuilder) -> AgentBuilder,
) -> Played {
    let server = FaultServer::start().await.unwrap();
    for reply in replies {
        server.fallback(reply.clone());
        server.reply(reply);
    }

    let agent = set(api.agent(&server)).build().unwrap();
    let (shown, output) = watch(agent.run("Go")).await;
    let messages = match &output {
        Ok(output) => &output.messages,
        Err(error) => &error.partial().unwrap().messages,
    };

    messages.validate_for_model().unwrap();
    let bodies = accepted(api, &server);
    Played {
        output,
        shown,
        bodies,
    }
}

fn with(tool: FuncTool) -> impl FnOnce(AgentBuilder) -> AgentBuilder {
    move |builder| builder.tool(tool)
}

#[tokio::test]
async fn m1_call_with_arguments_that_are_not_a_json_object_does_not_run() {
    for api in ALL {
        for args in ["{\"text\": ", "[1]", "nonsense"] {
            let log = Log::default();
            let replies = [api.calls(&[("a", "act", args)]), api.text("done")];
            let played = play(api, replies, with(logged("act", &log))).await;
            let history = played.output.unwrap().messages;
            assert_eq!(log.len(), 0, "{api:?} {args}");
            assert!(results(&history)[0].is_error, "{api:?} {args}");
        }
    }
}

#[tokio::test]
async fn m2_call_that_violates_the_schema_does_not_run_and_names_the_path() {
    for api in ALL {
        let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
        let tool = FuncTool::new("act", "Acts", schema, |_, _| async { "ran" });
        let replies = [
            api.calls(&[("a", "act", r#"{"n":[true]}"#)]),
            api.text("done"),
        ];
        let history = play(api, replies, with(tool))
            .await
            .output
            .unwrap()
            .messages;
        assert!(results(&history)[0].is_error);
        assert!(
            result_texts(&history)[0].contains("/n"),
            "{:?}",
            result_texts(&history)
        );
    }
}

#[tokio::test]
async fn m3_empty_arguments_are_an_empty_object() {
    for api in ALL {
        let log = Log::default();
        let replies = [api.calls(&[("a", "act", "")]), api.text("done")];
        let played = play(api, replies, with(logged("act", &log))).await;
        assert_eq!(played.output.unwrap().text, "done");
        assert_eq!(log.take(), ["act{}"], "{api:?}");
    }
}

#[tokio::test]
async fn m4_result_for_an_unknown_tool_lists_the_nearest_names() {
    for api in ALL {
        let replies = [
            api.calls(&[("a", "Echo", "{}"), ("b", "eccho", "{}")]),
            api.text("done"),
        ];
        let history = play(api, replies, with(echo()))
            .await
            .output
            .unwrap()
            .messages;
        for result in results(&history) {
            assert!(result.is_error && result.content.text().contains("Did you mean: echo"));
        }
    }
}

#[tokio::test]
async fn m5_and_m6_duplicate_and_missing_call_ids_are_made_unique() {
    for api in ALL {
        for id in ["x", ""] {
            let replies = [
                api.calls(&[
                    (id, "echo", r#"{"text":"1"}"#),
                    (id, "echo", r#"{"text":"2"}"#),
                ]),
                api.calls(&[(id, "echo", r#"{"text":"3"}"#)]),
                api.text("done"),
            ];
            let played = play(api, replies, with(echo())).await;
            let history = played.output.unwrap().messages;
            assert_eq!(result_texts(&history), ["1", "2", "3"], "{api:?} {id:?}");
        }
    }
}

#[tokio::test]
async fn m7_and_m8_empty_answer_is_requested_once_more() {
    for api in ALL {
        for stop in ["end_turn", "tool_use"] {
            let empty = || api.answer("", &[], stop);
            let played = play(api, [empty(), api.text("done")], |b| b).await;
            assert_eq!(played.output.unwrap().text, "done");
            let [first, second] = &played.bodies[..] else {
                panic!("two requests");
            };
            assert_eq!(api.messages(first), api.messages(second));
            let played = play(api, [empty(), empty()], |b| b).await;
            let error = played.output.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::EmptyResponse, "{api:?} {stop}");
            assert_eq!(played.bodies.len(), 2);
        }
    }
}

#[tokio::test]
async fn m9_calls_run_with_stop_reason_end_turn() {
    for api in ALL {
        let call = api.answer(
            "Let me see.",
            &[("a", "echo", r#"{"text":"x"}"#)],
            "end_turn",
        );
        let played = play(api, [call, api.text("done")], with(echo())).await;
        assert_eq!(result_texts(&played.output.unwrap().messages), ["x"]);
    }
}

#[tokio::test]
async fn m10_refused_turn_is_not_sent_again() {
    for api in ALL {
        let server = FaultServer::start().await.unwrap();
        server.reply(api.answer("No.", &[], "refusal"));
        server.reply(api.text("Fine."));
        let agent = api.agent(&server).build().unwrap();
        let output = agent.session("s").run("Something bad").await.unwrap();
        assert_eq!(output.end, ExitReason::Refused, "{api:?}");
        let good = agent.session("s").run("Something good").await.unwrap();
        good.messages.validate_for_model().unwrap();
        let bodies = accepted(api, &server);
        assert!(!bodies[1].to_string().contains("bad"), "{}", bodies[1]);
    }
}

#[tokio::test]
async fn m11_incomplete_call_at_the_output_limit_does_not_run() {
    for api in ALL {
        let log = Log::default();
        let complete = ("a", "act", r#"{"n":1}"#);
        let half = ("b", "act", r#"{"n":"#);
        let replies = [
            api.answer("Both: ", &[complete, half], "max_tokens"),
            api.answer("One: ", &[half], "max_tokens"),
        ];
        let played = play(api, replies, with(logged("act", &log))).await;
        assert_eq!(played.output.unwrap().end, ExitReason::MaxTokens, "{api:?}");
        assert_eq!(log.take(), ["act{\"n\":1}"], "{api:?}");
        if api == Api::Gemini {
            // Gemini's stream has no incomplete calls.
            continue;
        }

        // A warning to the reader and a text to the model report that the call did not run.
        let warning = r#"output limit within a call of "act", which did not run"#;
        let texts = warnings(&played.shown);
        assert_eq!(
            texts.iter().filter(|text| text.contains(warning)).count(),
            2,
            "{texts:?}"
        );
        let body = played.bodies[1].to_string();
        assert!(
            body.contains("output limit within a call of"),
            "{api:?} {body}"
        );
    }
}

#[tokio::test]
async fn m12_paused_turn_is_sent_back_unchanged_and_counts_as_a_turn() {
    let paused = || {
        let start = json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search",
            "input": {}});
        let delta = json!({"type": "input_json_delta", "partial_json": r#"{"query":"rust"}"#});
        blocks([(start, delta)].into_iter(), "pause_turn")
    };

    let played = play(A, [paused(), A.text("done")], |b| b).await;
    assert_eq!(played.output.unwrap().turns, 2);
    let back = &played.bodies[1]["messages"][1]["content"][0];
    assert_eq!(back["id"], "srvtoolu_1");
    assert_eq!(back["input"], json!({"query": "rust"}));
    let played = play(A, [paused()], |b| b.max_turns(3)).await;
    assert_eq!(played.output.unwrap().end, ExitReason::MaxTurns);
    assert_eq!(played.bodies.len(), 3);
}

#[tokio::test]
async fn m13_unknown_stop_reason_ends_the_turn_with_a_warning() {
    for api in ALL {
        let played = play(api, [api.answer("done", &[], "tired")], |b| b).await;
        assert_eq!(played.output.unwrap().end, ExitReason::EndTurn);
        assert!(warnings(&played.shown)[0].contains("tired"), "{api:?}");
        let raw = serde_json::to_string(&played.shown).unwrap();
        assert!(raw.contains(r#""stop_reason":"tired""#), "{raw}");
    }
}

#[tokio::test]
async fn m14_same_call_five_times_ends_the_run() {
    for api in ALL {
        let call = api.calls(&[("x", "echo", r#"{"text":"again"}"#)]);
        let played = play(api, [call], with(echo())).await;
        assert_eq!(played.output.unwrap().end, ExitReason::LoopDetected);
        assert_eq!(played.bodies.len(), 5);
        assert!(!played.bodies[2].to_string().contains("third time"));
        assert!(played.bodies[3].to_string().contains("third time"));
    }
}

#[tokio::test]
async fn m15_endless_turns_end_at_turn_and_token_limits() {
    for api in ALL {
        let call = || [api.calls(&[("x", "echo", r#"{"text":"again"}"#)])];
        let endless = |b: AgentBuilder| b.tool(echo()).loop_detection(false);
        let played = play(api, call(), |b| endless(b).max_turns(7)).await;
        assert_eq!(played.output.unwrap().end, ExitReason::MaxTurns);
        assert_eq!(played.bodies.len(), 7);
        let played = play(api, call(), |b| endless(b).max_total_tokens(2_000)).await;
        assert_eq!(played.output.unwrap().end, ExitReason::MaxBudget, "{api:?}");
    }
}

#[tokio::test]
async fn m16_hundred_calls_run_four_at_a_time_and_results_keep_order() {
    for api in ALL {
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let peak = most.clone();
        let tool = FuncTool::new("act", "Acts", any_object(), move |_, args| {
            let (now, most) = (now.clone(), most.clone());
            async move {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::task::yield_now().await;
                now.fetch_sub(1, Ordering::SeqCst);
                args["n"].to_string()
            }
        });

        let calls: Vec<_> = (0..100)
            .map(|n| (format!("id{n}"), format!("{{\"n\":{n}}}")))
            .collect();
        let calls: Vec<Call<'_>> = calls.iter().map(|(id, n)| (&**id, "act", &**n)).collect();
        let replies = [api.calls(&calls), api.text("done")];
        let played = play(api, replies, |b| b.tool(tool).parallel_tools(4)).await;
        let expected: Vec<_> = (0..100).map(|n| n.to_string()).collect();
        assert_eq!(result_texts(&played.output.unwrap().messages), expected);
        assert_eq!(peak.load(Ordering::SeqCst), 4, "{api:?}");
        let count = api.messages(&played.bodies[1]).len();
        let system = api.messages(&played.bodies[0]).len();
        assert_eq!(count - system, if api == O { 101 } else { 2 });
    }
}

#[tokio::test]
async fn m17_and_m18_empty_result_is_filled_and_nul_is_replaced() {
    for api in ALL {
        for (said, sent) in [("", "(no output)"), ("nul\0nul", "nul\u{fffd}nul")] {
            let tool = FuncTool::new("act", "Acts", any_object(), move |_, _| async move { said });
            let replies = [
                api.answer("a\0b", &[("a", "act", "{}")], "tool_use"),
                api.text("done"),
            ];
            let played = play(api, replies, with(tool)).await;
            assert_eq!(played.output.unwrap().text, "done");
            let body = played.bodies[1].to_string();
            assert!(body.contains(sent), "{api:?} {body}");
        }
    }
}

#[tokio::test]
async fn m20_consecutive_user_messages_are_sent_as_one_turn() {
    let server = FaultServer::start().await.unwrap();
    server.fallback(A.text("done"));
    let agent = A.agent(&server).build().unwrap();
    let two = Messages::from("one").human("two");
    agent.run(two).await.unwrap();
    let body = accepted(A, &server)[0].to_string();
    assert!(body.contains("one") && body.contains("two"), "{body}");
}

#[tokio::test]
async fn m20_leading_assistant_message_is_repaired_or_rejected() {
    for api in ALL {
        let server = FaultServer::start().await.unwrap();
        server.fallback(api.text("done"));
        let agent = api.agent(&server).build().unwrap();
        let input = Messages::new().ai("Hello").human("Go");
        match agent.run(input).await {
            Ok(output) => output.messages.validate_for_model().unwrap(),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::InvalidMessages, "{error}");
                assert!(server.requests().is_empty(), "{api:?}");
            }
        }

        accepted(api, &server);
    }
}
