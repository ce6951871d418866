//! A strict Ollama server.
//!
//! It answers with scripted messages and refuses requests with the texts of the real server, which
//! decodes bodies into Go types and ignores the fields that these do not have.

use std::sync::Arc;

use agentcore::testing::fault_server::Received;
use agentcore::testing::{FaultServer, Reply};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::script::{Script, serve};

/// The kind of thinking that the model supports.
#[derive(Clone, Copy, PartialEq)]
pub enum Thinking {
    None,
    Switched,
    Levels,
}

/// The scripted answers, and the requests that the server has refused.
pub struct Double {
    script: Script,
    thinking: Thinking,
    /// The levels that this version of the server accepts.
    levels: &'static [&'static str],
}

impl Double {
    /// Starts a server whose model supports this kind of thinking. It answers with these messages
    /// in order, and with the text `ok` after them.
    pub async fn start(
        thinking: Thinking,
        levels: &'static [&'static str],
        answers: impl IntoIterator<Item = Value>,
    ) -> (Arc<Self>, FaultServer) {
        let answers = answers.into_iter().map(|answer| vec![answer]);
        let script = Script::new(answers);
        let double = Self {
            script,
            thinking,
            levels,
        };
        serve(double, Self::reply).await
    }

    pub fn refusals(&self) -> Vec<String> {
        self.script.refusals()
    }

    fn reply(&self, request: &Received) -> Reply {
        if request.path != "/api/chat" {
            return Reply::json(404, "404 page not found");
        }

        if let Err(refusal) = self.check(&request.json()) {
            self.script.refuse(&refusal);
            return Reply::json(400, json!({"error": refusal}).to_string());
        }

        let answer = self.script.next().and_then(|mut answer| answer.pop());
        let message = answer.unwrap_or_else(|| json!({"role": "assistant", "content": "ok"}));
        let line = |message: Value, done: bool| {
            let mut line = json!({"model": "m:8b", "created_at": "2026-11-23T12:00:00Z"});
            line["message"] = message;
            line["done"] = done.into();
            if done {
                line["done_reason"] = "stop".into();
            }
            line.to_string()
        };
        let end = json!({"role": "assistant", "content": ""});
        Reply::ndjson([line(message, false), line(end, true)])
    }

    /// Checks a body; the error is the text of the refusal.
    pub fn check(&self, body: &Value) -> Result<(), String> {
        for message in body["messages"].as_array().into_iter().flatten() {
            check_message(message)?;
        }
        self.check_thinking(&body["think"])
    }

    fn check_thinking(&self, think: &Value) -> Result<(), String> {
        match think {
            Value::Null | Value::Bool(false) => Ok(()),
            Value::String(level) if !self.levels.contains(&&**level) => {
                let quoted: Vec<_> = self.levels.iter().map(|one| format!("{one:?}")).collect();
                let levels = quoted.join(", ");
                Err(format!(
                    "invalid think value: {level:?} (must be {levels}, true, or false)"
                ))
            }
            Value::String(level) if self.thinking == Thinking::Switched => Err(format!(
                "think value {level:?} is not supported for this model"
            )),
            Value::Bool(true) | Value::String(_) if self.thinking == Thinking::None => {
                Err("\"m:8b\" does not support thinking".to_owned())
            }
            Value::Bool(true) | Value::String(_) => Ok(()),
            _ => Err("think must be a boolean or string".to_owned()),
        }
    }
}

fn check_message(message: &Value) -> Result<(), String> {
    let mistyped = |value: &Value, field: &str, expected: &str| {
        let kind = match value {
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Number(_) => "number",
            _ => "object",
        };
        Err(format!(
            "json: cannot unmarshal {kind} into Go struct field ChatRequest.messages.{field} of \
             type {expected}"
        ))
    };

    for field in ["role", "content", "thinking", "tool_name", "tool_call_id"] {
        let value = &message[field];
        if !value.is_string() && !value.is_null() {
            return mistyped(value, field, "string");
        }
    }

    for image in message["images"].as_array().into_iter().flatten() {
        let data = image.as_str().unwrap_or("not text");
        BASE64_STANDARD
            .decode(data)
            .map_err(|error| format!("illegal base64 data: {error}"))?;
    }

    for call in message["tool_calls"].as_array().into_iter().flatten() {
        if !call["id"].is_string() && !call["id"].is_null() {
            return mistyped(&call["id"], "tool_calls.id", "string");
        }
        let arguments = &call["function"]["arguments"];
        if !arguments.is_object() {
            let expected = "api.ToolCallFunctionArguments";
            return mistyped(arguments, "tool_calls.function.arguments", expected);
        }
    }
    Ok(())
}
