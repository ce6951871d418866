//! Spans of runs that are dropped, and secrets that no span may contain.

use std::time::Duration;

use agentcore::hooks::TracingHook;
use agentcore::testing::ScriptedModel;
use agentcore::trace::MemoryRecorder;
use agentcore::{BoxError, FuncTool};
use serde_json::{Value, json};
use tracing_subscriber::layer::SubscriberExt;

use crate::hooks_tracing::{Spans, family};
use crate::kit::keys::listen;
use crate::kit::{agent, any_object, sleep};

#[tokio::test(start_paused = true)]
async fn dropped_run_with_children_ends_all_spans() {
    for spawned in [false, true] {
        for seconds in 0..6 {
            let recorder = MemoryRecorder::new();
            let hook = TracingHook::new().with_run_span(true);
            let agent = family(hook, spawned, |builder| {
                builder.trace_recorder(recorder.clone())
            });

            let run = agent.session("s").run("Rest!");
            let limit = Duration::from_millis(seconds * 1_000 + 500);
            let ended = tokio::time::timeout(limit, async { run.await }).await;
            assert!(ended.is_err(), "{seconds}");

            // A spawned child runs on until it ends.
            sleep(100).await;
            let open = recorder
                .spans()
                .into_iter()
                .find(|span| span.duration.is_none());
            assert_eq!(open, None, "after {seconds} seconds, spawned: {spawned}");
        }
    }
}

#[tokio::test]
async fn spans_contain_no_secrets() {
    let key = agentcore::Secret::new("sk-canary-of-the-spans");
    let recorder = MemoryRecorder::new();
    let spans = Spans::default();
    let subscriber = tracing_subscriber::registry().with(spans.clone());
    let _guard = listen(subscriber);
    let text = format!("KEY={}", key.expose());
    let leak = FuncTool::new("leak", "Leaks", any_object(), move |_cx, args: Value| {
        let text = text.clone();
        async move {
            match args["fail"].as_bool() {
                Some(true) => Err::<String, BoxError>(text.into()),
                _ => Ok(text),
            }
        }
    });

    let model = ScriptedModel::new()
        .call("leak", json!({}))
        .call("leak", json!({"fail": true}))
        .say("done");
    let agent = agent(model)
        .tool(leak)
        .hook(TracingHook::new().with_content(true).with_run_span(true))
        .trace_recorder(recorder.clone())
        .build()
        .unwrap();
    agent.run("Go").await.unwrap();
    let all = format!(
        "{:?} {recorder} {:?}",
        recorder.spans(),
        spans.0.lock().unwrap()
    );
    assert!(all.contains("[redacted]"), "{all}");
    assert!(!all.contains(key.expose()), "{all}");
}
