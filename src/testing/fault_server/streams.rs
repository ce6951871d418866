//! Well-formed streams of the provider APIs, to be served whole or broken.

use serde_json::{Value, json};

use super::super::events::words;
use super::reply::Reply;

fn event(value: &Value) -> String {
    let kind = value["type"].as_str().unwrap_or_default();
    format!("event: {kind}\ndata: {value}\n\n")
}

fn data(value: &Value) -> String {
    format!("data: {value}\n\n")
}

/// Returns the events of one message around the events of its blocks.
fn anthropic(blocks: Vec<Value>, stop: &str) -> Reply {
    let start = json!({"type": "message_start", "message": {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-test",
        "content": [], "stop_reason": null, "stop_sequence": null,
        "usage": {"input_tokens": 10, "output_tokens": 1},
    }});
    let end = [
        json!({
            "type": "message_delta",
            "delta": {"stop_reason": stop, "stop_sequence": null},
            "usage": {"output_tokens": 5},
        }),
        json!({"type": "message_stop"}),
    ];
    let events = std::iter::once(start).chain(blocks).chain(end);
    Reply::sse(events.map(|value| event(&value))).header("request-id", "req_1")
}

fn block(start: &Value, deltas: impl IntoIterator<Item = Value>) -> Vec<Value> {
    let mut out = vec![json!({"type": "content_block_start", "index": 0, "content_block": start})];
    out.extend(
        deltas
            .into_iter()
            .map(|delta| json!({"type": "content_block_delta", "index": 0, "delta": delta})),
    );
    out.push(json!({"type": "content_block_stop", "index": 0}));
    out
}

fn chunk(delta: &Value, finish: Option<&str>) -> String {
    data(&json!({
        "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-test",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }))
}

fn openai(deltas: impl IntoIterator<Item = Value>, finish: &str) -> Reply {
    let mut events = vec![chunk(&json!({"role": "assistant", "content": ""}), None)];
    events.extend(deltas.into_iter().map(|delta| chunk(&delta, None)));
    events.push(chunk(&json!({}), Some(finish)));
    events.push(data(&json!({
        "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-test",
        "choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    })));
    events.push("data: [DONE]\n\n".to_owned());
    Reply::sse(events).header("x-request-id", "req_1")
}

impl Reply {
    /// Creates a Messages API stream with this text: 10 tokens in, 5 out.
    pub fn anthropic_text(text: &str) -> Self {
        let deltas = words(text).map(|word| json!({"type": "text_delta", "text": word}));
        anthropic(
            block(&json!({"type": "text", "text": ""}), deltas),
            "end_turn",
        )
    }

    /// Creates a Messages API stream with one tool call under the id `toolu_1`.
    pub fn anthropic_call(name: &str, args: &Value) -> Self {
        let start = json!({"type": "tool_use", "id": "toolu_1", "name": name, "input": {}});
        let delta = json!({"type": "input_json_delta", "partial_json": args.to_string()});
        anthropic(block(&start, [delta]), "tool_use")
    }

    /// Creates a Chat Completions stream with this text: 10 tokens in, 5 out.
    pub fn openai_text(text: &str) -> Self {
        openai(words(text).map(|word| json!({"content": word})), "stop")
    }

    /// Creates a Chat Completions stream with one tool call under the id `call_1`.
    pub fn openai_call(name: &str, args: &Value) -> Self {
        let call = |function: Value| json!({"tool_calls": [{"index": 0, "function": function}]});
        let mut first = call(json!({"name": name, "arguments": ""}));
        first["tool_calls"][0]["id"] = "call_1".into();
        first["tool_calls"][0]["type"] = "function".into();
        let arguments_chunk = call(json!({"arguments": args.to_string()}));
        openai([first, arguments_chunk], "tool_calls")
    }

    /// Creates an Ollama chat stream with this text: 10 tokens in, 5 out.
    pub fn ollama_text(text: &str) -> Self {
        let line = |text: &str, done: bool| {
            let mut line = json!({
                "model": "llama-test", "created_at": "2026-01-01T00:00:00Z",
                "message": {"role": "assistant", "content": text}, "done": done,
            });

            if done {
                line["done_reason"] = "stop".into();
                line["prompt_eval_count"] = 10.into();
                line["eval_count"] = 5.into();
            }

            line.to_string()
        };

        Self::ndjson(
            words(text)
                .map(|word| line(&word, false))
                .chain([line("", true)]),
        )
    }
}
