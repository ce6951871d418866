//! The memory of answers whose JSON is small as text and large as values. The test is a program of
//! its own, because it counts all allocations of the process.
#![cfg(feature = "http")]
#![allow(clippy::unwrap_used)]

use std::alloc::System;

use agentcore::model::ModelStream;
use agentcore::providers::{anthropic, ollama, openai};
use agentcore::{Error, ErrorKind, ModelEvent};
use bytes::Bytes;
use futures::executor::block_on;
use futures::{StreamExt, stream};
use serde_json::json;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The length of a list. The default limit is reached at 25,000, and this list takes hundreds of
/// MiB as values.
const ITEMS: usize = 500_000;

/// The most that decoding may allocate: a few copies of the text.
const MOST: usize = 32 * 1024 * 1024;

const CHUNK: usize = 64 * 1024;

/// Returns a list of objects as JSON.
fn list() -> String {
    format!("[{}0]", "{\"\":0},".repeat(ITEMS))
}

fn frame(data: &str) -> String {
    format!("data: {data}\n\n")
}

/// Returns arguments with the list, in pieces.
fn pieces() -> Vec<String> {
    let text = format!("{{\"a\":{}}}", list());
    let bytes = text.as_bytes().chunks(CHUNK);
    bytes
        .map(|piece| String::from_utf8(piece.to_vec()).unwrap())
        .collect()
}

fn anthropic_bodies() -> Vec<(&'static str, String)> {
    let list = list();
    let start = frame(r#"{"type":"message_start","message":{"id":"m1","model":"m"}}"#);
    let end = frame(r#"{"type":"content_block_stop","index":0}"#);
    let begin = |block: &str| {
        frame(&format!(
            r#"{{"type":"content_block_start","index":0,"content_block":{block}}}"#
        ))
    };

    let delta = |delta: &serde_json::Value| {
        frame(&json!({"type": "content_block_delta", "index": 0, "delta": delta}).to_string())
    };

    let input: String = pieces()
        .iter()
        .map(|piece| delta(&json!({"type": "input_json_delta", "partial_json": piece})))
        .collect();
    let tool = begin(r#"{"type":"tool_use","id":"t","name":"act","input":{}}"#);
    let server_tool = begin(r#"{"type":"server_tool_use","id":"t","name":"act","input":{}}"#);
    let result = begin(&format!(
        r#"{{"type":"web_search_tool_result","tool_use_id":"q","content":{list}}}"#
    ));
    let whole = format!(
        r#"{{"type":"message","id":"m1","model":"m","content":[{{"type":"tool_use","id":"t","name":"act","input":{{"a":{list}}}}}]}}"#
    );
    vec![
        ("arguments", format!("{start}{tool}{input}{end}")),
        (
            "arguments of the server's tool",
            format!("{start}{server_tool}{input}{end}"),
        ),
        ("provider block", format!("{start}{result}{end}")),
        (
            "unknown event",
            start.clone() + &frame(&format!(r#"{{"type":"odd","content":{list}}}"#)),
        ),
        (
            "error",
            start + &frame(&format!(r#"{{"type":"error","error":{list}}}"#)),
        ),
        ("document", whole),
    ]
}

fn openai_bodies() -> Vec<(&'static str, String)> {
    let list = list();
    let delta = |delta: &str| frame(&format!(r#"{{"choices":[{{"delta":{delta}}}]}}"#));
    let call = |arguments: &str| {
        delta(&format!(
            r#"{{"tool_calls":[{{"index":0,"id":"t","function":{{"name":"act","arguments":{arguments}}}}}]}}"#
        ))
    };

    let pieces = pieces();
    let pieces = pieces.iter().map(|piece| call(&json!(piece).to_string()));
    let stop = frame(r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#);
    vec![
        ("arguments", pieces.collect::<String>() + &stop),
        ("arguments as a value", call(&format!(r#"{{"a":{list}}}"#))),
        ("calls", delta(&format!(r#"{{"tool_calls":{list}}}"#))),
        ("choices", frame(&format!(r#"{{"choices":{list}}}"#))),
        (
            "unknown field",
            delta(&format!(r#"{{"reasoning_details":{list}}}"#)),
        ),
    ]
}

fn ollama_bodies() -> Vec<(&'static str, String)> {
    let list = list();
    let call = |arguments: &str| {
        format!(
            "{{\"message\":{{\"tool_calls\":[{{\"function\":{{\"name\":\"act\",\"arguments\":{arguments}}}}}]}}}}\n"
        )
    };

    let text = json!(format!("{{\"a\":{list}}}")).to_string();
    vec![
        ("arguments", call(&format!(r#"{{"a":{list}}}"#))),
        ("arguments as text", call(&text)),
        (
            "calls",
            format!("{{\"message\":{{\"tool_calls\":{list}}}}}\n"),
        ),
    ]
}

fn error_of(events: ModelStream) -> Option<Error> {
    block_on(events.filter_map(async |event| event.err()).boxed().next())
}

fn check(
    cases: Vec<(&str, String)>,
    decode: impl Fn(Vec<agentcore::Result<Bytes>>) -> ModelStream,
) {
    for (name, body) in cases {
        let chunks = body.as_bytes().chunks(CHUNK);
        let chunks = chunks
            .map(|chunk| Ok(Bytes::copy_from_slice(chunk)))
            .collect();
        let before = ALLOCATOR.stats().bytes_allocated;
        let error = error_of(decode(chunks));
        let allocated = ALLOCATOR.stats().bytes_allocated - before;
        let error = error.unwrap_or_else(|| panic!("{name}: no error, {allocated} bytes"));
        assert_eq!(error.kind(), ErrorKind::ResponseTooLarge, "{name}: {error}");
        assert!(error.text().contains("max_values"), "{name}: {error}");
        assert!(allocated < MOST, "{name}: {allocated} bytes");
    }
}

/// Returns the allocated bytes for each byte of an answer's text that is nested in arrays and
/// objects.
fn copies_of_nested_text(open: &str, close: &str) -> usize {
    const LEN: usize = 1024 * 1024;
    const LEVELS: usize = 50;
    let (open, close) = (open.repeat(LEVELS), close.repeat(LEVELS));
    let content = format!("{open}\"{}\"{close}", "x".repeat(LEN));
    let body = frame(&format!(
        r#"{{"choices":[{{"delta":{{"content":{content}}}}}]}}"#
    ));
    let chunk = stream::iter([Ok(Bytes::from(body))]);
    let before = ALLOCATOR.stats().bytes_allocated;
    let events: Vec<_> = block_on(openai::decode(chunk).collect());
    let allocated = ALLOCATOR.stats().bytes_allocated - before;
    let is_text = |event: &_| matches!(event, Ok(ModelEvent::Text(text)) if text.len() == LEN);
    assert!(events.iter().any(is_text));
    allocated / LEN
}

/// Returns the MiB that a run allocates for a call of 33,000 values, which take 20 MiB.
#[cfg(feature = "jsonl")]
fn allocated_by_a_call() -> usize {
    use agentcore::session::JsonlStore;
    use agentcore::testing::ScriptedModel;
    use agentcore::{AgentBuilder, FuncTool, StopReason, ToolCall};
    use serde_json::Value;

    let call = ToolCall::from_raw("1", "act", nested_arguments(333));
    assert!(call.args.is_object());
    let model = ScriptedModel::new()
        .events(vec![
            Ok(ModelEvent::ToolCall(call)),
            Ok(ModelEvent::stop(StopReason::ToolUse)),
        ])
        .say("done");
    let schema = json!({"type": "object"});
    let tool = FuncTool::new("act", "Acts", schema, |_cx, args: Value| async move {
        args["a"].as_array().map_or(0, Vec::len).to_string()
    });

    let folder = tempfile::tempdir().unwrap();
    let store = JsonlStore::open(folder.path()).unwrap();
    let agent = AgentBuilder::new(model).tool(tool).store(store);
    let agent = agent.include_partial_messages(true).build().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let before = ALLOCATOR.stats().bytes_allocated;
    let output = runtime.block_on(async { agent.session("s").run("Go").await.unwrap() });
    assert_eq!(output.messages.get(2).unwrap().text(), "333");
    (ALLOCATOR.stats().bytes_allocated - before) / (1024 * 1024)
}

/// Returns arguments with a hundred values in each of `chains` chains, where each value takes as
/// much memory as possible.
fn nested_arguments(chains: usize) -> String {
    const DEPTH: usize = 98;
    let chain = "{\"\":".repeat(DEPTH) + "0" + &"}".repeat(DEPTH);
    format!("{{\"a\":[{}]}}", vec![chain; chains].join(","))
}

/// Returns the bytes in use.
fn live() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}

/// Returns the peak memory, in MiB, of a run whose model makes the largest call in every turn, and
/// the number of calls that ran.
fn held_by_a_run() -> (usize, usize) {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use agentcore::testing::FunctionModel;
    use agentcore::{AgentBuilder, FuncTool, StopReason, ToolCall};
    use serde_json::Value;

    let most = Arc::new(AtomicUsize::new(0));
    let calls = Arc::new(AtomicUsize::new(0));
    let model = FunctionModel::new({
        let most = most.clone();
        move |request| {
            let id = format!("c{}", request.messages.len());
            let call = ToolCall::from_raw(id, "act", nested_arguments(333));
            most.fetch_max(live(), Ordering::Relaxed);
            vec![
                Ok(ModelEvent::ToolCall(call)),
                Ok(ModelEvent::stop(StopReason::ToolUse)),
            ]
        }
    });

    let schema = json!({"type": "object"});
    let tool = FuncTool::new("act", "Acts", schema, {
        let (most, calls) = (most.clone(), calls.clone());
        move |_cx, args: Value| {
            most.fetch_max(live(), Ordering::Relaxed);
            calls.fetch_add(1, Ordering::Relaxed);
            async move { args["a"].as_array().map_or(0, Vec::len).to_string() }
        }
    });

    let agent = AgentBuilder::new(model).tool(tool).build().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let before = live();
    let error = runtime.block_on(async { agent.session("s").run("Go").await.unwrap_err() });
    assert_eq!(error.kind(), ErrorKind::ResponseTooLarge);
    assert!(error.text().contains("max_history_bytes"), "{error}");
    let bytes = most.load(Ordering::Relaxed) - before;
    (bytes / (1024 * 1024), calls.load(Ordering::Relaxed))
}

/// Returns the MiB that a request allocates whose call has 33,000 values, when the server refuses
/// it for `reason`.
fn allocated_by_a_refusal(provider: &str, reason: &str) -> usize {
    use agentcore::providers::{Anthropic, Gemini, Ollama, OpenAiResponses};
    use agentcore::testing::{FaultServer, Reply};
    use agentcore::{Messages, Model, ModelRequest, ToolCall};

    let call = ToolCall::from_raw("call_1", "act", nested_arguments(333));
    let history = Messages::new()
        .human("Go")
        .ai_calling("", [call])
        .tool("call_1", "act", "done");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let server = FaultServer::start().await.unwrap();
        let error = json!({"error": {"message": reason, "type": "invalid_request_error"}});
        server.fallback(Reply::json(400, error.to_string()));
        let (key, url) = ("key-0123456789", server.url());
        let model: Box<dyn Model> = match provider {
            "anthropic" => Box::new(Anthropic::new("claude-opus-5-5", key).base_url(url)),
            "gemini" => Box::new(Gemini::new("gemini-3.8-flash", key).base_url(url)),
            "ollama" => Box::new(Ollama::new("qwen3").base_url(url)),
            _ => Box::new(OpenAiResponses::new("gpt-5.2", key).base_url(url)),
        };
        let request = ModelRequest::new(history);
        let before = ALLOCATOR.stats().bytes_allocated;
        let error = model.stream(request).await.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{provider}");
        (ALLOCATOR.stats().bytes_allocated - before) / (1024 * 1024)
    })
}

// A single test, because allocations of other tests at the same time would count too.
#[test]
fn values_of_answers_are_bounded_and_rarely_copied() {
    check(anthropic_bodies(), |body| {
        anthropic::decode(stream::iter(body))
    });

    check(openai_bodies(), |body| openai::decode(stream::iter(body)));
    check(ollama_bodies(), |body| ollama::decode(stream::iter(body)));

    for (open, close) in [("[", "]"), (r#"[{"text":"#, "}]"), (r#"{"text":"#, "}")] {
        let copies = copies_of_nested_text(open, close);
        assert!(copies <= 3, "{open}: {copies} copies");
    }

    // The tool owns its arguments, and the reader those in the message about the call. No other
    // part makes values of its own.
    #[cfg(feature = "jsonl")]
    {
        let allocated = allocated_by_a_call();
        assert!(allocated < 55, "{allocated} MiB");
    }

    // One such call is in the history, the tool and its reader have copies of it, and the next call
    // is refused.
    let (peak, calls) = held_by_a_run();
    assert_eq!(calls, 1);
    assert!(peak < 120, "{peak} MiB");

    // A request that is repeated without its reasoning is changed as text.
    for (provider, reason) in [
        ("anthropic", "Invalid `signature` in `thinking` block"),
        ("gemini", "Corrupted thought signature."),
        ("ollama", "invalid think value"),
        ("responses", "invalid_encrypted_content"),
    ] {
        let others = allocated_by_a_refusal(provider, "no");
        let allocated = allocated_by_a_refusal(provider, reason);
        assert!(
            allocated < others + 10,
            "{provider}: {allocated} MiB, not {others}"
        );
    }
}
