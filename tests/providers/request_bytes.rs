//! Bytes of request bodies, compared with files in `tests/data/requests/`, which have one line per
//! request of a growing conversation.
//!
//! `UPDATE_REQUEST_BYTES=1` writes the files.

use std::fs;
use std::path::Path;

use agentcore::message::{Media, ProviderBlock};
use agentcore::model::{
    Compaction, CompactionRequest, Compactor, ModelProfile, ModelStream, ResponseFormat, Stability,
    SystemPrompt, ToolDefinition,
};
use agentcore::providers::{
    Anthropic, Gemini, Ollama, OpenAi, OpenAiResponses, anthropic, openai, responses,
};
use agentcore::testing::fault_server::Received;
use agentcore::testing::{FaultServer, Reply};
use agentcore::{
    AgentBuilder, Content, FuncTool, Message, Messages, Model, ModelRequest, Part, ToolCall,
    ToolOutput, ToolResult, async_trait,
};
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use serde_json::json;
use serde_json::value::RawValue;

use crate::kit::any_object;
use crate::kit::doubles;
use crate::kit::doubles::gemini;
use crate::kit::serving::{fold, text};

fn thought(provider: &str, raw: &str) -> Part {
    let raw = RawValue::from_string(raw.to_owned()).unwrap();
    Part::Thinking(ProviderBlock::new(provider, raw))
}

/// The first request: instructions, tools and a question with media. Ollama accepts no PDF.
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
        // The Responses API has no stop sequences.
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

/// The name and the content of each file.
macro_rules! recordings {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../data/", $name)))),*]
    };
}

/// A conversation with these recorded answers. Each is followed by the results of its calls, the
/// first with a picture, and by a message of the user.
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
        let model = OpenAiResponses::new("gpt-6-luna", "sk-test").base_url(url);
        Box::new(model.provider("openai"))
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

/// A compactor that replaces this number of messages, only when asked to.
struct Cut(usize);

#[async_trait]
impl Compactor for Cut {
    fn should_compact(&self, _: &Messages, _: u64, _: &ModelProfile) -> bool {
        false
    }

    async fn compact(&self, _: CompactionRequest) -> agentcore::Result<Option<Compaction>> {
        let summary = "Two pictures were described; nothing is decided.";
        Ok(Some(Compaction::new(summary, self.0)))
    }
}

/// The answers of a conversation whose first run is compacted. `answer` makes each of them from its
/// number, the ids of its calls of `look`, and its text.
fn conversation<T>(answer: impl Fn(usize, &[&str], &str) -> T) -> Vec<T> {
    let rounds: [(&[&str], &str); 6] = [
        (&["c1", "c2"], ""),
        (&[], "Two cats."),
        (&["c3"], "I look again."),
        (&[], "They sleep."),
        (&["c4", "c5"], ""),
        (&[], "They woke up."),
    ];
    let rounds = rounds.into_iter().enumerate();
    let answers = rounds.map(|(number, (calls, text))| answer(number + 1, calls, text));
    answers.collect()
}

/// Runs the conversation, compacts its first run, and compares the bodies after the compaction with
/// the file. The second run stays complete.
async fn assert_compacted(file: &str, model: impl Model, server: &FaultServer) {
    let look = FuncTool::new("look", "Looks again", any_object(), |_cx, _args| async {
        let image = Part::Image(Media::base64("image/png", "aGk="));
        ToolOutput::new([Part::text("Seen."), image])
    });
    let agent = AgentBuilder::new(model)
        .system_prompt("You help.")
        .tool(look)
        .compactor(Cut(5))
        .build()
        .unwrap();
    let picture = Part::Image(Media::base64("image/png", "aGk="));
    let input = Message::human([Part::text("Describe these."), picture]);
    let session = || agent.session("s");
    session().run(Messages::new().with(input)).await.unwrap();
    session().run("And again?").await.unwrap();
    let compaction = session().compact().await.unwrap();
    assert!(compaction.is_some());

    let sent_before = server.requests().len();
    let output = session().run("And now?").await.unwrap();
    assert_eq!(output.text, "They woke up.");
    assert_recorded(file, &server.requests()[sent_before..]);
}

#[tokio::test]
async fn compacted_requests_to_anthropic_have_the_recorded_bytes() {
    let answers = conversation(|number, calls, text| {
        let mut blocks = vec![doubles::anthropic::thinking(&format!("Thought {number}."))];
        blocks.extend((!text.is_empty()).then(|| doubles::anthropic::text(text)));
        let calls = calls.iter();
        blocks.extend(calls.map(|id| doubles::anthropic::call(id, "look", &json!({}))));
        blocks
    });
    let (double, server) = doubles::anthropic::Double::start(answers).await;
    // This model accepts thinking only after the conversation that it was made for.
    let model = Anthropic::new("claude-sonnet-5-5", "sk-test").base_url(server.url());
    assert_compacted("anthropic_compacted.jsonl", model, &server).await;
    // A run does not know which conversation the answers of earlier runs followed, so the first
    // body has their thinking. The second body is sent after the refusal.
    let refusals = double.refusals();
    assert_eq!(refusals.len(), 1, "{refusals:?}");
    assert!(refusals[0].contains("bound to a different conversation"));
}

#[tokio::test]
async fn compacted_requests_to_responses_have_the_recorded_bytes() {
    let answers = conversation(|number, calls, text| {
        let mut items = vec![doubles::responses::reasoning(&format!("rs_{number}"))];
        let message = || doubles::responses::message(&format!("msg_{number}"), text);
        items.extend((!text.is_empty()).then(message));
        let calls = calls.iter();
        items.extend(calls.map(|id| doubles::responses::call(id, "look", "{}")));
        items
    });
    let (double, server) = doubles::responses::Double::start(answers).await;
    let model = OpenAiResponses::new("gpt-6-luna", "sk-test").base_url(server.url());
    assert_compacted("responses_compacted.jsonl", model, &server).await;
    assert!(double.refusals().is_empty(), "{:?}", double.refusals());
}

#[tokio::test]
async fn compacted_requests_to_chat_completions_have_the_recorded_bytes() {
    let answers = conversation(|number, calls, text| {
        let mut deltas = vec![json!({"reasoning_content": format!("Thought {number}.")})];
        deltas.extend((!text.is_empty()).then(|| json!({"content": text})));
        let calls = calls.iter().enumerate();
        deltas.extend(calls.map(|(index, id)| {
            json!({"tool_calls": [{"index": index, "id": id, "type": "function",
                "function": {"name": "look", "arguments": "{}"}}]})
        }));
        deltas
    });
    let check = doubles::template::llama_cpp;
    let (double, server) = doubles::chat::Double::start(check, answers).await;
    let model = OpenAi::compatible(server.url(), "qwen3");
    assert_compacted("openai_compacted.jsonl", model, &server).await;
    assert!(double.refusals().is_empty(), "{:?}", double.refusals());
}

#[tokio::test]
async fn compacted_requests_to_gemini_have_the_recorded_bytes() {
    let answers = conversation(|number, calls, text| {
        let mut parts = vec![gemini::thought(&format!("Thought {number}."))];
        parts.extend((!text.is_empty()).then(|| gemini::text(text)));
        let calls = calls.iter().enumerate();
        parts.extend(calls.map(|(index, id)| {
            let signature = if index == 0 { "c2ln" } else { "" };
            gemini::call(id, "look", &json!({}), signature)
        }));
        parts
    });
    let (double, server) = gemini::Double::start(answers).await;
    let model = Gemini::new("gemini-3.8-flash", "key-test").base_url(server.url());
    assert_compacted("gemini_compacted.jsonl", model, &server).await;
    assert!(double.refusals().is_empty(), "{:?}", double.refusals());
}

#[tokio::test]
async fn compacted_requests_to_ollama_have_the_recorded_bytes() {
    let answers = conversation(|number, calls, text| {
        let calls: Vec<_> = calls
            .iter()
            .map(|id| json!({"id": id, "function": {"name": "look", "arguments": {}}}))
            .collect();
        json!({"role": "assistant", "content": text, "thinking": format!("Thought {number}."),
            "tool_calls": calls})
    });
    let thinking = doubles::ollama::Thinking::Switched;
    let (double, server) = doubles::ollama::Double::start(thinking, &[], answers).await;
    let model = Ollama::new("qwen3").base_url(server.url()).num_ctx(32_768);
    assert_compacted("ollama_compacted.jsonl", model, &server).await;
    assert!(double.refusals().is_empty(), "{:?}", double.refusals());
}
