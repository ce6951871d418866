//! A strict server of the Messages API.
//!
//! It signs its thinking with a hash of the model, the system prompt, the tools and all messages
//! before it. It refuses a request whose thinking follows another conversation, with the texts of
//! Anthropic's server.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex};

use agentcore::testing::fault_server::Received;
use agentcore::testing::{FaultServer, Reply};
use serde_json::{Map, Value, json};

use super::script::{Gate, Script, serve};

/// The fields that a request may have.
const FIELDS: &[&str] = &[
    "model",
    "max_tokens",
    "stream",
    "thinking",
    "stop_sequences",
    "tool_choice",
    "tools",
    "system",
    "output_config",
    "container",
    "messages",
];

/// The scripted answers, and the requests that the server has answered or refused.
#[derive(Default)]
pub struct Double {
    script: Script,
    /// The hash of the conversation before each thinking block, by the block's signature.
    signed: Mutex<BTreeMap<String, u64>>,
}

impl Double {
    /// Starts a server that answers with these blocks in order, and with a text after them. The
    /// server signs the thinking blocks.
    pub async fn start(answers: impl IntoIterator<Item = Vec<Value>>) -> (Arc<Self>, FaultServer) {
        Self::start_behind(|_| Ok(()), answers).await
    }

    /// Starts a server like [`start`](Self::start), which also has the rules of `gate`.
    pub async fn start_behind(
        gate: Gate,
        answers: impl IntoIterator<Item = Vec<Value>>,
    ) -> (Arc<Self>, FaultServer) {
        let double = Self {
            script: Script::new(answers).behind(gate),
            ..Self::default()
        };
        serve(double, Self::reply).await
    }

    pub fn refusals(&self) -> Vec<String> {
        self.script.refusals()
    }

    /// Changes all stored hashes, so that the thinking sent so far is refused from now on.
    pub fn forget(&self) {
        for prefix in self.signed.lock().unwrap().values_mut() {
            *prefix = 0;
        }
    }

    fn reply(&self, request: &Received) -> Reply {
        if let Some(reply) = self.script.turned_away(request) {
            return reply;
        }
        let body = request.json();
        let answer = if request.path.ends_with("/count_tokens") {
            self.check(&body)
                .map(|()| Reply::json(200, r#"{"input_tokens": 1}"#))
        } else {
            self.answer(&body).map(|blocks| stream(&blocks))
        };
        match answer {
            Ok(reply) => reply,
            Err(text) => {
                self.script.refuse(&text);
                let error = json!({"type": "invalid_request_error", "message": text});
                Reply::json(400, json!({"type": "error", "error": error}).to_string())
            }
        }
    }

    /// Returns the blocks that answer this body, or the text of the refusal.
    pub fn answer(&self, body: &Value) -> Result<Vec<Value>, String> {
        self.check(body)?;
        let next = self.script.next();
        let mut blocks = next.unwrap_or_else(|| vec![text("Done.")]);

        let messages = body["messages"].as_array().unwrap();
        let mut signed = self.signed.lock().unwrap();
        for block in blocks
            .iter_mut()
            .filter(|block| block["type"] == "thinking")
        {
            let signature = format!("sig_{}", signed.len());
            block["signature"] = signature.clone().into();
            signed.insert(signature, prefix(body, messages));
        }
        Ok(blocks)
    }

    fn check(&self, body: &Value) -> Result<(), String> {
        for name in body.as_object().unwrap().keys() {
            if !FIELDS.contains(&&**name) {
                return Err(format!("{name}: Extra inputs are not permitted"));
            }
        }

        let breakpoints = body.to_string().matches("cache_control").count();
        if breakpoints > 4 {
            return Err(format!(
                "A maximum of 4 blocks with cache_control may be provided. Found {breakpoints}."
            ));
        }

        let messages = body["messages"].as_array().unwrap();
        check_ids(messages)?;
        for (index, message) in messages.iter().enumerate() {
            let expected = ["user", "assistant"][index % 2];
            if message["role"] != expected {
                return Err(format!("messages.{index}: roles must alternate"));
            }
            let blocks = message["content"].as_array().unwrap();
            if blocks.is_empty() {
                return Err(format!("messages.{index}: content must not be empty"));
            }
            for block in blocks {
                self.check_block(body, index, block)?;
            }
            check_results(&messages[..index], index, blocks)?;
        }
        if body["thinking"]["type"] == "enabled" {
            check_round(messages)?;
        }
        Ok(())
    }

    fn check_block(&self, body: &Value, index: usize, block: &Value) -> Result<(), String> {
        let is_answer = index % 2 == 1;
        match block["type"].as_str().unwrap() {
            "text" if block["text"].as_str().unwrap().trim().is_empty() => Err(format!(
                "messages.{index}: text content blocks must contain non-whitespace text"
            )),
            "text" if !is_answer && block.get("citations").is_some() => Err(format!(
                "messages.{index}: citations are not permitted in user text"
            )),
            "thinking" => {
                let messages = &body["messages"].as_array().unwrap()[..index];
                let signature = block["signature"].as_str().unwrap();
                let Some(signed) = self.signed.lock().unwrap().get(signature).copied() else {
                    return Err(format!(
                        "messages.{index}.content.0: Invalid `signature` in `thinking` block"
                    ));
                };
                if signed == prefix(body, messages) {
                    return Ok(());
                }
                Err(format!(
                    "messages.{index}.content.0: The block is bound to a different conversation."
                ))
            }
            _ => Ok(()),
        }
    }
}

/// Checks that the ids of all calls are legal, and that no two calls share one.
fn check_ids(messages: &[Value]) -> Result<(), String> {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let mut ids = BTreeSet::new();
    let blocks = messages.iter().filter_map(|m| m["content"].as_array());
    for block in blocks.flatten().filter(|b| b["type"] == "tool_use") {
        let id = block["id"].as_str().unwrap();
        if id.is_empty() || !id.chars().all(is_legal) {
            return Err("tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'".to_owned());
        }
        if !ids.insert(id) {
            return Err("messages: `tool_use` ids must be unique".to_owned());
        }
    }
    Ok(())
}

/// Checks that a message begins with the results of all calls of the answer before it, and has
/// nothing else while a server tool is unfinished.
fn check_results(before: &[Value], index: usize, blocks: &[Value]) -> Result<(), String> {
    let Some(answer) = before
        .last()
        .and_then(|message| message["content"].as_array())
    else {
        return Ok(());
    };
    if index % 2 == 1 {
        return Ok(());
    }

    let ids = |blocks: &[Value], kind: &str, field: &str| -> Vec<String> {
        let blocks = blocks.iter().filter(|block| block["type"] == kind);
        blocks
            .map(|block| block[field].as_str().unwrap().to_owned())
            .collect()
    };
    let calls = ids(answer, "tool_use", "id");
    let results = ids(blocks, "tool_result", "tool_use_id");
    if calls != results {
        return Err(format!(
            "messages.{index}: `tool_use` ids were found without `tool_result` blocks immediately after"
        ));
    }

    let first = blocks.iter().take(results.len());
    if first.clone().any(|block| block["type"] != "tool_result") {
        return Err(format!(
            "messages.{index}: tool_result blocks must come first"
        ));
    }

    let server_calls = ids(answer, "server_tool_use", "id");
    let has_result = |id: &String| answer.iter().any(|block| block["tool_use_id"] == **id);
    if !server_calls.iter().all(has_result) && blocks.len() > results.len() {
        return Err(format!(
            "messages.{index}: only tool_result blocks may follow an unfinished server tool"
        ));
    }
    Ok(())
}

/// Checks that the answer that began the current round of calls starts with thinking, which a
/// budget requires.
fn check_round(messages: &[Value]) -> Result<(), String> {
    let has_results = |index: usize| messages[index].to_string().contains("\"tool_result\"");
    let mut start = messages.len();
    while start >= 2 && has_results(start - 1) {
        start -= 2;
    }
    let kind = messages
        .get(start)
        .map(|answer| &answer["content"][0]["type"]);
    match kind.and_then(Value::as_str) {
        Some("thinking" | "redacted_thinking") | None => Ok(()),
        Some(kind) => Err(format!(
            "messages.{start}.content.0.type: Expected `thinking` or `redacted_thinking`, but found \
             `{kind}`. When `thinking` is enabled, a final `assistant` message must start with a \
             thinking block"
        )),
    }
}

/// Returns the hash of everything before an answer, without the marks of the prompt cache.
fn prefix(body: &Value, messages: &[Value]) -> u64 {
    let mut text = body["model"].to_string();
    for part in [&body["system"], &body["tools"]]
        .into_iter()
        .chain(messages)
    {
        text.push_str(&unmarked(part).to_string());
    }
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

fn unmarked(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().filter(|(name, _)| *name != "cache_control");
            let fields: Map<_, _> = fields
                .map(|(name, value)| (name.clone(), unmarked(value)))
                .collect();
            Value::Object(fields)
        }
        Value::Array(values) => values.iter().map(unmarked).collect(),
        value => value.clone(),
    }
}

pub fn thinking(text: &str) -> Value {
    json!({"type": "thinking", "thinking": text})
}

pub fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

pub fn call(id: &str, name: &str, input: &Value) -> Value {
    json!({"type": "tool_use", "id": id, "name": name, "input": input})
}

/// A stream that has each block complete in its `content_block_start` event.
fn stream(blocks: &[Value]) -> Reply {
    let has_call = blocks.iter().any(|block| block["type"] == "tool_use");
    let reason = if has_call { "tool_use" } else { "end_turn" };
    let message = json!({"id": "msg", "model": "claude", "content": [],
        "usage": {"input_tokens": 10, "output_tokens": 1}});
    let mut events = vec![json!({"type": "message_start", "message": message})];
    for (index, block) in blocks.iter().enumerate() {
        events.push(json!({"type": "content_block_start", "index": index, "content_block": block}));
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    events.push(
        json!({"type": "message_delta", "delta": {"stop_reason": reason},
        "usage": {"output_tokens": 5}}),
    );
    events.push(json!({"type": "message_stop"}));
    let frames = events.iter().map(|event| {
        let kind = event["type"].as_str().unwrap();
        format!("event: {kind}\ndata: {event}\n\n")
    });
    Reply::sse(frames.collect::<Vec<_>>())
}
