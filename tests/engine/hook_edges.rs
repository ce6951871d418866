//! Hooks with unusual results, and their effect on the run and its history.

use agentcore::hook::{self, FnHook};
use agentcore::sdk::{ApiStreamEvent, SystemKind};
use agentcore::testing::{ScriptedModel, Step, StrictModel};
use agentcore::tool::{AskOrigin, Verdict};
use agentcore::{
    Error, ErrorKind, ExitReason, Message, Messages, ModelEvent, ModelResponse, SdkMessage,
    StopDecision, ToolCall, ToolDecision, ToolResult,
};
use serde_json::{Value, json};

use crate::kit::retrying::{fails_midway, retrying, streamed_text, streaming};
use crate::kit::{
    Log, agent, collect, echo, kinds, logged, result_texts, results, roles, warnings, watch,
};

fn pre(name: &'static str, decision: ToolDecision) -> FnHook {
    hook::pre_tool_use(name, move |_, _| {
        let decision = decision.clone();
        async move { Ok(decision) }
    })
}

fn echoing() -> ScriptedModel {
    ScriptedModel::new()
        .call("echo", json!({"text": "x"}))
        .say("done")
}

async fn answer_of(hooks: Vec<FnHook>) -> ToolResult {
    let agent = agent(StrictModel::new(echoing()))
        .tool(echo())
        .hooks(hooks)
        .build()
        .unwrap();
    results(&agent.run("Go").await.unwrap().messages).remove(0)
}

#[test]
fn combined_verdict_is_the_strongest_and_the_first_among_equals() {
    let ask = |origin| Verdict::Ask {
        question: "1".into(),
        origin,
    };

    let verdicts = [
        Verdict::Continue,
        Verdict::Allow,
        ask(AskOrigin::Mode),
        ask(AskOrigin::Hook),
        ask(AskOrigin::Rule),
        Verdict::Deny("1".into()),
        Verdict::Stop("1".into()),
    ];
    for (weak, one) in verdicts.iter().enumerate() {
        for other in &verdicts[weak..] {
            assert_eq!(one.clone().combine(other.clone()), *other);
            assert_eq!(other.clone().combine(one.clone()), *other);
        }
    }

    let first = Verdict::Deny("first".into());
    assert_eq!(first.clone().combine(Verdict::Deny("second".into())), first);
}

#[tokio::test]
async fn all_pre_tool_use_hooks_run_and_their_contexts_are_joined() {
    let result = answer_of(vec![
        pre("a", ToolDecision::allow().with_context("One.")),
        pre("b", ToolDecision::deny("no").with_context("Two.")),
        pre(
            "c",
            ToolDecision::deny("never").with_args(json!({"text": "y"})),
        ),
        pre("d", ToolDecision::proceed().with_context("Three.")),
    ])
    .await;
    assert!(result.is_error);
    assert_eq!(result.content.text(), "Error: no\n\nOne.\n\nTwo.\n\nThree.");
}

#[tokio::test]
async fn denial_without_a_reason_is_a_denied_result() {
    for reason in ["", " \n"] {
        let result = answer_of(vec![pre("a", ToolDecision::deny(reason))]).await;
        assert_eq!(
            (result.is_error, &*result.content.text()),
            (true, "Error: denied")
        );
    }
}

#[tokio::test]
async fn arguments_set_by_a_hook_are_checked_against_the_schema() {
    for (args, expected) in [
        (json!([1]), "expected object, got array"),
        (Value::Null, "expected object, got null"),
        (json!("x"), "expected object, got string"),
    ] {
        let result = answer_of(vec![pre("a", ToolDecision::allow().with_args(args))]).await;
        let text = result.content.text();
        assert!(result.is_error && text.contains(expected), "{text}");
    }
}

#[tokio::test]
async fn result_made_by_a_hook_keeps_call_id_and_tool_name() {
    let other = ToolCall::new("other", "other", json!({}));
    let (made, changed) = (other.clone(), other);
    let wrap = hook::wrap_tool_call("wrap", move |_call, _next| {
        let made = ToolResult::ok(&made, "made up");
        async move { Ok(made) }
    });

    let post = hook::post_tool_use("post", move |_cx, _call, result| {
        let mut next = ToolResult::ok(&changed, format!("{}!", result.content.text()));
        next.details = Some(json!({"n": 1}));
        next.silent = true;
        async move { Ok(next) }
    });

    for hooks in [vec![wrap, post]] {
        let result = answer_of(hooks).await;
        assert_eq!((&*result.tool_call_id, &*result.name), ("call_1", "echo"));
        assert_eq!(result.content.text(), "made up!");
        assert!(result.silent && result.details == Some(json!({"n": 1})));
    }
}

#[tokio::test]
async fn post_tool_use_hooks_run_in_order_and_only_for_calls_that_ran() {
    let post = |name: &'static str| {
        hook::post_tool_use(name, move |_cx, _call, mut result| async move {
            result
                .content
                .push_text(&format!(" {name}:{}", result.is_error));
            Ok(result)
        })
    };

    let deny = pre("deny", ToolDecision::deny("no"));
    assert_eq!(
        answer_of(vec![post("a"), post("b")]).await.content.text(),
        "x a:false b:false"
    );

    // A call that did not run has no result for `post_tool_use`.
    assert_eq!(
        answer_of(vec![post("a"), deny]).await.content.text(),
        "Error: no"
    );
}

#[tokio::test]
async fn post_tool_use_hooks_after_one_that_failed_do_not_run() {
    let fail = hook::post_tool_use("fail", |_cx, _call, _result| async {
        Err(Error::new(ErrorKind::Other, "broken"))
    });

    let log = Log::default();
    let see = |name: &'static str| {
        hook::post_tool_use_with(
            name,
            log.clone(),
            move |log, _cx, _call, result| async move {
                log.add(name);
                Ok(result)
            },
        )
    };

    let result = answer_of(vec![see("first"), fail, see("last")]).await;
    let text = result.content.text();
    assert!(result.is_error && text.contains("`fail`"), "{text}");
    assert_eq!(log.take(), ["first"]);
}

#[tokio::test]
async fn stop_in_a_hook_ends_the_run_before_its_next_turn() {
    let stop_first = hook::before_agent("stop", |cx, state| async move {
        cx.stop("enough");
        Ok(state)
    });
    let stop_prepared = hook::modify_request("stop", |cx, messages| async move {
        cx.stop("enough");
        Ok(messages)
    });

    let calling = ScriptedModel::new().call("echo", json!({"text": "x"}));
    for (stop, model, is_called) in [
        (stop_first, ScriptedModel::new(), false),
        (stop_prepared, calling, true),
    ] {
        let agent = agent(StrictModel::new(model.clone()))
            .tool(echo())
            .hook(stop)
            .build()
            .unwrap();
        let output = agent.run("Go").await.unwrap();
        assert_eq!(output.end, ExitReason::HookStopped);
        assert_eq!(output.turns, u32::from(is_called));
        assert_eq!(model.requests().len(), usize::from(is_called));

        // A stop while a request is prepared lets the calls of its response run.
        let expected: &[&str] = if is_called { &["x"] } else { &[] };
        assert_eq!(result_texts(&output.messages), expected);
    }
}

#[tokio::test]
async fn hook_stop_among_parallel_calls_leaves_a_valid_history() {
    let log = Log::default();
    let stop = hook::pre_tool_use("stop", |_, call: ToolCall| async move {
        Ok(match &*call.name {
            "second" => ToolDecision::stop("enough"),
            _ => ToolDecision::proceed(),
        })
    });

    let model = ScriptedModel::new().calls([
        ("first", json!({})),
        ("second", json!({})),
        ("third", json!({})),
    ]);
    let agent = agent(model)
        .tools([
            logged("first", &log),
            logged("second", &log),
            logged("third", &log).exclusive(),
        ])
        .hook(stop)
        .build()
        .unwrap();
    let output = agent.run("Go").await.unwrap();
    assert_eq!(output.end, ExitReason::HookStopped);
    assert_eq!(roles(&output.messages), "user assistant tool tool tool");
    output.messages.validate_for_model().unwrap();
    assert_eq!(result_texts(&output.messages)[1], "Error: enough");
    assert!(
        !log.take()
            .iter()
            .any(|ran| ran.starts_with("second") || ran.starts_with("third"))
    );
}

#[tokio::test]
async fn response_made_by_a_hook_is_treated_as_an_answer() {
    let made = hook::wrap_model_call("made", |request, _next| async move {
        let asked = request.messages.tool_messages().count();
        Ok(match asked {
            0 => ModelResponse::new(
                Message::ai_calling("", [ToolCall::new("", "echo", json!({"text": "a"}))])
                    .content()
                    .clone(),
            ),
            _ => ModelResponse::new("made up"),
        })
    });

    let agent = agent(ScriptedModel::new())
        .tool(echo())
        .hook(made)
        .build()
        .unwrap();
    let output = agent.run("Go").await.unwrap();
    assert_eq!((&*output.text, output.turns), ("made up", 2));
    assert_eq!(result_texts(&output.messages), ["a"]);
    output.messages.validate_for_model().unwrap();
}

#[tokio::test]
async fn invalid_history_from_before_agent_is_repaired() {
    let broken = hook::before_agent("broken", |_cx, mut state| async move {
        state.messages = Messages::new()
            .tool("z", "f", "nobody asked")
            .human("Earlier")
            .ai_calling("", [ToolCall::new("a", "f", json!({}))]);
        Ok(state)
    });

    let agent = agent(StrictModel::new(ScriptedModel::new().say("done")))
        .hook(broken)
        .build()
        .unwrap();
    let output = agent.run("Go").await.unwrap();
    assert_eq!(output.text, "done");
    output.state.messages.validate_for_model().unwrap();
    assert_eq!(
        roles(&output.state.messages),
        "user assistant tool user assistant"
    );
}

#[tokio::test]
async fn event_tap_sees_a_start_per_attempt_and_a_stop_on_success_only() {
    let log = Log::default();
    let seen = log.clone();
    let hook = retrying(move |request| {
        let seen = seen.clone();
        request.map_events(move |event| {
            seen.add(match &event {
                ModelEvent::Start(_) => "start".to_owned(),
                ModelEvent::Text(text) => text.clone(),
                ModelEvent::Stop { .. } => "stop".to_owned(),
                _ => "other".to_owned(),
            });

            [event]
        })
    });

    let messages = collect(streaming(fails_midway(), [hook]).run("Go")).await;
    let seen = log.take();
    assert_eq!(seen[..2], ["start", "Hal"]);
    assert_eq!(seen.iter().filter(|what| *what == "start").count(), 2);
    assert_eq!(seen.iter().filter(|what| *what == "stop").count(), 1);
    assert_eq!(seen.last().unwrap(), "stop");
    let attempts: Vec<u32> = messages
        .iter()
        .filter_map(|message| match message {
            SdkMessage::Partial(event) if message.text_delta().is_some() => Some(event.attempt),
            _ => None,
        })
        .collect();
    assert_eq!(attempts, [0, 1]);
}

#[tokio::test]
async fn muted_failed_attempt_emits_no_restart() {
    // The first attempt emits no events, so there is nothing to restart.
    let hook = hook::wrap_model_call("mute first", |request, next| async move {
        match next.run(request.clone().mute_events()).await {
            Ok(response) => Ok(response),
            Err(_) => next.run(request).await,
        }
    });
    let messages = collect(streaming(fails_midway(), [hook]).run("Go")).await;
    assert_eq!(streamed_text(&messages), "Hello");
    assert!(!kinds(&messages).contains(&"system/stream_restart".into()));
}

#[tokio::test]
async fn held_events_before_a_restart_are_discarded() {
    let step = Step::text("Hal")
        .and_event(ModelEvent::Restart)
        .and_text("Hello");
    let hold = retrying(agentcore::ModelRequest::hold_events);
    let messages = collect(streaming(ScriptedModel::new().step(step), [hold]).run("Go")).await;
    assert_eq!(streamed_text(&messages), "Hello");
}

#[tokio::test]
async fn event_tap_that_drops_all_events_keeps_the_answer() {
    let none = hook::wrap_model_call("none", |request, next| async move {
        next.run(request.map_events(|_event| None)).await
    });
    let messages = collect(streaming(ScriptedModel::new().say("kept"), [none]).run("Go")).await;
    assert_eq!(streamed_text(&messages), "");
    let result = messages.last().unwrap().as_result().unwrap();
    assert_eq!(result.result.as_deref(), Some("kept"));
}

#[tokio::test]
async fn text_added_by_a_tap_keeps_content_blocks_separate() {
    let add = hook::wrap_model_call("add", |request, next| async move {
        next.run(request.pipe_events(|event, out| {
            if matches!(event, ModelEvent::Stop { .. }) {
                out.push(ModelEvent::Text(" [end]".into()));
            }

            out.push(event);
        }))
        .await
    });

    let model = ScriptedModel::new()
        .step(Step::text("a").and_call("echo", json!({"text": "x"})))
        .say("b");
    let agent = agent(model)
        .tool(echo())
        .hook(add)
        .include_partial_messages(true)
        .build()
        .unwrap();
    let messages = collect(agent.run("Go")).await;
    assert_eq!(streamed_text(&messages), "a [end]b [end]");
    let mut open = None;
    let mut next = 0;
    for message in &messages {
        let SdkMessage::Partial(event) = message else {
            continue;
        };

        match &event.event {
            ApiStreamEvent::MessageStart { .. } => (open, next) = (None, 0),
            ApiStreamEvent::ContentBlockStart { index, .. } => {
                assert_eq!((open, *index), (None, next));
                open = Some(*index);
                next += 1;
            }
            ApiStreamEvent::ContentBlockDelta { index, .. } => assert_eq!(open, Some(*index)),
            ApiStreamEvent::ContentBlockStop { index } => assert_eq!(open.take(), Some(*index)),
            _ => assert_eq!(open, None),
        }
    }
}

#[tokio::test]
async fn before_stop_hook_that_always_continues_ends_at_the_turn_limit() {
    let on = hook::before_stop("on", |_, _| async {
        Ok(StopDecision::continue_with("More"))
    });
    let model = ScriptedModel::new().say("1").say("2").say("3");
    let agent = agent(model).hook(on).max_turns(3).build().unwrap();
    let (messages, output) = watch(agent.run("Go")).await;
    let output = output.unwrap();
    assert_eq!((output.end, output.turns), (ExitReason::MaxTurns, 3));
    assert_eq!(kinds(&messages).last().unwrap(), "result/error_max_turns");
    output.messages.validate_for_model().unwrap();
}

#[tokio::test]
async fn event_emitted_in_before_agent_follows_init() {
    let emit = hook::before_agent("emit", |cx, state| async move {
        cx.emit(SystemKind::Unknown {
            subtype: "early".into(),
            fields: serde_json::Map::new(),
        });

        Ok(state)
    });

    let messages = collect(
        agent(ScriptedModel::new().say("a"))
            .hook(emit)
            .build()
            .unwrap()
            .run("Go"),
    )
    .await;
    assert_eq!(
        kinds(&messages),
        ["system/init", "system/early", "assistant", "result/success"]
    );
}

#[tokio::test]
async fn deep_field_of_an_event_is_removed_with_a_warning() {
    let emit = hook::before_agent("emit", |cx, state| async move {
        let deep = (0..20_000).fold(json!(1), |value, _| Value::Array(vec![value]));
        let fields = [("deep".to_owned(), deep), ("flat".to_owned(), json!([2]))];
        cx.emit(SystemKind::Unknown {
            subtype: "own".into(),
            fields: fields.into_iter().collect(),
        });
        Ok(state)
    });
    let agent = agent(ScriptedModel::new().say("ok")).hook(emit);
    let (messages, output) = watch(agent.build().unwrap().run("Go")).await;
    assert_eq!(output.unwrap().text, "ok");
    let events: Vec<Value> = messages
        .iter()
        .map(|message| serde_json::to_value(message).unwrap())
        .collect();
    let own = events.iter().find(|event| event["subtype"] == "own");
    let own = own.expect("the event");
    assert_eq!((&own["deep"], &own["flat"]), (&Value::Null, &json!([2])));
    let warnings = warnings(&messages);
    assert!(warnings[0].contains("not sent (1)"), "{warnings:?}");
}
