//! The Responses API without stored state: output items are kept and sent back.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Answer, Call, Str, json, schema, separate, show, tool_names};
use crate::ours::SYSTEM;

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "type", borrow)]
    kind: Str<'a>,
    #[serde(borrow)]
    delta: Option<Str<'a>>,
    #[serde(borrow)]
    item: Option<&'a RawValue>,
    response: Option<Response>,
}

#[derive(Deserialize)]
struct Item<'a> {
    #[serde(rename = "type", borrow)]
    kind: Str<'a>,
    #[serde(borrow)]
    call_id: Option<Str<'a>>,
    #[serde(borrow)]
    name: Option<Str<'a>>,
}

#[derive(Deserialize)]
struct Response {
    usage: Option<Usage>,
}

#[derive(Deserialize)]
struct Usage {
    input_tokens: u64,
    output_tokens: u64,
}

pub(super) fn opening(tools: bool) -> Vec<u8> {
    let mut body =
        br#"{"model":"bench-model","stream":true,"store":false,"instructions":"#.to_vec();
    json(&mut body, SYSTEM);
    if tools {
        body.extend_from_slice(b",\"tools\":[");
        for name in tool_names() {
            separate(&mut body);
            body.extend_from_slice(br#"{"type":"function","name":"#);
            json(&mut body, name);
            body.extend_from_slice(br#","description":"The weather","strict":false,"parameters":"#);
            json(&mut body, schema());
            body.push(b'}');
        }

        body.push(b']');
    }

    body.extend_from_slice(b",\"input\":[");
    body
}

pub(super) fn event(data: &[u8], answer: &mut Answer) {
    let event: Event<'_> = serde_json::from_slice(data).unwrap();
    match &*event.kind.0 {
        "response.output_text.delta" => {
            if let Some(text) = event.delta {
                show(answer, &text.0);
            }
        }
        "response.function_call_arguments.delta" => {
            if let (Some(json), Some(call)) = (event.delta, answer.calls.last_mut()) {
                call.args.push_str(&json.0);
            }
        }
        "response.output_item.added" => {
            let item: Item<'_> = serde_json::from_str(event.item.unwrap().get()).unwrap();
            if &*item.kind.0 == "function_call" {
                answer.calls.push(Call {
                    id: item.call_id.unwrap().0.into_owned(),
                    name: item.name.unwrap().0.into_owned(),
                    args: String::new(),
                });
            }
        }
        "response.output_item.done" => answer.items.push(event.item.unwrap().get().to_owned()),
        "response.completed" => {
            let usage = event.response.and_then(|response| response.usage).unwrap();
            answer.input_tokens = usage.input_tokens;
            answer.output_tokens = usage.output_tokens;
            answer.done = true;
        }
        _ => {}
    }
}

pub(super) fn push_calls(body: &mut Vec<u8>, answer: &Answer, results: &[String]) {
    for item in &answer.items {
        separate(body);
        body.extend_from_slice(item.as_bytes());
    }

    for (call, result) in answer.calls.iter().zip(results) {
        body.extend_from_slice(br#",{"type":"function_call_output","call_id":"#);
        json(body, &call.id);
        body.extend_from_slice(br#","output":"#);
        json(body, result);
        body.push(b'}');
    }
}
