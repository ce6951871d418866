//! Keys at the offsets where tools cut files and lines.

use agentcore::backend::{Backend, MemoryBackend};
use agentcore::testing::ScriptedModel;
use agentcore::tools::{EditPolicy, coding, wick};
use agentcore::{AgentBuilder, Secret, Tool, ToolContext};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::kit::keys::assert_no_leak;

const KEY: &str = "zqxwvkjzqhgwxyqzvkjwqxzgkqvwzxhjqkzvwbtmpd";

/// Returns everything that a call returns.
async fn output(tool: &impl Tool, args: Value) -> String {
    let output = tool.execute(ToolContext::detached(), args).await.unwrap();
    format!("{}\n{:?}", output.content.text(), output.details)
}

async fn with(path: &str, content: impl AsRef<[u8]>) -> MemoryBackend {
    let backend = MemoryBackend::new();
    backend.write(path, content.as_ref()).await.unwrap();
    backend
}

/// Panics if `text` has only a part of the key. Whole keys are not redacted outside of a run.
#[track_caller]
fn assert_no_part(text: &str, what: &str) {
    assert_no_leak(&text.replace(KEY, ""), KEY, what);
}

#[tokio::test]
async fn long_line_shows_no_part_of_a_key_at_its_cut() {
    let _known = Secret::new(KEY);
    for filler in [".", "🏔"] {
        for before in [1_959, 1_970, 1_985, 1_992, 1_996] {
            let line = format!(
                "needle{}{KEY}{}\n",
                filler.repeat(before - "needle".len()),
                ",".repeat(9_000)
            );
            let backend = with("a", line).await;
            let grep_args = json!({"pattern": "needle", "output_mode": "content"});
            let outputs = [
                output(&coding::read(backend.clone()), json!({"file_path": "a"})).await,
                output(
                    &wick::read_file(backend.clone()),
                    json!({"path": "a", "offset": 1}),
                )
                .await,
                output(&coding::grep(backend.clone()), grep_args).await,
                output(&wick::grep(backend), json!({"pattern": "needle"})).await,
            ];
            for output in outputs {
                assert!(output.contains("[redacted]... (line of "), "{output}");
                assert_no_leak(&output, KEY, &format!("{filler} {before}"));
            }
        }
    }
}

#[tokio::test]
async fn diff_of_an_edit_shows_no_part_of_a_key_at_its_cut() {
    let _known = Secret::new(KEY);
    // The text is cut at 10,000 characters, and the details at 30,000.
    for limit in [10_000, 30_000] {
        for before in (limit - 90..limit - 20).step_by(9) {
            let backend = with("a", "old\n").await;
            let tool = wick::edit_file(backend, EditPolicy::Unique);
            let new = format!("{}{KEY}{}", ".".repeat(before), ",".repeat(40_000));
            let args = json!({"path": "a", "old_text": "old", "new_text": new});
            let output = output(&tool, args).await;
            assert!(output.contains("more characters of the diff"));
            assert_no_part(&output, &format!("{limit} {before}"));
        }
    }
}

#[tokio::test]
async fn file_beyond_the_limit_of_results_shows_no_part_of_a_key_at_its_cut() {
    let _known = Secret::new(KEY);
    for is_text in [true, false] {
        for before in (1_000..1_500).step_by(7) {
            let content = format!("{}{KEY}{}", ".".repeat(before), ",".repeat(9_000));
            let mut bytes = content.into_bytes();
            if !is_text {
                // Content that is not UTF-8 is returned in base64.
                bytes[0] = 0xff;
            }
            let encoded = STANDARD.encode(&bytes);
            let encoded_key = &encoded[before.div_ceil(3) * 4..(before + KEY.len()) / 3 * 4];
            let backend = with("a", bytes).await;
            let model = ScriptedModel::new()
                .call("read_file", json!({"path": "a"}))
                .say("Done.");
            let agent = AgentBuilder::new(model)
                .tool(wick::read_file(backend))
                .max_result_bytes(1_500);
            let messages = agent.build().unwrap().run("Go").await.unwrap().messages;
            let result = messages.tool_messages().next().unwrap();
            let text = result.text().into_owned();
            assert!(text.len() <= 1_500, "{text}");
            assert!(text.contains("are more than the limit of 1500"), "{text}");
            assert_no_leak(&text, KEY, &format!("{is_text} {before}"));
            let mut parts = (0..=encoded_key.len() - 8).map(|start| &encoded_key[start..start + 8]);
            assert!(!parts.any(|part| text.contains(part)), "{before}: {text}");
        }
    }
}
