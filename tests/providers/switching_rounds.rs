//! Answers with calls, for the tests of switched models.

use agentcore::testing::Reply;
use serde_json::{Value, json};

use crate::faults_kit::blocks;
use crate::kit::doubles::{gemini, responses};

/// Two call ids with characters that some APIs refuse. Both are longer than some APIs allow, and
/// only their beginnings differ.
pub(crate) fn ids(number: usize) -> [String; 2] {
    let long = "with/odd+characters-0123456789-0123456789-0123456789-0123456789";
    ["odd.1:", "call:2."].map(|start| format!("{start}{long}-{number}"))
}

pub(crate) fn args() -> [Value; 2] {
    [json!({"text": "a"}), json!({})]
}

pub(crate) fn anthropic_round(number: usize) -> Reply {
    let search = [
        json!({"type": "server_tool_use", "id": "srv", "name": "web_search",
            "input": {"query": "canary-search"}}),
        json!({"type": "web_search_tool_result", "tool_use_id": "srv", "content": []}),
    ];
    claude_round(number, search)
}

/// An answer of Claude on a server without hosted tools.
pub(crate) fn bedrock_claude_round(number: usize) -> Reply {
    claude_round(number, [])
}

fn claude_round<const N: usize>(number: usize, search: [Value; N]) -> Reply {
    let [echo_id, broken_id] = ids(number);
    let none = || json!({"type": "odd_delta"});
    let [first, second] =
        args().map(|args| json!({"type": "input_json_delta", "partial_json": args.to_string()}));
    let call =
        |id: &str, name: &str| json!({"type": "tool_use", "id": id, "name": name, "input": {}});
    let thinking =
        json!({"type": "thinking", "thinking": "canary-thought", "signature": "canary-signature"});
    let server_blocks = [thinking].into_iter().chain(search);
    let local_blocks = [
        (
            json!({"type": "text", "text": ""}),
            json!({"type": "text_delta", "text": "Hello."}),
        ),
        (call(&echo_id, "echo"), first),
        (call(&broken_id, "broken"), second),
    ];
    let server_blocks = server_blocks.map(|block| (block, none()));
    blocks(server_blocks.chain(local_blocks), "tool_use")
}

pub(crate) fn openai_round(number: usize) -> Reply {
    let [echo_id, broken_id] = ids(number);
    let delta = |delta: Value, finish: Option<&str>| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
        format!("data: {}\n\n", json!({"id": "c", "choices": [choice]}))
    };
    let call = |index: usize, id: &str, name: &str, args: &Value| {
        json!({"index": index, "id": id, "type": "function",
            "function": {"name": name, "arguments": args.to_string()}})
    };
    let [first, second] = args();
    let calls = [
        call(0, &echo_id, "echo", &first),
        call(1, &broken_id, "broken", &second),
    ];
    Reply::sse([
        delta(json!({"reasoning_content": "canary-thought"}), None),
        delta(json!({"content": "Hello."}), None),
        delta(json!({"tool_calls": calls}), None),
        delta(json!({}), Some("tool_calls")),
        "data: [DONE]\n\n".to_owned(),
    ])
}

pub(crate) fn ollama_round() -> Reply {
    let [first, second] = args();
    let calls = json!([
        {"function": {"name": "echo", "arguments": first}},
        {"function": {"name": "broken", "arguments": second}},
    ]);
    let line = |message: Value, is_last: bool| {
        json!({"model": "m", "message": message, "done": is_last}).to_string()
    };
    let message = |fields: Value| {
        let mut message = json!({"role": "assistant", "content": ""});
        message
            .as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        message
    };
    Reply::ndjson([
        line(message(json!({"thinking": "canary-thought"})), false),
        line(message(json!({"content": "Hello."})), false),
        line(message(json!({"tool_calls": calls})), false),
        line(message(json!({})), true),
    ])
}

pub(crate) fn responses_round(number: usize) -> Vec<Value> {
    let search = json!({"type": "web_search_call", "id": format!("ws_canary_{number}"),
        "status": "completed", "action": {"type": "search", "query": "tides"}});
    let mut items = bedrock_gpt_round(number);
    items.insert(1, search);
    items
}

/// An answer of OpenAI's models on a server without hosted tools.
pub(crate) fn bedrock_gpt_round(number: usize) -> Vec<Value> {
    let [first, second] = args().map(|args| args.to_string());
    // The ids are those of the API, which are shorter.
    vec![
        responses::reasoning(&format!("rs_canary_{number}")),
        responses::message(&format!("msg_canary_{number}"), "Hello."),
        responses::call(&format!("first_{number}"), "echo", &first),
        responses::call(&format!("second_{number}"), "broken", &second),
    ]
}

pub(crate) fn gemini_round(number: usize) -> Vec<Value> {
    let [echo_id, broken_id] = ids(number);
    let [first, second] = args();
    vec![
        gemini::thought("canary-thought"),
        json!({"executableCode": {"code": "canary-code", "language": "PYTHON"}}),
        gemini::signed_text("Hello.", "Y2FuYXJ5"),
        gemini::call(&echo_id, "echo", &first, "c2lnLWNhbmFyeQ=="),
        gemini::call(&broken_id, "broken", &second, ""),
    ]
}
