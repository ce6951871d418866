//! Requests to the Responses API.

use agentcore::message::Media;
use agentcore::model::{ModelSettings, ResponseFormat, ThinkingMode, ToolChoice, ToolDefinition};
use agentcore::providers::{OpenAiResponses, responses};
use agentcore::{ErrorKind, Message, Messages, Model, ModelRequest, Part};
use serde_json::{Value, json};

use crate::kit::doubles::responses::{Double, message, reasoning};

/// Returns the body that is sent for `request`.
async fn sent(request: ModelRequest) -> Value {
    let (double, server) = Double::start([]).await;
    let model = OpenAiResponses::compatible(server.url(), "gpt-6-luna").key("sk-test-key-1234");
    model.call(request).await.unwrap();
    assert!(double.refusals().is_empty(), "{:?}", double.refusals());
    server.requests().remove(0).json()
}

#[tokio::test]
async fn media_that_the_api_has_no_form_for_are_an_error() {
    let (_, server) = Double::start([]).await;
    let model = OpenAiResponses::compatible(server.url(), "gpt-6-luna");
    for part in [
        Part::Audio(Media::bytes("audio/wav", b"wav")),
        Part::Image(Media::file("anthropic", "file_1")),
    ] {
        let history = Messages::new().with(Message::human([part]));
        let error = model.call(ModelRequest::new(history)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{error}");
    }
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn images_and_documents_are_sent() {
    let pdf = Media::bytes("application/pdf", b"pdf").with_name("a.pdf");
    let history = Messages::new().with(Message::human([
        Part::text("Look"),
        Part::Image(Media::bytes("image/png", b"png")),
        Part::Image(Media::url("https://example.com/a.png")),
        Part::Image(Media::file("openai", "file_1")),
        Part::Document(pdf),
        Part::Document(Media::url("https://example.com/a.pdf")),
        Part::Document(Media::file("openai", "file_2")),
    ]));
    let body = sent(ModelRequest::new(history)).await;
    let image =
        |field: &str, value: &str| json!({"type": "input_image", "detail": "auto", field: value});
    assert_eq!(
        body["input"][0]["content"],
        json!([
            {"type": "input_text", "text": "Look"},
            image("image_url", "data:image/png;base64,cG5n"),
            image("image_url", "https://example.com/a.png"),
            image("file_id", "file_1"),
            {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,cGRm"},
            {"type": "input_file", "file_url": "https://example.com/a.pdf"},
            {"type": "input_file", "file_id": "file_2"},
        ])
    );
}

#[tokio::test]
async fn tools_and_settings_are_sent() {
    let strict = json!({"type": "object", "properties": {"a": {"type": "string"}},
        "required": ["a"], "additionalProperties": false});
    let mut request = ModelRequest::new("Go").with_max_output_tokens(99);
    request.tools = [
        ToolDefinition::new("f", "First", strict.clone()),
        ToolDefinition::new("g", "Second", json!({"type": "object"})),
    ]
    .into();
    request.hosted_tools = [responses::web_search()].into();
    request.tool_choice = ToolChoice::Tool("f".into());
    request.temperature = Some(0.5);
    request.settings = ModelSettings::new()
        .with_thinking(ThinkingMode::Disabled)
        .with_parallel_tool_calls(false)
        .with_seed(7);
    let body = sent(request).await;
    assert_eq!(
        body["tools"],
        json!([
            {"type": "function", "name": "f", "description": "First", "parameters": strict, "strict": true},
            {"type": "function", "name": "g", "description": "Second",
                "parameters": {"type": "object"}, "strict": false},
            {"type": "web_search"},
        ])
    );
    assert_eq!(
        body["tool_choice"],
        json!({"type": "function", "name": "f"})
    );
    assert_eq!(body["parallel_tool_calls"], false);
    assert_eq!(body["max_output_tokens"], 99);
    assert_eq!(body["reasoning"], json!({"effort": "none"}));
    let included = json!([
        "reasoning.encrypted_content",
        "web_search_call.action.sources"
    ]);
    assert_eq!(body["include"], included);
}

#[tokio::test]
async fn structured_output_is_a_format_or_told_in_words() {
    let schema = json!({"type": "object", "properties": {}, "required": [],
        "additionalProperties": false});
    let format = |schema: &Value| {
        let mut request = ModelRequest::new("Go");
        let schema = schema.clone().into();
        request.response_format = Some(ResponseFormat::JsonSchema {
            name: "out".into(),
            schema,
        });
        request
    };
    let body = sent(format(&schema)).await;
    let expected = json!({"type": "json_schema", "name": "out", "schema": schema, "strict": true});
    assert_eq!(body["text"]["format"], expected);

    let body = sent(format(&json!({"type": "array"}))).await;
    assert!(body.get("text").is_none());
    assert_eq!(body["input"][0]["role"], "developer");
}

#[tokio::test]
async fn schema_that_the_strict_mode_refuses_is_sent_without_it() {
    let object = |field: Value| {
        json!({"type": "object", "properties": {"a": field}, "required": ["a"],
            "additionalProperties": false})
    };
    for (field, is_strict) in [
        (json!({"type": "string"}), true),
        (json!({}), false),
        (json!({"description": "Anything"}), false),
        (json!({"const": "x"}), false),
        (json!({"type": "array"}), false),
        (json!({"$ref": "#/$defs/x", "description": "An x"}), false),
        (json!({"type": "string", "pattern": "^(?=a)"}), false),
    ] {
        let schema = object(field);
        let mut request = ModelRequest::new("Go");
        request.tools = [ToolDefinition::new("f", "", schema.clone())].into();
        request.response_format = Some(ResponseFormat::JsonSchema {
            name: "out".into(),
            schema: schema.clone().into(),
        });
        let body = sent(request).await;
        assert_eq!(body["tools"][0]["strict"], is_strict, "{schema}");
        assert_eq!(body["text"]["format"]["strict"], is_strict, "{schema}");
    }
}

#[tokio::test]
async fn model_that_never_reasons_is_not_asked_for_reasoning() {
    let answer = || vec![message("msg_1", "ok")];
    for (name, refusals, expected) in [
        ("gpt-4.1", 0, json!(["web_search_call.action.sources"])),
        // The name of a deployment does not show its model.
        (
            "deployment-of-4.1",
            1,
            json!(["web_search_call.action.sources"]),
        ),
    ] {
        let (double, server) = Double::start([answer(), answer()]).await;
        let model = OpenAiResponses::compatible(server.url(), name);
        // A clone of the model sends the second request, which is not refused again.
        for model in [model.clone(), model] {
            let mut request = ModelRequest::new("Go");
            request.hosted_tools = [responses::web_search()].into();
            let response = model.call(request).await.unwrap();
            assert_eq!(response.text(), "ok");
            assert_eq!(double.refusals().len(), refusals, "{name}");
            let body = server.requests().pop().unwrap().json();
            assert_eq!(body["include"], expected, "{name}");
        }
    }

    let (double, server) = Double::start([vec![reasoning("rs_1"), message("msg_1", "ok")]]).await;
    let model = OpenAiResponses::compatible(server.url(), "gpt-6-luna");
    let answer = model.call(ModelRequest::new("Go")).await.unwrap();
    let history = Messages::new().human("Go").ai(answer.content).human("And?");
    let model = OpenAiResponses::compatible(server.url(), "gpt-4.1");
    model.call(ModelRequest::new(history)).await.unwrap();
    assert!(double.refusals().is_empty(), "{:?}", double.refusals());
    let body = server.requests().pop().unwrap().json();
    assert!(body.get("include").is_none(), "{body}");
    assert_eq!(body["input"][1]["content"], "ok");
    assert!(body["input"][1].get("id").is_none(), "{body}");
}

#[tokio::test]
async fn model_that_refused_encrypted_reasoning_is_sent_none_by_its_server_alone() {
    let first_answer = vec![reasoning("rs_1"), message("msg_1", "ok")];
    let (double, server) = Double::start([first_answer, vec![message("msg_2", "Yes.")]]).await;
    let reasoning_model = OpenAiResponses::compatible(server.url(), "gpt-6-luna");
    let answer = reasoning_model.call(ModelRequest::new("Go")).await.unwrap();
    let history = Messages::new().human("Go").ai(answer.content).human("And?");
    let model = OpenAiResponses::compatible(server.url(), "deployment-of-4.1");
    for refusals in [1, 1] {
        let response = model.call(ModelRequest::new(history.clone())).await;
        response.unwrap();
        assert_eq!(double.refusals().len(), refusals);
        let body = server.requests().pop().unwrap().json();
        let input = body["input"].as_array().unwrap();
        assert!(
            input.iter().all(|item| item["type"] != "reasoning"),
            "{body}"
        );
        assert!(
            body.get("include")
                .is_none_or(|include| include == &json!([])),
            "{body}"
        );
    }

    let (other_double, other_server) = Double::start([]).await;
    let model = model.base_url(other_server.url());
    model.call(ModelRequest::new("Go")).await.unwrap();
    assert_eq!(
        other_double.refusals().len(),
        1,
        "the other server may have another model"
    );
}

#[tokio::test]
async fn media_of_results_are_a_list() {
    let history = Messages::new()
        .human("Go")
        .with(Message::ai([Part::ToolCall(agentcore::ToolCall::new(
            "c",
            "f",
            json!({}),
        ))]))
        .with(Message::tool(
            "c",
            "f",
            [
                Part::text("seen"),
                Part::Image(Media::bytes("image/png", b"png")),
            ],
        ));
    let body = sent(ModelRequest::new(history)).await;
    assert_eq!(
        body["input"][2]["output"],
        json!([
            {"type": "input_text", "text": "seen"},
            {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,cG5n"},
        ])
    );
}

#[tokio::test]
async fn prompt_is_counted_by_the_server() {
    let server = agentcore::testing::FaultServer::start().await.unwrap();
    server.reply(agentcore::testing::Reply::json(
        200,
        "{\"input_tokens\": 42}",
    ));
    server.reply(agentcore::testing::Reply::json(404, "{}"));
    let model = OpenAiResponses::compatible(server.url(), "gpt-6-luna");
    let count = model.count_tokens(ModelRequest::new("Go")).await.unwrap();
    assert_eq!(count, Some(42));
    let request = server.requests().remove(0);
    assert_eq!(request.path, "/responses/input_tokens");
    let body = request.json();
    let fields: Vec<_> = body.as_object().unwrap().keys().collect();
    assert_eq!(fields, ["input", "model", "reasoning"]);
    let count = model.count_tokens(ModelRequest::new("Go")).await.unwrap();
    assert_eq!(count, None);
}
