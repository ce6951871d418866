//! Answers of Chat Completions.

use super::answers::Call;

pub(super) fn text(words: &[&str]) -> String {
    let mut out = delta("\"role\":\"assistant\",\"content\":\"\"");
    for word in words {
        out += &delta(&format!("\"content\":\"{word}\""));
    }

    out + &end("stop")
}

pub(super) fn beginning() -> String {
    delta("\"role\":\"assistant\",\"content\":\"Let\"")
}

pub(super) fn calls(calls: &[Call]) -> String {
    let mut out = delta("\"role\":\"assistant\",\"content\":null");
    for Call {
        index,
        id,
        name,
        pieces,
    } in calls
    {
        out += &delta(&format!(
            "\"tool_calls\":[{{\"index\":{index},\"id\":\"{id}\",\"type\":\"function\",\"function\":{{\"name\":\"{name}\",\"arguments\":\"\"}}}}]"
        ));
        for piece in pieces {
            out += &delta(&format!(
                "\"tool_calls\":[{{\"index\":{index},\"function\":{{\"arguments\":\"{piece}\"}}}}]"
            ));
        }
    }

    out + &end("tool_calls")
}

fn delta(delta: &str) -> String {
    chunk(&format!(
        "\"choices\":[{{\"index\":0,\"delta\":{{{delta}}},\"logprobs\":null,\"finish_reason\":null}}]"
    ))
}

fn end(reason: &str) -> String {
    let mut out = chunk(&format!(
        "\"choices\":[{{\"index\":0,\"delta\":{{}},\"logprobs\":null,\"finish_reason\":\"{reason}\"}}]"
    ));
    out += &chunk(
        "\"choices\":[],\"usage\":{\"prompt_tokens\":120,\"completion_tokens\":50,\"total_tokens\":170}",
    );
    out + "data: [DONE]\n\n"
}

fn chunk(fields: &str) -> String {
    format!(
        "data: {{\"id\":\"chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT\",\"object\":\"chat.completion.chunk\",\"created\":1741569952,\"model\":\"bench-model\",\"system_fingerprint\":\"fp_44709d6fcb\",{fields}}}\n\n"
    )
}
