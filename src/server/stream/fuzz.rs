//! Random hostile bodies of requests.

use fastrand::Rng;
use serde_json::json;

use crate::message::ToolCall;
use crate::server::json::parse;
use crate::session::PendingCall;
use crate::util::fuzz::fuzz;

use super::ag_ui::AgUiInput;
use super::ai_sdk::AiSdkInput;

const TOKENS: [&str; 30] = [
    "\"threadId\":\"t\",",
    "\"runId\":\"r\",",
    "\"id\":\"call_1\",",
    "\"messages\":[],",
    "\"role\":\"user\",",
    "\"role\":\"assistant\",",
    "\"content\":\"a\",",
    "\"content\":[],",
    "\"type\":\"text\",",
    "\"type\":\"image\",",
    "\"type\":\"file\",",
    "\"text\":\"\\ud83e\\udd80\",",
    "\"source\":{\"type\":\"data\",\"value\":\"AAAA\",\"mimeType\":\"image/png\"},",
    "\"source\":{\"type\":\"url\",\"value\":\"https://[::1\"},",
    "\"url\":\"data:;base64,\",",
    "\"url\":\"data:,\",",
    "\"mediaType\":\"/\",",
    "\"state\":\"approval-responded\",",
    "\"approval\":{\"id\":\"call_1\",\"approved\":true},",
    "\"interruptId\":\"call_1\",",
    "\"status\":\"resolved\",",
    "\"payload\":{\"approved\":true,\"editedArgs\":{}},",
    "\"context\":[{\"description\":\"a\",\"value\":\"b\"}],",
    "\"trigger\":\"regenerate-message\",",
    "\"\\u0000\":1e999,",
    "null,",
    "{},",
    "\"a\",",
    "\u{202e}",
    "\"",
];
const PAIRS: [(&str, &str); 8] = [
    ("\"messages\":[", "],"),
    ("\"content\":[", "],"),
    ("\"parts\":[", "],"),
    ("\"resume\":[", "],"),
    ("\"approval\":{", "},"),
    ("{", "},"),
    ("[", "],"),
    ("\"a\":{", "},"),
];

/// Appends fields until `text` has about `size` bytes, and closes most of what it opens.
fn push_fields(rng: &mut Rng, text: &mut String, size: usize, depth: usize) {
    while text.len() < size {
        if depth < 60 && rng.u8(..3) == 0 {
            let (open, close) = PAIRS[rng.usize(..PAIRS.len())];
            text.push_str(open);
            let inner_size = text.len() + rng.usize(..=size.saturating_sub(text.len()));
            push_fields(rng, text, inner_size, depth + 1);
            if rng.u8(..200) > 0 {
                close_fields(text, close);
            }
        } else {
            let tokens = if rng.bool() {
                &TOKENS[..28]
            } else {
                &TOKENS[..]
            };
            text.push_str(tokens[rng.usize(..tokens.len())]);
        }
    }
}

/// Closes what is open, without a comma before the end.
fn close_fields(text: &mut String, close: &str) {
    if text.ends_with(',') {
        text.pop();
    }
    text.push_str(close);
}

fn body(rng: &mut Rng) -> String {
    let max_power = rng.u32(4..=15);
    let size = 1 << rng.u32(4..=max_power);
    let mut text =
        "{\"threadId\":\"t\",\"runId\":\"r\",\"id\":\"t\",\"messages\":[{\"role\":\"user\",\
                    \"parts\":["
            .to_owned();
    if rng.u8(..4) == 0 {
        text.clear();
    }
    push_fields(rng, &mut text, size, 0);
    close_fields(&mut text, ["]}]}", "}", ""][rng.usize(..3)]);
    text
}

#[test]
fn bodies_of_clients_are_read_without_panic() {
    let call = ToolCall::new("call_1", "act", json!({}));
    let pending = [PendingCall::new(
        "call_1".into(),
        "t".into(),
        call,
        "sure?".to_owned(),
    )];
    let (mut rounds, mut valid) = (0_u64, 0_u64);
    fuzz("bodies of clients", 2_000, 2 * 1024 * 1024, |rng| {
        let text = body(rng);
        rounds += 1;
        if let Ok(input) = parse::<AgUiInput>(text.as_bytes(), 100) {
            std::hint::black_box(input.input(|id| id == "call_1").is_ok());
            std::hint::black_box(input.decisions(&pending, 1).is_ok());
            valid += 1;
        }
        if let Ok(input) = parse::<AiSdkInput>(text.as_bytes(), 100) {
            std::hint::black_box(input.input().is_ok());
            std::hint::black_box(input.decisions(&pending).is_ok());
            valid += 1;
        }
        text.len()
    });
    // Bodies that no client would send reach the parser of JSON alone.
    assert!(valid * 20 > rounds, "{valid} valid bodies of {rounds}");
}
