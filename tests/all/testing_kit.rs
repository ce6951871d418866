//! The testing kit, tested: a kit that lets mistakes pass proves nothing.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Duration;

use agentcore::message::{Media, ProviderBlock};
use agentcore::model::{
    ModelEvent, ModelProfile, ModelSettings, ModelStream, Prices, ResponseHead, Stability,
    StopReason, SystemPrompt, ToolDefinition,
};
use agentcore::testing::{Cassette, FunctionModel, ScriptedModel, Step, StrictModel, conformance};
use agentcore::{
    Error, ErrorKind, Message, Messages, Model, ModelRequest, ModelResponse, Part, Result,
    ToolCall, Usage,
};
use futures::StreamExt;
use serde_json::json;
use serde_json::value::RawValue;

fn block(provider: &str, raw: &str) -> ProviderBlock {
    ProviderBlock::new(provider, RawValue::from_string(raw.to_owned()).unwrap())
}

async fn events(model: &impl Model, request: ModelRequest) -> Vec<Result<ModelEvent>> {
    model.stream(request).await.unwrap().collect().await
}

async fn ask(model: &impl Model, request: impl Into<ModelRequest>) -> Result<ModelResponse> {
    model.call(request.into()).await
}

fn plain(events: Vec<Result<ModelEvent>>) -> Vec<ModelEvent> {
    events.into_iter().map(Result::unwrap).collect()
}

mod scripted {
    use super::*;

    #[tokio::test]
    async fn text_streams_word_by_word_between_start_and_stop() {
        let model = ScriptedModel::new()
            .say("  two  words\n")
            .with_usage(Usage::new(3, 4));
        let events = plain(events(&model, ModelRequest::new("hi")).await);
        assert_eq!(
            events,
            [
                ModelEvent::Start(Box::new(ResponseHead::new("response_1", "scripted"))),
                ModelEvent::Text("  ".into()),
                ModelEvent::Text("two  ".into()),
                ModelEvent::Text("words\n".into()),
                ModelEvent::Usage(Usage::new(3, 4)),
                ModelEvent::stop(StopReason::EndTurn),
            ]
        );
        model.assert_finished();
    }

    #[tokio::test]
    async fn calls_are_numbered_across_turns() {
        let model = ScriptedModel::new()
            .calls([("a", json!({"x": 1})), ("b", json!({}))])
            .step(Step::text("and").and_call_raw("c", "{oops"));
        let first = ask(&model, ModelRequest::new("1")).await.unwrap();
        let second = ask(&model, ModelRequest::new("2")).await.unwrap();
        let ids: Vec<_> = first
            .tool_calls()
            .chain(second.tool_calls())
            .map(|c| c.id.to_string())
            .collect();
        assert_eq!(ids, ["call_1", "call_2", "call_3"]);
        assert_eq!(first.stop_reason, Some(StopReason::ToolUse));
        let broken = second.tool_calls().next().unwrap();
        assert!(broken.args.is_null());
        assert_eq!(broken.raw_args.as_deref(), Some("{oops"));
    }

    #[tokio::test]
    async fn an_unexpected_call_fails_and_names_its_number() {
        let model = ScriptedModel::new().say("once");
        ask(&model, ModelRequest::new("1")).await.unwrap();
        let error = ask(&model, ModelRequest::new("more")).await.unwrap_err();
        assert!(
            error.text().starts_with("call 2 was not expected"),
            "{error}"
        );
        assert!(error.text().contains("more"), "{error}");
        assert!(!error.is_retryable());
        assert!(model.verify().unwrap_err().text().contains("call 2"));
    }

    #[tokio::test]
    async fn steps_and_expectations_left_over_are_reported() {
        let model = ScriptedModel::new().say("1").say("2").expect(|_| ());
        ask(&model, ModelRequest::new("x")).await.unwrap();
        let text = model.verify().unwrap_err().to_string();
        assert!(
            text.contains("1 of 2 scripted steps were not used"),
            "{text}"
        );
        assert!(
            text.contains("an expectation has no step after it"),
            "{text}"
        );
    }

    #[test]
    fn the_drop_of_the_last_handle_panics_unless_it_was_verified() {
        let model = ScriptedModel::new().say("never");
        let other = model.clone();
        drop(model);
        let dropped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(other)));
        assert!(dropped.is_err());
        let checked = ScriptedModel::new().say("never");
        assert!(checked.verify().is_err());
        drop(checked);
        let excused = ScriptedModel::new().say("never");
        excused.allow_unused();
        drop(excused);
    }

    #[test]
    #[should_panic(expected = "the first panic")]
    fn a_panicking_thread_is_not_panicked_again() {
        let _model = ScriptedModel::new().say("never");
        panic!("the first panic");
    }

    #[tokio::test]
    async fn a_failed_expectation_fails_the_call_and_the_verification() {
        let model = ScriptedModel::new()
            .say("first")
            .expect(|request| assert!(request.tools.is_empty(), "no tools wanted"))
            .say("second");
        ask(&model, ModelRequest::new("1")).await.unwrap();
        let tool = ToolDefinition::new("t", "", json!({"type": "object"}));
        let request = ModelRequest::new("2").with_tools([tool]);
        let error = ask(&model, request).await.unwrap_err();
        assert_eq!(error.text(), "call 2: no tools wanted");
        assert!(
            model
                .verify()
                .unwrap_err()
                .text()
                .contains("no tools wanted")
        );
    }

    #[tokio::test]
    async fn failures_and_exact_events_come_as_they_are() {
        let model = ScriptedModel::new()
            .fail(Error::new(ErrorKind::Overloaded, "busy"))
            .events(vec![
                Ok(ModelEvent::Text("par".into())),
                Err(Error::new(ErrorKind::StreamTruncated, "gone")),
            ])
            .events(vec![Ok(ModelEvent::Text("tial".into()))]);
        let error = ask(&model, ModelRequest::new("1")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Overloaded);
        assert_eq!(events(&model, ModelRequest::new("2")).await.len(), 2);
        let error = ask(&model, ModelRequest::new("3")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StreamTruncated);
    }

    #[tokio::test(start_paused = true)]
    async fn a_delay_waits_and_a_hang_never_ends() {
        let wait = Duration::from_secs(5);
        let model = ScriptedModel::new()
            .say("late")
            .delayed(wait)
            .step(Step::text("partial").then_hang());
        let start = tokio::time::Instant::now();
        ask(&model, ModelRequest::new("1")).await.unwrap();
        assert_eq!(start.elapsed(), wait);
        let mut stream = model.stream(ModelRequest::new("2")).await.unwrap();
        stream.next().await.unwrap().unwrap();
        assert_eq!(
            stream.next().await.unwrap().unwrap(),
            ModelEvent::Text("partial".into())
        );
        let day = Duration::from_secs(86_400);
        assert!(tokio::time::timeout(day, stream.next()).await.is_err());
    }

    #[tokio::test]
    async fn a_kept_handle_sees_the_requests_and_may_extend_the_script() {
        let kept = ScriptedModel::new().say("1");
        let given: Arc<dyn Model> = Arc::new(kept.clone());
        ask(&given, ModelRequest::new("first")).await.unwrap();
        drop(kept.clone().say("2"));
        ask(&given, ModelRequest::new("second")).await.unwrap();
        let asked: Vec<_> = kept
            .requests()
            .iter()
            .map(|r| r.messages.last_content().into_owned())
            .collect();
        assert_eq!(asked, ["first", "second"]);
        kept.assert_finished();
    }

    #[tokio::test]
    async fn usage_before_the_first_step_is_every_steps_default() {
        let model = ScriptedModel::new()
            .with_usage(Usage::new(1, 1))
            .say("a")
            .say("b")
            .with_usage(Usage::new(7, 7));
        let one = ask(&model, ModelRequest::new("x")).await.unwrap();
        let two = ask(&model, ModelRequest::new("x")).await.unwrap();
        assert_eq!((one.usage, two.usage), (Usage::new(1, 1), Usage::new(7, 7)));
    }
}

mod function {
    use super::*;

    #[tokio::test]
    async fn missing_ends_are_added_and_given_ones_kept() {
        let calls = FunctionModel::new(|_| {
            vec![Ok(ModelEvent::ToolCall(ToolCall::new("1", "t", json!({}))))]
        });
        let response = calls.call(ModelRequest::new("x")).await.unwrap();
        assert_eq!(response.stop_reason, Some(StopReason::ToolUse));

        let own = FunctionModel::new(|_| {
            vec![
                Ok(ModelEvent::Start(Box::new(ResponseHead::new("own", "m")))),
                Ok(ModelEvent::stop(StopReason::MaxTokens)),
            ]
        });
        assert_eq!(events(&own, ModelRequest::new("x")).await.len(), 2);

        let broken = FunctionModel::new(|_| vec![Err(Error::new(ErrorKind::Server, "500"))]);
        let events = events(&broken, ModelRequest::new("x")).await;
        assert_eq!(events.len(), 1);
    }

    #[tokio::test]
    async fn a_stream_function_may_wait_and_fail() {
        let model = FunctionModel::stream(|request| async move {
            tokio::task::yield_now().await;
            if request.messages.len() > 1 {
                return Err(Error::new(ErrorKind::InvalidRequest, "too many"));
            }
            let stream: ModelStream =
                futures::stream::iter([Ok(ModelEvent::stop(StopReason::EndTurn))]).boxed();
            Ok(stream)
        });
        assert!(model.call(ModelRequest::new("x")).await.is_ok());
        let two = Messages::new().human("a").ai("b");
        assert!(model.call(ModelRequest::new(two)).await.is_err());
    }
}

mod strict {
    use super::*;

    fn call(id: &str) -> ToolCall {
        ToolCall::new(id, "tool", json!({}))
    }

    async fn refused(request: impl Into<ModelRequest>) -> String {
        let model = StrictModel::new(FunctionModel::text(|_| "ok".into()));
        match model.call(request.into()).await {
            Ok(_) => String::new(),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::InvalidRequest);
                assert_eq!(model.violations().join("; "), error.text());
                error.to_string()
            }
        }
    }

    #[tokio::test]
    async fn a_legal_history_passes() {
        let legal = Messages::new()
            .system("rules")
            .human("hi")
            .human("again")
            .ai_calling("", [call("1"), call("2")])
            .tool("2", "tool", "out of order is fine")
            .tool("1", "tool", "ok")
            .human("and")
            .ai("done")
            .human("more");
        assert_eq!(refused(legal).await, "");
        let unparsed = Messages::new()
            .human("hi")
            .with(Message::ai_calling(
                "",
                [ToolCall::from_raw("1", "tool", "{oops")],
            ))
            .tool("1", "tool", "Error: not JSON");
        assert_eq!(refused(unparsed).await, "");
    }

    #[tokio::test]
    async fn every_rule_refuses_and_names_the_index() {
        let base = || Messages::new().human("hi");
        let cases = [
            (Messages::new(), "there is no message"),
            (Messages::new().system("only"), "there is no message"),
            (
                Messages::new().ai("me first"),
                "message[0]: the conversation begins",
            ),
            (Messages::new().tool("1", "t", "x"), "message[0]"),
            (base().ai("a").ai("b"), "message[2]: two assistant messages"),
            (
                base().ai("a").system("late"),
                "message[2]: a system message inside",
            ),
            (
                base().with(Message::human(agentcore::Content::new())),
                "message[1]: empty content",
            ),
            (base().ai(""), "message[1]: an empty text block"),
            (
                base().ai_calling("", [call("1")]),
                "message[1]: the call \"1\" has no result",
            ),
            (
                base()
                    .ai_calling("", [call("1")])
                    .human("x")
                    .tool("1", "tool", "late"),
                "message[1]: the call \"1\" has no result",
            ),
            (
                base()
                    .ai_calling("", [call("1")])
                    .tool("1", "tool", "x")
                    .tool("1", "tool", "y"),
                "message[3]: a second result",
            ),
            (
                base().ai_calling("", [call("1")]).tool("2", "tool", "x"),
                "message[2]: a result for \"2\"",
            ),
            (
                base().ai_calling("", [call("1")]).tool("1", "other", "x"),
                "message[2]: the result of \"1\" names",
            ),
            (
                base()
                    .ai_calling("", [call("1"), call("1")])
                    .tool("1", "tool", "x")
                    .tool("1", "tool", "x"),
                "used twice",
            ),
            (
                base().ai_calling("", [call("")]).tool("", "tool", "x"),
                "a call without an id",
            ),
            (
                base()
                    .ai_calling("", [ToolCall::new("1", "bad name", json!({}))])
                    .tool("1", "bad name", "x"),
                "not a legal tool name",
            ),
            (
                base()
                    .ai_calling("", [ToolCall::new("1", "tool", json!([1]))])
                    .tool("1", "tool", "x"),
                "not an object",
            ),
            (
                base().with(Message::human(Part::ToolCall(call("1")))),
                "only the model may write",
            ),
        ];
        for (messages, expected) in cases {
            let text = refused(messages.clone()).await;
            assert!(
                text.contains(expected),
                "{expected}: got {text:?} for {messages:?}"
            );
        }
    }

    #[tokio::test]
    async fn limits_and_tools_are_checked() {
        let tool = |name: &str, schema| ToolDefinition::new(name, "", schema);
        let object = || json!({"type": "object"});
        let with = |tools: Vec<ToolDefinition>| ModelRequest::new("hi").with_tools(tools);
        assert!(
            refused(ModelRequest::new("hi").with_max_tokens(0))
                .await
                .contains("max_tokens")
        );
        assert!(
            refused(with(vec![tool("a b", object())]))
                .await
                .contains("tools[0]")
        );
        assert!(
            refused(with(vec![tool(&"x".repeat(65), object())]))
                .await
                .contains("tools[0]")
        );
        assert!(
            refused(with(vec![tool("a", object()), tool("a", object())]))
                .await
                .contains("tools[1]")
        );
        assert!(
            refused(with(vec![tool("a", json!({"type": "string"}))]))
                .await
                .contains("schema")
        );
        assert_eq!(refused(with(vec![tool("a", object())])).await, "");
    }

    #[tokio::test]
    async fn thinking_must_come_back_byte_for_byte() {
        let raw = r#"{"type":"thinking", "thinking":"", "signature":"s"}"#;
        let script = ScriptedModel::new()
            .step(
                Step::new()
                    .and_thinking("hm", block("anthropic", raw))
                    .and_text("a"),
            )
            .say("b");
        let model = StrictModel::new(script);
        let answer = model.call(ModelRequest::new("hi")).await.unwrap();
        let history = |message: Message| Messages::new().human("hi").with(message).human("go on");
        let changed = [
            Part::Thinking(block("anthropic", &raw.replace(' ', ""))),
            "a".into(),
        ];
        let error = model
            .call(history(Message::ai(changed)).into())
            .await
            .unwrap_err();
        assert!(
            error.text().starts_with("message[1]: a thinking block"),
            "{error}"
        );
        let kept = history(answer.message().into());
        model.call(kept.clone().into()).await.unwrap();

        let stranger = StrictModel::new(FunctionModel::text(|_| "ok".into()));
        assert!(stranger.call(kept.clone().into()).await.is_err());
        let told = StrictModel::new(FunctionModel::text(|_| "ok".into())).knowing(&kept);
        assert!(told.call(kept.into()).await.is_ok());
    }
}

mod cassette {
    use super::*;

    struct File(std::path::PathBuf);

    impl File {
        fn new(name: &str) -> Self {
            let name = format!("agentcore-{}-{name}.jsonl", std::process::id());
            Self(std::env::temp_dir().join(name))
        }
    }

    impl Drop for File {
        fn drop(&mut self) {
            drop(std::fs::remove_file(&self.0));
        }
    }

    fn rich() -> Vec<Result<ModelEvent>> {
        let raw = "{\"b\": 1.0,  \"a\":\"\\u00e9\"}";
        let mut call = ToolCall::from_raw("c1", "t", "{ \"x\":1e2 }");
        call.args = Arc::new(json!({"x": 100.0}));
        let mut head = ResponseHead::new("r", "m");
        head.request_id = Some("req".into());
        vec![
            Ok(ModelEvent::Start(Box::new(head))),
            Ok(ModelEvent::Thinking("hm".into())),
            Ok(ModelEvent::Part(Part::Thinking(block("anthropic", raw)))),
            Ok(ModelEvent::Part(Part::Opaque(block("x", "[1 ,2]")))),
            Ok(ModelEvent::Part(Part::Image(Media::url(
                "http://example.org/i.png",
            )))),
            Ok(ModelEvent::Part(Part::Document(
                Media::bytes("application/pdf", b"%PDF").with_name("a.pdf"),
            ))),
            Ok(ModelEvent::Restart),
            Ok(ModelEvent::Text("te".into())),
            Ok(ModelEvent::PartEnd),
            Ok(ModelEvent::ToolCallStart {
                index: 3,
                id: "c1".into(),
                name: "t".into(),
            }),
            Ok(ModelEvent::ToolCallDelta {
                index: 3,
                json: "{".into(),
            }),
            Ok(ModelEvent::ToolCall(call)),
            Ok(ModelEvent::Usage(Usage::new(1, 2).with_cache(3, 4))),
            Ok(ModelEvent::Stop {
                reason: Some(StopReason::Other("odd".into())),
                sequence: Some("END".into()),
            }),
        ]
    }

    #[tokio::test]
    async fn every_event_survives_byte_for_byte() {
        let file = File::new("lossless");
        let profile = ModelProfile::default()
            .with_context_window(5)
            .with_prices(Prices::new(1.0, 2.0));
        let model = FunctionModel::new(|_| rich())
            .with_profile(profile.clone())
            .with_id("x:y");
        let recorded = Cassette::record(&file.0, model).unwrap();
        let first = plain(events(&recorded, ModelRequest::new("hi")).await);
        let replayed = Cassette::replay(&file.0).unwrap();
        assert_eq!(replayed.id(), "x:y");
        assert_eq!(replayed.profile(), &profile);
        let second = plain(events(&replayed, ModelRequest::new("hi")).await);
        assert_eq!(first, second);
        // Equality of calls ignores the spelling, the cassette must not.
        assert_eq!(format!("{first:?}"), format!("{second:?}"));
        replayed.verify().unwrap();
    }

    #[tokio::test]
    async fn errors_are_replayed_with_all_they_carry() {
        let file = File::new("errors");
        let error = || {
            Error::new(ErrorKind::RateLimited, "slow")
                .with_retry_after(Duration::from_millis(1500))
                .with_request_id("req_1")
                .with_status(429)
                .with_retryable(false)
        };
        let script = ScriptedModel::new()
            .fail(error())
            .events(vec![Ok(ModelEvent::Text("a".into())), Err(error())]);
        let recorded = Cassette::record(&file.0, script).unwrap();
        assert!(recorded.call(ModelRequest::new("hi")).await.is_err());
        assert!(recorded.call(ModelRequest::new("hi")).await.is_err());

        let replayed = Cassette::replay(&file.0).unwrap();
        let refused = replayed
            .stream(ModelRequest::new("hi"))
            .await
            .err()
            .unwrap();
        let mut torn = events(&replayed, ModelRequest::new("hi")).await;
        let torn = torn.pop().unwrap().unwrap_err();
        for replay in [refused, torn] {
            assert_eq!(format!("{replay:?}"), format!("{:?}", error()));
            assert!(!replay.is_retryable());
        }
    }

    #[tokio::test]
    async fn another_request_is_refused_with_what_differs() {
        let file = File::new("strict");
        let mut system = SystemPrompt::from("Be brief.");
        let recorded =
            Cassette::record(&file.0, FunctionModel::text(|_| "secret answer".into())).unwrap();
        let request = ModelRequest::new(Messages::new().human("my password").ai("a").human("b"))
            .with_system(system.clone());
        recorded.call(request.clone()).await.unwrap();
        let text = std::fs::read_to_string(&file.0).unwrap();
        assert!(
            !text.contains("password") && !text.contains("brief"),
            "{text}"
        );

        let replayed = Cassette::replay(&file.0).unwrap();
        let mut other = request.clone();
        other.messages.push(Message::ai("more"));
        *other.messages.get_mut(1).unwrap() = Message::ai("A");
        other.system = "Be long.".into();
        other.settings = ModelSettings::new().top_k(1);
        let error = replayed.call(other).await.unwrap_err();
        for part in [
            "the system prompt",
            "the settings",
            "message[1]",
            "4 messages, recorded were 3",
        ] {
            assert!(error.text().contains(part), "{error}");
        }
        assert!(!error.text().contains("the tools"), "{error}");
        assert!(replayed.verify().is_err());

        // A volatile section may differ.
        system.set("clock", "noon", Stability::Volatile);
        let again = request.clone().with_system(system);
        assert_eq!(replayed.call(again).await.unwrap().text(), "secret answer");
        replayed.verify().unwrap();
        assert!(replayed.call(request).await.is_err());
    }

    #[tokio::test]
    async fn a_stream_dropped_in_the_middle_is_kept_as_far_as_it_came() {
        let file = File::new("dropped");
        let recorded =
            Cassette::record(&file.0, FunctionModel::text(|_| "one two".into())).unwrap();
        let mut stream = recorded.stream(ModelRequest::new("hi")).await.unwrap();
        stream.next().await.unwrap().unwrap();
        stream.next().await.unwrap().unwrap();
        drop(stream);
        let replayed = Cassette::replay(&file.0).unwrap();
        let error = replayed.call(ModelRequest::new("hi")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StreamTruncated);
    }

    #[test]
    fn a_file_that_is_no_cassette_is_refused_with_its_line() {
        let file = File::new("corrupt");
        let kind = |text: &str| {
            std::fs::write(&file.0, text).unwrap();
            Cassette::replay(&file.0).unwrap_err()
        };
        assert_eq!(kind("").kind(), ErrorKind::Corrupt);
        let header =
            r#"{"cassette":1,"model":"m","context_window":1,"max_output_tokens":1,"images":true}"#;
        let error = kind(&format!("{header}\n{{torn"));
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.text().contains("jsonl:2"), "{error}");
        let newer = header.replace("\"cassette\":1", "\"cassette\":2");
        assert_eq!(kind(&newer).kind(), ErrorKind::VersionTooNew);
        let missing = Cassette::replay("/nonexistent/file").unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::Io);
    }
}

mod suite {
    use super::*;

    #[tokio::test]
    async fn the_kits_own_models_conform() {
        conformance::model(|| FunctionModel::text(|r| r.messages.last_content().into_owned()))
            .await
            .unwrap();
        conformance::model(|| StrictModel::new(FunctionModel::text(|_| "yes".into())))
            .await
            .unwrap();
        conformance::model(|| {
            let model = ScriptedModel::new().say("a").say("a").say("a");
            model.allow_unused();
            model
        })
        .await
        .unwrap();
    }

    #[tokio::test]
    async fn broken_models_fail_by_the_right_check() {
        let exact = |events: fn() -> Vec<Result<ModelEvent>>| {
            FunctionModel::stream(
                move |_| async move { Ok(futures::stream::iter(events()).boxed()) },
            )
        };
        type Events = fn() -> Vec<Result<ModelEvent>>;
        let cases: [(Events, &str); 5] = [
            (
                || vec![Ok(ModelEvent::stop(StopReason::EndTurn))],
                "not Start",
            ),
            (
                || vec![Ok(ModelEvent::Start(Box::default()))],
                "0 Stop events",
            ),
            (
                || {
                    vec![
                        Ok(ModelEvent::Start(Box::default())),
                        Ok(ModelEvent::stop(StopReason::EndTurn)),
                        Ok(ModelEvent::Text("late".into())),
                    ]
                },
                "not Stop",
            ),
            (
                || {
                    vec![
                        Ok(ModelEvent::Start(Box::default())),
                        Ok(ModelEvent::Usage(Usage::new(1, 1))),
                        Ok(ModelEvent::Usage(Usage::default())),
                        Ok(ModelEvent::stop(StopReason::EndTurn)),
                    ]
                },
                "takes back",
            ),
            (
                || {
                    vec![
                        Ok(ModelEvent::Start(Box::default())),
                        Ok(ModelEvent::ToolCall(ToolCall::new("", "t", json!({})))),
                        Ok(ModelEvent::stop(StopReason::EndTurn)),
                    ]
                },
                "without an id",
            ),
        ];
        for (events, expected) in cases {
            let report = conformance::model(|| exact(events)).await.unwrap_err();
            assert!(report.text().contains(expected), "{expected}: {report}");
        }
        let count = Arc::new(std::sync::atomic::AtomicU32::new(0));
        let fickle = FunctionModel::text(move |_| {
            count
                .fetch_add(1, std::sync::atomic::Ordering::Relaxed)
                .to_string()
        });
        let report = conformance::model(|| fickle.clone()).await.unwrap_err();
        assert!(
            report.text().starts_with("call() against stream()"),
            "{report}"
        );
        let mixed = FunctionModel::text(|request| {
            let apple = request.messages.last_content().contains("apple");
            if apple { "pear" } else { "apple" }.to_owned()
        });
        let report = conformance::model(|| mixed.clone()).await.unwrap_err();
        assert!(report.text().starts_with("two streams at once"), "{report}");
    }
}
