//! The spans of a run as OpenTelemetry receives them.

use std::sync::Arc;

use agentcore::hooks::TracingHook;
use agentcore::trace::{OtelRecorder, TraceRecorder};
use opentelemetry::trace::{SpanKind, TracerProvider as _};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};

use crate::hooks_tracing::{background_family, family};

/// Returns each span as the names from the outermost span to it, sorted.
fn paths(spans: &[SpanData]) -> Vec<String> {
    let path = |span: &SpanData| {
        let mut path = span.name.to_string();
        let mut span = span;
        while let Some(parent) = spans
            .iter()
            .find(|other| other.span_context.span_id() == span.parent_span_id)
        {
            path = format!("{} > {path}", parent.name);
            span = parent;
        }

        path
    };

    let mut paths: Vec<_> = spans.iter().map(path).collect();
    paths.sort();
    paths
}

#[tokio::test(start_paused = true)]
async fn otel_spans_form_the_run_tree_with_semantic_attributes() {
    for content in [false, true] {
        let exporter = InMemorySpanExporter::default();
        let provider = SdkTracerProvider::builder()
            .with_simple_exporter(exporter.clone())
            .build();
        let recorder: Arc<dyn TraceRecorder> =
            Arc::new(OtelRecorder::new(provider.tracer("test")).with_content(content));
        let hook = TracingHook::new().with_run_span(true);
        let agent = family(hook, false, |builder| {
            builder.trace_recorder(recorder.clone())
        });

        agent.session("s").run("Rest!").await.unwrap();
        let spans = exporter.get_finished_spans().unwrap();
        let paths = paths(&spans);
        let below = "invoke_agent parent > execute_tool delegate > invoke_agent child";
        assert_eq!(
            paths,
            [
                "invoke_agent parent".to_owned(),
                "invoke_agent parent > chat parent".to_owned(),
                "invoke_agent parent > chat parent".to_owned(),
                "invoke_agent parent > execute_tool delegate".to_owned(),
                below.to_owned(),
                format!("{below} > chat child"),
                format!("{below} > chat child"),
                format!("{below} > execute_tool nap"),
                "invoke_agent parent > execute_tool nap".to_owned(),
                "invoke_agent parent > execute_tool nap".to_owned(),
            ]
        );
        let first = spans
            .iter()
            .find(|span| span.name == "chat parent")
            .unwrap();
        assert_eq!(first.span_kind, SpanKind::Client);
        let get = |key: &str| {
            let attribute = first.attributes.iter().find(|one| one.key.as_str() == key);
            attribute.map(|one| one.value.to_string())
        };

        assert_eq!(get("gen_ai.operation.name").as_deref(), Some("chat"));
        assert_eq!(get("gen_ai.provider.name").as_deref(), Some("scripted"));
        assert_eq!(get("gen_ai.request.model").as_deref(), Some("parent"));
        assert_eq!(get("gen_ai.usage.input_tokens").as_deref(), Some("130"));
        assert_eq!(get("gen_ai.conversation.id").as_deref(), Some("s"));
        assert_eq!(get("agentcore.message_count").as_deref(), Some("1"));
        let all = format!("{spans:?}");
        assert_eq!(all.contains("Let us see"), content);
        assert_eq!(all.contains("slept"), content);
    }
}

#[tokio::test(start_paused = true)]
async fn otel_spans_of_a_child_in_the_background_are_below_its_call() {
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder()
        .with_simple_exporter(exporter.clone())
        .build();
    let recorder: Arc<dyn TraceRecorder> = Arc::new(OtelRecorder::new(provider.tracer("test")));
    let agent = background_family(TracingHook::new(), |builder| {
        builder.trace_recorder(recorder.clone())
    });
    agent.run("Rest!").await.unwrap();
    assert_eq!(
        paths(&exporter.get_finished_spans().unwrap()),
        [
            "chat parent",
            "chat parent",
            "chat parent",
            "execute_tool nap",
            "execute_tool start",
            "execute_tool start > chat child",
            "execute_tool start > chat child",
            "execute_tool start > execute_tool nap",
        ]
    );
}
