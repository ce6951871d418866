//! A whole conversation with a strict server.

use agentcore::message::Media;
use agentcore::{Agent, AgentBuilder, FuncTool, Message, Model, Part, RunOutput, ToolOutput};
use serde_json::{Value, json};

use crate::kit::any_object;

/// A schema that every server holds its answers to.
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

/// Runs the agent on an input, and once more for an answer that matches a schema.
pub async fn converse(agent: &Agent, input: Message) -> (RunOutput, Value) {
    let input = agentcore::Messages::new().with(input);
    let first = agent.session("s").run(input).await.unwrap();
    let second = agent.session("s").run("As JSON");
    let second = second.output_schema("mood", mood_schema()).await.unwrap();
    (first, second.structured.unwrap())
}
