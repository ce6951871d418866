//! Chat Completions.

use serde::Deserialize;

use super::{Answer, Call, Str, json, schema, separate, show, tool_names};
use crate::ours::SYSTEM;

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow, default)]
    choices: Vec<Choice<'a>>,
    usage: Option<Usage>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow)]
    delta: Delta<'a>,
    #[serde(borrow)]
    finish_reason: Option<Str<'a>>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow)]
    content: Option<Str<'a>>,
    #[serde(borrow, default)]
    tool_calls: Vec<CallDelta<'a>>,
}

#[derive(Deserialize)]
struct CallDelta<'a> {
    index: usize,
    #[serde(borrow)]
    id: Option<Str<'a>>,
    #[serde(borrow)]
    function: Function<'a>,
}

#[derive(Deserialize)]
struct Function<'a> {
    #[serde(borrow)]
    name: Option<Str<'a>>,
    #[serde(borrow, default)]
    arguments: Str<'a>,
}

#[derive(Deserialize)]
struct Usage {
    prompt_tokens: u64,
    completion_tokens: u64,
}

pub(super) fn opening(tools: bool) -> Vec<u8> {
    let mut body =
        br#"{"model":"bench-model","stream":true,"stream_options":{"include_usage":true}"#.to_vec();
    if tools {
        body.extend_from_slice(b",\"tools\":[");
        for name in tool_names() {
            separate(&mut body);
            body.extend_from_slice(br#"{"type":"function","function":{"name":"#);
            json(&mut body, name);
            body.extend_from_slice(br#","description":"The weather","parameters":"#);
            json(&mut body, schema());
            body.extend_from_slice(b"}}");
        }

        body.push(b']');
    }

    body.extend_from_slice(b",\"messages\":[");
    super::push_text(&mut body, "system", SYSTEM);
    body
}

pub(super) fn event(data: &[u8], answer: &mut Answer) {
    if data == b"[DONE]" {
        answer.done = true;
        return;
    }

    let chunk: Chunk<'_> = serde_json::from_slice(data).unwrap();
    if let Some(usage) = chunk.usage {
        answer.input_tokens += usage.prompt_tokens;
        answer.output_tokens += usage.completion_tokens;
    }

    for choice in chunk.choices {
        if let Some(text) = choice.delta.content {
            show(answer, &text.0);
        }

        for piece in choice.delta.tool_calls {
            if answer.calls.len() <= piece.index {
                answer.calls.push(Call::default());
            }

            let call = &mut answer.calls[piece.index];
            if let Some(id) = piece.id {
                call.id = id.0.into_owned();
            }

            if let Some(name) = piece.function.name {
                call.name = name.0.into_owned();
            }

            call.args.push_str(&piece.function.arguments.0);
        }

        std::hint::black_box(choice.finish_reason);
    }
}

pub(super) fn push_calls(body: &mut Vec<u8>, answer: &Answer, results: &[String]) {
    body.extend_from_slice(br#",{"role":"assistant","content":null,"tool_calls":["#);
    for call in &answer.calls {
        separate(body);
        body.extend_from_slice(br#"{"id":"#);
        json(body, &call.id);
        body.extend_from_slice(br#","type":"function","function":{"name":"#);
        json(body, &call.name);
        body.extend_from_slice(br#","arguments":"#);
        json(body, &call.args);
        body.extend_from_slice(b"}}");
    }

    body.extend_from_slice(b"]}");
    for (call, result) in answer.calls.iter().zip(results) {
        body.extend_from_slice(br#",{"role":"tool","tool_call_id":"#);
        json(body, &call.id);
        body.extend_from_slice(br#","content":"#);
        json(body, result);
        body.push(b'}');
    }
}
