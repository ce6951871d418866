//! A strict DeepSeek server.
//!
//! It refuses requests with the texts of the real one.

use agentcore::testing::fault_server::Received;
use serde_json::{Value, json};

use super::chat::Refusal;

pub fn check_request(request: &Received, _: &[Vec<Value>]) -> Result<(), Refusal> {
    let refusal = |text| (400, json!({"error": {"message": text}}));
    check(&request.json()).map_err(refusal)
}

/// Checks a body; the error is the text of the refusal.
pub fn check(body: &Value) -> Result<(), &'static str> {
    if body["thinking"]["type"] == "disabled" {
        return Ok(());
    }

    let messages = body["messages"].as_array().unwrap();
    let has_calls = messages
        .iter()
        .any(|message| message.get("tool_calls").is_some());
    let is_complete = messages
        .iter()
        .filter(|message| message["role"] == "assistant")
        .all(|message| message["reasoning_content"].is_string());
    if (has_calls || body.get("tools").is_some()) && !is_complete {
        return Err("The reasoning_content in the thinking mode must be passed back to the API.");
    }

    let choice = &body["tool_choice"];
    if !(choice.is_null() || choice == "auto" || choice == "none") {
        return Err("Thinking mode does not support this tool_choice.");
    }
    if body["response_format"]["type"] == "json_schema" {
        return Err("This response_format type is unavailable now.");
    }
    Ok(())
}
