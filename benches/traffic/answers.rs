//! Answers as the two APIs stream them.

use std::fmt::Write as _;

use super::Dialect;

/// How many deltas a short answer has.
const SHORT: usize = 50;

const WORDS: [&str; 8] = [
    " the",
    " weather",
    " in",
    " Lisbon",
    " is",
    " mild,\\n",
    " \\\"sunny\\\"",
    " and dry",
];

pub(super) fn short(dialect: Dialect) -> String {
    deltas(dialect, SHORT)
}

pub(super) fn deltas(dialect: Dialect, count: usize) -> String {
    let words = WORDS.iter().cycle().take(count);
    match dialect {
        Dialect::OpenAi => {
            let mut out = openai_delta("\"role\":\"assistant\",\"content\":\"\"");
            for word in words {
                out += &openai_delta(&format!("\"content\":\"{word}\""));
            }

            out + &openai_end("stop")
        }
        Dialect::Anthropic => {
            let mut out = anthropic_start();
            out += &anthropic(
                "content_block_start",
                "\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}",
            );
            for word in words {
                let delta = format!(
                    "\"index\":0,\"delta\":{{\"type\":\"text_delta\",\"text\":\"{word}\"}}"
                );
                out += &anthropic("content_block_delta", &delta);
            }

            out += &anthropic("content_block_stop", "\"index\":0");
            out + &anthropic_end("end_turn")
        }
    }
}

/// An answer that begins and does not go on.
pub(super) fn beginning(dialect: Dialect) -> String {
    match dialect {
        Dialect::OpenAi => openai_delta("\"role\":\"assistant\",\"content\":\"Let\""),
        Dialect::Anthropic => anthropic_start(),
    }
}

/// Four calls. `number` makes their ids and arguments differ from those of other answers.
pub(super) fn calls(dialect: Dialect, number: usize) -> String {
    let mut out = match dialect {
        Dialect::OpenAi => openai_delta("\"role\":\"assistant\",\"content\":null"),
        Dialect::Anthropic => anthropic_start(),
    };

    for index in 0..4 {
        let id = format!("call_{number:08}_{index}");
        let args = [
            "{\\\"city\\\":",
            "\\\"Lis",
            "bon\\\",",
            "\\\"day\\\":",
            &format!("{number}}}"),
        ]
        .map(str::to_owned);
        match dialect {
            Dialect::OpenAi => {
                out += &openai_delta(&format!(
                    "\"tool_calls\":[{{\"index\":{index},\"id\":\"{id}\",\"type\":\"function\",\"function\":{{\"name\":\"forecast_{index}\",\"arguments\":\"\"}}}}]"
                ));
                for piece in args {
                    out += &openai_delta(&format!(
                        "\"tool_calls\":[{{\"index\":{index},\"function\":{{\"arguments\":\"{piece}\"}}}}]"
                    ));
                }
            }
            Dialect::Anthropic => {
                out += &anthropic(
                    "content_block_start",
                    &format!(
                        "\"index\":{index},\"content_block\":{{\"type\":\"tool_use\",\"id\":\"{id}\",\"name\":\"forecast_{index}\",\"input\":{{}}}}"
                    ),
                );
                for piece in args {
                    out += &anthropic(
                        "content_block_delta",
                        &format!(
                            "\"index\":{index},\"delta\":{{\"type\":\"input_json_delta\",\"partial_json\":\"{piece}\"}}"
                        ),
                    );
                }

                out += &anthropic("content_block_stop", &format!("\"index\":{index}"));
            }
        }
    }

    out + &match dialect {
        Dialect::OpenAi => openai_end("tool_calls"),
        Dialect::Anthropic => anthropic_end("tool_use"),
    }
}

fn openai_delta(delta: &str) -> String {
    openai(&format!(
        "\"choices\":[{{\"index\":0,\"delta\":{{{delta}}},\"logprobs\":null,\"finish_reason\":null}}]"
    ))
}

fn openai_end(reason: &str) -> String {
    let mut out = openai(&format!(
        "\"choices\":[{{\"index\":0,\"delta\":{{}},\"logprobs\":null,\"finish_reason\":\"{reason}\"}}]"
    ));
    out += &openai(
        "\"choices\":[],\"usage\":{\"prompt_tokens\":120,\"completion_tokens\":50,\"total_tokens\":170}",
    );
    out + "data: [DONE]\n\n"
}

fn openai(fields: &str) -> String {
    format!(
        "data: {{\"id\":\"chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT\",\"object\":\"chat.completion.chunk\",\"created\":1741569952,\"model\":\"bench-model\",\"system_fingerprint\":\"fp_44709d6fcb\",{fields}}}\n\n"
    )
}

fn anthropic_start() -> String {
    anthropic(
        "message_start",
        "\"message\":{\"id\":\"msg_013Zva2CMHLNnXjNJJKqJ2EF\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"bench-model\",\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":{\"input_tokens\":120,\"output_tokens\":1}}",
    )
}

fn anthropic_end(reason: &str) -> String {
    let delta = format!(
        "\"delta\":{{\"stop_reason\":\"{reason}\",\"stop_sequence\":null}},\"usage\":{{\"output_tokens\":50}}"
    );
    let mut out = anthropic("message_delta", &delta);
    out.push_str("event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
    out
}

fn anthropic(name: &str, fields: &str) -> String {
    let mut out = String::new();
    let _ = write!(
        out,
        "event: {name}\ndata: {{\"type\":\"{name}\",{fields}}}\n\n"
    );
    out
}
