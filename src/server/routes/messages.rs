//! A check of message chains, without a model.

use axum::Json;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use crate::message::{Messages, ToolCall};

use super::super::api::{Api, Operation, Verb};
use super::schemas;

pub(super) fn routes(api: Api) -> Api {
    let operation = Operation::new(
        Verb::Get,
        "/agents/messages/test",
        "catalog",
        "Builds a chain of messages, and validates, counts and prints it.",
    );
    api.route(operation.reply::<ChainReply>(), test)
}

#[derive(Debug, Serialize, JsonSchema)]
struct ChainReply {
    #[schemars(with = "Vec<schemas::Message>")]
    messages: Messages,
    /// True if the chain is valid.
    valid: bool,
    /// The first fault.
    error: Option<String>,
    /// The number of messages of each role.
    counts: Counts,
    estimated_tokens: u64,
    pretty: String,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Counts {
    total: usize,
    system: usize,
    user: usize,
    assistant: usize,
    tool: usize,
}

async fn test() -> Json<ChainReply> {
    let call = ToolCall::new("call_1", "calculate", json!({"expr": "2+2"}));
    let messages = Messages::new()
        .system("You are helpful.")
        .human("What is 2+2?")
        .ai_calling("", [call])
        .tool("call_1", "calculate", "4")
        .ai("2+2 = 4");
    let check = messages.validate();
    Json(ChainReply {
        valid: check.is_ok(),
        error: check.err().map(|error| error.to_string()),
        counts: Counts {
            total: messages.len(),
            system: messages.system_messages().count(),
            user: messages.user_messages().count(),
            assistant: messages.assistant_messages().count(),
            tool: messages.tool_messages().count(),
        },
        estimated_tokens: messages.estimate_tokens(),
        pretty: messages.pretty_print(),
        messages,
    })
}
