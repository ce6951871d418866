//! The bytes of request bodies, against files in `tests/data/requests/`: one line for each request
//! of a conversation that grows.
//!
//! `UPDATE_REQUEST_BYTES=1` writes them.

use std::fs;
use std::path::Path;

use agentcore::message::{Media, ProviderBlock};
use agentcore::model::ModelStream;
use agentcore::model::{ResponseFormat, Stability, SystemPrompt, ToolDefinition};
use agentcore::providers::{
    Anthropic, Gemini, Ollama, OpenAi, OpenAiResponses, anthropic, openai, responses,
};
use agentcore::testing::fault_server::Received;
use agentcore::testing::{FaultServer, Reply};
use agentcore::{Content, Message, Messages, Model, ModelRequest, Part, ToolCall, ToolResult};
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use serde_json::json;
use serde_json::value::RawValue;

use crate::kit::doubles;
use crate::kit::doubles::gemini;
use crate::kit::serving::{fold, text};

fn thought(provider: &str, raw: &str) -> Part {
    let raw = RawValue::from_string(raw.to_owned()).unwrap();
    Part::Thinking(ProviderBlock::new(provider, raw))
}

/// The first request: instructions, tools and a question with media. Ollama takes no PDF.
fn question(has_pdf: bool) -> ModelRequest {
    let mut system = SystemPrompt::from("You help.");
    system.set("clock", "It is noon.", Stability::Volatile);
    let tool = |name: &str| {
        let parameters = json!({
            "type": "object",
            "properties": {"city": {"type": "string", "description": "A city."}},
            "required": ["city"],
        });
        ToolDefinition::new(name, format!("The {name} of a city."), parameters)
    };

    let pdf = Media::base64("application/pdf", "JVBERg==").with_name("plan.pdf");
    let mut question = Content::new();
    question.push(Part::text("Describe these.\n\"Quoted\" \u{1F600}"));
    question.push(Part::Image(Media::base64("image/png", "aGk=")));
    if has_pdf {
        question.push(Part::Document(pdf));
    }
    question.push(Part::Document(
        Media::bytes("text/plain", b"notes").with_name("n.txt"),
    ));
    let question = Message::human(question);
    let mut request = ModelRequest::new(Messages::new().with(question))
        .with_system(system)
        .with_tools([tool("weather"), tool("time")])
        .with_max_output_tokens(4_000);
    request.temperature = Some(0.5);
    request.stop = ["END".to_owned()].into();
    request.settings.top_p = Some(0.9);
    request.settings.seed = Some(7);
    request.response_format = Some(ResponseFormat::JsonSchema {
        name: "places".into(),
        schema: json!({
            "type": "object",
            "properties": {"places": {"type": "array", "items": {"type": "string"}}},
            "required": ["places"],
            "additionalProperties": false,
        })
        .into(),
    });
    request
}

/// The answer of the model to the first request, and the results of its calls.
fn calls_and_results() -> Vec<Message> {
    let calls = [
        ToolCall::from_raw("call_1", "weather", "{ \"city\": \"Oslo\" }"),
        ToolCall::new("call_2", "time", json!({"city": "Bergen"})),
    ];
    let mut answer = Content::new();
    answer.push(thought(
        "anthropic",
        r#"{"type":"thinking","thinking":"Look.","signature":"c2ln"}"#,
    ));
    answer.push(thought("openai", r#"{"reasoning_content":"Look."}"#));
    answer.push(thought("ollama", r#"{"thinking":"Look."}"#));
    answer.push(thought("gemini", r#"{"text":"Look.","thought":true}"#));
    answer.push(Part::text("I look."));
    let [weather, time] = calls.clone();
    answer.push(weather);
    answer.push(time);
    vec![
        Message::ai(answer),
        Message::from(ToolResult::ok(&calls[0], "Rain.")),
        Message::from(ToolResult::failed(&calls[1], "no such city")),
    ]
}

/// Sends three requests of one conversation and compares their bodies with the file.
async fn assert_bodies(file: &str, reply: Reply, model: impl FnOnce(&str) -> Box<dyn Model>) {
    let server = FaultServer::start().await.unwrap();
    server.fallback(reply);
    let model = model(&server.url());
    let mut request = question(file != "ollama.jsonl");
    if file == "responses.jsonl" {
        // The API has no field for them.
        request.stop = [].into();
    }

    model.call(request.clone()).await.unwrap();
    for message in calls_and_results() {
        request.messages.push(message);
    }

    model.call(request.clone()).await.unwrap();
    request.messages.push(Message::ai("Rain in Oslo. "));
    request.messages.push(Message::system("The user is back."));
    request.messages.push(Message::human("Thanks. And now?"));
    model.call(request).await.unwrap();

    assert_recorded(file, &server.requests());
}

/// Compares the bodies of these requests with the file.
pub fn assert_recorded(file: &str, requests: &[Received]) {
    let lines = requests.iter().map(|sent| text(sent).to_owned() + "\n");
    let lines: String = lines.collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/requests")
        .join(file);
    if std::env::var_os("UPDATE_REQUEST_BYTES").is_some() {
        fs::write(&path, lines).unwrap();
        return;
    }

    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        lines, expected,
        "{file} differs; if it should, run with UPDATE_REQUEST_BYTES=1"
    );
}

#[tokio::test]
async fn anthropic_requests_have_the_recorded_bytes() {
    assert_bodies("anthropic.jsonl", Reply::anthropic_text("ok"), |url| {
        Box::new(Anthropic::new("claude-sonnet-5", "sk-test").base_url(url))
    })
    .await;
}

#[tokio::test]
async fn openai_requests_have_the_recorded_bytes() {
    assert_bodies("openai.jsonl", Reply::openai_text("ok"), |url| {
        Box::new(OpenAi::compatible(url, "qwen3"))
    })
    .await;
}

#[tokio::test]
async fn ollama_requests_have_the_recorded_bytes() {
    assert_bodies("ollama.jsonl", Reply::ollama_text("ok"), |url| {
        Box::new(Ollama::new("qwen3").base_url(url).num_ctx(32_768))
    })
    .await;
}

#[tokio::test]
async fn gemini_requests_have_the_recorded_bytes() {
    let ok = gemini::stream(&[gemini::text("ok")]);
    assert_bodies("gemini.jsonl", ok, |url| {
        Box::new(Gemini::new("gemini-3.8-flash", "key-test").base_url(url))
    })
    .await;
}

#[tokio::test]
async fn responses_requests_have_the_recorded_bytes() {
    let ok = doubles::responses::stream(&[doubles::responses::message("msg_1", "ok")]);
    assert_bodies("responses.jsonl", ok, |url| {
        Box::new(OpenAiResponses::new("gpt-6-luna", "sk-test").base_url(url))
    })
    .await;
}

/// The name of a file and what is in it.
macro_rules! recordings {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../data/", $name)))),*]
    };
}

/// A conversation with these recorded answers, each behind a question or behind the results of the
/// calls before it, the first of which is a picture.
async fn answered(
    recordings: &[(&str, &'static str)],
    decode: impl Fn(BoxStream<'static, agentcore::Result<bytes::Bytes>>) -> ModelStream,
) -> ModelRequest {
    let mut request = question(false);
    request.stop = [].into();
    request.messages = Messages::from("Summary of the conversation so far: nothing is decided.");
    for (name, body) in recordings {
        let events = decode(stream::iter([Ok(body.as_bytes().into())]).boxed());
        let answer = fold(events.collect().await).unwrap_or_else(|error| panic!("{name}: {error}"));
        let calls: Vec<_> = answer.tool_calls().cloned().collect();
        request.messages.push(Message::ai(answer.content));
        for (index, call) in calls.iter().enumerate() {
            let mut result = Content::from("Seen.");
            if index == 0 {
                result.push(Part::Image(Media::base64("image/png", "aGk=")));
            }
            request
                .messages
                .push(Message::from(ToolResult::ok(call, result)));
        }
        request
            .messages
            .push(Message::human(format!("That was {name}.")));
    }
    request
}

/// Sends a request to a model and compares its body with the file.
async fn assert_body(
    file: &str,
    request: ModelRequest,
    model: impl FnOnce(&str) -> Box<dyn Model>,
) {
    let server = FaultServer::start().await.unwrap();
    server.fallback(Reply::json(500, "{}"));
    let refusal = model(&server.url()).call(request).await.unwrap_err();
    assert_eq!(refusal.status(), Some(500), "{refusal}");
    assert_recorded(file, &server.requests());
}

#[tokio::test]
async fn answers_of_claude_go_back_in_the_recorded_bytes() {
    let recordings = recordings![
        "anthropic/thinking.sse",
        "anthropic/omitted_thinking.sse",
        "anthropic/tools.sse",
        "anthropic/server_and_local.sse",
        "anthropic/citations.sse",
        "anthropic/code_execution.sse",
    ];
    let mut request = answered(&recordings, |body| anthropic::decode(body)).await;
    request.hosted_tools = [anthropic::web_search(), anthropic::code_execution()].into();
    assert_body("anthropic_answers.jsonl", request, |url| {
        Box::new(Anthropic::new("claude-sonnet-5", "sk-test").base_url(url))
    })
    .await;
}

#[tokio::test]
async fn answers_of_responses_go_back_in_the_recorded_bytes() {
    let recordings = recordings![
        "responses/text.sse",
        "responses/reasoning-calls.sse",
        "responses/web-search.sse",
        "responses/overlapping.sse",
    ];
    let mut request = answered(&recordings, |body| responses::decode(body)).await;
    request.hosted_tools = [
        responses::web_search(),
        responses::code_interpreter(),
        responses::file_search(["vs_1"]),
    ]
    .into();
    assert_body("responses_answers.jsonl", request, |url| {
        Box::new(OpenAiResponses::new("gpt-6-luna", "sk-test").base_url(url))
    })
    .await;
}

#[tokio::test]
async fn answers_of_chat_completions_go_back_in_the_recorded_bytes() {
    let recordings = recordings!["openai/aimock-call.sse", "openai/aimock-text.sse"];
    let request = answered(&recordings, |body| openai::decode(body)).await;
    assert_body("openai_answers.jsonl", request, |url| {
        Box::new(OpenAi::compatible(url, "qwen3"))
    })
    .await;
}
