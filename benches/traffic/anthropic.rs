//! Answers of the Messages API.

use super::answers::Call;

pub(super) fn text(words: &[&str]) -> String {
    let mut out = beginning();
    out += &event(
        "content_block_start",
        "\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}",
    );
    for word in words {
        let delta =
            format!("\"index\":0,\"delta\":{{\"type\":\"text_delta\",\"text\":\"{word}\"}}");
        out += &event("content_block_delta", &delta);
    }

    out += &event("content_block_stop", "\"index\":0");
    out + &end("end_turn")
}

pub(super) fn beginning() -> String {
    event(
        "message_start",
        "\"message\":{\"id\":\"msg_013Zva2CMHLNnXjNJJKqJ2EF\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"bench-model\",\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":{\"input_tokens\":120,\"output_tokens\":1}}",
    )
}

pub(super) fn calls(calls: &[Call]) -> String {
    let mut out = beginning();
    for Call {
        index,
        id,
        name,
        pieces,
    } in calls
    {
        out += &event(
            "content_block_start",
            &format!(
                "\"index\":{index},\"content_block\":{{\"type\":\"tool_use\",\"id\":\"{id}\",\"name\":\"{name}\",\"input\":{{}}}}"
            ),
        );
        for piece in pieces {
            out += &event(
                "content_block_delta",
                &format!(
                    "\"index\":{index},\"delta\":{{\"type\":\"input_json_delta\",\"partial_json\":\"{piece}\"}}"
                ),
            );
        }

        out += &event("content_block_stop", &format!("\"index\":{index}"));
    }

    out + &end("tool_use")
}

fn end(reason: &str) -> String {
    let delta = format!(
        "\"delta\":{{\"stop_reason\":\"{reason}\",\"stop_sequence\":null}},\"usage\":{{\"output_tokens\":50}}"
    );
    event("message_delta", &delta) + "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
}

fn event(name: &str, fields: &str) -> String {
    format!("event: {name}\ndata: {{\"type\":\"{name}\",{fields}}}\n\n")
}
