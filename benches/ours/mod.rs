//! This crate on the same traffic.

use std::hint::black_box;

use agentcore::providers::{Anthropic, Gemini, OpenAi, OpenAiResponses};
use agentcore::tool::SideEffect;
use agentcore::{Agent, AgentBuilder, FuncTool, Message, Messages, Run, SdkMessage};
use serde_json::{Value, json};

use crate::traffic::Dialect;

/// The system prompt of both clients.
pub const SYSTEM: &str = "You are a helpful assistant. Answer briefly.";

/// The first part of a tool's result.
pub const CITY: &str = "Mild and dry, with a light breeze from the sea in the afternoon";

/// The tools of both clients.
pub fn tool_names() -> impl Iterator<Item = &'static str> {
    ["forecast_0", "forecast_1", "forecast_2", "forecast_3"].into_iter()
}

/// The schema of the arguments of all tools.
pub fn tool_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Where"},
            "day": {"type": "integer", "description": "Days from today"},
        },
        "required": ["city", "day"],
    })
}

/// An agent that sends its requests to `base`.
pub fn agent(dialect: Dialect, base: &str, tools: bool, partial_messages: bool) -> Agent {
    let builder = match dialect {
        Dialect::OpenAi => {
            AgentBuilder::new(OpenAi::compatible(format!("{base}/v1"), "bench-model").key("key"))
        }
        Dialect::Anthropic => {
            AgentBuilder::new(Anthropic::new("bench-model", "key").base_url(format!("{base}/v1")))
        }
        Dialect::Responses => AgentBuilder::new(
            OpenAiResponses::compatible(format!("{base}/v1"), "bench-model").key("key"),
        ),
        Dialect::Gemini => {
            AgentBuilder::new(Gemini::new("bench-model", "key").base_url(format!("{base}/v1beta")))
        }
    };

    let tools = tools.then(tool_names).into_iter().flatten().map(tool);
    builder
        .system_prompt(SYSTEM)
        .tools(tools)
        .max_turns(0)
        .parallel_model_calls(10_000)
        .include_partial_messages(partial_messages)
        .build()
        .unwrap()
}

fn tool(name: &str) -> FuncTool {
    FuncTool::new(
        name,
        "The weather",
        tool_schema(),
        |_, args: Value| async move {
            let city = args["city"].as_str().unwrap_or_default();
            Ok::<_, agentcore::BoxError>(format!("{CITY}: {city}, day {}", args["day"]))
        },
    )
    .side_effect(SideEffect::ReadOnly)
}

/// Returns the history in the form of this crate.
pub fn history(turns: &[(&str, String)], input: &str) -> Messages {
    let turns = turns.iter().map(|(role, text)| match *role {
        "user" => Message::human(text.as_str()),
        _ => Message::ai(text.as_str()),
    });
    turns.chain([Message::human(input)]).collect()
}

/// Reads a run to its end, as a program that displays the text would. Returns the number of turns.
pub async fn read(mut run: Run) -> usize {
    while let Some(message) = run.next().await {
        if let SdkMessage::Partial(_) = &message {
            black_box(message.text_delta());
        }
        black_box(&message);
    }
    run.into_output().unwrap().turns as usize
}
