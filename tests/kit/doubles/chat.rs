//! A strict server of Chat Completions.
//!
//! It answers with scripted deltas, and refuses requests by the rules of one server. The rules are
//! functions of the other modules.

use std::sync::{Arc, Mutex};

use agentcore::testing::fault_server::Received;
use agentcore::testing::{FaultServer, Reply};
use agentcore::{Agent, RunOutput};
use serde_json::{Value, json};

use super::script::{Script, serve};

/// The status and the body of a refusal.
pub type Refusal = (u16, Value);

/// A check of a request. The second argument has the deltas of each answer that the server has
/// sent.
pub type Check = fn(&Received, &[Vec<Value>]) -> Result<(), Refusal>;

/// The scripted answers, and the requests that the server has answered or refused.
pub struct Double {
    script: Script,
    given: Mutex<Vec<Vec<Value>>>,
    check: Check,
}

impl Double {
    /// Starts a server that answers with these deltas in order, and with the text `ok` after them.
    pub async fn start(
        check: Check,
        answers: impl IntoIterator<Item = Vec<Value>>,
    ) -> (Arc<Self>, FaultServer) {
        let double = Self {
            script: Script::new(answers),
            given: Mutex::default(),
            check,
        };
        serve(double, Self::reply).await
    }

    /// Runs `agent`, which calls tools, and then once more in the same session. Returns the
    /// messages of the last request. The server must not have refused any request.
    pub async fn converse(&self, agent: &Agent, server: &FaultServer) -> (RunOutput, Vec<Value>) {
        let output = agent.session("s").run("Go").await.unwrap();
        agent.session("s").run("Once more").await.unwrap();
        assert!(self.refusals().is_empty(), "{:?}", self.refusals());
        let body = server.requests().pop().unwrap().json();
        (output, list(&body["messages"]).to_vec())
    }

    /// Adds an answer after the others.
    pub fn push(&self, answer: Vec<Value>) {
        self.script.push(answer);
    }

    pub fn refusals(&self) -> Vec<String> {
        self.script.refusals()
    }

    fn reply(&self, request: &Received) -> Reply {
        let mut given = self.given.lock().unwrap();
        if let Err((status, body)) = (self.check)(request, &given) {
            self.script.refuse(&body.to_string());
            return Reply::json(status, body.to_string());
        }

        let next = self.script.next();
        let deltas = next.unwrap_or_else(|| vec![json!({"content": "ok"})]);
        given.push(deltas.clone());
        stream(&deltas)
    }
}

/// Returns the text of a refusal; empty without one.
pub fn text_of(checked: Result<(), Refusal>) -> String {
    checked
        .err()
        .map(|(_, body)| body.to_string())
        .unwrap_or_default()
}

/// A stream with one chunk per delta.
pub fn stream(deltas: &[Value]) -> Reply {
    let has_calls = deltas.iter().any(|delta| delta.get("tool_calls").is_some());
    let reason = if has_calls { "tool_calls" } else { "stop" };
    let chunk = |delta: &Value, reason: Value| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": reason});
        let chunk = json!({"id": "r", "object": "chat.completion.chunk", "model": "m",
            "choices": [choice]});
        format!("data: {chunk}\n\n")
    };
    let mut frames: Vec<String> = deltas
        .iter()
        .map(|delta| chunk(delta, Value::Null))
        .collect();
    frames.push(chunk(&json!({}), reason.into()));
    frames.push("data: [DONE]\n\n".to_owned());
    Reply::sse(frames)
}

/// A complete answer in one document.
pub fn document(message: &Value) -> Reply {
    let choice = json!({"index": 0, "message": message, "finish_reason": "stop"});
    Reply::json(
        200,
        json!({"id": "r", "model": "m", "choices": [choice]}).to_string(),
    )
}

/// A call of the tool `echo` in one delta.
pub fn call(index: usize, id: &str, text: &str) -> Value {
    let arguments = json!({"text": text}).to_string();
    json!({"tool_calls": [{"index": index, "id": id, "type": "function",
        "function": {"name": "echo", "arguments": arguments}}]})
}

pub fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Returns the first field of an object that is not among `fields`.
pub fn unknown_field<'a>(object: &'a Value, fields: &[&str]) -> Option<&'a str> {
    let mut names = object
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, _)| &**name);
    names.find(|name| !fields.contains(name))
}
