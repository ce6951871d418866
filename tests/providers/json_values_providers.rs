//! Answers with more JSON values than allowed, or with names that are too long.

use agentcore::model::ResponseLimits;
use agentcore::providers::{Anthropic, Gemini, Ollama, OpenAi};
use agentcore::testing::{FaultServer, Reply};
use agentcore::{Error, ErrorKind, Model};
use serde_json::{Value, json};

use crate::kit::doubles::gemini::{call, stream, text};
use crate::kit::{Log, agent, logged, roles, stored};

/// A list with `values` values, including the list itself.
fn list(values: usize) -> Value {
    Value::from(vec![0; values - 1])
}

fn long() -> String {
    "n".repeat(1_025)
}

/// The fault, and the answer that has it.
type Case = (&'static str, Reply);

/// Checks that each case fails a run, and that the next run of the session succeeds.
async fn check(cases: Vec<Case>, next: Reply, model: impl Fn(String) -> Box<dyn Model>) {
    for (at, (what, reply)) in cases.into_iter().enumerate() {
        let server = FaultServer::start().await.unwrap();
        server.reply(reply);
        server.reply(next.clone());
        let log = Log::default();
        let agent = agent(model(server.url()))
            .response_limits(ResponseLimits::default().with_max_values(100))
            .tool(logged("act", &log))
            .build()
            .unwrap();
        let error: Error = agent.session("s").run("Go").await.unwrap_err();
        assert_eq!(
            error.kind(),
            ErrorKind::ResponseTooLarge,
            "case {at}: {error}"
        );
        assert!(error.text().contains(what), "case {at}: {error}");
        assert_eq!(log.len(), 0, "case {at}");
        assert_eq!(server.requests().len(), 1, "case {at} was retried");
        let history = stored(&agent, "s").await;
        history.validate_for_model().unwrap();
        assert_eq!(roles(&history), "user assistant", "case {at}");
        assert_eq!(history.get(1).unwrap().text(), "I act.", "case {at}");
        let output = agent.session("s").run("And now?").await.unwrap();
        assert_eq!(output.text, "fine", "case {at}");
    }
}

fn anthropic(frames: Vec<Value>) -> Reply {
    let start = [
        json!({"type": "message_start", "message": {"id": "m1", "model": "m"}}),
        json!({"type": "content_block_start", "index": 0,
            "content_block": {"type": "text", "text": "I act."}}),
        json!({"type": "content_block_stop", "index": 0}),
    ];
    let end = [
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}),
        json!({"type": "message_stop"}),
    ];
    let frames = start.into_iter().chain(frames).chain(end);
    Reply::sse(frames.map(|frame| format!("data: {frame}\n\n")))
}

/// A stream of blocks, each with its start and its deltas.
fn blocks(blocks: Vec<(Value, Vec<Value>)>) -> Reply {
    let frames = (1..).zip(blocks).flat_map(|(index, (block, deltas))| {
        let begin = json!({"type": "content_block_start", "index": index, "content_block": block});
        let deltas = deltas.into_iter().map(
            move |delta| json!({"type": "content_block_delta", "index": index, "delta": delta}),
        );
        let end = json!({"type": "content_block_stop", "index": index});
        [begin].into_iter().chain(deltas).chain([end])
    });
    anthropic(frames.collect())
}

fn tool(id: &str, name: &str, input: &Value) -> Value {
    json!({"type": "tool_use", "id": id, "name": name, "input": input})
}

#[tokio::test]
async fn messages_api_reads_no_more_values_than_the_limit() {
    let args = |values| json!({"a": list(values)}).to_string();
    let delta = |json: &str| json!({"type": "input_json_delta", "partial_json": json});
    let server_tool = || json!({"type": "server_tool_use", "id": "s", "name": "x", "input": {}});
    let odd = |values| json!({"type": "odd_delta", "value": list(values)});
    let result = |values| json!({"type": "web_search_tool_result", "content": list(values)});
    let empty = json!({});
    let cases = vec![
        (
            "max_values",
            blocks(vec![
                (tool("1", "act", &empty), vec![delta(&args(60))]),
                (tool("2", "act", &empty), vec![delta(&args(60))]),
            ]),
        ),
        (
            "max_values",
            blocks(vec![
                (tool("1", "act", &json!({"a": list(60)})), Vec::new()),
                (tool("2", "act", &json!({"a": list(60)})), Vec::new()),
            ]),
        ),
        (
            "max_values",
            blocks(vec![(server_tool(), vec![delta(&args(120))])]),
        ),
        (
            "max_values",
            blocks(vec![(server_tool(), vec![odd(60), odd(60)])]),
        ),
        (
            "max_values",
            blocks(vec![(result(60), Vec::new()), (result(60), Vec::new())]),
        ),
        (
            "max_values",
            anthropic(vec![json!({"type": "odd", "list": list(101)})]),
        ),
        (
            "call's name",
            blocks(vec![(tool("1", &long(), &empty), Vec::new())]),
        ),
        (
            "call's id",
            blocks(vec![(tool(&long(), "act", &empty), Vec::new())]),
        ),
    ];
    let next = Reply::anthropic_text("fine");
    check(cases, next, |url| {
        Box::new(Anthropic::new("m", "key").base_url(url))
    })
    .await;
}

fn openai(deltas: Vec<Value>) -> Reply {
    let frame = |delta: Value, reason: Option<&str>| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": reason});
        format!(
            "data: {}\n\n",
            json!({"id": "c", "model": "m", "choices": [choice]})
        )
    };

    let text = frame(json!({"content": "I act."}), None);
    let frames = deltas.into_iter().map(|delta| frame(delta, None));
    let end = frame(json!({}), Some("tool_calls"));
    let end = [end, "data: [DONE]\n\n".to_owned()];
    Reply::sse([text].into_iter().chain(frames).chain(end))
}

#[tokio::test]
async fn chat_completions_read_no_more_values_than_the_limit() {
    let call = |index: usize, id: &str, function: Value| json!({"tool_calls": [{"index": index, "id": id, "function": function}]});
    let text = json!({"name": "act", "arguments": json!({"a": list(60)}).to_string()});
    let value = json!({"name": "act", "arguments": {"a": list(60)}});
    let begun = json!({"name": "act", "arguments": "{"});
    let cases = vec![
        (
            "max_values",
            openai(vec![call(0, "1", text.clone()), call(1, "2", text)]),
        ),
        (
            "max_values",
            openai(vec![call(0, "1", value.clone()), call(1, "2", value)]),
        ),
        ("max_values", openai(vec![json!({"tool_calls": list(101)})])),
        (
            "max_values",
            openai(vec![
                json!({"content": "a", "reasoning_details": list(101)}),
            ]),
        ),
        (
            "call's name",
            openai(vec![call(
                0,
                "1",
                json!({"name": long(), "arguments": "{}"}),
            )]),
        ),
        // The name and the id may arrive after the first delta.
        (
            "call's name",
            openai(vec![
                call(0, "1", json!({"arguments": "{"})),
                call(0, "1", json!({"name": long(), "arguments": "}"})),
            ]),
        ),
        (
            "call's id",
            openai(vec![call(0, "", begun.clone()), call(0, &long(), begun)]),
        ),
    ];
    let next = Reply::openai_text("fine");
    check(cases, next, |url| Box::new(OpenAi::compatible(url, "m"))).await;
}

fn ollama(messages: Vec<Value>) -> Reply {
    let line = |message: Value, done: bool| {
        json!({"model": "m", "message": message, "done": done}).to_string() + "\n"
    };
    let text = line(json!({"content": "I act."}), false);
    let lines = messages.into_iter().map(|message| line(message, false));
    Reply::ndjson(
        [text]
            .into_iter()
            .chain(lines)
            .chain([line(json!({}), true)]),
    )
}

#[tokio::test]
async fn ollama_reads_no_more_values_than_the_limit() {
    let call = |name: &str, args: Value| json!({"tool_calls": [{"function": {"name": name, "arguments": args}}]});
    let args = || json!({"a": list(60)});
    let text = || Value::from(args().to_string());
    let cases = vec![
        (
            "max_values",
            ollama(vec![call("act", args()), call("act", args())]),
        ),
        (
            "max_values",
            ollama(vec![call("act", text()), call("act", text())]),
        ),
        ("max_values", ollama(vec![json!({"tool_calls": list(101)})])),
        ("call's name", ollama(vec![call(&long(), json!({}))])),
    ];
    let next = Reply::ollama_text("fine");
    check(cases, next, |url| {
        Box::new(Ollama::new("m:8b").base_url(url))
    })
    .await;
}

#[tokio::test]
async fn gemini_reads_no_more_values_than_the_limit() {
    let act = |args: &Value| call("", "act", args, "");
    let args = json!({"a": list(60)});
    let code = json!({"executableCode": list(60)});
    let answer = |parts: &[Value]| stream(&[&[text("I act.")], parts].concat());
    let cases = vec![
        ("max_values", answer(&[act(&args), act(&args)])),
        ("max_values", answer(&[code.clone(), code])),
        ("max_values", answer(&[json!({"odd": list(101)})])),
        ("call's name", answer(&[call("", &long(), &json!({}), "")])),
        ("call's id", answer(&[call(&long(), "act", &json!({}), "")])),
    ];
    check(cases, stream(&[text("fine")]), |url| {
        Box::new(Gemini::new("m", "key").base_url(url))
    })
    .await;
}
