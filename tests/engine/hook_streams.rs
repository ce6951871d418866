//! Hooks that wrap the token stream.

use agentcore::hook::{self, FnHook};
use agentcore::testing::{ScriptedModel, Step};
use agentcore::{ErrorKind, ModelEvent, ModelRequest};

use crate::kit::retrying::{fails_midway, retrying, streamed_text, streaming};
use crate::kit::{collect, kinds};

fn around(name: &'static str) -> FnHook {
    hook::wrap_model_call(name, move |request, next| async move {
        next.run(request.map_events(move |event| {
            [match event {
                ModelEvent::Text(text) => ModelEvent::Text(format!("{name}({text})")),
                other => other,
            }]
        }))
        .await
    })
}

#[tokio::test]
async fn event_taps_nest_in_hook_order() {
    let agent = streaming(ScriptedModel::new().say("x"), [around("A"), around("B")]);
    let messages = collect(agent.run("Go")).await;
    assert_eq!(streamed_text(&messages), "A(B(x))");
    let result = messages.last().unwrap().as_result().unwrap();
    assert_eq!(
        result.result.as_deref(),
        Some("x"),
        "folded from raw events"
    );
}

#[tokio::test]
async fn event_tap_may_drop_add_and_flush_events() {
    let hold = hook::wrap_model_call("hold", |request, next| async move {
        let mut kept = String::new();
        next.run(request.pipe_events(move |event, out| match event {
            ModelEvent::Text(text) => kept.push_str(&text),
            stop @ ModelEvent::Stop { .. } => {
                out.push(ModelEvent::Text(kept.to_uppercase()));
                out.push(stop);
            }
            other => out.push(other),
        }))
        .await
    });

    let agent = streaming(ScriptedModel::new().say("one two"), [hold]);
    assert_eq!(streamed_text(&collect(agent.run("Go")).await), "ONE TWO");
}

#[tokio::test]
async fn each_attempt_has_a_new_tap_and_supersedes_the_previous_attempt() {
    let count = retrying(|request| {
        let mut n = 0;
        request.map_events(move |event| {
            n += usize::from(matches!(event, ModelEvent::Text(_)));
            let text =
                matches!(event, ModelEvent::Text(_)).then(|| ModelEvent::Text(n.to_string()));
            [text.unwrap_or(event)]
        })
    });

    let agent = streaming(fails_midway(), [count]);
    let messages = collect(agent.run("Go")).await;
    assert_eq!(streamed_text(&messages), "11");
    let kinds = kinds(&messages);
    let restart = kinds
        .iter()
        .position(|kind| kind == "system/stream_restart");
    let restart = serde_json::to_value(&messages[restart.unwrap()]).unwrap();
    let first = kinds
        .iter()
        .position(|kind| kind == "stream_event")
        .unwrap();
    assert_eq!(restart["attempt"], 1);
    assert_eq!(restart["supersedes"][0], messages[first].uuid().to_string());
}

#[tokio::test]
async fn held_events_are_emitted_only_when_the_attempt_succeeds() {
    let hold = retrying(ModelRequest::hold_events);
    let messages = collect(streaming(fails_midway(), [hold]).run("Go")).await;
    assert_eq!(streamed_text(&messages), "Hello");
    assert!(!kinds(&messages).contains(&"system/stream_restart".into()));
}

#[tokio::test]
async fn muted_requests_and_extra_requests_of_a_hook_emit_no_events() {
    let mute = hook::wrap_model_call("mute", |request, next| async move {
        next.run(request.mute_events()).await
    });

    let messages = collect(streaming(ScriptedModel::new().say("x"), [mute]).run("Go")).await;
    assert_eq!(
        kinds(&messages),
        ["system/init", "assistant", "result/success"]
    );
    let result = messages.last().unwrap().as_result().unwrap();
    assert!(result.ttft_ms.is_some(), "it is a response of the run");

    let judge = hook::wrap_model_call("judge", |request, next| async move {
        let answer = next.run(request).await?;
        next.run(agentcore::ModelRequest::new("Is that right?"))
            .await?;
        Ok(answer)
    });

    let model = ScriptedModel::new().say("x").say("yes");
    let messages = collect(streaming(model, [judge]).run("Go")).await;
    assert_eq!(streamed_text(&messages), "x");
}

#[tokio::test]
async fn model_restart_supersedes_emitted_text() {
    let step = Step::text("Hal")
        .and_event(ModelEvent::Restart)
        .and_text("Hello");
    let agent = streaming(
        ScriptedModel::new().step(step),
        [retrying(|request| request)],
    );
    let messages = collect(agent.run("Go")).await;
    assert_eq!(streamed_text(&messages), "HalHello");
    assert!(kinds(&messages).contains(&"system/stream_restart".into()));
    let result = messages.last().unwrap().as_result().unwrap();
    assert_eq!(result.result.as_deref(), Some("Hello"));
}

#[tokio::test]
async fn panic_in_an_event_tap_is_a_hook_error() {
    let bad = hook::wrap_model_call("bad", |request, next| async move {
        next.run(request.map_events(|event| match event {
            ModelEvent::Text(_) => panic!("boom"),
            other => [other],
        }))
        .await
    });
    let agent = streaming(ScriptedModel::new().say("x"), [bad]);
    let error = agent.run("Go").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Hook);
    assert!(error.to_string().contains("`bad`"), "{error}");
}
