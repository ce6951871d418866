//! The traces of the user's last runs.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::trace::{SpanId, SpanRecord};

use super::super::api::{Api, Operation, Verb};
use super::super::app::App;
use super::super::error::ApiError;
use super::super::traces::Trace;
use super::super::users::Caller;
use super::path::Path;
use super::query::QueryOf;
use super::threads::milliseconds;

/// The default number of traces of a list.
const LIMIT: usize = 20;

/// The maximum number of traces of a list.
const MAX_LIMIT: usize = 100;

/// The maximum depth of spans in a reply. Deeper spans are omitted.
const MAX_DEPTH: usize = 64;

pub(super) fn routes(api: Api) -> Api {
    let list_operation = Operation::new(
        Verb::Get,
        "/agents/traces",
        "traces",
        "Lists the traces of the user's last runs, the newest first.",
    );
    let get_operation = Operation::new(
        Verb::Get,
        "/agents/traces/{name}",
        "traces",
        "Returns the trace of a run: its spans as a tree.",
    );
    api.route(
        list_operation
            .query::<usize>("limit", "The number of traces, at most 100. 20 by default.")
            .reply::<TraceList>(),
        list,
    )
    .route(get_operation.reply::<TraceReply>(), get)
}

#[derive(Debug, Deserialize)]
struct Params {
    limit: Option<usize>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct TraceList {
    traces: Vec<TraceInfo>,
}

/// A trace in a list.
#[derive(Debug, Serialize, JsonSchema)]
struct TraceInfo {
    /// The id of the run.
    trace_id: Arc<str>,
    thread_id: Arc<str>,
    agent_id: Arc<str>,
    /// In milliseconds since the Unix epoch.
    started_at: u64,
    /// The number of spans.
    spans: usize,
}

/// The trace of a run.
#[derive(Debug, Serialize, JsonSchema)]
struct TraceReply {
    trace_id: Arc<str>,
    thread_id: Arc<str>,
    agent_id: Arc<str>,
    /// In milliseconds since the Unix epoch.
    started_at: u64,
    /// The spans as trees. A trace has at most 1,000 spans and events, and 256 KiB. If parts beyond
    /// that are missing, the last span is `dropped`, and its attribute `parts` is the number of the
    /// missing spans, attributes and events.
    spans: Vec<SpanReply>,
    events: Vec<EventReply>,
}

/// A span and the spans within it.
#[derive(Debug, Serialize, JsonSchema)]
struct SpanReply {
    name: String,
    /// The start, relative to the first span or event.
    start_ms: f64,
    /// The duration; `null` while the span is open.
    duration_ms: Option<f64>,
    attributes: Map<String, Value>,
    children: Vec<SpanReply>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct EventReply {
    name: String,
    /// The time, relative to the first span or event.
    at_ms: f64,
    metadata: Value,
}

async fn list(
    State(app): State<App>,
    caller: Caller,
    QueryOf(params): QueryOf<Params>,
) -> Result<Json<TraceList>, ApiError> {
    let limit = params.limit.unwrap_or(LIMIT);
    if !(1..=MAX_LIMIT).contains(&limit) {
        let text = format!("limit is {limit}; use 1 to {MAX_LIMIT}");
        return Err(ApiError::bad_request(text));
    }
    let traces = app.traces.list(caller.id(), limit).into_iter();
    let traces = traces.map(|trace| TraceInfo {
        spans: trace.recorder.span_count(),
        trace_id: trace.id,
        thread_id: trace.key.thread,
        agent_id: trace.agent,
        started_at: milliseconds(trace.started_at),
    });
    Ok(Json(TraceList {
        traces: traces.collect(),
    }))
}

async fn get(
    State(app): State<App>,
    caller: Caller,
    path: Path,
) -> Result<Json<TraceReply>, ApiError> {
    let trace = app.traces.get(caller.id(), &path.name);
    let trace = trace.ok_or_else(|| {
        ApiError::not_found(format!(
            "trace {:?} not found; the last ones are in /agents/traces",
            path.name
        ))
    })?;
    Ok(Json(TraceReply::new(trace)))
}

impl TraceReply {
    fn new(trace: Trace) -> Self {
        let spans = trace.recorder.spans();
        let events = trace.recorder.events().into_iter();
        let events = events.map(|event| EventReply {
            name: event.name,
            at_ms: in_ms(event.at),
            metadata: event.metadata,
        });
        let mut span_trees = tree(&spans);
        span_trees.extend(dropped_parts(trace.recorder.dropped()));
        Self {
            trace_id: trace.id,
            thread_id: trace.key.thread,
            agent_id: trace.agent,
            started_at: milliseconds(trace.started_at),
            spans: span_trees,
            events: events.collect(),
        }
    }
}

/// Returns a span with the number of the parts that a full trace has not recorded.
fn dropped_parts(count: usize) -> Option<SpanReply> {
    (count > 0).then(|| SpanReply {
        name: "dropped".to_owned(),
        start_ms: 0.0,
        duration_ms: Some(0.0),
        attributes: Map::from_iter([("parts".to_owned(), count.into())]),
        children: Vec::new(),
    })
}

/// Returns the spans as trees.
fn tree(spans: &[SpanRecord]) -> Vec<SpanReply> {
    let mut children: HashMap<Option<SpanId>, Vec<&SpanRecord>> = HashMap::new();
    let ids: std::collections::HashSet<_> = spans.iter().map(|span| span.id).collect();
    for span in spans {
        let parent = span.parent.filter(|parent| ids.contains(parent));
        children.entry(parent).or_default().push(span);
    }
    subtree(None, &mut children, MAX_DEPTH)
}

fn subtree(
    parent: Option<SpanId>,
    children: &mut HashMap<Option<SpanId>, Vec<&SpanRecord>>,
    depth: usize,
) -> Vec<SpanReply> {
    if depth == 0 {
        return Vec::new();
    }
    let spans = children.remove(&parent).unwrap_or_default();
    let replies = spans.into_iter().map(|span| SpanReply {
        name: span.name.clone(),
        start_ms: in_ms(span.start),
        duration_ms: span.duration.map(in_ms),
        attributes: span.attributes.iter().cloned().collect(),
        children: subtree(Some(span.id), children, depth - 1),
    });
    replies.collect()
}

fn in_ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}
