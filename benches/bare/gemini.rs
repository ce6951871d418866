//! The Gemini API: parts are stored and sent back.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Answer, Call, Str, json, schema, separate, show, tool_names};
use crate::ours::SYSTEM;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Chunk<'a> {
    #[serde(borrow, default)]
    candidates: Vec<Candidate<'a>>,
    usage_metadata: Option<Usage>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate<'a> {
    #[serde(borrow)]
    content: Option<Content<'a>>,
    #[serde(borrow)]
    finish_reason: Option<Str<'a>>,
}

#[derive(Deserialize)]
struct Content<'a> {
    #[serde(borrow, default)]
    parts: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Part<'a> {
    #[serde(borrow)]
    text: Option<Str<'a>>,
    #[serde(borrow)]
    function_call: Option<FunctionCall<'a>>,
}

#[derive(Deserialize)]
struct FunctionCall<'a> {
    #[serde(borrow)]
    id: Str<'a>,
    #[serde(borrow)]
    name: Str<'a>,
    #[serde(borrow)]
    args: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Usage {
    prompt_token_count: u64,
    #[serde(default)]
    candidates_token_count: u64,
}

pub(super) fn opening(tools: bool) -> Vec<u8> {
    let mut body = br#"{"systemInstruction":{"parts":[{"text":"#.to_vec();
    json(&mut body, SYSTEM);
    body.extend_from_slice(b"}]}");
    if tools {
        body.extend_from_slice(b",\"tools\":[{\"functionDeclarations\":[");
        for name in tool_names() {
            separate(&mut body);
            body.extend_from_slice(br#"{"name":"#);
            json(&mut body, name);
            body.extend_from_slice(br#","description":"The weather","parametersJsonSchema":"#);
            json(&mut body, schema());
            body.push(b'}');
        }

        body.extend_from_slice(b"]}]");
    }

    body.extend_from_slice(b",\"contents\":[");
    body
}

pub(super) fn event(data: &[u8], answer: &mut Answer) {
    let chunk: Chunk<'_> = serde_json::from_slice(data).unwrap();
    if let Some(usage) = chunk.usage_metadata {
        answer.input_tokens = usage.prompt_token_count;
        answer.output_tokens = usage.candidates_token_count;
    }

    for candidate in chunk.candidates {
        for raw in candidate
            .content
            .into_iter()
            .flat_map(|content| content.parts)
        {
            let part: Part<'_> = serde_json::from_str(raw.get()).unwrap();
            if let Some(text) = part.text {
                show(answer, &text.0);
            }

            if let Some(call) = part.function_call {
                answer.items.push(raw.get().to_owned());
                answer.calls.push(Call {
                    id: call.id.0.into_owned(),
                    name: call.name.0.into_owned(),
                    args: call.args.get().to_owned(),
                });
            }
        }

        answer.done |= candidate.finish_reason.is_some();
    }
}

pub(super) fn push_text(body: &mut Vec<u8>, role: &str, text: &str) {
    separate(body);
    let role = if role == "user" { "user" } else { "model" };
    body.extend_from_slice(b"{\"role\":\"");
    body.extend_from_slice(role.as_bytes());
    body.extend_from_slice(b"\",\"parts\":[{\"text\":");
    json(body, text);
    body.extend_from_slice(b"}]}");
}

pub(super) fn push_calls(body: &mut Vec<u8>, answer: &Answer, results: &[String]) {
    body.extend_from_slice(br#",{"role":"model","parts":["#);
    for item in &answer.items {
        separate(body);
        body.extend_from_slice(item.as_bytes());
    }

    body.extend_from_slice(br#"]},{"role":"user","parts":["#);
    for (call, result) in answer.calls.iter().zip(results) {
        separate(body);
        body.extend_from_slice(br#"{"functionResponse":{"id":"#);
        json(body, &call.id);
        body.extend_from_slice(br#","name":"#);
        json(body, &call.name);
        body.extend_from_slice(br#","response":{"output":"#);
        json(body, result);
        body.extend_from_slice(b"}}}");
    }

    body.extend_from_slice(b"]}");
}
