//! Answers of models, in the formats of all providers.

use agentcore::providers::{anthropic, gemini, ollama, openai, responses};
use futures::executor::block_on;
use futures::{StreamExt, stream};

use super::fuzz;
use super::generator::Grammar;

/// Uses frames of JSON too, in which values are counted before they are made.
#[test]
fn model_responses_decode_without_panic() {
    const FRAMES: Grammar = Grammar {
        tokens: &[
            "0",
            "null",
            "\"a\"",
            "\"\\\"\"",
            "{}",
            "[]",
            ",",
            ":",
            "\"",
            "\\",
            "\n\n",
            "[DONE]",
            "\"index\":0,",
            "\"id\":\"a\",",
            "\"name\":\"a\",",
            "\"arguments\":",
            "\"arguments\":\"{}\"",
            "\"input\":",
            "\"done\":true",
            "\"finish_reason\":\"stop\",",
            "\"text\":\"a\",",
            "\"thought\":true,",
            "event: response.output_item.done\n",
            "event: response.output_item.added\n",
            "event: response.output_text.delta\n",
            "event: response.completed\n",
            "data: {\"output_index\":0,\"item\":{\"type\":\"message\",\"content\":[{\"text\":\"a\"}]}}\n\n",
            "data: {\"output_index\":1,\"item\":{\"type\":\"function_call\",\"call_id\":\"c\"}}\n\n",
            "data: {\"output_index\":0,\"delta\":\"a\"}\n\n",
            "data: {\"response\":{\"output\":[]}}\n\n",
            "\"thoughtSignature\":\"a\",",
            "\"finishReason\":\"STOP\",",
        ],
        pairs: &[
            ("[", "]"),
            ("{", "}"),
            ("data: {\"type\":\"message_start\",\"message\":{", "}}\n\n"),
            (
                "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\",",
                "}}\n\n",
            ),
            (
                "data: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"odd\",",
                "}}\n\n",
            ),
            (
                "data: {\"type\":\"content_block_stop\",\"index\":0",
                "}\n\n",
            ),
            (
                "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{",
                "}]}}]}\n\n",
            ),
            (
                "data: {\"choices\":[{\"delta\":{\"reasoning_details\":[{\"type\":\"reasoning.text\",",
                "}]}}]}\n\n",
            ),
            (
                "data: {\"choices\":[{\"delta\":{\"content\":[{\"type\":\"thinking\",\"thinking\":[",
                "]}]}}]}\n\n",
            ),
            (
                "data: {\"choices\":[{\"delta\":{\"extra_content\":{",
                "}}}]}\n\n",
            ),
            ("{\"message\":{\"tool_calls\":[{\"function\":{", "}}]}}\n"),
            (
                "data: {\"candidates\":[{\"content\":{\"parts\":[{",
                "}]}}]}\n\n",
            ),
            ("\"functionCall\":{\"name\":\"a\",\"args\":{", "}},"),
            (
                "data: {\"candidates\":[{\"groundingMetadata\":{\"groundingChunks\":[{\"web\":{",
                "}}]}}]}\n\n",
            ),
        ],
    };

    fuzz("answers", |rng| {
        let text = FRAMES.text(rng, 64 * 1024);
        let body = || {
            let chunks = text.as_bytes().chunks(4096);
            let chunks: Vec<_> = chunks.map(|chunk| Ok(chunk.to_vec().into())).collect();
            stream::iter(chunks)
        };

        for events in [
            anthropic::decode(body()),
            openai::decode(body()),
            ollama::decode(body()),
            gemini::decode(body()),
            responses::decode(body()),
        ] {
            std::hint::black_box(block_on(events.count()));
        }

        text.len()
    });
}
