//! Answers of the Responses API, valid and invalid.

use agentcore::model::{ModelEvent, ModelResponse, StopReason};
use agentcore::providers::responses;
use agentcore::{Error, ErrorKind, Part, Result};
use futures::executor::block_on;
use futures::{StreamExt, stream};
use serde_json::{Value, json};

use crate::kit::serving::fold;

fn events(body: impl Into<bytes::Bytes>) -> Vec<Result<ModelEvent>> {
    block_on(responses::decode(stream::iter([Ok(body.into())])).collect())
}

/// A stream with these events after `response.created`.
fn stream_of(events: &[(&str, Value)]) -> String {
    let created = (
        "response.created",
        json!({"response": {"id": "r", "model": "m"}}),
    );
    let events = std::iter::once(&created).chain(events);
    let frames = events.map(|(name, data)| format!("event: {name}\ndata: {data}\n\n"));
    frames.collect()
}

fn answer(events: &[(&str, Value)]) -> Result<ModelResponse, Error> {
    fold(self::events(stream_of(events)))
}

fn recorded(body: &'static str) -> ModelResponse {
    fold(events(body)).unwrap()
}

fn added(index: u64, item: Value) -> (&'static str, Value) {
    let mut event = json!({"output_index": index});
    event["item"] = item;
    ("response.output_item.added", event)
}

fn done(index: u64, item: Value) -> (&'static str, Value) {
    let mut event = json!({"output_index": index});
    event["item"] = item;
    ("response.output_item.done", event)
}

fn text_delta(index: u64, delta: &str) -> (&'static str, Value) {
    let event = json!({"output_index": index, "content_index": 0, "delta": delta});
    ("response.output_text.delta", event)
}

fn message(text: &str) -> Value {
    let part = json!({"type": "output_text", "text": text, "annotations": []});
    json!({"type": "message", "id": "msg", "role": "assistant", "content": [part]})
}

fn call(id: &str, arguments: &str) -> Value {
    json!({"type": "function_call", "id": "fc", "call_id": id, "name": "f", "arguments": arguments})
}

fn completed() -> (&'static str, Value) {
    (
        "response.completed",
        json!({"response": {"status": "completed"}}),
    )
}

fn incomplete(reason: &str) -> (&'static str, Value) {
    let details = json!({"reason": reason});
    let response = json!({"status": "incomplete", "incomplete_details": details});
    ("response.incomplete", json!({"response": response}))
}

#[test]
fn stream_without_a_terminal_event_is_truncated() {
    let error = answer(&[done(0, message("Hi"))]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StreamTruncated);
    let error = fold(events(stream_of(&[]) + "data: [DONE]\n\n")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StreamTruncated);
}

#[test]
fn failed_response_has_its_error_and_usage() {
    let usage = json!({"input_tokens": 7, "output_tokens": 2});
    let error = json!({"code": "rate_limit_exceeded", "message": "Slow down"});
    let failed = json!({"response": {"status": "failed", "error": error, "usage": usage}});
    let flat = json!({"code": "rate_limit_exceeded", "message": "Slow down", "param": null});
    let nested = json!({"error": {"code": "rate_limit_exceeded", "message": "Slow down"}});
    for (name, data) in [
        ("response.failed", failed),
        ("error", flat),
        ("error", nested),
    ] {
        let events = events(stream_of(&[(name, data)]));
        let error = events.last().unwrap().as_ref().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::RateLimited, "{name}: {error}");
        assert!(error.to_string().contains("Slow down"), "{error}");
        let has_usage = events
            .iter()
            .any(|event| matches!(event, Ok(ModelEvent::Usage(_))));
        assert_eq!(has_usage, name == "response.failed");
    }
}

#[test]
fn reasoning_that_the_server_left_out_is_reported() {
    let change = json!({"type": "reasoning", "id": "rs_1", "action": "removed",
        "reason": "organization_mismatch"});
    for (changes, expected) in [
        (json!([]), None),
        (json!("organization_mismatch"), None),
        (json!([change, 7, change]), Some("(organization_mismatch)")),
        (json!(vec![change; 9_000]), Some("(organization_mismatch)")),
    ] {
        let response = json!({"status": "completed", "input_transformations": changes});
        let end = ("response.completed", json!({"response": response}));
        let events = events(stream_of(&[done(0, message("Hi")), end]));
        let warnings = events.iter().filter_map(|event| match event {
            Ok(ModelEvent::Warning(text)) => Some(text),
            _ => None,
        });
        let warnings: Vec<_> = warnings.collect();
        assert_eq!(
            warnings.len(),
            usize::from(expected.is_some()),
            "{warnings:?}"
        );
        assert!(
            warnings
                .iter()
                .all(|text| text.ends_with(expected.unwrap())),
            "{warnings:?}"
        );
    }
}

#[test]
fn answer_that_was_cut_off_has_the_reason() {
    for (label, reason) in [
        ("max_output_tokens", StopReason::MaxTokens),
        ("content_filter", StopReason::Refusal),
        ("steered", StopReason::Other("steered".into())),
    ] {
        let item = added(0, json!({"type": "message"}));
        let response = answer(&[item, text_delta(0, "Half"), incomplete(label)]).unwrap();
        assert_eq!(response.text(), "Half");
        assert_eq!(response.stop_reason, Some(reason));
    }
}

#[test]
fn call_that_was_cut_off_is_dropped() {
    let cut = json!({"type": "function_call", "call_id": "c", "name": "f", "status": "incomplete",
        "arguments": "{\"a\":"});
    for end in [vec![], vec![done(0, cut.clone())]] {
        let mut events = vec![added(0, cut.clone())];
        events.extend(end);
        events.push(incomplete("max_output_tokens"));
        let response = answer(&events).unwrap();
        assert_eq!(response.tool_calls().count(), 0);
        assert_eq!(response.stop_reason, Some(StopReason::MaxTokens));
    }
}

#[test]
fn streams_that_break_the_protocol_are_errors() {
    let text = added(0, json!({"type": "message"}));
    let open_call = added(0, call("c", ""));
    for (events, fault) in [
        (vec![text.clone(), text.clone()], "item 0 began twice"),
        (
            vec![text_delta(3, "x")],
            "a delta for item 3, which is not open",
        ),
        (
            vec![done(0, message("a")), done(0, message("a"))],
            "item 0 ended twice",
        ),
        (
            vec![done(0, message("a")), text_delta(0, "b")],
            "which is not open",
        ),
        (vec![open_call, completed()], "a call has no end"),
        (vec![done(0, json!([1]))], "an item is no object"),
        (
            vec![("response.output_item.done", json!({"output_index": 0}))],
            "cannot be read",
        ),
    ] {
        let error = answer(&events).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Protocol, "{fault}: {error}");
        assert!(error.to_string().contains(fault), "{fault}: {error}");
    }
}

#[test]
fn whole_text_takes_the_place_of_other_pieces_with_a_warning() {
    for (piece, whole) in [("a", "b"), ("ab", "a"), ("abc", "b and more"), ("a", "")] {
        let stream = [
            added(0, json!({"type": "message"})),
            text_delta(0, piece),
            done(0, message(whole)),
            done(1, message("Next.")),
            completed(),
        ];
        let events = events(stream_of(&stream));
        let is_warning = |event: &&Result<ModelEvent>| matches!(event, Ok(ModelEvent::Warning(_)));
        assert_eq!(events.iter().filter(is_warning).count(), 1, "{piece:?}");
        let response = fold(events).unwrap();
        let parts = response.content.parts().iter();
        let texts = parts.filter_map(|part| match part {
            Part::Text(text) => Some(&**text),
            _ => None,
        });
        let expected = [whole, "Next."];
        let expected = expected.into_iter().filter(|text| !text.is_empty());
        assert_eq!(
            texts.collect::<Vec<_>>(),
            expected.collect::<Vec<_>>(),
            "{piece:?}"
        );
    }
}

#[test]
fn items_without_deltas_or_announcement_are_read() {
    let thought = json!({"type": "reasoning", "id": "rs", "summary": [{"text": "Hm."}]});
    let events = [
        done(0, thought),
        done(1, message("Hi")),
        done(2, call("c", "{}")),
        completed(),
    ];
    let response = answer(&events).unwrap();
    assert_eq!(response.text(), "Hi");
    assert_eq!(response.tool_calls().count(), 1);
    assert_eq!(response.stop_reason, Some(StopReason::ToolUse));
}

#[test]
fn items_that_only_the_last_event_has_are_read() {
    let output = json!([message("Hi"), call("c", "{\"a\":1}")]);
    let last = json!({"response": {"status": "completed", "output": output}});
    let response = answer(&[("response.completed", last)]).unwrap();
    assert_eq!(response.text(), "Hi");
    assert_eq!(response.tool_calls().next().unwrap().args["a"], 1);
}

#[test]
fn repeated_call_id_gets_a_number() {
    let events = [
        done(0, call("call_0", "{}")),
        done(1, call("call_0", "{}")),
        completed(),
    ];
    let response = answer(&events).unwrap();
    let ids: Vec<_> = response.tool_calls().map(|call| &*call.id).collect();
    assert_eq!(ids, ["call_0", "call_0_2"]);
}

#[test]
fn arguments_that_are_no_text_are_read() {
    let item = json!({"type": "function_call", "call_id": "c", "name": "f", "arguments": {"a": 1}});
    let response = answer(&[done(0, item), completed()]).unwrap();
    assert_eq!(response.tool_calls().next().unwrap().args["a"], 1);
}

#[test]
fn refused_text_has_the_stop_reason_refusal() {
    let part = json!({"type": "refusal", "refusal": "I can't."});
    let item = json!({"type": "message", "id": "msg", "content": [part]});
    let delta = json!({"output_index": 0, "content_index": 0, "delta": "I can"});
    let events = [
        added(0, json!({"type": "message"})),
        ("response.refusal.delta", delta),
        done(0, item),
        completed(),
    ];
    let response = answer(&events).unwrap();
    assert_eq!(response.text(), "I can't.");
    assert_eq!(response.stop_reason, Some(StopReason::Refusal));
}

#[test]
fn overlapping_items_are_emitted_in_order() {
    let response = recorded(include_str!("../../data/responses/overlapping.sse"));
    let texts = response
        .content
        .parts()
        .iter()
        .filter_map(|part| match part {
            Part::Text(text) => Some(&**text),
            _ => None,
        });
    assert_eq!(texts.collect::<Vec<_>>(), ["First.", "Second."]);
}

#[test]
fn reasoning_and_calls_keep_what_is_sent_back() {
    let response = recorded(include_str!("../../data/responses/reasoning-calls.sse"));
    let [
        Part::Thinking(thought),
        Part::ToolCall(paris),
        Part::ToolCall(zurich),
    ] = response.content.parts()
    else {
        panic!("{:?}", response.content);
    };
    let item: Value = serde_json::from_str(thought.raw.get()).unwrap();
    assert_eq!(item["encrypted_content"], "gAAAAABo-first");
    assert_eq!(thought.provider.as_deref(), Some("openai-responses"));

    assert_eq!(
        paris.raw_args.as_deref(),
        Some("{\"city\":\"Paris\",\"days\":1.50}")
    );
    assert_eq!(zurich.args["city"], "Zürich");
    let fields: Value = serde_json::from_str(paris.extra.as_ref().unwrap().raw.get()).unwrap();
    assert_eq!(fields, json!({"id": "fc_1", "status": "completed"}));
    assert_eq!(response.stop_reason, Some(StopReason::ToolUse));

    let usage = response.usage;
    assert_eq!((usage.input_tokens, usage.cache_read_tokens), (40, 64));
    assert_eq!(
        (usage.cache_write_tokens, usage.cache_write_long_tokens),
        (16, 6)
    );
    assert_eq!((usage.output_tokens, usage.reasoning_tokens), (48, 24));
}

#[test]
fn thoughts_and_arguments_are_shown_as_they_arrive() {
    let events = events(include_str!("../../data/responses/reasoning-calls.sse"));
    let mut thoughts = String::new();
    let mut arguments = String::new();
    for event in events {
        match event.unwrap() {
            ModelEvent::Thinking(text) => thoughts.push_str(&text),
            ModelEvent::ToolCallDelta { index: 0, json } => arguments.push_str(&json),
            _ => {}
        }
    }
    assert_eq!(thoughts, "**Looking up** both cities.");
    assert_eq!(arguments, "{\"city\":\"Paris\",\"days\":1.50}");
}

#[test]
fn citations_follow_their_text() {
    let response = recorded(include_str!("../../data/responses/web-search.sse"));
    let [
        Part::Opaque(search),
        Part::Text(text),
        Part::Annotations(annotations),
    ] = response.content.parts()
    else {
        panic!("{:?}", response.content);
    };
    assert!(search.raw.get().contains("web_search_call"));
    assert_eq!(text, "High water is at noon.");
    let sources: Vec<_> = annotations
        .citations
        .iter()
        .map(|c| (&*c.url, &*c.title))
        .collect();
    assert_eq!(
        sources,
        [("https://example.com/tides", "Tides"), ("", "tides.pdf")]
    );

    let block = annotations.block.as_ref().unwrap();
    let fields: Value = serde_json::from_str(block.raw.get()).unwrap();
    assert_eq!(fields["item"]["id"], "msg_1");
    assert_eq!(fields["item"]["phase"], "final_answer");
    assert!(fields["item"].get("content").is_none());
    assert_eq!(fields["part"]["annotations"].as_array().unwrap().len(), 2);
    assert!(fields["part"].get("text").is_none());
    assert_eq!(response.usage.server_tool_requests, 2);
}

#[test]
fn unknown_items_and_events_are_passed_over_or_stay_as_they_are() {
    let item = json!({"type": "computer_call", "id": "cu", "action": {"type": "wait"}});
    let unknown = ("response.of_tomorrow", json!({"a": [1]}));
    let response = answer(&[unknown, done(0, item.clone()), completed()]).unwrap();
    let [Part::Opaque(block)] = response.content.parts() else {
        panic!("{:?}", response.content);
    };
    assert_eq!(
        serde_json::from_str::<Value>(block.raw.get()).unwrap(),
        item
    );
}

#[test]
fn events_without_names_or_indexes_are_read() {
    let mut body = String::new();
    for event in [
        json!({"type": "response.output_item.added", "item": {"type": "message"}}),
        json!({"type": "response.output_text.delta", "delta": "Hi"}),
        json!({"type": "response.output_item.done", "item": message("Hi")}),
        json!({"type": "response.output_item.added", "item": call("c", "")}),
        json!({"type": "response.output_item.done", "item": call("c", "{}")}),
        json!({"type": "response.completed", "response": {"id": "r"}}),
    ] {
        body.push_str(&format!("data: {event}\n\n"));
    }
    let response = fold(events(body)).unwrap();
    assert_eq!(response.text(), "Hi");
    assert_eq!(response.tool_calls().count(), 1);
}

#[test]
fn answer_in_one_document_is_read() {
    let response = recorded(include_str!("../../data/responses/document.json"));
    assert_eq!(response.text(), "High water is at noon.");
    assert_eq!(&*response.model, "gpt-6-luna-2026-10-01");
    let error = fold(events("{\"object\": \"list\"}")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Protocol);
    let failed = json!({"status": "failed", "output": [], "error": {"code": "server_error"}});
    let error = fold(events(failed.to_string())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Server);
}

#[test]
fn pair_that_is_cut_in_halves_does_not_end_an_answer() {
    let halves = [r"a\ud83d", r"\ude00"].map(|half| {
        let event = format!(r#"{{"output_index":0,"content_index":0,"delta":"{half}"}}"#);
        format!("event: response.output_text.delta\ndata: {event}\n\n")
    });
    let start = stream_of(&[added(0, json!({"type": "message"}))]);
    let end = [done(0, message("a\u{1F600}")), completed()];
    let end = end.map(|(name, data)| format!("event: {name}\ndata: {data}\n\n"));
    let response = fold(events(start + &halves.concat() + &end.concat())).unwrap();
    assert_eq!(response.text(), "a\u{FFFD}\u{FFFD}");
}

#[test]
fn call_without_a_name_is_a_protocol_error() {
    let call = json!({"type": "function_call", "call_id": "c", "name": "", "arguments": "{}"});
    let error = answer(&[added(0, call.clone()), done(0, call), completed()]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Protocol);
    assert!(error.text().contains("has no name"), "{error}");
}

#[test]
fn incomplete_answer_without_a_reason_has_a_stop_reason() {
    let response = json!({"response": {"status": "incomplete"}});
    let response = answer(&[("response.incomplete", response)]).unwrap();
    assert_eq!(
        response.stop_reason,
        Some(StopReason::Other("incomplete".into()))
    );
}

#[test]
fn sequence_numbers_change_no_event() {
    let text = |index: u64, content_index: u64, delta: &str| {
        let event = json!({"output_index": index, "content_index": content_index, "delta": delta});
        ("response.output_text.delta", event)
    };
    let args = |index: u64, delta: &str| {
        let event = json!({"output_index": index, "delta": delta});
        ("response.function_call_arguments.delta", event)
    };
    let stream = [
        added(0, json!({"type": "message"})),
        text(0, 0, "one"),
        text(0, 0, " two"),
        added(
            1,
            json!({"type": "function_call", "call_id": "c", "name": "f"}),
        ),
        args(1, "{\"a\":"),
        text(0, 0, " three"),
        text(0, 1, "\"another\" part"),
        text(0, 0, " \"four\"\n"),
        args(1, "1"),
        args(1, "2"),
        text(0, 0, ""),
        args(1, "}"),
        text(0, 0, " five"),
        done(0, message("one two three \"four\"\n five")),
        done(1, call("c", "{\"a\":12}")),
        completed(),
    ];
    let plain: Vec<_> = events(stream_of(&stream))
        .into_iter()
        .map(Result::unwrap)
        .collect();
    assert!(
        plain.contains(&ModelEvent::Text(" five".into())),
        "{plain:?}"
    );
    for is_first in [true, false] {
        let numbered = (7..).zip(stream.clone()).map(|(number, (name, data))| {
            let data = data.to_string();
            let fields = &data[1..data.len() - 1];
            let json = if is_first {
                format!("{{\"sequence_number\":{number},{fields}}}")
            } else {
                format!("{{{fields},\"sequence_number\":{number}}}")
            };
            format!("event: {name}\ndata: {json}\n\n")
        });
        let numbered = stream_of(&[]) + &numbered.collect::<String>();
        let events: Vec<_> = events(numbered).into_iter().map(Result::unwrap).collect();
        assert_eq!(events, plain);
    }
}
