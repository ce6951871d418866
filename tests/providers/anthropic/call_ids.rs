//! Ids of calls that other providers wrote.

use agentcore::providers::Anthropic;
use agentcore::{Messages, Model, ToolCall};
use serde_json::{Value, json};

use crate::kit::doubles::anthropic::Double;

/// Ids that the Messages API refuses, and valid ids that look like their replacements.
fn ids() -> Vec<String> {
    let ids = [
        "call.1:1", "call_1_1", "call.1.1", "call 1 1", "call-1-1", "", "_", "\u{e9}", "\u{e8}",
    ];
    let long = [".", ":"].map(|end| format!("{}{end}", "x".repeat(200)));
    ids.map(str::to_owned).into_iter().chain(long).collect()
}

/// Calls with these ids, two in each answer, and their results.
fn history(ids: &[String]) -> Messages {
    let mut messages = Messages::new().human("Go");
    for pair in ids.chunks(2) {
        let calls = pair.iter().map(|id| ToolCall::new(&**id, "f.g", json!({})));
        messages = messages.ai_calling("", calls);
        for id in pair {
            messages = messages.tool(&**id, "f.g", "ok");
        }
    }
    messages
}

/// Returns the values of `field` in the blocks of this kind.
fn values<'a>(body: &'a Value, kind: &str, field: &str) -> Vec<&'a str> {
    let messages = body["messages"].as_array().unwrap();
    let blocks = messages
        .iter()
        .flat_map(|m| m["content"].as_array().unwrap());
    let blocks = blocks.filter(|block| block["type"] == kind);
    blocks.map(|block| block[field].as_str().unwrap()).collect()
}

#[tokio::test]
async fn ids_that_had_to_be_changed_stay_different() {
    let (double, server) = Double::start([]).await;
    let model = Anthropic::new("claude-opus-5-5", "key").base_url(server.url());
    let ids = ids();
    let answer = model.call(history(&ids).into()).await.unwrap();
    assert_eq!(answer.text(), "Done.");
    assert_eq!(double.refusals(), [""; 0]);

    let body = server.requests().remove(0).json();
    let calls = values(&body, "tool_use", "id");
    assert_eq!(calls, values(&body, "tool_result", "tool_use_id"));
    assert_eq!(calls.len(), ids.len());
    for (id, call) in ids.iter().zip(calls) {
        if ["call_1_1", "call-1-1", "_"].contains(&&**id) {
            assert_eq!(call, id, "what is legal stays");
        } else {
            assert_ne!(call, id);
            assert!(call.len() <= 64, "{call}");
        }
    }

    // Replaced ids are equal in every process, so that the cached prefix of a prompt stays valid.
    let calls = values(&body, "tool_use", "id");
    assert_eq!(calls[0], "call_1_1_8a3099");
    let names = values(&body, "tool_use", "name");
    assert!(names.iter().all(|name| *name == "f_g"), "{names:?}");
}
