//! Complete conversations with strict servers.

use agentcore::message::Media;
use agentcore::providers::OpenAi;
use agentcore::providers::openai::Dialect;
use agentcore::{
    Agent, AgentBuilder, FuncTool, Message, Messages, Model, Part, RunOutput, ToolOutput,
};
use serde_json::{Value, json};

use crate::kit::any_object;
use crate::kit::doubles::chat::{Check, Double, call};
use crate::kit::doubles::{azure, deepseek, gemini_chat, groq, mistral, openrouter, template, xai};

/// A schema that every server can enforce.
pub fn mood_schema() -> Value {
    json!({"type": "object", "properties": {"mood": {"type": "string"}}, "required": ["mood"],
        "additionalProperties": false})
}

pub fn picture() -> Part {
    Part::Image(Media::bytes("image/png", b"png"))
}

/// An agent whose tool `echo` also returns a picture.
pub fn agent(model: impl Model) -> Agent {
    let tool = FuncTool::new("echo", "Shows it", any_object(), |_cx, args| async move {
        let text = args["text"].as_str().unwrap_or_default().to_owned();
        ToolOutput::new([Part::text(text), picture()])
    });
    AgentBuilder::new(model)
        .system_prompt("You help.")
        .tool(tool)
        .build()
        .unwrap()
}

/// Runs the agent on an input, and once more for an answer that matches [`mood_schema`].
pub async fn converse(agent: &Agent, input: Message) -> (RunOutput, Value) {
    let input = Messages::new().with(input);
    let first = agent.session("s").run(input).await.unwrap();
    let second = agent.session("s").run("As JSON");
    let second = second.output_schema("mood", mood_schema()).await.unwrap();
    (first, second.structured.unwrap())
}

/// The dialects with a double, the requested model, and the rules of the double.
fn servers() -> [(Dialect, &'static str, Check); 10] {
    [
        (Dialect::azure(), "dep", azure::check),
        (Dialect::deepseek(), "m", deepseek::check_request),
        (Dialect::openrouter(), "m", openrouter::check),
        (Dialect::mistral(), "m", mistral::check),
        (Dialect::groq(), "m", groq::check),
        (Dialect::xai(), "grok-4.5", xai::check),
        (Dialect::gemini(), "gemini-3.8-flash", gemini_chat::check),
        (Dialect::vllm(), "m", template::vllm),
        (Dialect::llama_cpp(), "m", template::llama_cpp),
        (Dialect::lm_studio(), "m", template::lm_studio),
    ]
}

#[tokio::test]
async fn pictures_parallel_calls_and_schemas_are_accepted_by_every_server() {
    for (dialect, name, check) in servers() {
        let answers = [
            vec![call(0, "abcDEF001", "a"), call(1, "abcDEF002", "b")],
            vec![json!({"content": "One moment."}), call(0, "abcDEF003", "c")],
            vec![json!({"content": "Done."})],
            vec![json!({"content": "{\"mood\":\"good\"}"})],
        ];
        let (double, server) = Double::start(check, answers).await;
        let url = format!("{}/openai/v1", server.url());
        let model = OpenAi::compatible(url, name)
            .dialect(dialect)
            .key(azure::KEY);
        let input = Message::human([Part::text("Look:"), picture()]);
        let (output, structured) = converse(&agent(model), input).await;
        let refusals = double.refusals();
        assert!(refusals.is_empty(), "{dialect:?}: {refusals:?}");
        assert_eq!(output.text, "Done.");
        assert_eq!(structured, json!({"mood": "good"}));
        let body = server.requests().pop().unwrap().json();
        // DeepSeek has no schemas, so the schema is sent as text.
        let format = if dialect == Dialect::deepseek() {
            "json_object"
        } else {
            "json_schema"
        };
        assert_eq!(body["response_format"]["type"], format, "{dialect:?}");
        let pictures = body.to_string().matches("data:image/png").count();
        assert_eq!(pictures, 4, "{dialect:?}: {body}");
    }
}
