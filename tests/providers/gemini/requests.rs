//! Requests to the Gemini API.

use agentcore::message::{Media, ProviderBlock};
use agentcore::model::{
    HostedTool, ModelProfile, ResponseFormat, Stability, SystemPrompt, ToolChoice, ToolDefinition,
};
use agentcore::providers::{Gemini, gemini};
use agentcore::testing::{FaultServer, Reply, conformance};
use agentcore::{
    AgentBuilder, ErrorKind, Message, Messages, Model, ModelRequest, Part, ToolCall, ToolResult,
};
use serde_json::{Value, json};

use crate::kit::doubles::gemini::{Double, call, stream, text};
use crate::kit::echo;

const MODERN: &str = "gemini-3.8-flash";
const OLDER: &str = "gemini-2.5-flash";

/// Returns the body that is sent for `request`.
async fn sent_to(model: &str, request: ModelRequest) -> Value {
    let (double, server) = Double::start([]).await;
    let model = Gemini::new(model, "key").base_url(server.url());
    model.call(request).await.unwrap();
    assert!(double.refusals().is_empty(), "{:?}", double.refusals());
    server.requests().remove(0).json()
}

async fn sent(request: ModelRequest) -> Value {
    sent_to(MODERN, request).await
}

/// Returns the error of a request that is not sent.
async fn refusal(model: &str, request: ModelRequest) -> agentcore::Error {
    let server = FaultServer::start().await.unwrap();
    let model = Gemini::new(model, "key").base_url(server.url());
    let error = model.call(request).await.unwrap_err();
    assert!(server.requests().is_empty());
    error
}

fn with_input(part: Part) -> ModelRequest {
    ModelRequest::new(Messages::new().with(Message::human([part])))
}

fn tool(name: &str) -> ToolDefinition {
    let parameters = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
        "properties": {"day": {"type": "string", "format": "date"}, "unit": {"const": "c"}},
    });
    ToolDefinition::new(name, "Reads.", parameters)
}

fn with_tools(hosted: &[HostedTool]) -> ModelRequest {
    let mut request = ModelRequest::new("Go").with_tools([tool("f")]);
    request.hosted_tools = hosted.into();
    request
}

#[tokio::test]
async fn model_name_with_a_slash_is_refused() {
    for name in [
        "../../v1beta/tunedModels/x",
        "a/b",
        "m?key=1",
        "m:n",
        "",
        "..",
        "m n",
    ] {
        let error = refusal(name, ModelRequest::new("Go")).await;
        assert_eq!(error.kind(), ErrorKind::Config, "{name}");
        assert!(error.text().contains("no name of a model"), "{error}");

        let mut request = ModelRequest::new("Go");
        request.model = Some(name.into());
        let error = refusal(MODERN, request).await;
        assert_eq!(error.kind(), ErrorKind::Config, "{name}");
    }
}

#[tokio::test]
async fn request_goes_to_the_model_that_it_names() {
    let (double, server) = Double::start([]).await;
    let model = Gemini::new(format!("models/{MODERN}"), "key").base_url(server.url());
    assert_eq!(model.id(), "gemini:gemini-3.8-flash");
    model.call(ModelRequest::new("Go")).await.unwrap();
    let mut request = ModelRequest::new("Go");
    request.model = Some("models/gemini-2.0-flash".into());
    model.call(request).await.unwrap();
    assert!(double.refusals().is_empty(), "{:?}", double.refusals());
    let [first, second] = &server.requests()[..] else {
        panic!("two requests");
    };
    let path = |name: &str| format!("/models/{name}:streamGenerateContent?alt=sse");
    assert_eq!(first.path, path(MODERN));
    assert_eq!(second.path, path("gemini-2.0-flash"));
    // `gemini-2.0-flash` has no thinking.
    assert!(second.json().get("generationConfig").is_none());
}

#[tokio::test]
async fn media_that_the_api_has_no_form_for_are_an_error() {
    for part in [
        Part::Image(Media::url("https://example.com/a.png")),
        Part::Document(Media::url(
            "http://generativelanguage.googleapis.com/v1/files/a",
        )),
        Part::Audio(Media::file("openai", "file-1")),
    ] {
        let error = refusal(MODERN, with_input(part)).await;
        assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{error}");
        assert!(error.text().contains("the Gemini API takes no"), "{error}");
    }

    let server = FaultServer::start().await.unwrap();
    let model = Gemini::new(MODERN, "key")
        .base_url(server.url())
        .with_profile(ModelProfile::default().with_images(false));
    let image = Part::Image(Media::bytes("image/png", b"png"));
    let error = model.call(with_input(image)).await.unwrap_err();
    assert!(error.text().contains("with_images"), "{error}");
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn media_of_inputs_are_sent() {
    let file = "https://generativelanguage.googleapis.com/v1beta/files/abc";
    let history = Messages::new().with(Message::human([
        Part::text("Look"),
        Part::Image(Media::bytes("image/webp", b"webp")),
        Part::Image(Media::base64("", "cG5n")),
        Part::Document(Media::bytes("application/pdf", b"pdf").with_name("a.pdf")),
        Part::Document(Media::bytes("text/plain", b"notes").with_name("n.txt")),
        Part::Audio(Media::bytes("audio/mp3", b"mp3")),
        Part::Audio(Media::base64("", "d2F2")),
        Part::Document(Media::file("gemini", file)),
        Part::Document(Media::url(file)),
        Part::Audio(Media::url("gs://bucket/a.wav")),
    ]));
    let body = sent(ModelRequest::new(history)).await;
    let data = |kind: &str, data: &str| json!({"inlineData": {"mimeType": kind, "data": data}});
    let at = |uri: &str| json!({"fileData": {"fileUri": uri}});
    assert_eq!(
        body["contents"][0]["parts"],
        json!([
            {"text": "Look"},
            data("image/webp", "d2VicA=="),
            data("image/png", "cG5n"),
            data("application/pdf", "cGRm"),
            {"text": "[document: n.txt]\nnotes"},
            data("audio/mp3", "bXAz"),
            data("audio/wav", "d2F2"),
            at(file),
            at(file),
            at("gs://bucket/a.wav"),
        ])
    );
}

#[tokio::test]
async fn vertex_reads_addresses_with_a_type() {
    let (double, server) = Double::start([]).await;
    let model = Gemini::vertex(MODERN, "p", "global", "token").base_url(server.url());
    let address = "https://example.com/a.png";
    let image = with_input(Part::Image(Media::url(address)));
    model.call(image).await.unwrap();
    assert!(double.refusals().is_empty(), "{:?}", double.refusals());
    let body = server.requests().remove(0).json();
    assert_eq!(
        body["contents"][0]["parts"],
        json!([{"fileData": {"mimeType": "image/png", "fileUri": address}}])
    );
}

/// A history with two results: one has text, a picture and audio, the other one is an error.
fn results() -> Messages {
    let calls = ["c1", "c2"].map(|id| ToolCall::new(id, "f", json!({})));
    let [first, second] = calls.clone();
    let content = [
        Part::text("seen"),
        Part::Image(Media::bytes("image/png", b"png")),
        Part::Audio(Media::bytes("audio/wav", b"wav")),
    ];
    Messages::new()
        .human("Go")
        .with(Message::ai(calls.map(Part::ToolCall)))
        .with(Message::from(ToolResult::failed(&second, "no such city")))
        .with(Message::from(ToolResult::ok(&first, content)))
}

#[tokio::test]
async fn media_of_results_are_in_them_or_behind_them() {
    let result = |id: &str, response: Value| json!({"functionResponse": {"id": id, "name": "f", "response": response}});
    let data = |kind: &str, data: &str| json!({"inlineData": {"mimeType": kind, "data": data}});
    let failed = result("c2", json!({"error": "Error: no such city"}));
    let seen = result("c1", json!({"output": "seen"}));
    let image = data("image/png", "cG5n");
    let audio = data("audio/wav", "d2F2");

    let body = sent(ModelRequest::new(results())).await;
    let mut with_image = seen.clone();
    with_image["functionResponse"]["parts"] = json!([image]);
    assert_eq!(body["contents"][2]["parts"], json!([with_image, failed]));
    assert_eq!(body["contents"][3]["parts"], json!([audio]));

    let body = sent_to(OLDER, ModelRequest::new(results())).await;
    assert_eq!(body["contents"][2]["parts"], json!([seen, failed]));
    assert_eq!(body["contents"][3]["parts"], json!([image, audio]));
}

#[tokio::test]
async fn tools_and_settings_are_sent() {
    let mut request = with_tools(&[]).with_max_output_tokens(99);
    request.tool_choice = ToolChoice::Tool("f".into());
    request.temperature = Some(0.5);
    request.stop = ["END".to_owned()].into();
    request.settings.top_p = Some(0.9);
    request.settings.top_k = Some(5);
    request.settings.seed = Some(u64::MAX);
    request.settings.parallel_tool_calls = Some(false);
    let body = sent(request).await;
    let parameters = json!({
        "type": "object",
        "properties": {
            "day": {"type": "string", "description": "Format: date"},
            "unit": {"enum": ["c"]},
        },
    });
    assert_eq!(
        body["tools"],
        json!([{"functionDeclarations": [
            {"name": "f", "description": "Reads.", "parametersJsonSchema": parameters},
        ]}])
    );
    assert_eq!(
        body["toolConfig"],
        json!({"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f"]}})
    );
    assert_eq!(
        body["generationConfig"],
        json!({
            "maxOutputTokens": 99, "temperature": 0.5, "topP": 0.9, "topK": 5,
            "seed": i32::MAX, "stopSequences": ["END"],
            "thinkingConfig": {"includeThoughts": true},
        })
    );
}

#[tokio::test]
async fn tool_choice_is_a_mode_where_there_are_functions() {
    let mode = |mode: &str| json!({"functionCallingConfig": {"mode": mode}});
    for (choice, expected) in [
        (ToolChoice::Auto, Value::Null),
        (ToolChoice::None, mode("NONE")),
        (ToolChoice::Required, mode("ANY")),
    ] {
        let mut request = with_tools(&[]);
        request.tool_choice = choice.clone();
        assert_eq!(sent(request).await["toolConfig"], expected);

        let mut request = ModelRequest::new("Go");
        request.tool_choice = choice;
        assert!(sent(request).await.get("toolConfig").is_none());
    }
}

#[tokio::test]
async fn hosted_tools_stand_behind_the_functions() {
    let hosted = [
        gemini::google_search(),
        gemini::url_context(),
        gemini::code_execution(),
    ];
    let body = sent(with_tools(&hosted)).await;
    let tools = body["tools"].as_array().unwrap();
    let expected = [
        json!({"googleSearch": {}}),
        json!({"urlContext": {}}),
        json!({"codeExecution": {}}),
    ];
    assert_eq!(tools[1..], expected);
    assert_eq!(
        body["toolConfig"],
        json!({"includeServerSideToolInvocations": true})
    );

    let mut alone = with_tools(&hosted);
    alone.tools = [].into();
    let body = sent_to(OLDER, alone).await;
    assert_eq!(body["tools"], json!(expected));
    assert!(body.get("toolConfig").is_none());

    let server = FaultServer::start().await.unwrap();
    server.fallback(stream(&[text("ok")]));
    let vertex = Gemini::vertex(MODERN, "p", "global", "token").base_url(server.url());
    vertex.call(with_tools(&hosted)).await.unwrap();
    let body = server.requests().remove(0).json();
    assert_eq!(body["tools"].as_array().unwrap().len(), 4);
    assert!(body.get("toolConfig").is_none());
}

#[tokio::test]
async fn hosted_tool_beside_functions_is_an_error_for_older_models() {
    let error = refusal(OLDER, with_tools(&[gemini::google_search()])).await;
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.text().contains(OLDER), "{error}");
}

#[tokio::test]
async fn no_tool_of_the_server_is_offered_when_none_may_be_called() {
    let hosted = [gemini::google_search()];
    let mut request = with_tools(&hosted);
    request.tool_choice = ToolChoice::None;
    for model in [MODERN, OLDER] {
        let body = sent_to(model, request.clone()).await;
        assert_eq!(body["tools"].as_array().unwrap().len(), 1, "{body}");
        let config = json!({"functionCallingConfig": {"mode": "NONE"}});
        assert_eq!(body["toolConfig"], config);
    }
    request.tools = [].into();
    assert_eq!(sent(request).await.get("tools"), None);
}

#[tokio::test]
async fn any_object_is_asked_for_in_words_where_no_field_is_combined_with_tools() {
    let mut request = with_tools(&[]);
    request.response_format = Some(ResponseFormat::JsonObject);
    let body = sent(request.clone()).await;
    assert_eq!(
        body["generationConfig"]["responseMimeType"],
        "application/json"
    );
    let body = sent_to(OLDER, request).await;
    assert_eq!(body["generationConfig"].get("responseMimeType"), None);
    let text = body["systemInstruction"]["parts"][0]["text"]
        .as_str()
        .unwrap();
    assert!(text.contains(r#"{"type":"object"}"#), "{text}");
}

#[tokio::test]
async fn structured_output_is_a_schema_or_an_instruction() {
    let schema = json!({"title": "T", "type": "object", "properties": {"a": {"const": 1}}});
    let structured = |mut request: ModelRequest| {
        request.response_format = Some(ResponseFormat::JsonSchema {
            name: "out".into(),
            schema: schema.clone().into(),
        });
        request
    };
    let declared = json!({"type": "object", "properties": {"a": {"enum": [1]}}});
    for (model, request) in [
        (MODERN, ModelRequest::new("Go")),
        (MODERN, with_tools(&[])),
        (OLDER, ModelRequest::new("Go")),
    ] {
        let body = sent_to(model, structured(request)).await;
        let config = &body["generationConfig"];
        assert_eq!(config["responseMimeType"], "application/json");
        assert_eq!(config["responseJsonSchema"], declared);
        assert!(body.get("systemInstruction").is_none());
    }

    for system in ["", "You help."] {
        let request = structured(with_tools(&[])).with_system(system);
        let body = sent_to(OLDER, request).await;
        let config = &body["generationConfig"];
        assert!(config.get("responseMimeType").is_none());
        let parts = body["systemInstruction"]["parts"].as_array().unwrap();
        let instruction = parts.last().unwrap()["text"].as_str().unwrap();
        assert!(instruction.contains(r#""const":1"#), "{instruction}");
        assert_eq!(parts.len(), if system.is_empty() { 1 } else { 2 });
    }
}

#[tokio::test]
async fn any_json_object_is_a_mime_type() {
    let object = |mut request: ModelRequest| {
        request.response_format = Some(ResponseFormat::JsonObject);
        request
    };
    let body = sent(object(ModelRequest::new("Go"))).await;
    assert_eq!(
        body["generationConfig"]["responseMimeType"],
        "application/json"
    );
    let body = sent_to(OLDER, object(with_tools(&[]))).await;
    assert!(body["generationConfig"].get("responseMimeType").is_none());
}

#[tokio::test]
async fn system_messages_join_the_instruction_or_the_input() {
    let mut system = SystemPrompt::new();
    system.set("b", "volatile", Stability::Volatile);
    system.set("a", "stable", Stability::Stable);
    let history = Messages::new()
        .system("from the history")
        .human("Hi")
        .system("The user is back.")
        .human("And now?");
    let body = sent(ModelRequest::new(history).with_system(system)).await;
    assert_eq!(
        body["systemInstruction"],
        json!({"parts": [{"text": "stable"}, {"text": "from the history"}, {"text": "volatile"}]})
    );
    assert_eq!(
        body["contents"],
        json!([{"role": "user", "parts": [
            {"text": "Hi"},
            {"text": "<system>\nThe user is back.\n</system>"},
            {"text": "And now?"},
        ]}])
    );
}

#[tokio::test]
async fn hosted_calls_go_back_to_modern_models_alone() {
    let own = |value: Value| {
        let raw = serde_json::value::to_raw_value(&value).unwrap();
        Part::Opaque(ProviderBlock::new("gemini", raw))
    };
    let search = json!({"toolCall": {"id": "t", "toolType": "GOOGLE_SEARCH_WEB", "args": {}}});
    let code = json!({"executableCode": {"code": "1", "language": "PYTHON"}});
    let history = Messages::new()
        .human("Go")
        .with(Message::ai([own(search.clone()), own(code.clone())]))
        .human("And?");
    let body = sent(ModelRequest::new(history.clone())).await;
    assert_eq!(body["contents"][1]["parts"], json!([search, code]));
    let body = sent_to(OLDER, ModelRequest::new(history)).await;
    assert_eq!(body["contents"][1]["parts"], json!([code]));
}

#[tokio::test]
async fn fields_of_the_generation_config_are_merged() {
    let mut request = ModelRequest::new("Go").with_max_output_tokens(99);
    let config = json!({"mediaResolution": "MEDIA_RESOLUTION_LOW", "thinkingConfig": null});
    request.extra.insert("generationConfig".into(), config);
    let safety = json!([{"category": "X", "threshold": "OFF"}]);
    request
        .extra
        .insert("safetySettings".into(), safety.clone());
    let body = sent(request).await;
    assert_eq!(
        body["generationConfig"],
        json!({"maxOutputTokens": 99, "mediaResolution": "MEDIA_RESOLUTION_LOW"})
    );
    assert_eq!(body["safetySettings"], safety);
}

#[tokio::test]
async fn requests_keep_a_growing_prefix() {
    let calls = (1..4).map(|n| {
        let id = format!("c{n}");
        vec![call(&id, "echo", &json!({"text": id}), "c2ln")]
    });
    let (double, server) = Double::start(calls).await;
    let model = Gemini::new(MODERN, "key").base_url(server.url());
    let agent = AgentBuilder::new(model).tool(echo()).build().unwrap();
    agent.run("Go").await.unwrap();
    assert!(double.refusals().is_empty(), "{:?}", double.refusals());
    let bodies: Vec<_> = server.requests().into_iter().map(|one| one.body).collect();
    assert_eq!(bodies.len(), 4);
    for pair in bodies.windows(2) {
        let prefix = pair[0].strip_suffix(b"]}").unwrap();
        assert!(pair[1].starts_with(prefix), "{:?}", pair[1]);
    }
}

#[tokio::test]
async fn body_over_the_limit_is_not_sent() {
    let pdf = Media::base64("application/pdf", "A".repeat(20 * 1024 * 1024));
    let error = refusal(MODERN, with_input(Part::Document(pdf))).await;
    assert_eq!(error.kind(), ErrorKind::RequestTooLarge, "{error}");
}

#[tokio::test]
async fn prompt_is_counted_by_the_server() {
    let server = FaultServer::start().await.unwrap();
    server.reply(Reply::json(200, r#"{"totalTokens": 42}"#));
    server.reply(Reply::json(200, r#"{"totalTokens": 43}"#));
    server.reply(Reply::json(404, "{}"));
    let api = Gemini::new(MODERN, "key").base_url(server.url());
    let vertex = Gemini::vertex(MODERN, "p", "global", "token").base_url(server.url());
    let request = || with_tools(&[]).with_system("You help.");
    assert_eq!(api.count_tokens(request()).await.unwrap(), Some(42));
    assert_eq!(vertex.count_tokens(request()).await.unwrap(), Some(43));
    assert_eq!(api.count_tokens(request()).await.unwrap(), None);

    let [first, second, _] = &server.requests()[..] else {
        panic!("three requests");
    };
    assert_eq!(first.path, "/models/gemini-3.8-flash:countTokens");
    let body = first.json();
    let counted = &body["generateContentRequest"];
    assert_eq!(counted["model"], "models/gemini-3.8-flash");
    assert_eq!(counted["contents"][0]["parts"][0]["text"], "Go");
    assert_eq!(second.path, first.path);
    let body = second.json();
    assert_eq!(body["systemInstruction"]["parts"][0]["text"], "You help.");
    assert!(body.get("model").is_none() && body.get("toolConfig").is_none());
}

#[tokio::test]
async fn failed_count_is_an_error() {
    let server = FaultServer::start().await.unwrap();
    let model = Gemini::new(MODERN, "key").base_url(server.url());
    for (status, kind) in [
        (400, ErrorKind::InvalidRequest),
        (429, ErrorKind::RateLimited),
        (500, ErrorKind::Server),
    ] {
        server.reply(Reply::json(status, "{}"));
        let error = model.count_tokens(with_tools(&[])).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
    }
}

#[tokio::test]
async fn gemini_passes_the_model_suite() {
    let server = FaultServer::start().await.unwrap();
    server.fallback(stream(&[text("an answer in words")]));
    let model = || Gemini::new(MODERN, "key").base_url(server.url());
    conformance::model(model).await.unwrap();
}
