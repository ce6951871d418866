//! Conversations with a strict server of the Gemini API.

use std::sync::atomic::{AtomicBool, Ordering};

use agentcore::agent::RetryPolicy;
use agentcore::message::{Media, ProviderBlock};
use agentcore::providers::{Gemini, gemini};
use agentcore::testing::{FaultServer, Reply};
use agentcore::{
    AgentBuilder, FuncTool, Message, Messages, Model, ModelRequest, Part, ToolCall, ToolOutput,
};
use serde_json::{Value, json};

use crate::kit::doubles::gemini::{Double, PLACEHOLDER, call, signed_text, stream, text, thought};
use crate::kit::{any_object, echo, warnings, watch};
use crate::request_bytes::assert_recorded;

const REFUSED: &str =
    "the server refused thought signatures of earlier answers; they were left out";

fn model(url: impl AsRef<str>) -> Gemini {
    Gemini::new("gemini-3.8-flash", "key-0123456789").base_url(url)
}

/// Two answers with calls, the first with two at once, then a signed text.
fn rounds() -> Vec<Vec<Value>> {
    vec![
        vec![
            thought("Both at once."),
            call("fc_1", "echo", &json!({"text": "a"}), "c2lnLTE="),
            call("fc_2", "echo", &json!({"text": "b", "n": 1.5}), ""),
        ],
        vec![
            text("One moment."),
            call("", "echo", &json!({"text": "c"}), "c2lnLTI="),
        ],
        vec![text("Nearly. "), signed_text("Done.", "c2lnLTM=")],
        vec![text("Again.")],
    ]
}

fn raw(json: &Value) -> std::sync::Arc<serde_json::value::RawValue> {
    serde_json::value::to_raw_value(json).unwrap().into()
}

fn parts_of(body: &Value, role: &str) -> Vec<Value> {
    let contents = body["contents"].as_array().unwrap().iter();
    let own = contents.filter(|content| content["role"] == role);
    own.flat_map(|content| content["parts"].as_array().unwrap().clone())
        .collect()
}

fn signatures(body: &Value) -> Vec<Value> {
    let parts = parts_of(body, "model").into_iter();
    parts
        .filter_map(|part| part.get("thoughtSignature").cloned())
        .collect()
}

#[tokio::test]
async fn double_refuses_what_the_server_refuses() {
    let answer = vec![
        signed_text("Look.", "dGV4dA=="),
        call("c1", "echo", &json!({}), "c2lnLTE="),
        call("c2", "echo", &json!({}), ""),
    ];
    let (double, _server) = Double::start([answer.clone()]).await;
    let path = |model: &str| format!("/models/{model}:streamGenerateContent?alt=sse");
    let send_to = |model: &str, body: &Value| {
        let answer = double.answer(&path(model), body);
        answer.map_or_else(|text| text, |_| String::new())
    };
    let content = |role: &str, parts: Value| json!({"role": role, "parts": parts});
    let user = content("user", json!([{"text": "Go"}]));
    let start = json!({"contents": [user]});
    assert_eq!(send_to("gemini-3.8-flash", &start), "");

    let result = |id: &str| json!({"functionResponse": {"id": id, "name": "echo", "response": {"output": ""}}});
    let results = content("user", json!([result("c1"), result("c2")]));
    let of_model = |parts: &[&Value]| content("model", json!(parts));
    let [signed, first, second] = &answer[..] else {
        panic!("{answer:?}");
    };
    let mut unsigned = first.clone();
    unsigned.as_object_mut().unwrap().remove("thoughtSignature");
    let mut moved = second.clone();
    moved["thoughtSignature"] = first["thoughtSignature"].clone();
    let merged = signed_text("Look. And more.", "dGV4dA==");
    for (contents, refusal) in [
        (json!([of_model(&[signed])]), "begin with a user turn"),
        (json!([user, user]), "alternate"),
        (
            json!([user, content("model", json!([]))]),
            "must not be empty",
        ),
        (
            json!([user, of_model(&[first, second])]),
            "no function response",
        ),
        (
            json!([
                user,
                of_model(&[first, second]),
                content("user", json!([result("c1")]))
            ]),
            "number of function response parts",
        ),
        (
            json!([user, of_model(&[signed]), results]),
            "immediately after",
        ),
        (
            json!([
                user,
                of_model(&[first, second]),
                content(
                    "user",
                    json!([result("c1"), result("c2"), {"text": "And?"}])
                )
            ]),
            "other parts",
        ),
        (
            json!([user, of_model(&[&unsigned, second]), results]),
            "missing a thought_signature",
        ),
        (
            json!([user, of_model(&[first, &moved]), results]),
            "Corrupted thought signature",
        ),
        (
            json!([user, of_model(&[&merged])]),
            "Corrupted thought signature",
        ),
    ] {
        let text = send_to("gemini-3.8-flash", &json!({"contents": contents}));
        assert!(text.contains(refusal), "{refusal}: {text}");
    }

    let with = |field: &str, value: Value| {
        let mut body = start.clone();
        body[field] = value;
        body
    };
    let thinking = |config: Value| with("generationConfig", json!({"thinkingConfig": config}));
    let declared = json!({"functionDeclarations": [{"name": "f", "parametersJsonSchema": {}}]});
    let twice = json!({"functionDeclarations":
        [{"name": "f", "parameters": {}, "parametersJsonSchema": {}}]});
    let mut form = with("tools", json!([declared]));
    form["generationConfig"] = json!({"responseMimeType": "application/json"});
    for (model, body, refusal) in [
        (
            "gemini-3.8-flash",
            with("stream", true.into()),
            "Unknown name",
        ),
        (
            "gemini-3.8-flash",
            with("tools", json!([twice])),
            "mutually exclusive",
        ),
        (
            "gemini-3.8-flash",
            with("tools", json!([declared, {"googleSearch": {}}])),
            "include_server_side_tool_invocations",
        ),
        (
            "gemini-2.5-flash",
            with(
                "toolConfig",
                json!({"includeServerSideToolInvocations": true}),
            ),
            "not enabled",
        ),
        (
            "gemini-3.8-flash",
            with(
                "toolConfig",
                json!({"functionCallingConfig": {"mode": "ANY"}}),
            ),
            "without function_declarations",
        ),
        ("gemini-2.5-flash", form, "is unsupported"),
        (
            "gemini-3.8-flash",
            thinking(json!({"thinkingLevel": "MINIMAL"})),
            "MINIMAL is not supported",
        ),
        (
            "gemini-2.5-flash",
            thinking(json!({"thinkingLevel": "LOW"})),
            "level is not supported",
        ),
        (
            "gemini-2.0-flash",
            thinking(json!({"includeThoughts": true})),
            "not enabled",
        ),
    ] {
        let text = send_to(model, &body);
        assert!(text.contains(refusal), "{refusal}: {text}");
    }
    let other_path = double.answer("/models/m:streamGenerateContent?alt=sse&key=k", &start);
    assert!(other_path.unwrap_err().contains("not found"));

    let whole = json!([user, of_model(&[signed, first, second]), results, user]);
    assert_eq!(send_to("gemini-3.8-flash", &json!({"contents": whole})), "");
}

#[tokio::test]
async fn corrupted_signature_is_replaced_and_asked_once_more() {
    let (double, server) = Double::start(rounds()).await;
    let agent = AgentBuilder::new(model(server.url())).tool(echo());
    let agent = agent.build().unwrap();
    agent.session("s").run("Go").await.unwrap();
    double.forget();
    let old_requests = server.requests().len();
    let (messages, output) = watch(agent.session("s").run("Once more")).await;
    assert_eq!(output.unwrap().text, "Again.");
    assert_eq!(server.requests().len() - old_requests, 2);
    assert_eq!(double.refusals(), ["Corrupted thought signature."]);
    assert_eq!(warnings(&messages), [REFUSED]);

    let body = server.requests().pop().unwrap().json();
    assert_eq!(signatures(&body), [PLACEHOLDER, PLACEHOLDER]);
    let has_thought = |part: &Value| part.get("thought").is_some();
    assert!(!parts_of(&body, "model").iter().any(has_thought), "{body}");
}

#[tokio::test]
async fn later_turns_of_a_run_are_sent_without_the_refused_signatures() {
    let (double, server) = Double::start(rounds()).await;
    let forgetful = double.clone();
    let is_first = AtomicBool::new(true);
    let tool = FuncTool::new("echo", "", any_object(), move |_, _| {
        if is_first.swap(false, Ordering::Relaxed) {
            forgetful.forget();
        }
        async { "ok" }
    });
    let agent = AgentBuilder::new(model(server.url())).tool(tool);
    let (messages, output) = watch(agent.build().unwrap().run("Go")).await;
    assert_eq!(output.unwrap().text, "Nearly. Done.");
    assert_eq!(double.refusals().len(), 1);
    assert_eq!(warnings(&messages), [REFUSED]);
    let body = server.requests().pop().unwrap().json();
    assert_eq!(signatures(&body), [PLACEHOLDER, "c2lnLTI="]);
}

#[tokio::test]
async fn refusal_that_is_not_about_signatures_is_the_error() {
    let server = FaultServer::start().await.unwrap();
    let error =
        json!({"error": {"code": 400, "message": "Invalid value", "status": "INVALID_ARGUMENT"}});
    server.fallback(Reply::json(400, error.to_string()));
    let request = ModelRequest::new("Go");
    let error = model(server.url()).call(request).await.unwrap_err();
    assert!(error.text().contains("Invalid value"), "{error}");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn history_of_other_providers_gets_the_placeholder() {
    let (double, server) = Double::start([]).await;
    let foreign = |provider: &str| {
        ProviderBlock::new(
            provider,
            raw(&json!({"thoughtSignature": "canary", "id": "canary"})),
        )
    };
    let other = |id: &str| ToolCall::new(id, "made up", json!({})).with_extra(foreign("openai"));
    let history = Messages::new()
        .with(Message::ai("Welcome."))
        .human("Go")
        .with(Message::ai([
            Part::Thinking(foreign("anthropic")),
            Part::Opaque(foreign("openai-responses")),
            Part::text("Look."),
            Part::ToolCall(other("call.1:x")),
            Part::ToolCall(other("call.2:x")),
        ]))
        .tool("call.1:x", "made up", "ok")
        .tool("call.2:x", "made up", "ok")
        .with(Message::ai([Part::Thinking(foreign("anthropic"))]))
        .human("And?");
    let request = ModelRequest::new(history);
    model(server.url()).call(request).await.unwrap();
    assert!(double.refusals().is_empty(), "{:?}", double.refusals());

    let body = server.requests().pop().unwrap().json();
    let result = |id: &str| json!({"functionResponse": {"id": id, "name": "made_up", "response": {"output": "ok"}}});
    assert_eq!(
        body["contents"],
        json!([
            {"role": "user", "parts": [{"text": "(nothing)"}]},
            {"role": "model", "parts": [{"text": "Welcome."}]},
            {"role": "user", "parts": [{"text": "Go"}]},
            {"role": "model", "parts": [
                {"text": "Look."},
                call("call.1:x", "made_up", &json!({}), PLACEHOLDER),
                call("call.2:x", "made_up", &json!({}), ""),
            ]},
            {"role": "user", "parts": [result("call.1:x"), result("call.2:x")]},
            {"role": "model", "parts": [{"text": "(nothing)"}]},
            {"role": "user", "parts": [{"text": "And?"}]},
        ])
    );
}

#[tokio::test]
async fn three_turns_with_sequential_and_parallel_calls_are_accepted() {
    let search = json!({"id": "t", "toolType": "GOOGLE_SEARCH_WEB", "args": {"queries": ["a"]}});
    let response = json!({"id": "t", "toolType": "GOOGLE_SEARCH_WEB", "response": {"a": 1}});
    let hosted = [
        json!({"toolCall": search, "thoughtSignature": "c2lnLTQ="}),
        json!({"toolResponse": response}),
        json!({"executableCode": {"code": "1", "language": "PYTHON"}}),
        json!({"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}}),
    ];
    let mut answers = rounds();
    answers[2].splice(..0, hosted);
    let (double, server) = Double::start(answers.clone()).await;
    let image = FuncTool::new("echo", "", any_object(), |_, _| async {
        let image = Part::Image(Media::bytes("image/png", b"png"));
        ToolOutput::new([Part::text("Seen."), image])
    });
    let agent = AgentBuilder::new(model(server.url())).tool(image);
    let agent = agent.hosted_tool(gemini::google_search()).build().unwrap();
    let output = agent.session("s").run("Go").await.unwrap();
    assert_eq!(output.text, "Nearly. Done.");
    let output = agent.session("s").run("Once more").await.unwrap();
    assert_eq!(output.text, "Again.");
    assert!(double.refusals().is_empty(), "{:?}", double.refusals());

    let requests = server.requests();
    let parts = parts_of(&requests.last().unwrap().json(), "model");
    let mut expected: Vec<Value> = answers[..3].concat();
    expected[4]["functionCall"]["id"] = parts[4]["functionCall"]["id"].clone();
    assert_eq!(parts, expected);
    assert!(parts[4]["functionCall"]["id"].is_string(), "{parts:?}");
    assert_recorded("gemini_rounds.jsonl", &requests);
}

#[tokio::test]
async fn text_behind_results_is_a_content_of_its_own() {
    let (double, server) = Double::start([]).await;
    let history = Messages::new()
        .human("Go")
        .with(Message::ai([Part::ToolCall(ToolCall::new(
            "c",
            "f",
            json!({}),
        ))]))
        .tool("c", "f", "ok")
        .human("And?");
    let request = ModelRequest::new(history);
    model(server.url()).call(request).await.unwrap();
    assert!(double.refusals().is_empty(), "{:?}", double.refusals());
    let body = server.requests().pop().unwrap().json();
    let contents = body["contents"].as_array().unwrap();
    assert_eq!(contents.len(), 4);
    assert_eq!(
        contents[3],
        json!({"role": "user", "parts": [{"text": "And?"}]})
    );
}

#[tokio::test]
async fn signature_of_vertex_is_not_sent_to_the_api() {
    let (_, server) = Double::start(rounds()).await;
    let vertex = Gemini::vertex("gemini-3.8-flash", "p", "global", "token-0123456789");
    let answer = vertex
        .base_url(server.url())
        .call(ModelRequest::new("Go"))
        .await
        .unwrap();
    let bearer = server.requests().remove(0);
    assert_eq!(
        bearer.header("authorization"),
        Some("Bearer token-0123456789")
    );

    let (double, server) = Double::start([]).await;
    let history = Messages::new()
        .human("Go")
        .with(Message::ai(answer.content))
        .tool("fc_1", "echo", "a")
        .tool("fc_2", "echo", "b");
    let request = ModelRequest::new(history);
    model(server.url()).call(request).await.unwrap();
    assert!(double.refusals().is_empty(), "{:?}", double.refusals());
    let body = server.requests().pop().unwrap().json();
    assert_eq!(signatures(&body), [PLACEHOLDER]);
    assert_eq!(parts_of(&body, "model").len(), 2);
}

#[tokio::test]
async fn empty_text_goes_back_with_its_signature() {
    let answer = vec![text("Done."), signed_text("", "ZW1wdHk=")];
    let (double, server) = Double::start([answer.clone()]).await;
    let agent = AgentBuilder::new(model(server.url())).build().unwrap();
    agent.session("s").run("Go").await.unwrap();
    agent.session("s").run("And?").await.unwrap();
    assert!(double.refusals().is_empty(), "{:?}", double.refusals());
    let body = server.requests().pop().unwrap().json();
    assert_eq!(parts_of(&body, "model"), answer);
}

#[tokio::test]
async fn edited_call_keeps_its_signature() {
    let server = FaultServer::start().await.unwrap();
    server.fallback(stream(&[text("ok")]));
    let signature = |value: Value| ProviderBlock::new("gemini", raw(&value));
    let edited = |extra: Value| {
        let edited = ToolCall::new("c", "f", json!({"a": 2})).with_extra(signature(extra));
        let history = Messages::new()
            .human("Go")
            .with(Message::ai([Part::ToolCall(edited)]))
            .tool("c", "f", "ok");
        ModelRequest::new(history)
    };
    // A block that is not an object has no signature.
    for (extra, expected) in [
        (json!({"thoughtSignature": "c2ln"}), "c2ln"),
        (json!({"thoughtSignature": ""}), PLACEHOLDER),
        (json!(["c2ln"]), PLACEHOLDER),
    ] {
        model(server.url()).call(edited(extra)).await.unwrap();
        let body = server.requests().pop().unwrap().json();
        let expected = call("c", "f", &json!({"a": 2}), expected);
        assert_eq!(parts_of(&body, "model"), [expected]);
    }
}

#[tokio::test]
async fn key_is_in_no_url_and_no_error() {
    const KEY: &str = "AIza-canary-0123456789abcdef";
    let server = FaultServer::start().await.unwrap();
    let text = format!("API key not valid: {KEY}");
    let details = json!([{"reason": "API_KEY_INVALID"}]);
    let error =
        json!({"code": 400, "message": text, "status": "INVALID_ARGUMENT", "details": details});
    server.fallback(Reply::json(400, json!([{"error": error}]).to_string()));
    let model = Gemini::new("gemini-3.8-flash", KEY).base_url(server.url());
    let agent = AgentBuilder::new(model.clone()).retry(RetryPolicy::never());
    let error = agent.build().unwrap().run("Go").await.unwrap_err();
    assert_eq!(error.kind(), agentcore::ErrorKind::Auth, "{error}");
    let texts = format!("{error} {error:?} {model:?}");
    assert!(!texts.contains("canary"), "{texts}");

    let request = server.requests().remove(0);
    assert_eq!(
        request.path,
        "/models/gemini-3.8-flash:streamGenerateContent?alt=sse"
    );
    assert_eq!(request.header("x-goog-api-key"), Some(KEY));
    assert_eq!(request.header("authorization"), None);
}

#[tokio::test]
async fn results_are_sent_in_call_order() {
    let calls = ["1", "2"].map(|id| ToolCall::new(id, "f", json!({})));
    let history = Messages::from("Go")
        .ai_calling("", calls)
        .tool("2", "f", "second")
        .tool("1", "f", "first")
        .human("And?");
    let (_, server) = Double::start([]).await;
    let request = ModelRequest::new(history);
    model(server.url()).call(request).await.unwrap();
    let parts = parts_of(&server.requests().remove(0).json(), "user");
    let ids: Vec<_> = parts[1..3]
        .iter()
        .map(|part| &part["functionResponse"]["id"])
        .collect();
    assert_eq!(ids, ["1", "2"]);
    assert_eq!(parts[3], json!({"text": "And?"}));
}
