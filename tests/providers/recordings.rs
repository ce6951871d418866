//! Recorded answers of Chat Completions, the Responses API, Ollama and the Gemini API: complete,
//! cut and damaged.
//!
//! `llama-*` are recordings of llama.cpp's server with a small model, `*aimock-*` of a scripted
//! server; `*documented` and the others of `gemini` and `responses` follow the documentation of
//! their API.

use agentcore::model::{ModelEvent, ModelResponse, ModelStream, StopReason};
use agentcore::providers::{gemini, ollama, openai, responses};
use agentcore::{ErrorKind, Part, Result, Usage};
use bytes::Bytes;
use futures::StreamExt;
use futures::executor::block_on;
use futures::stream::{self, BoxStream};

use crate::kit::effort::cuts;
use crate::kit::serving::fold;

type Body = BoxStream<'static, Result<Bytes>>;
type Decode = fn(Body) -> ModelStream;

const OPENAI: Decode = |body| openai::decode(body);
const RESPONSES: Decode = |body| responses::decode(body);
const OLLAMA: Decode = |body| ollama::decode(body);
const GEMINI: Decode = |body| gemini::decode(body);

const RECORDINGS: &[(&str, Decode, &[u8])] = &[
    (
        "llama-text",
        OPENAI,
        include_bytes!("../data/openai/llama-text.sse"),
    ),
    (
        "llama-call",
        OPENAI,
        include_bytes!("../data/openai/llama-call.sse"),
    ),
    (
        "llama-whole",
        OPENAI,
        include_bytes!("../data/openai/llama-whole.json"),
    ),
    (
        "aimock-text",
        OPENAI,
        include_bytes!("../data/openai/aimock-text.sse"),
    ),
    (
        "aimock-call",
        OPENAI,
        include_bytes!("../data/openai/aimock-call.sse"),
    ),
    (
        "openrouter-documented",
        OPENAI,
        include_bytes!("../data/openai/openrouter.sse"),
    ),
    (
        "mistral-documented",
        OPENAI,
        include_bytes!("../data/openai/mistral.sse"),
    ),
    (
        "gemini-chat-documented",
        OPENAI,
        include_bytes!("../data/openai/gemini.sse"),
    ),
    (
        "documented",
        OLLAMA,
        include_bytes!("../data/ollama/documented.ndjson"),
    ),
    (
        "ollama-aimock-text",
        OLLAMA,
        include_bytes!("../data/ollama/aimock-text.ndjson"),
    ),
    (
        "ollama-aimock-call",
        OLLAMA,
        include_bytes!("../data/ollama/aimock-call.ndjson"),
    ),
    (
        "gemini-blocked",
        GEMINI,
        include_bytes!("../data/gemini/blocked.sse"),
    ),
    (
        "gemini-safety",
        GEMINI,
        include_bytes!("../data/gemini/safety.sse"),
    ),
    (
        "gemini-text",
        GEMINI,
        include_bytes!("../data/gemini/text.sse"),
    ),
    (
        "gemini-thoughts",
        GEMINI,
        include_bytes!("../data/gemini/thoughts.sse"),
    ),
    (
        "gemini-call",
        GEMINI,
        include_bytes!("../data/gemini/call.sse"),
    ),
    (
        "gemini-call_without_id",
        GEMINI,
        include_bytes!("../data/gemini/call_without_id.sse"),
    ),
    (
        "gemini-parallel",
        GEMINI,
        include_bytes!("../data/gemini/parallel.sse"),
    ),
    (
        "gemini-signed_text",
        GEMINI,
        include_bytes!("../data/gemini/signed_text.sse"),
    ),
    (
        "gemini-empty_signed",
        GEMINI,
        include_bytes!("../data/gemini/empty_signed.sse"),
    ),
    (
        "gemini-continuation",
        GEMINI,
        include_bytes!("../data/gemini/continuation.sse"),
    ),
    (
        "gemini-code",
        GEMINI,
        include_bytes!("../data/gemini/code.sse"),
    ),
    (
        "gemini-grounding",
        GEMINI,
        include_bytes!("../data/gemini/grounding.sse"),
    ),
    (
        "gemini-document",
        GEMINI,
        include_bytes!("../data/gemini/document.json"),
    ),
    (
        "gemini-aimock-text",
        GEMINI,
        include_bytes!("../data/gemini/aimock-text.sse"),
    ),
    (
        "gemini-aimock-call",
        GEMINI,
        include_bytes!("../data/gemini/aimock-call.sse"),
    ),
    (
        "responses-aimock-text",
        RESPONSES,
        include_bytes!("../data/responses/aimock-text.sse"),
    ),
    (
        "responses-aimock-call",
        RESPONSES,
        include_bytes!("../data/responses/aimock-call.sse"),
    ),
    (
        "responses-calls",
        RESPONSES,
        include_bytes!("../data/responses/reasoning-calls.sse"),
    ),
    (
        "responses-search",
        RESPONSES,
        include_bytes!("../data/responses/web-search.sse"),
    ),
    (
        "responses-overlapping",
        RESPONSES,
        include_bytes!("../data/responses/overlapping.sse"),
    ),
    (
        "responses-text",
        RESPONSES,
        include_bytes!("../data/responses/text.sse"),
    ),
    (
        "responses-document",
        RESPONSES,
        include_bytes!("../data/responses/document.json"),
    ),
];

fn recording(name: &str) -> (Decode, &'static [u8]) {
    let (_, decode, bytes) = RECORDINGS.iter().find(|(own, ..)| *own == name).unwrap();
    (*decode, bytes)
}

fn events(decode: Decode, chunks: Vec<&'static [u8]>) -> Vec<Result<ModelEvent>> {
    let chunks = chunks
        .into_iter()
        .map(|chunk| Ok(Bytes::from_static(chunk)));
    block_on(decode(stream::iter(chunks.collect::<Vec<_>>()).boxed()).collect())
}

fn whole(decode: Decode, bytes: &'static [u8]) -> Vec<ModelEvent> {
    events(decode, vec![bytes])
        .into_iter()
        .map(Result::unwrap)
        .collect()
}

fn named(name: &str) -> ModelResponse {
    let (decode, bytes) = recording(name);
    fold(events(decode, vec![bytes])).unwrap()
}

#[test]
fn recorded_text_is_read() {
    let response = named("llama-text");
    assert!(
        response.text().starts_with("I'm sorry to inform"),
        "{}",
        response.text()
    );
    assert_eq!(response.stop_reason, Some(StopReason::MaxTokens));
    assert_eq!(response.usage, Usage::new(15, 24));
    assert_eq!(&*response.model, "smollm2");
    assert!(response.id.starts_with("chatcmpl-"));
}

#[test]
fn recorded_call_is_read_with_its_cached_tokens() {
    let response = named("llama-call");
    let call = response.tool_calls().next().unwrap();
    assert_eq!(&*call.name, "get_weather");
    assert_eq!(call.args["city"], "Paris");
    assert!(
        call.raw_args
            .as_deref()
            .unwrap()
            .starts_with("{\"city\": \"")
    );
    assert_eq!(response.stop_reason, Some(StopReason::ToolUse));
    assert_eq!(response.usage, Usage::new(406, 37).with_cache(1, 0));
    assert_eq!(response.usage.context_tokens(), 407);
}

#[test]
fn reasoning_and_signatures_of_compatible_servers_are_kept() {
    let details = r#"{"reasoning_details":[{"format":"anthropic-claude-v1","index":0,"signature":"c2ln","text":"Let me see.","type":"reasoning.text"}]}"#;
    let chunk = r#"{"content":[{"closed":true,"thinking":[{"text":"Let me sée.","type":"text"}],"type":"thinking"}]}"#;
    let signature = r#"{"extra_content":{"google":{"thought_signature":"dGV4dA=="}}}"#;
    for (name, expected) in [
        ("openrouter-documented", details),
        ("mistral-documented", chunk),
        ("gemini-chat-documented", signature),
    ] {
        let response = named(name);
        assert_eq!(response.text(), "One moment.", "{name}");
        let parts = response.content.parts().iter();
        let blocks: Vec<_> = parts
            .filter_map(|part| match part {
                Part::Thinking(block) => Some(block.raw.get()),
                _ => None,
            })
            .collect();
        assert_eq!(blocks, [expected], "{name}");
        let call = response.tool_calls().next().unwrap();
        assert_eq!(call.args["city"], "Oslo", "{name}");
        let fields = call.extra.as_deref().map(|fields| fields.raw.get());
        let signed = r#"{"extra_content":{"google":{"thought_signature":"c2ln"}}}"#;
        let is_gemini = name.starts_with("gemini");
        assert_eq!(fields, is_gemini.then_some(signed), "{name}");
    }
}

#[test]
fn answer_in_one_document_is_read() {
    let response = named("llama-whole");
    assert_eq!(
        response.text(),
        "I'm sorry to inform you, but as a language model"
    );
    assert_eq!(response.usage, Usage::new(1, 12).with_cache(14, 0));
}

#[test]
fn ollama_calls_and_thinking_are_read() {
    let response = named("documented");
    assert_eq!(response.text(), "Let me look.");
    let calls: Vec<_> = response.tool_calls().collect();
    assert_eq!(calls[0].args["city"], "Zürich");
    assert_eq!(calls[0].raw_args.as_deref(), Some("{\"city\":\"Zürich\"}"));
    assert_eq!(&*calls[0].id, "call_2026-01-01T0000001Z_0");
    assert_eq!(&*calls[1].id, "call_2026-01-01T0000001Z_1");
    assert_eq!(calls[1].args.as_object().unwrap().len(), 0);
    assert_eq!(response.usage, Usage::new(26, 42));
    let Part::Thinking(block) = &response.content.parts()[0] else {
        panic!("{:?}", response.content);
    };

    assert_eq!(
        block.raw.get(),
        "{\"thinking\":\"The user asks about Zürich.\"}"
    );
    assert_eq!(named("ollama-aimock-call").tool_calls().count(), 1);
}

#[test]
fn split_at_any_byte_gives_equal_events() {
    for (name, decode, bytes) in RECORDINGS {
        let expected = whole(*decode, bytes);
        for at in cuts(bytes) {
            let (head, tail) = bytes.split_at(at);
            let events: Vec<_> = events(*decode, vec![head, tail])
                .into_iter()
                .map(Result::unwrap)
                .collect();
            assert_eq!(events, expected, "{name} cut at {at}");
        }

        let single = bytes.chunks(1).collect();
        let single: Vec<_> = events(*decode, single)
            .into_iter()
            .map(Result::unwrap)
            .collect();
        assert_eq!(single, expected, "{name} byte by byte");
    }
}

#[test]
fn truncated_answer_is_complete_or_stream_truncated() {
    for (name, decode, bytes) in RECORDINGS {
        let expected = fold(events(*decode, vec![bytes])).unwrap();
        let mut first_complete = bytes.len();
        for at in cuts(bytes).into_iter().filter(|at| *at < bytes.len()) {
            match fold(events(*decode, vec![&bytes[..at]])) {
                Ok(response) => {
                    first_complete = first_complete.min(at);
                    assert_eq!(response.content, expected.content, "{name} torn at {at}");
                    assert_eq!(
                        response.stop_reason, expected.stop_reason,
                        "{name} torn at {at}"
                    );
                }
                Err(error) => {
                    assert!(
                        at < first_complete,
                        "{name} torn at {at} fails although it was complete"
                    );
                    assert_eq!(
                        error.kind(),
                        ErrorKind::StreamTruncated,
                        "{name} at {at}: {error}"
                    );
                    assert!(error.is_retryable());
                }
            }
        }

        let complete = bytes.len() - first_complete;
        assert!(complete < bytes.len() / 2, "{name} is complete too early");
    }
}

#[test]
fn line_endings_byte_order_mark_and_comments_change_nothing() {
    for name in ["llama-call", "gemini-grounding"] {
        let (decode, bytes) = recording(name);
        let expected = whole(decode, bytes);
        let text = std::str::from_utf8(bytes).unwrap();
        let variants = [
            text.replace('\n', "\r\n"),
            text.replace('\n', "\r"),
            format!("\u{feff}{text}"),
            text.replace("data: ", "data:"),
            text.replace("data: ", ": ping\n\ndata: "),
            text.trim_end().to_owned(),
        ];
        for variant in variants {
            let bytes: &'static [u8] = Box::leak(variant.into_bytes().into_boxed_slice());
            assert_eq!(whole(decode, bytes), expected);
        }
    }
}
