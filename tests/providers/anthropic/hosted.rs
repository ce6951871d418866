//! Answers with citations, hosted tools, containers and details, and the requests that follow.

use agentcore::message::{Annotations, Citation, ProviderBlock};
use agentcore::model::{HostedTool, ModelEvent, StopReason};
use agentcore::providers::{Anthropic, anthropic};
use agentcore::testing::{FaultServer, Reply};
use agentcore::{Content, Message, Messages, Model, ModelRequest, Part};
use serde_json::value::to_raw_value;
use serde_json::{Value, json};

use super::answers::{answer, raw, recording, replay};

/// Returns the body of a request with this history.
async fn sent(history: Messages, hosted: impl IntoIterator<Item = HostedTool>) -> Value {
    let server = FaultServer::start().await.unwrap();
    server.fallback(Reply::anthropic_text("ok"));
    let mut request = ModelRequest::new(history);
    request.hosted_tools = hosted.into_iter().collect();
    let model = Anthropic::new("claude-sonnet-5", "sk-test-123456").base_url(server.url());
    model.call(request).await.unwrap();
    server.requests().remove(0).json()
}

fn asked() -> Messages {
    Messages::new().human("When is high water?")
}

/// Returns the blocks of a recorded answer as the server would send them.
fn blocks(name: &str) -> Vec<Value> {
    let mut blocks: Vec<Value> = Vec::new();
    let events = recording(name)
        .lines()
        .filter_map(|line| line.strip_prefix("data: "));
    for event in events.map(|data| serde_json::from_str::<Value>(data).unwrap()) {
        if event["type"] == "content_block_start" {
            blocks.push(event["content_block"].clone());
        }

        let Some(block) = blocks.last_mut() else {
            continue;
        };
        let delta = &event["delta"];
        if let Some(text) = delta["text"].as_str() {
            block["text"] = (block["text"].as_str().unwrap().to_owned() + text).into();
        }
        if let Some(json) = delta["partial_json"].as_str() {
            block["input"] = serde_json::from_str(json).unwrap();
        }
        if delta["citation"].is_object() {
            let citations = block["citations"].as_array_mut().unwrap();
            citations.push(delta["citation"].clone());
        }
    }
    blocks
}

#[tokio::test]
async fn citation_that_is_no_object_is_kept() {
    let stream = recording("citations").replacen(
        "\"citation\": {\"type\": \"page",
        "\"citation\": 7, \"x\": {\"type\": \"page",
        1,
    );
    let events = replay(&[stream.as_bytes()]);
    let annotations = events.iter().find_map(|event| match event {
        Ok(ModelEvent::Part(Part::Annotations(annotations))) => Some(annotations),
        _ => None,
    });
    let annotations = annotations.unwrap();
    assert_eq!(annotations.citations.len(), 1);
    let fields = annotations.block.as_ref().unwrap();
    assert!(fields.raw.get().ends_with(",7]}"), "{}", fields.raw);
}

#[tokio::test]
async fn citations_are_read_and_return_with_their_text() {
    let response = answer("citations");
    let citations: Vec<_> = response.content.citations().cloned().collect();
    let web = Citation::new("https://example.com/tides").with_title("Tides");
    let page = Citation::default().with_title("Almanac");
    assert_eq!(
        citations,
        [
            web.with_cited_text("High water: 12:04"),
            page.with_cited_text("Noon.")
        ]
    );

    let history = asked().ai(response.content).human("Sure?");
    let body = sent(history, []).await;
    let mut expected = blocks("citations");
    expected[1].as_object_mut().unwrap().remove("citations");
    assert_eq!(body["messages"][1]["content"], json!(expected));
}

#[tokio::test]
async fn citations_of_another_provider_are_not_sent() {
    let block = to_raw_value(&json!({"id": "msg_1", "status": "completed"})).unwrap();
    let block = ProviderBlock::new("openai-responses", block);
    let source = Citation::new("https://example.com");
    let answer = Content::from([
        Part::text("Noon. "),
        Part::Annotations(Annotations::new([source]).with_block(block)),
    ]);
    let body = sent(asked().ai(answer), []).await;
    // The API refuses trailing whitespace at the end of an answer.
    assert_eq!(
        body["messages"][1]["content"],
        json!([{"type": "text", "text": "Noon.", "cache_control": {"type": "ephemeral"}}])
    );
}

#[tokio::test]
async fn server_call_without_a_result_and_a_local_call_return_unchanged() {
    let response = answer("server_and_local");
    let call = response.tool_calls().next().unwrap().clone();
    let result = agentcore::ToolResult::ok(&call, "12:00");
    let history = asked().ai(response.content).with(Message::from(result));
    let body = sent(history, []).await;
    assert_eq!(
        body["messages"][1]["content"],
        json!(blocks("server_and_local"))
    );
}

#[tokio::test]
async fn container_of_the_last_answer_is_sent_with_code_execution() {
    let response = answer("code_execution");
    let history = || asked().ai(response.content.clone()).human("Again");
    let body = sent(history(), [anthropic::code_execution()]).await;
    assert_eq!(body["container"], "container_011");
    assert_eq!(
        body["messages"][1]["content"],
        json!(blocks("code_execution"))
    );
    let body = sent(history(), []).await;
    assert_eq!(body.get("container"), None);
    let body = sent(asked(), [anthropic::code_execution()]).await;
    assert_eq!(body.get("container"), None);
}

#[tokio::test]
async fn expired_container_is_not_sent() {
    let tool = |callers: Option<&str>| {
        let mut tool = json!({"type": "web_search_20260318", "name": "web_search"});
        if let Some(caller) = callers {
            tool["allowed_callers"] = json!([caller]);
        }
        HostedTool::new("anthropic", tool)
    };
    let code = anthropic::code_execution;
    for (end, tool, is_sent) in [
        ("2020-01-01T00:00:00Z", code(), false),
        ("9999-01-01T00:00:00Z", code(), true),
        ("no time", code(), true),
        ("9999-01-01T00:00:00Z", tool(None), true),
        ("2020-01-01T00:00:00Z", tool(None), false),
        ("9999-01-01T00:00:00Z", tool(Some("direct")), false),
    ] {
        let container = json!({"id": "container_1", "expires_at": end});
        let block = ProviderBlock::new("anthropic-container", to_raw_value(&container).unwrap());
        let answer = Content::from([Part::text("Noon."), Part::Opaque(block)]);
        let body = sent(asked().ai(answer).human("Again"), [tool]).await;
        assert_eq!(body.get("container").is_some(), is_sent, "{end}: {body}");
    }
}

#[tokio::test]
async fn thinking_that_the_server_left_out_is_reported_once() {
    let changes = "\"input_transformations\": [{\"type\": \"thinking_dropped\", \
                   \"reason\": \"prefix_binding_mismatch\"}, 7]";
    let with = |field: &str| format!("{field}, {changes}");
    let [content, reason] = ["\"content\": []", "\"stop_reason\": \"end_turn\""];
    let stream = recording("text")
        .replacen(content, &with(content), 1)
        .replacen(reason, &with(reason), 1);
    assert_eq!(
        stream.matches("input_transformations").count(),
        2,
        "{stream}"
    );
    let events = replay(&[stream.as_bytes()]);
    let warnings = events.iter().filter_map(|event| match event {
        Ok(ModelEvent::Warning(text)) => Some(&**text),
        _ => None,
    });
    let text = "the server left out reasoning of earlier answers (prefix_binding_mismatch)";
    assert_eq!(warnings.collect::<Vec<_>>(), [text]);
}

#[test]
fn refusal_is_explained_by_a_warning() {
    let events = replay(&[recording("refusal_details").as_bytes()]);
    let warning = events.iter().find_map(|event| match event {
        Ok(ModelEvent::Warning(text)) => Some(&**text),
        _ => None,
    });
    let text = "the model refused (cyber): This asks for an exploit.";
    assert_eq!(warning, Some(text));
    let response = answer("refusal_details");
    assert_eq!(response.stop_reason, Some(StopReason::Refusal));
}

#[test]
fn omitted_thinking_is_kept_with_its_signature() {
    let response = answer("omitted_thinking");
    let expected = json!({"type": "thinking", "thinking": "", "signature": "EqQBCgIYAhIM"});
    assert_eq!(raw(response.content.parts(), 0), expected);
}

#[test]
fn details_of_the_usage_survive_the_last_report() {
    let usage = answer("usage_split").usage;
    assert_eq!(
        (usage.cache_write_tokens, usage.cache_read_tokens),
        (100, 200)
    );
    assert_eq!(usage.cache_write_long_tokens, 60);
    assert_eq!(usage.reasoning_tokens, 9);
    assert_eq!(usage.server_tool_requests, 3);
}

#[tokio::test]
async fn hosted_tools_have_their_current_versions() {
    let tools = [
        anthropic::web_search(),
        anthropic::web_fetch(),
        anthropic::code_execution(),
    ];
    let body = sent(asked(), tools).await;
    let tools = body["tools"].as_array().unwrap();
    let kinds: Vec<_> = tools.iter().map(|tool| &tool["type"]).collect();
    assert_eq!(
        kinds,
        [
            "web_search_20260318",
            "web_fetch_20260318",
            "code_execution_20260521"
        ]
    );
    assert_eq!(tools[1]["citations"], json!({"enabled": true}));
}
