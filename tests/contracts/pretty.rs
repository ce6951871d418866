//! Histories formatted for people.

use agentcore::message::Media;
use agentcore::{Message, Messages, Part, ToolCall};
use serde_json::{Value, json};

#[test]
fn sample_chain_prints_the_recorded_text() {
    let history = Messages::new()
        .system("You are helpful.")
        .human("What is 2+2?")
        .ai_calling(
            "",
            [ToolCall::new("call_1", "calculate", json!({"expr": "2+2"}))],
        )
        .tool("call_1", "calculate", "4")
        .ai("2+2 = 4");
    let expected = "\
[System]
You are helpful.

[Human]
What is 2+2?

[AI]
  → tool_call: calculate(id=call_1, args=map[expr:2+2])

[Tool: calculate (call_id=call_1)]
4

[AI]
2+2 = 4
";
    assert_eq!(history.pretty_print(), expected);
    assert_eq!(history.to_string(), expected);
    assert_eq!(Messages::new().pretty_print(), "");
}

#[test]
fn printed_text_comes_before_calls() {
    let calls = [
        Part::ToolCall(ToolCall::new("1", "a", json!({}))),
        Part::text("Two lines\nof text"),
        Part::Image(Media::base64("image/png", "AA==")),
        Part::ToolCall(ToolCall::new("2", "b", Value::Null)),
    ];
    assert_eq!(
        Messages::new().with(Message::ai(calls)).pretty_print(),
        "[AI]\nTwo lines\nof text\n  [image: image/png]\n  \
         → tool_call: a(id=1, args=map[])\n  → tool_call: b(id=2, args=map[])\n"
    );
}

#[test]
fn recordings_and_uploaded_files_are_named() {
    let parts = [
        Part::Audio(Media::base64("audio/wav", "AA==")),
        Part::Audio(Media::bytes("audio/wav", b"").with_name("talk.wav")),
        Part::Document(Media::file("openai", "file-1")),
    ];
    assert_eq!(
        Messages::new().with(Message::human(parts)).pretty_print(),
        "[Human]\n  [audio: audio/wav]\n  [audio: talk.wav]\n  [document: file-1]\n"
    );
}

#[test]
fn arguments_print_as_go_maps() {
    for (args, expected) in [
        (
            json!({"b": 1, "a": "x y", "c": null}),
            "map[a:x y b:1 c:<nil>]",
        ),
        (
            json!({"l": ["a", 1, true, [], {}]}),
            "map[l:[a 1 true [] map[]]]",
        ),
        (json!({"n": 1_000_000}), "map[n:1e+06]"),
        (json!({"n": 100_000}), "map[n:100000]"),
        (json!({"n": 123_456_789}), "map[n:1.23456789e+08]"),
        (json!({"n": -2.5}), "map[n:-2.5]"),
        (json!({"n": 0.0001}), "map[n:0.0001]"),
        (json!({"n": 0.00001}), "map[n:1e-05]"),
        (json!({"n": 1e100}), "map[n:1e+100]"),
        (json!({"n": 0}), "map[n:0]"),
        (json!({"n": 3.0}), "map[n:3]"),
        (json!("text"), "text"),
    ] {
        let call = ToolCall::new("i", "f", args);
        let printed = Messages::new().ai_calling("", [call]).to_string();
        assert_eq!(
            printed,
            format!("[AI]\n  → tool_call: f(id=i, args={expected})\n")
        );
    }
}
