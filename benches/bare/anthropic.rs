//! The Messages API.

use serde::Deserialize;

use super::{Answer, Call, Str, json, schema, separate, show, tool_names};
use crate::ours::SYSTEM;

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "type", borrow)]
    kind: Str<'a>,
    #[serde(borrow)]
    delta: Option<Delta<'a>>,
    #[serde(borrow)]
    content_block: Option<Block<'a>>,
    message: Option<Message>,
    usage: Option<Usage>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow)]
    text: Option<Str<'a>>,
    #[serde(borrow)]
    partial_json: Option<Str<'a>>,
    #[serde(borrow)]
    stop_reason: Option<Str<'a>>,
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(borrow)]
    id: Option<Str<'a>>,
    #[serde(borrow)]
    name: Option<Str<'a>>,
}

#[derive(Deserialize)]
struct Message {
    usage: Usage,
}

#[derive(Deserialize)]
struct Usage {
    #[serde(default)]
    input_tokens: u64,
    output_tokens: u64,
}

pub(super) fn opening(tools: bool) -> Vec<u8> {
    let mut body = br#"{"model":"bench-model","max_tokens":4096,"stream":true,"system":"#.to_vec();
    json(&mut body, SYSTEM);
    if tools {
        body.extend_from_slice(b",\"tools\":[");
        for name in tool_names() {
            separate(&mut body);
            body.extend_from_slice(br#"{"name":"#);
            json(&mut body, name);
            body.extend_from_slice(br#","description":"The weather","input_schema":"#);
            json(&mut body, schema());
            body.push(b'}');
        }

        body.push(b']');
    }

    body.extend_from_slice(b",\"messages\":[");
    body
}

pub(super) fn event(data: &[u8], answer: &mut Answer) {
    let event: Event<'_> = serde_json::from_slice(data).unwrap();
    match &*event.kind.0 {
        "content_block_delta" => {
            let Some(delta) = event.delta else { return };
            if let Some(text) = delta.text {
                show(answer, &text.0);
            }

            if let (Some(json), Some(call)) = (delta.partial_json, answer.calls.last_mut()) {
                call.args.push_str(&json.0);
            }
        }
        "content_block_start" => {
            if let Some(Block {
                id: Some(id),
                name: Some(name),
            }) = event.content_block
            {
                answer.calls.push(Call {
                    id: id.0.into_owned(),
                    name: name.0.into_owned(),
                    args: String::new(),
                });
            }
        }
        "message_start" => {
            if let Some(message) = event.message {
                answer.input_tokens = message.usage.input_tokens;
            }
        }
        "message_delta" => {
            if let Some(usage) = event.usage {
                answer.output_tokens = usage.output_tokens;
                std::hint::black_box(usage.input_tokens);
            }

            std::hint::black_box(event.delta.and_then(|delta| delta.stop_reason));
        }
        "message_stop" => answer.done = true,
        _ => {}
    }
}

pub(super) fn push_calls(body: &mut Vec<u8>, answer: &Answer, results: &[String]) {
    body.extend_from_slice(br#",{"role":"assistant","content":["#);
    for call in &answer.calls {
        separate(body);
        body.extend_from_slice(br#"{"type":"tool_use","id":"#);
        json(body, &call.id);
        body.extend_from_slice(br#","name":"#);
        json(body, &call.name);
        body.extend_from_slice(br#","input":"#);
        body.extend_from_slice(call.args.as_bytes());
        body.push(b'}');
    }

    body.extend_from_slice(br#"]},{"role":"user","content":["#);
    for (call, result) in answer.calls.iter().zip(results) {
        separate(body);
        body.extend_from_slice(br#"{"type":"tool_result","tool_use_id":"#);
        json(body, &call.id);
        body.extend_from_slice(br#","content":"#);
        json(body, result);
        body.push(b'}');
    }

    body.extend_from_slice(b"]}");
}
