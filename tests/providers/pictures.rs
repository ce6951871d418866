//! Pictures for a model without images: an error in a new input, and a text in older messages and
//! results.

use std::sync::Arc;

use agentcore::message::Media;
use agentcore::model::ModelProfile;
use agentcore::providers::openai::Dialect;
use agentcore::providers::{Anthropic, Gemini, Ollama, OpenAi, OpenAiResponses};
use agentcore::testing::{FaultServer, Reply};
use agentcore::{
    AgentBuilder, ErrorKind, FuncTool, Message, Messages, Model, ModelRequest, Part, ThreadStore,
    ToolCall, ToolOutput, ToolResult,
};
use serde_json::{Value, json};

use crate::kit::any_object;
use crate::kit::doubles::{gemini, responses};

/// The pictures of the old input and of the result, in base64.
const DATA: [&str; 2] = ["b2xk", "c2Vlbg=="];

/// The text that replaces each picture.
const TEXT: &str = "[image left out: image/png]";

fn picture(bytes: &[u8]) -> Part {
    Part::Image(Media::bytes("image/png", bytes))
}

fn dialects() -> [Dialect; 13] {
    [
        Dialect::openai(),
        Dialect::compatible(),
        Dialect::azure(),
        Dialect::openrouter(),
        Dialect::deepseek(),
        Dialect::mistral(),
        Dialect::groq(),
        Dialect::xai(),
        Dialect::gemini(),
        Dialect::bedrock(),
        Dialect::vllm(),
        Dialect::llama_cpp(),
        Dialect::lm_studio(),
    ]
}

/// A model of each API and of each dialect of Chat Completions, with an answer of its server.
fn models(url: &str, images: bool) -> Vec<(Arc<dyn Model>, Reply)> {
    let profile = ModelProfile::default().with_images(images);
    let mut all: Vec<(Arc<dyn Model>, Reply)> = vec![
        (
            Arc::new(
                Anthropic::new("blind", "k")
                    .base_url(url)
                    .with_profile(profile),
            ),
            Reply::anthropic_text("ok"),
        ),
        (
            Arc::new(Ollama::new("blind").base_url(url).with_profile(profile)),
            Reply::ollama_text("ok"),
        ),
        (
            Arc::new(OpenAiResponses::compatible(url, "blind").with_profile(profile)),
            responses::stream(&[responses::message("msg_1", "ok")]),
        ),
    ];
    // The first model accepts pictures in results, the second one after them.
    for name in ["gemini-3.8-blind", "gemini-2.5-blind"] {
        let model = Gemini::new(name, "k").base_url(url).with_profile(profile);
        all.push((Arc::new(model), gemini::stream(&[gemini::text("ok")])));
    }
    for dialect in dialects() {
        let model = OpenAi::compatible(url, "blind").dialect(dialect);
        all.push((
            Arc::new(model.with_profile(profile)),
            Reply::openai_text("ok"),
        ));
    }
    all
}

/// A history with a picture in an old input and in a result, and a new input without one.
fn history() -> Messages {
    let call = ToolCall::new("call_0001", "look", json!({}));
    let result = ToolResult::ok(&call, [Part::text("Seen."), picture(b"seen")]);
    Messages::new()
        .with(Message::human([Part::text("Look:"), picture(b"old")]))
        .with(Message::ai([Part::ToolCall(call)]))
        .with(Message::from(result))
        .with(Message::ai("A cat."))
        .human("And now?")
}

/// Returns `true` if an object of the body has a field or a type that only pictures have.
fn has_picture(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.iter().any(|(name, value)| {
            let is_of_picture = |name: &str| {
                let names = [
                    "image",
                    "images",
                    "image_url",
                    "input_image",
                    "inlineData",
                    "fileData",
                ];
                names.contains(&name)
            };
            is_of_picture(name)
                || name == "type" && value.as_str().is_some_and(is_of_picture)
                || has_picture(value)
        }),
        Value::Array(values) => values.iter().any(has_picture),
        _ => false,
    }
}

fn assert_left_out(body: &Value, model: &dyn Model) {
    let text = body.to_string();
    let id = model.id();
    for data in DATA {
        assert!(!text.contains(data), "{id}: {data} in {text}");
    }
    assert_eq!(text.matches(TEXT).count(), 2, "{id}: {text}");
    assert!(!has_picture(body), "{id}: {text}");
}

#[tokio::test]
async fn pictures_of_old_messages_and_results_are_left_out() {
    let server = FaultServer::start().await.unwrap();
    for (model, reply) in models(&server.url(), false) {
        server.reply(reply);
        let request = ModelRequest::new(history());
        model.call(request).await.unwrap();
        let body = server.requests().pop().unwrap().json();
        assert_left_out(&body, &*model);
    }
}

#[tokio::test]
async fn pictures_are_sent_to_a_model_that_takes_them() {
    let server = FaultServer::start().await.unwrap();
    for (model, reply) in models(&server.url(), true) {
        server.reply(reply);
        model.call(ModelRequest::new(history())).await.unwrap();
        let body = server.requests().pop().unwrap().json();
        let text = body.to_string();
        assert!(DATA.iter().all(|data| text.contains(data)), "{text}");
        assert!(!text.contains("left out"), "{text}");
        assert!(has_picture(&body), "{text}");
    }
}

/// The cached bytes of a request with pictures are not reused.
#[tokio::test]
async fn request_that_was_sent_with_pictures_is_sent_again_without() {
    let server = FaultServer::start().await.unwrap();
    let seeing = models(&server.url(), true);
    let blind = models(&server.url(), false);
    for ((seeing, first), (blind, second)) in seeing.into_iter().zip(blind) {
        server.reply(first);
        server.reply(second);
        let request = ModelRequest::new(history());
        seeing.call(request.clone()).await.unwrap();
        blind.call(request).await.unwrap();
        let body = server.requests().pop().unwrap().json();
        assert_left_out(&body, &*blind);
    }
}

#[tokio::test]
async fn picture_of_a_new_input_is_an_error_that_names_the_model() {
    let server = FaultServer::start().await.unwrap();
    for (model, _) in models(&server.url(), false) {
        let input = Message::human([Part::text("Look:"), picture(b"new")]);
        let error = model.call(ModelRequest::new(history().with(input))).await;
        let error = error.unwrap_err();
        let name = model.id().split_once(':').unwrap().1;
        assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{error}");
        let text = format!("the model \"{name}\" accepts no images");
        assert!(error.text().contains(&text), "{error}");
    }
    assert!(server.requests().is_empty());
}

/// OpenAI's open models are recognized by their names, on Bedrock and on other servers.
#[tokio::test]
async fn open_models_of_openai_take_no_pictures() {
    let server = FaultServer::start().await.unwrap();
    for name in [
        "openai.gpt-oss-120b",
        "openai.gpt-oss-20b-1:0",
        "openai.gpt-oss-safeguard-120b",
        "openai/gpt-oss-20b",
        "gpt-oss-20b",
    ] {
        let model = OpenAi::compatible(server.url(), name);
        for model in [
            model.clone(),
            model.clone().dialect(Dialect::bedrock()),
            model.provider("bedrock"),
        ] {
            assert!(!model.profile().images, "{}", model.id());
            let input = Message::human([Part::text("Look:"), picture(b"new")]);
            let request = ModelRequest::new(Messages::new().with(input));
            let error = model.call(request).await.unwrap_err();
            assert!(error.text().contains(name), "{error}");

            server.openai_text("ok");
            model.call(ModelRequest::new(history())).await.unwrap();
            assert_left_out(&server.requests().pop().unwrap().json(), &model);
        }
    }
    assert!(!Ollama::new("gpt-oss:20b").profile().images);
    assert!(Ollama::new("gemma3").profile().images);
    let model = OpenAi::compatible(server.url(), "gpt-oss-eyes")
        .with_profile(ModelProfile::default().with_images(true));
    assert!(model.profile().images);
}

#[tokio::test]
async fn text_in_place_of_a_picture_has_its_type_and_nothing_long() {
    let server = FaultServer::start().await.unwrap();
    let long = "x".repeat(1_000);
    for (media, text) in [
        (
            Media::bytes("image/jpeg", b"x"),
            "[image left out: image/jpeg]".to_owned(),
        ),
        (Media::bytes("", b"x"), "[image left out]".to_owned()),
        (
            Media::url("https://a/b.png?key=1"),
            "[image left out]".to_owned(),
        ),
        (
            Media::url("data:image/png;base64,eA=="),
            "[image left out]".to_owned(),
        ),
        (
            Media::file("openai", "file-1"),
            "[image left out]".to_owned(),
        ),
        (
            Media::bytes(long.as_str(), b"x"),
            format!("[image left out: {}...]", "x".repeat(97)),
        ),
        (
            Media::bytes("image/png", b"x").with_name("cat.png"),
            "[image left out: image/png]".to_owned(),
        ),
    ] {
        server.openai_text("ok");
        let model = OpenAi::compatible(server.url(), "m")
            .with_profile(ModelProfile::default().with_images(false));
        let history = Messages::new()
            .with(Message::human([Part::Image(media)]))
            .with(Message::ai("A cat."))
            .human("And now?");
        model.call(ModelRequest::new(history)).await.unwrap();
        let body = server.requests().pop().unwrap().json();
        assert_eq!(body["messages"][0]["content"], text);
    }
}

#[tokio::test]
async fn session_goes_on_with_a_model_without_pictures_and_comes_back() {
    let server = FaultServer::start().await.unwrap();
    let look = || {
        FuncTool::new("look", "Looks", any_object(), |_cx, _args| async {
            ToolOutput::new([Part::text("Seen."), picture(b"seen")])
        })
    };
    let store = ThreadStore::new();
    let agent = |images| {
        let profile = ModelProfile::default().with_images(images);
        let model = OpenAi::compatible(server.url(), "m").with_profile(profile);
        let builder = AgentBuilder::new(model).store(store.clone());
        builder.tool(look()).build().unwrap()
    };
    let input = Messages::new().with(Message::human([Part::text("Look:"), picture(b"old")]));
    server.openai_text("A cat.");
    agent(true).session("s").run(input).await.unwrap();

    // The picture of a result of the current run is replaced as well.
    server.reply(Reply::openai_call("look", &json!({})));
    server.openai_text("Another.");
    let output = agent(false).session("s").run("And now?").await.unwrap();
    assert_eq!(output.text, "Another.");
    let body = server.requests().pop().unwrap().json();
    assert_left_out(&body, &OpenAi::compatible(server.url(), "m"));

    server.openai_text("A cat.");
    agent(true).session("s").run("Still?").await.unwrap();
    let body = server.requests().pop().unwrap().json().to_string();
    assert!(DATA.iter().all(|data| body.contains(data)), "{body}");
    assert!(!body.contains("left out"), "{body}");
}
