//! Requests for the capabilities of a model, and for token counts.

use agentcore::model::ThinkingMode;
use agentcore::providers::Anthropic;
use agentcore::testing::{FaultServer, Reply};
use agentcore::{ErrorKind, Message, Model, ModelRequest};
use serde_json::{Value, json};

fn model(server: &FaultServer) -> Anthropic {
    Anthropic::new("claude-opus-5-5", "sk-test-123456").base_url(server.url())
}

fn thinking(mode: ThinkingMode) -> ModelRequest {
    let mut request = ModelRequest::new("Hi");
    request.settings.thinking = Some(mode);
    request
}

/// The description of a model that accepts budgets and low effort.
fn description() -> Value {
    let yes = json!({"supported": true});
    let no = json!({"supported": false});
    let types = json!({"adaptive": no, "enabled": yes, "disabled": no, "between_tools": yes});
    json!({
        "id": "claude-opus-5-5", "type": "model", "max_input_tokens": 400_000, "max_tokens": 50_000,
        "retires_at": "2031-05-01T00:00:00Z",
        "capabilities": {
            "thinking": {"supported": true, "types": types},
            "effort": {"supported": true, "low": yes, "medium": no, "high": no, "max": no},
            "structured_outputs": no, "image_input": no,
        },
    })
}

#[tokio::test]
async fn server_without_descriptions_changes_nothing() {
    let server = FaultServer::start().await.unwrap();
    for reply in [
        Reply::json(404, "{}"),
        Reply::json(500, "{}"),
        Reply::json(200, "[]"),
        Reply::json(
            200,
            r#"{"capabilities": null, "max_tokens": -1, "retires_at": "soon"}"#,
        ),
    ] {
        server.reply(reply);
        let former = model(&server);
        let model = former.clone().read_capabilities().await.unwrap();
        assert_eq!(model.profile(), former.profile());
        server.reply(Reply::anthropic_text("ok"));
        model.call(thinking(ThinkingMode::Adaptive)).await.unwrap();
    }
}

#[tokio::test]
async fn refused_key_is_an_error() {
    let server = FaultServer::start().await.unwrap();
    server.reply(Reply::json(401, "{}"));
    let error = model(&server).read_capabilities().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Auth);
}

#[tokio::test]
async fn reported_capabilities_replace_those_of_the_name() {
    let server = FaultServer::start().await.unwrap();
    server.reply(Reply::json(200, description().to_string()));
    let model = model(&server).read_capabilities().await.unwrap();
    let request = server.requests().remove(0);
    assert_eq!(
        (&*request.method, &*request.path),
        ("GET", "/v1/models/claude-opus-5-5")
    );
    assert_eq!(model.profile().context_window, 400_000);
    assert_eq!(model.profile().max_output_tokens, 50_000);
    assert!(!model.profile().images);
    let ends = model.profile().lifecycle.and_then(|dates| dates.ends);
    assert_eq!(ends.unwrap().to_string(), "2031-05-01");

    server.fallback(Reply::anthropic_text("ok"));
    for (mode, expected) in [
        (ThinkingMode::Budget(2_000), "enabled"),
        (ThinkingMode::Disabled, "between_tools"),
    ] {
        model.call(thinking(mode)).await.unwrap();
        let body = server.requests().pop().unwrap().json();
        assert_eq!(body["thinking"]["type"], expected);
    }
    for mode in [ThinkingMode::Adaptive, ThinkingMode::Effort("high".into())] {
        let error = model.call(thinking(mode)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
    }
}

#[tokio::test]
async fn capability_that_is_not_reported_stays_as_known() {
    let yes = json!({"supported": true});
    let no = json!({"supported": false});
    for capabilities in [
        json!({"structured_outputs": yes}),
        json!({"thinking": {"supported": true}}),
        json!({"thinking": {"types": {"enabled": no}}, "image_input": yes}),
    ] {
        let server = FaultServer::start().await.unwrap();
        let description = json!({"capabilities": capabilities});
        server.reply(Reply::json(200, description.to_string()));
        let model = model(&server).read_capabilities().await.unwrap();
        server.fallback(Reply::anthropic_text("ok"));
        for mode in [ThinkingMode::Adaptive, ThinkingMode::Effort("max".into())] {
            model.call(thinking(mode)).await.unwrap();
            let body = server.requests().pop().unwrap().json();
            assert_eq!(body["thinking"]["type"], "adaptive", "{capabilities}");
        }
    }

    let server = FaultServer::start().await.unwrap();
    let description = json!({"capabilities": {"effort": {"supported": true, "low": yes}}});
    server.reply(Reply::json(200, description.to_string()));
    let model = model(&server).read_capabilities().await.unwrap();
    let error = model
        .call(thinking(ThinkingMode::Effort("max".into())))
        .await;
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Config);
}

#[tokio::test]
async fn name_that_is_no_path_segment_is_not_asked_for() {
    let server = FaultServer::start().await.unwrap();
    for name in ["anthropic/claude-opus-5", "claude-opus-5?x=1", "qwen3"] {
        let model = Anthropic::new(name, "sk-test-123456").base_url(server.url());
        model.read_capabilities().await.unwrap();
    }
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn failed_count_is_an_error_and_a_missing_address_is_none() {
    let server = FaultServer::start().await.unwrap();
    for (status, kind) in [
        (400, ErrorKind::InvalidRequest),
        (401, ErrorKind::Auth),
        (429, ErrorKind::RateLimited),
        (500, ErrorKind::Server),
    ] {
        server.reply(Reply::json(status, "{}"));
        let error = model(&server)
            .count_tokens(ModelRequest::new("Hi"))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
    }
    server.reply(Reply::json(404, "{}"));
    assert_eq!(
        model(&server)
            .count_tokens(ModelRequest::new("Hi"))
            .await
            .unwrap(),
        None
    );
}

#[tokio::test]
async fn request_is_counted_by_the_server() {
    let server = FaultServer::start().await.unwrap();
    server.reply(Reply::json(200, r#"{"input_tokens": 17}"#));
    let mut request = ModelRequest::new("Hi").with_system("You help.");
    request.settings.thinking = Some(ThinkingMode::Effort("low".into()));
    let count = model(&server).count_tokens(request).await.unwrap();
    assert_eq!(count, Some(17));
    let request = server.requests().remove(0);
    assert_eq!(request.path, "/v1/messages/count_tokens");
    let body = request.json();
    let fields: Vec<_> = body.as_object().unwrap().keys().collect();
    assert_eq!(
        fields,
        ["messages", "model", "output_config", "system", "thinking"]
    );
}

#[tokio::test]
async fn bearer_token_replaces_the_key() {
    let server = FaultServer::start().await.unwrap();
    server.reply(Reply::anthropic_text("ok"));
    let model = model(&server).bearer("bedrock-token-1234");
    assert!(!format!("{model:?}").contains("bedrock-token"));
    model.call(ModelRequest::new("Hi")).await.unwrap();
    let request = server.requests().remove(0);
    assert_eq!(request.header("x-api-key"), None);
    assert_eq!(
        request.header("authorization"),
        Some("Bearer bedrock-token-1234")
    );
}

/// Returns the marks of the prompt cache in a body, in the order of the prompt.
fn marks(body: &Value) -> Vec<Value> {
    let mut marks = Vec::new();
    let messages = body["messages"].as_array().unwrap();
    let contents = messages.iter().map(|message| &message["content"]);
    for blocks in [&body["tools"], &body["system"]]
        .into_iter()
        .chain(contents)
    {
        let blocks = blocks.as_array().into_iter().flatten();
        marks.extend(blocks.filter_map(|block| block.get("cache_control").cloned()));
    }
    marks
}

#[tokio::test]
async fn long_cache_is_for_tools_and_system_prompt() {
    let server = FaultServer::start().await.unwrap();
    server.fallback(Reply::anthropic_text("ok"));
    let tool = agentcore::model::ToolDefinition::new("f", "", json!({"type": "object"}));
    let mut request = ModelRequest::new("Hi")
        .with_system("You help.")
        .with_tools([tool]);
    request.settings.long_prompt_cache = Some(true);
    model(&server).call(request).await.unwrap();
    let body = server.requests().remove(0).json();
    let long = json!({"type": "ephemeral", "ttl": "1h"});
    assert_eq!(
        marks(&body),
        [long.clone(), long, json!({"type": "ephemeral"})]
    );
}

#[tokio::test]
async fn last_two_requests_have_breakpoints_and_never_more_than_four() {
    let server = FaultServer::start().await.unwrap();
    server.fallback(Reply::anthropic_text("ok"));
    let tool = agentcore::model::ToolDefinition::new("f", "", json!({"type": "object"}));
    let mut request = ModelRequest::new("Hi")
        .with_system("You help.")
        .with_tools([tool]);
    let model = model(&server);
    for turn in 0..5 {
        model.call(request.clone()).await.unwrap();
        let body = server.requests().pop().unwrap().json();
        assert_eq!(
            marks(&body).len(),
            if turn == 0 { 3 } else { 4 },
            "turn {turn}"
        );
        let messages = body["messages"].as_array().unwrap();
        let is_marked = |index: usize| messages[index].to_string().contains("cache_control");
        assert!(is_marked(messages.len() - 1));
        assert!(turn == 0 || is_marked(messages.len() - 3));
        request.messages.push(Message::ai("Yes."));
        request.messages.push(Message::human("And now?"));
    }

    // A shorter history has at most four breakpoints as well.
    let start = request.messages.as_slice()[..3].iter().cloned();
    request.messages = start.collect();
    model.call(request.clone()).await.unwrap();
    let body = server.requests().pop().unwrap().json();
    assert!(marks(&body).len() <= 4);
}
