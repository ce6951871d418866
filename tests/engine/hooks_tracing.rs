//! `TracingHook` and the destinations of its spans.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentcore::hooks::TracingHook;
use agentcore::testing::{ScriptedModel, Step};
use agentcore::trace::{MemoryRecorder, SpanRecord, TraceRecorder};
use agentcore::{
    Agent, AgentBuilder, BoxError, Error, ErrorKind, FuncTool, Hook, ToolContext, Usage,
};
use serde_json::{Value, json};
use tracing::field::{Field, Visit};
use tracing::{Id, Subscriber, span};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

use crate::hook_texts::assert_text;
use crate::kit::keys::listen;
use crate::kit::{agent, any_object, sleep};

/// A tool that sleeps for `seconds`.
fn nap() -> FuncTool {
    FuncTool::new("nap", "Naps", any_object(), |_cx, args: Value| async move {
        sleep(args["seconds"].as_u64().unwrap()).await;
        format!("slept {}", args["seconds"])
    })
}

/// A tool that runs `child` in the call, or in a separate task if `spawned`.
fn delegate(child: Agent, spawned: bool) -> FuncTool {
    FuncTool::new(
        "delegate",
        "Delegates",
        any_object(),
        move |cx: ToolContext, _args: Value| {
            let child = child.clone();
            async move {
                let session = child.session(format!("child_of_{}", cx.call_id()));
                let output = if spawned {
                    let run = session.child_of(&cx).run("Nap.");
                    tokio::spawn(async move { run.await }).await??
                } else {
                    session.run_as_child(&cx, "Nap.").await?
                };

                Ok::<_, BoxError>(output.text)
            }
        },
    )
}

/// An agent with a child, both traced: two naps and a delegation side by side.
pub fn family(
    hook: TracingHook,
    spawned: bool,
    set: impl Fn(AgentBuilder) -> AgentBuilder,
) -> Agent {
    let model = ScriptedModel::new()
        .with_id("scripted:child")
        .call("nap", json!({"seconds": 1}))
        .delayed(Duration::from_secs(1))
        .say("rested");

    // Tests that drop the run leave answers unused.
    model.allow_unused();
    let child = set(agent(model).name("child").tool(nap()).hook(hook));
    let calls = Step::text("Let us see.")
        .and_call("nap", json!({"seconds": 5}))
        .and_call("delegate", json!({}))
        .and_call("nap", json!({"seconds": 2}))
        .usage(Usage::new(100, 20).with_cache(30, 0));
    let model = ScriptedModel::new()
        .with_id("scripted:parent")
        .step(calls)
        .delayed(Duration::from_millis(1_500))
        .say("All rested.");
    model.allow_unused();
    set(agent(model)
        .name("parent")
        .tool(nap())
        .tool(delegate(child.build().unwrap(), spawned))
        .hook(hook))
    .build()
    .unwrap()
}

/// An agent whose child runs on after the call that starts it.
pub fn background_family(hook: TracingHook, set: impl Fn(AgentBuilder) -> AgentBuilder) -> Agent {
    let model = ScriptedModel::new()
        .with_id("scripted:child")
        .call("nap", json!({"seconds": 1}))
        .say("rested");
    let child = set(agent(model).name("child").tool(nap()).hook(hook));
    let child = child.build().unwrap();
    let start = FuncTool::new(
        "start",
        "Starts",
        any_object(),
        move |cx: ToolContext, _args| {
            let run = child.session("child").child_of(&cx).run("Nap.");
            async move {
                tokio::spawn(async move { run.await });
                "started"
            }
        },
    );
    let model = ScriptedModel::new()
        .with_id("scripted:parent")
        .call("start", json!({}))
        .call("nap", json!({"seconds": 10}))
        .say("done");
    set(agent(model)
        .name("parent")
        .tool(nap())
        .tool(start)
        .hook(hook))
    .build()
    .unwrap()
}

/// Returns each span as the names from the outermost span to it.
fn paths(spans: &[SpanRecord]) -> Vec<String> {
    let label = |span: &SpanRecord| {
        let of = |key| span.get(key).and_then(Value::as_str);
        match of("tool_name").or(of("model")).or(of("agent")) {
            Some(what) => format!("{} {what}", span.name),
            None => span.name.clone(),
        }
    };

    let path = |last: &SpanRecord| {
        let mut path = label(last);
        let mut span = last.clone();
        while let Some(parent) = span.parent {
            span = spans
                .iter()
                .find(|other| other.id == parent)
                .unwrap()
                .clone();
            path = format!("{} > {path}", label(&span));
        }

        path
    };

    spans.iter().map(path).collect()
}

#[tokio::test(start_paused = true)]
async fn spans_of_a_run_and_its_child_form_a_tree() {
    let recorder = MemoryRecorder::new();
    let hook = TracingHook::new().with_run_span(true);
    let agent = family(hook, false, |builder| {
        builder.trace_recorder(recorder.clone())
    });
    agent.session("s").run("Rest!").await.unwrap();
    assert_text("trace_tree.txt", &recorder.to_string());
    let spans = recorder.spans();
    assert!(spans.iter().all(|span| span.duration.is_some()));
    recorder.clear();
    assert_eq!(recorder.to_string(), "");
}

#[tokio::test(start_paused = true)]
async fn span_parents_are_correct_without_a_run_span_and_across_tasks() {
    for spawned in [false, true] {
        let recorder = MemoryRecorder::new();
        let agent = family(TracingHook::new(), spawned, |builder| {
            builder.trace_recorder(recorder.clone())
        });

        agent.session("s").run("Rest!").await.unwrap();
        assert_eq!(
            paths(&recorder.spans()),
            [
                "llm.call scripted:parent",
                "tool.call nap",
                "tool.call delegate",
                "tool.call nap",
                "tool.call delegate > llm.call scripted:child",
                "tool.call delegate > tool.call nap",
                "tool.call delegate > llm.call scripted:child",
                "llm.call scripted:parent",
            ],
            "spawned: {spawned}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn spans_of_a_child_in_the_background_are_below_its_call() {
    let recorder = MemoryRecorder::new();
    let agent = background_family(TracingHook::new(), |builder| {
        builder.trace_recorder(recorder.clone())
    });
    agent.run("Rest!").await.unwrap();
    let mut paths = paths(&recorder.spans());
    paths.sort();
    assert_eq!(
        paths,
        [
            "llm.call scripted:parent",
            "llm.call scripted:parent",
            "llm.call scripted:parent",
            "tool.call nap",
            "tool.call start",
            "tool.call start > llm.call scripted:child",
            "tool.call start > llm.call scripted:child",
            "tool.call start > tool.call nap",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn tracing_spans_of_a_child_in_the_background_are_below_the_run() {
    let spans = Spans::default();
    let subscriber = tracing_subscriber::registry().with(spans.clone());
    let _guard = listen(subscriber);
    let hook = TracingHook::new().with_run_span(true);
    let agent = background_family(hook, |builder| builder);
    agent.run("Rest!").await.unwrap();
    let paths = spans.paths();
    let below = "invoke_agent parent > invoke_agent child > ";
    let child_paths: Vec<_> = paths
        .iter()
        .filter_map(|path| path.strip_prefix(below))
        .collect();
    assert_eq!(
        child_paths,
        ["chat child", "execute_tool nap", "chat child"],
        "{paths:?}"
    );
}

#[tokio::test]
async fn recorder_receives_attributes_of_model_and_tool_calls() {
    let recorder = MemoryRecorder::new();
    let say = FuncTool::new("say", "Says", any_object(), |_cx, args: Value| async move {
        match args["text"].as_str() {
            Some(text) => Ok(text.to_owned()),
            None => Err::<_, BoxError>("no text".into()),
        }
    });

    let model = ScriptedModel::new()
        .step(Step::text("é".repeat(600)).and_call("say", json!({"text": "x".repeat(600)})))
        .call("say", json!({}))
        .fail(Error::new(ErrorKind::Auth, "no key"));
    let agent = agent(model)
        .tool(say)
        .max_output_tokens(50)
        .hook(TracingHook::new())
        .trace_recorder(recorder.clone())
        .build()
        .unwrap();
    agent.run("Go").await.unwrap_err();
    let spans = recorder.spans();
    let names: Vec<_> = spans.iter().map(|span| &*span.name).collect();
    assert_eq!(
        names,
        ["llm.call", "tool.call", "llm.call", "tool.call", "llm.call"]
    );
    let get = |at: usize, key: &str| spans[at].get(key).cloned().unwrap_or_default();
    assert_eq!(get(0, "message_count"), 1);
    assert_eq!(get(0, "content_length"), 600);
    assert_eq!(get(0, "content_preview"), "é".repeat(500));
    assert_eq!(get(0, "tool_calls_count"), 1);
    assert_eq!(get(0, "tool_call_names"), json!(["say"]));
    assert_eq!(get(0, "max_tokens"), 50);
    assert_eq!(get(1, "tool_name"), "say");
    assert_eq!(get(1, "tool_call_id"), "call_1");
    assert_eq!(
        get(1, "tool_args"),
        json!({"text": "x".repeat(600)}).to_string()
    );
    assert_eq!(get(1, "output_length"), 600);
    assert_eq!(get(1, "output_preview"), "x".repeat(500));
    assert_eq!(get(1, "error"), Value::Null);
    assert_eq!(get(3, "error"), "Error: no text");
    assert_eq!(get(4, "error"), "no key");
    assert_eq!(get(4, "error_type"), "Auth");
}

#[tokio::test]
async fn dropped_run_ends_its_spans_and_recorder_keeps_events() {
    let recorder = MemoryRecorder::new();
    let agent = agent(ScriptedModel::new().hang())
        .hook(TracingHook::new().with_run_span(true))
        .trace_recorder(recorder.clone())
        .build()
        .unwrap();
    let mut run = agent.run("Hi");
    for _ in 0..1 {
        futures::StreamExt::next(&mut run).await.unwrap();
    }

    assert!(futures::poll!(futures::StreamExt::next(&mut run)).is_pending());
    assert!(recorder.spans()[1].duration.is_none());
    assert!(recorder.to_string().contains("..."));
    drop(run);
    assert!(recorder.spans().iter().all(|span| span.duration.is_some()));

    recorder.record_event("noted", json!({"n": 1}));
    assert_eq!(recorder.events()[0].name, "noted");
    assert_eq!(recorder.events()[0].metadata, json!({"n": 1}));

    // A span that outlives `clear` does not affect new records.
    let mut old = recorder.start_span("old");
    recorder.clear();
    let new = recorder.start_span("new");
    old.set("key", 1.into());
    old.end();
    assert_eq!(recorder.spans()[0].name, "new");
    assert_eq!(
        (
            recorder.spans()[0].duration,
            recorder.spans()[0].attributes.len()
        ),
        (None, 0)
    );
    drop(new);
}

#[tokio::test(start_paused = true)]
async fn span_that_ends_after_a_clear_is_not_the_zero_of_the_new_records() {
    let recorder = MemoryRecorder::new();
    let old = recorder.start_span("old");
    recorder.clear();
    old.end();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let new = recorder.start_span("new");
    assert_eq!(recorder.spans()[0].start, Duration::ZERO);
    drop(new);
}

#[test]
fn tracing_hook_uses_run_phases_only_with_a_run_span() {
    let calls = "wrap_model_call, wrap_tool_call";
    assert_eq!(TracingHook::new().phases().to_string(), calls);
    let all = TracingHook::new().with_run_span(true).phases().to_string();
    assert_eq!(all, format!("before_agent, {calls}, after_agent"));
}

/// Collects every `tracing` span of this crate, with its parent and its fields.
#[derive(Clone, Default)]
pub struct Spans(pub Arc<Mutex<Vec<Seen>>>);

#[derive(Debug, Default)]
pub struct Seen {
    id: u64,
    parent: Option<u64>,
    fields: BTreeMap<String, String>,
}

impl Visit for Seen {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.fields
            .insert(field.name().into(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.insert(field.name().into(), value.into());
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Spans {
    fn on_new_span(&self, attributes: &span::Attributes<'_>, id: &Id, cx: Context<'_, S>) {
        let mut seen = Seen {
            id: id.into_u64(),
            parent: cx
                .span(id)
                .unwrap()
                .parent()
                .map(|parent| parent.id().into_u64()),
            ..Seen::default()
        };

        attributes.record(&mut seen);
        let name = attributes.metadata().name();
        seen.fields
            .entry("otel.name".into())
            .or_insert_with(|| name.into());
        self.0.lock().unwrap().push(seen);
    }

    fn on_record(&self, id: &Id, values: &span::Record<'_>, _: Context<'_, S>) {
        let mut all = self.0.lock().unwrap();
        // Ids are reused, so the last span with the id is the right one.
        let seen = all
            .iter_mut()
            .rev()
            .find(|seen| seen.id == id.into_u64())
            .unwrap();
        values.record(seen);
    }
}

impl Spans {
    fn paths(&self) -> Vec<String> {
        let all = self.0.lock().unwrap();
        let path = |at: usize| {
            let mut path = all[at].fields["otel.name"].clone();
            let mut at = at;
            while let Some(parent) = all[at].parent {
                at = all[..at]
                    .iter()
                    .rposition(|seen| seen.id == parent)
                    .unwrap();
                path = format!("{} > {path}", all[at].fields["otel.name"]);
            }

            path
        };

        (0..all.len()).map(path).collect()
    }

    fn field(&self, at: usize, name: &str) -> Option<String> {
        self.0.lock().unwrap()[at].fields.get(name).cloned()
    }
}

#[tokio::test(start_paused = true)]
async fn tracing_spans_have_the_expected_parents() {
    for (run_span, spawned) in [(false, false), (false, true), (true, false), (true, true)] {
        let spans = Spans::default();
        let subscriber = tracing_subscriber::registry().with(spans.clone());
        let _guard = listen(subscriber);
        let hook = TracingHook::new().with_run_span(run_span);
        let agent = family(hook, spawned, |builder| builder);
        let request = tracing::info_span!("request");
        let run = agent.session("s").run("Rest!");
        tracing::Instrument::instrument(async { run.await }, request)
            .await
            .unwrap();
        let own = if run_span {
            " > invoke_agent parent"
        } else {
            ""
        };

        let below = if run_span {
            " > invoke_agent child"
        } else {
            ""
        };

        let mut expected = vec![
            "request".to_owned(),
            format!("request{own} > chat parent"),
            format!("request{own} > execute_tool nap"),
            format!("request{own} > execute_tool delegate"),
            format!("request{own} > execute_tool nap"),
            format!("request{own} > execute_tool delegate{below} > chat child"),
            format!("request{own} > execute_tool delegate{below} > execute_tool nap"),
            format!("request{own} > execute_tool delegate{below} > chat child"),
            format!("request{own} > chat parent"),
        ];
        if run_span {
            expected.insert(1, format!("request{own}"));
            expected.insert(6, format!("request{own} > execute_tool delegate{below}"));
        }

        let mut paths: Vec<_> = spans.paths();

        // The order in which siblings begin is not specified.
        paths.sort();
        expected.sort();
        assert_eq!(paths, expected, "run span: {run_span}, spawned: {spawned}");
    }
}

#[tokio::test]
async fn tracing_spans_have_content_only_with_with_content() {
    for asked in [false, true] {
        let spans = Spans::default();
        let subscriber = tracing_subscriber::registry().with(spans.clone());
        let _guard = listen(subscriber);
        let mut usage = Usage::new(100, 20).with_cache(30, 7);
        usage.reasoning_tokens = 12;
        let model = ScriptedModel::new()
            .with_id("anthropic:claude")
            .call("nap", json!({"seconds": 0}))
            .with_usage(usage)
            .say("secret answer");
        let agent = agent(model)
            .tool(nap())
            .temperature(0.5)
            .system_prompt("secret instructions")
            .hook(TracingHook::new().with_content(asked))
            .build()
            .unwrap();
        agent.session("s").run("secret question").await.unwrap();
        let field = |at, name| spans.field(at, name);
        for (name, value) in [
            ("otel.name", "chat claude"),
            ("otel.kind", "client"),
            ("gen_ai.operation.name", "chat"),
            ("gen_ai.provider.name", "anthropic"),
            ("gen_ai.request.model", "claude"),
            ("gen_ai.request.temperature", "0.5"),
            ("gen_ai.conversation.id", "s"),
            ("gen_ai.agent.name", "agent"),
            ("gen_ai.response.finish_reasons", "[\"tool_use\"]"),
            ("gen_ai.usage.input_tokens", "137"),
            ("gen_ai.usage.output_tokens", "20"),
            ("gen_ai.usage.cache_read.input_tokens", "30"),
            ("gen_ai.usage.cache_write.input_tokens", "7"),
            ("gen_ai.usage.reasoning.output_tokens", "12"),
        ] {
            assert_eq!(field(0, name).as_deref(), Some(value), "{name}");
        }

        for (name, value) in [
            ("otel.name", "execute_tool nap"),
            ("gen_ai.operation.name", "execute_tool"),
            ("gen_ai.tool.name", "nap"),
            ("gen_ai.tool.type", "function"),
            ("gen_ai.tool.call.id", "call_1"),
        ] {
            assert_eq!(field(1, name).as_deref(), Some(value), "{name}");
        }

        let debug = format!("{:?}", spans.0.lock().unwrap());
        assert_eq!(debug.contains("secret"), asked);
        assert_eq!(debug.contains("slept"), asked);
        if asked {
            assert_eq!(
                field(0, "gen_ai.system_instructions").unwrap(),
                r#"[{"content":"secret instructions","type":"text"}]"#
            );
            let input: Value =
                serde_json::from_str(&field(2, "gen_ai.input.messages").unwrap()).unwrap();
            assert_eq!(
                input,
                json!([
                    {"role": "user", "parts": [{"type": "text", "content": "secret question"}]},
                    {"role": "assistant", "parts": [{
                        "type": "tool_call", "id": "call_1", "name": "nap",
                        "arguments": {"seconds": 0}}]},
                    {"role": "tool", "parts": [{
                        "type": "tool_call_response", "id": "call_1", "response": "slept 0"}]},
                ])
            );
            let output: Value =
                serde_json::from_str(&field(2, "gen_ai.output.messages").unwrap()).unwrap();
            assert_eq!(
                output,
                json!([{"role": "assistant", "finish_reason": "end_turn",
                    "parts": [{"type": "text", "content": "secret answer"}]}])
            );
        }
    }
}
