//! Answers of servers that exceed a limit, also with data that no event has.

use agentcore::model::ResponseLimits;
use agentcore::providers::{Anthropic, FallbackModel, Gemini, Ollama, OpenAi, OpenAiResponses};
use agentcore::testing::{FaultServer, Reply, ScriptedModel};
use agentcore::{Error, ErrorKind, Model, ModelEvent, ModelRequest};
use futures::StreamExt;
use serde_json::{Value, json};

use crate::kit::doubles::gemini::{self, call, signed_text, thought};
use crate::kit::{Log, agent, logged, stored};

/// The number of repetitions in a case, which is enough to exceed every limit.
const TIMES: usize = 100;

fn limits() -> ResponseLimits {
    ResponseLimits::default()
        .with_max_bytes(1_000)
        .with_max_calls(10)
        .with_max_blocks(20)
}

fn long() -> String {
    "1".repeat(100)
}

/// The limit that a body exceeds, and the body.
type Case = (&'static str, Reply);

fn anthropic(frames: Vec<Value>) -> Reply {
    let start = json!({"type": "message_start", "message": {"id": "m1", "model": "m"}});
    let end = [
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}),
        json!({"type": "message_stop"}),
    ];
    let frames = [start].into_iter().chain(frames).chain(end);
    Reply::sse(frames.map(|frame| format!("data: {frame}\n\n")))
}

fn begin(index: usize, block: &Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

/// A block that never ends, with many equal deltas.
fn growing(block: &Value, delta: &Value) -> Reply {
    let delta = json!({"type": "content_block_delta", "index": 0, "delta": delta});
    let deltas = vec![delta; TIMES];
    anthropic([begin(0, block)].into_iter().chain(deltas).collect())
}

fn many_blocks(block: impl Fn(usize) -> Value, ends: bool) -> Reply {
    let frames = (0..TIMES).flat_map(|at| {
        let end = json!({"type": "content_block_stop", "index": at});
        [begin(at, &block(at))]
            .into_iter()
            .chain(ends.then_some(end))
    });
    anthropic(frames.collect())
}

fn anthropic_cases() -> Vec<Case> {
    let thinking = json!({"type": "thinking", "thinking": "", "signature": ""});
    let tool = |id: &str| json!({"type": "tool_use", "id": id, "name": "act", "input": {}});
    let server = json!({"type": "server_tool_use", "id": "s", "name": "search", "input": {}});
    let text = |_| json!({"type": "text", "text": ""});
    let signature = json!({"type": "signature_delta", "signature": long()});
    let citation = json!({"type": "citations_delta", "citation": {"cited_text": long()}});
    let json_delta = json!({"type": "input_json_delta", "partial_json": long()});
    let document = json!({
        "type": "message", "id": "m1", "model": "m", "stop_reason": "tool_use",
        "content": (0..TIMES).map(|at| tool(&at.to_string())).collect::<Vec<_>>(),
    });

    vec![
        (
            "max_bytes",
            growing(
                &thinking,
                &json!({"type": "thinking_delta", "thinking": long()}),
            ),
        ),
        ("max_bytes", growing(&thinking, &signature)),
        ("max_bytes", growing(&thinking, &json!({"type": "odd"}))),
        ("max_bytes", growing(&text(0), &citation)),
        (
            "max_bytes",
            many_blocks(
                |at| {
                    json!({"type": "tool_use", "id": at.to_string(), "name": "act", "input": {},
                        "caller": {"tool_id": "x".repeat(400)}})
                },
                false,
            ),
        ),
        ("max_bytes", growing(&tool("1"), &json_delta)),
        ("max_bytes", growing(&server, &json_delta)),
        ("max_bytes", growing(&server, &json!({}))),
        ("max_blocks", many_blocks(text, false)),
        ("max_blocks", many_blocks(text, true)),
        ("max_blocks", many_blocks(|_| json!({"type": "odd"}), false)),
        ("max_calls", many_blocks(|at| tool(&at.to_string()), false)),
        ("max_calls", many_blocks(|_| tool("same"), true)),
        (
            "max_bytes",
            many_blocks(
                |at| {
                    json!({"type": "tool_use", "id": at.to_string(), "name": "act",
                    "input": {"text": "x".repeat(400)}})
                },
                false,
            ),
        ),
        ("max_calls", Reply::json(200, document.to_string())),
    ]
}

fn openai(delta: impl Fn(usize) -> Value) -> Reply {
    let frame = |delta: Value, reason: Option<&str>| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": reason});
        let chunk = json!({"id": "c", "object": "chat.completion.chunk", "model": "m",
            "choices": [choice]});
        format!("data: {chunk}\n\n")
    };

    let frames = (0..TIMES).map(|at| frame(delta(at), None));
    let end = [
        frame(json!({}), Some("tool_calls")),
        "data: [DONE]\n\n".into(),
    ];
    Reply::sse(frames.chain(end))
}

fn openai_cases() -> Vec<Case> {
    let call = |call: Value| json!({"tool_calls": [call]});
    vec![
        (
            "max_bytes",
            openai(|_| json!({"reasoning_content": long()})),
        ),
        ("max_bytes", openai(|_| json!({"reasoning": long()}))),
        (
            "max_bytes",
            openai(|_| {
                call(json!({"index": 0, "id": "1",
                    "function": {"name": "act", "arguments": long()}}))
            }),
        ),
        // The calls have no name, so no event has their arguments.
        (
            "max_bytes",
            openai(|_| call(json!({"index": 0, "function": {"arguments": long()}}))),
        ),
        (
            "max_calls",
            openai(|at| call(json!({"index": at, "function": {"arguments": "1"}}))),
        ),
        (
            "max_calls",
            openai(|at| call(json!({"index": at, "id": "same"}))),
        ),
        (
            "max_calls",
            openai(|at| {
                call(json!({"index": at, "id": at.to_string(),
                    "function": {"name": "act", "arguments": "{}"}}))
            }),
        ),
    ]
}

fn ollama(message: impl Fn(usize) -> Value) -> Reply {
    let line = |message: Value, done: bool| {
        json!({"model": "m", "message": message, "done": done}).to_string() + "\n"
    };
    let lines = (0..TIMES).map(|at| line(message(at), false));
    Reply::ndjson(lines.chain([line(json!({"content": ""}), true)]))
}

fn ollama_cases() -> Vec<Case> {
    let calls = |text: String| json!({"tool_calls": [{"function": {"name": "act", "arguments": {"text": text}}}]});
    vec![
        ("max_bytes", ollama(|_| json!({"thinking": long()}))),
        ("max_bytes", ollama(|_| calls("x".repeat(400)))),
        ("max_calls", ollama(|_| calls(String::new()))),
    ]
}

fn gemini(part: impl Fn(usize) -> Value) -> Reply {
    gemini::stream(&(0..TIMES).map(part).collect::<Vec<_>>())
}

fn gemini_cases() -> Vec<Case> {
    let code = |code: String| json!({"executableCode": {"code": code, "language": "PYTHON"}});
    let args = json!({"text": "x".repeat(400)});
    vec![
        ("max_bytes", gemini(|_| thought(&long()))),
        ("max_bytes", gemini(|_| signed_text("", &long()))),
        ("max_bytes", gemini(|_| code(long()))),
        ("max_bytes", gemini(|_| call("", "act", &args, ""))),
        (
            "max_bytes",
            gemini(|_| call("", "act", &json!({}), &long())),
        ),
        ("max_blocks", gemini(|_| json!({"odd": 1}))),
        ("max_calls", gemini(|_| call("", "act", &json!({}), ""))),
        ("max_calls", gemini(|_| call("same", "act", &json!({}), ""))),
    ]
}

/// A stream with these events after `response.created`.
fn responses(events: impl IntoIterator<Item = (&'static str, Value)>) -> Reply {
    let created = json!({"response": {"id": "r", "model": "m"}});
    let completed = json!({"response": {"status": "completed"}});
    let events = [("response.created", created)]
        .into_iter()
        .chain(events)
        .chain([("response.completed", completed)]);
    Reply::sse(events.map(|(name, data)| format!("event: {name}\ndata: {data}\n\n")))
}

/// A call whose deltas are held back until the item before it ends.
fn waiting(first: &Value, call: &Value) -> Reply {
    let added = |index: usize, item: &Value| {
        let event = json!({"output_index": index, "item": item});
        ("response.output_item.added", event)
    };
    let delta = json!({"output_index": 1, "delta": long()});
    let deltas = (0..TIMES).map(|_| ("response.function_call_arguments.delta", delta.clone()));
    responses([added(0, first), added(1, call)].into_iter().chain(deltas))
}

/// An item that never ends, with many equal deltas of this kind.
fn growing_item(item: &Value, kind: &'static str) -> Reply {
    let added = json!({"output_index": 0, "item": item});
    let delta = json!({"output_index": 0, "content_index": 0, "summary_index": 0, "delta": long()});
    let deltas = (0..TIMES).map(|_| (kind, delta.clone()));
    responses(
        [("response.output_item.added", added)]
            .into_iter()
            .chain(deltas),
    )
}

fn many_items(item: impl Fn(usize) -> Value) -> Reply {
    responses((0..TIMES).flat_map(|at| {
        let event = json!({"output_index": at, "item": item(at)});
        [
            ("response.output_item.added", event.clone()),
            ("response.output_item.done", event),
        ]
    }))
}

/// A message whose other fields would be repeated for each of its parts.
fn many_parts() -> Reply {
    let part = json!({"type": "output_text", "text": "a"});
    let item = json!({"type": "message", "id": "m", "more": long(), "content": vec![part; 15]});
    let done = json!({"output_index": 0, "item": item});
    responses([("response.output_item.done", done)])
}

fn responses_cases() -> Vec<Case> {
    let call = |id: &str, arguments: &str| {
        json!({"type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": "act",
            "arguments": arguments})
    };
    let reasoning = json!({"type": "reasoning", "id": "rs_1", "summary": []});
    let search = json!({"type": "web_search_call", "id": "ws_1", "action": {"query": long()}});
    vec![
        ("max_bytes", waiting(&reasoning, &call("c", ""))),
        ("max_bytes", many_parts()),
        ("max_blocks", many_items(|_| search.clone())),
        ("max_blocks", many_items(|_| json!({"type": "odd"}))),
        ("max_calls", many_items(|at| call(&at.to_string(), "{}"))),
        ("max_calls", many_items(|_| call("same", "{}"))),
    ]
}

#[tokio::test]
async fn deltas_that_wait_for_another_item_are_joined() {
    let reasoning = json!({"type": "reasoning", "id": "rs_1", "summary": []});
    let call = json!({"type": "function_call", "id": "fc_c", "call_id": "c", "name": "act",
        "arguments": "{\"a\":1}"});
    let item = |kind, index, item: &Value| (kind, json!({"output_index": index, "item": item}));
    let delta = |text| {
        let event = json!({"output_index": 1, "delta": text});
        ("response.function_call_arguments.delta", event)
    };
    let server = FaultServer::start().await.unwrap();
    server.reply(responses([
        item("response.output_item.added", 0, &reasoning),
        item("response.output_item.added", 1, &call),
        delta("{\"a\""),
        delta(":"),
        delta("1}"),
        item("response.output_item.done", 0, &reasoning),
        item("response.output_item.done", 1, &call),
    ]));
    let model = OpenAiResponses::compatible(server.url(), "m");
    let mut events = model.stream(ModelRequest::new("Go")).await.unwrap();
    let mut deltas = Vec::new();
    while let Some(event) = events.next().await {
        if let ModelEvent::ToolCallDelta { json, .. } = event.unwrap() {
            deltas.push(json);
        }
    }
    assert_eq!(deltas, ["{\"a\":1}"]);
}

/// Returns the first error of a stream that is read without an agent.
async fn error_of(model: &dyn Model, limits: ResponseLimits) -> Option<Error> {
    let request = ModelRequest::new("Go").with_response_limits(limits);
    let mut events = model.stream(request).await.unwrap();
    while let Some(event) = events.next().await {
        if let Err(error) = event {
            return Some(error);
        }
    }
    None
}

async fn check(cases: Vec<Case>, next: Reply, model: impl Fn(String) -> Box<dyn Model>) {
    for (at, (limit, reply)) in cases.into_iter().enumerate() {
        let server = FaultServer::start().await.unwrap();
        server.reply(reply.clone());
        let error = error_of(&*model(server.url()), limits()).await;
        let error = error.unwrap_or_else(|| panic!("case {at} succeeded"));
        assert_eq!(
            error.kind(),
            ErrorKind::ResponseTooLarge,
            "case {at}: {error}"
        );
        assert!(error.text().contains(limit), "case {at}: {error}");

        server.reply(reply.clone());
        server.reply(next.clone());
        let log = Log::default();
        let agent = agent(model(server.url()))
            .response_limits(limits())
            .tool(logged("act", &log))
            .build()
            .unwrap();
        let error = agent.session("s").run("Go").await.unwrap_err();
        assert_eq!(
            error.kind(),
            ErrorKind::ResponseTooLarge,
            "case {at}: {error}"
        );
        assert_eq!(log.len(), 0, "case {at}");
        assert_eq!(server.requests().len(), 2, "case {at} was retried");
        stored(&agent, "s").await.validate_for_model().unwrap();
        let output = agent.session("s").run("And now?").await.unwrap();
        assert_eq!(output.text, "fine", "case {at}");

        // With the default limits, the answer is read or is a protocol error.
        server.reply(reply);
        let error = error_of(&*model(server.url()), ResponseLimits::default()).await;
        let kind = error.as_ref().map(Error::kind);
        assert!(
            matches!(kind, None | Some(ErrorKind::Protocol)),
            "case {at}: {error:?}"
        );
    }
}

#[tokio::test]
async fn messages_api_collects_no_more_than_the_limits() {
    let next = Reply::anthropic_text("fine");
    check(anthropic_cases(), next, |url| {
        Box::new(Anthropic::new("m", "key").base_url(url))
    })
    .await;
}

#[tokio::test]
async fn chat_completions_collect_no_more_than_the_limits() {
    let next = Reply::openai_text("fine");
    check(openai_cases(), next, |url| {
        Box::new(OpenAi::compatible(url, "m"))
    })
    .await;
}

#[tokio::test]
async fn ollama_collects_no_more_than_the_limits() {
    let next = Reply::ollama_text("fine");
    check(ollama_cases(), next, |url| {
        Box::new(Ollama::new("m:8b").base_url(url))
    })
    .await;
}

#[tokio::test]
async fn gemini_collects_no_more_than_the_limits() {
    let next = gemini::stream(&[gemini::text("fine")]);
    check(gemini_cases(), next, |url| {
        Box::new(Gemini::new("m", "key").base_url(url))
    })
    .await;
}

#[tokio::test]
async fn responses_api_collects_no_more_than_the_limits() {
    let message = json!({"type": "message", "id": "msg_1", "role": "assistant",
        "content": [{"type": "output_text", "text": "fine", "annotations": []}]});
    let item = json!({"output_index": 0, "item": message});
    let next = responses([
        ("response.output_item.added", item.clone()),
        ("response.output_item.done", item),
    ]);
    check(responses_cases(), next, |url| {
        Box::new(OpenAiResponses::compatible(url, "m"))
    })
    .await;
}

#[tokio::test]
async fn text_of_every_provider_is_kept_up_to_the_limit() {
    let text = json!({"type": "text", "text": ""});
    let delta = json!({"type": "text_delta", "text": long()});
    let server = FaultServer::start().await.unwrap();
    let models: [(Box<dyn Model>, Reply); 5] = [
        (
            Box::new(Anthropic::new("m", "key").base_url(server.url())),
            growing(&text, &delta),
        ),
        (
            Box::new(OpenAi::compatible(server.url(), "m")),
            openai(|_| json!({"content": long()})),
        ),
        (
            Box::new(Ollama::new("m:8b").base_url(server.url())),
            ollama(|_| json!({"content": long()})),
        ),
        (
            Box::new(Gemini::new("m", "key").base_url(server.url())),
            gemini(|_| gemini::text(&long())),
        ),
        (
            Box::new(OpenAiResponses::compatible(server.url(), "m")),
            growing_item(
                &json!({"type": "message", "id": "msg_1"}),
                "response.output_text.delta",
            ),
        ),
    ];
    for (model, reply) in models {
        let limits = limits().with_max_bytes(1_050);
        server.reply(reply);
        let agent = agent(model).response_limits(limits).build().unwrap();
        let error = agent.run("Go").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ResponseTooLarge);
        assert_eq!(error.partial().unwrap().text, "1".repeat(1_050));
    }
}

#[tokio::test]
async fn too_large_answer_is_not_retried_by_a_fallback() {
    let large = || Error::new(ErrorKind::ResponseTooLarge, "too large");
    let busy = Error::new(ErrorKind::Overloaded, "busy");
    let text_event = || Ok(ModelEvent::Text("a".into()));
    let second = ScriptedModel::new();
    let first = ScriptedModel::new().events(vec![text_event(), Err(large())]);
    let model = FallbackModel::new([first, second.clone()]);
    let error = agent(model).build().unwrap().run("Go").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResponseTooLarge);
    assert_eq!(second.requests().len(), 0);

    // The first model is not called again either, although its own error may be temporary.
    let first = ScriptedModel::new().fail(busy);
    let second = ScriptedModel::new().events(vec![text_event(), Err(large())]);
    let model = FallbackModel::new([first.clone(), second]);
    let error = agent(model).build().unwrap().run("Go").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResponseTooLarge);
    assert_eq!(first.requests().len(), 1);
}
