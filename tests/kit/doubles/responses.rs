//! A strict server of the Responses API.
//!
//! It answers with scripted output items, remembers each for later checks, and refuses requests
//! with the texts of OpenAI's server.

use std::sync::{Arc, Mutex};

use agentcore::testing::fault_server::Received;
use agentcore::testing::{FaultServer, Reply};
use serde_json::{Value, json};

use super::openai_chat::strict_fault;
use super::script::{Gate, Script, serve};

/// The fields that a request may have.
const FIELDS: &[&str] = &[
    "model",
    "instructions",
    "stream",
    "store",
    "stream_options",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "include",
    "max_output_tokens",
    "temperature",
    "top_p",
    "reasoning",
    "text",
    "input",
];

/// Models that never reason; the second is the name of a deployment.
const NEVER_REASONING: &[&str] = &["gpt-4.1", "deployment-of-4.1"];

/// The code and the text of an error.
pub type Refusal = (Option<&'static str>, String);

/// The scripted answers, and the requests that the server has answered or refused.
#[derive(Default)]
pub struct Double {
    script: Script,
    given: Mutex<Vec<Vec<Value>>>,
}

impl Double {
    /// Starts a server that answers with these items in order, and with an empty text after them.
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

    /// Adds an answer after the others.
    pub fn push(&self, answer: Vec<Value>) {
        self.script.push(answer);
    }

    pub fn refusals(&self) -> Vec<String> {
        self.script.refusals()
    }

    /// Forgets the answers sent so far, so that their encrypted content is refused, as after a
    /// change of account.
    pub fn forget(&self) {
        self.given.lock().unwrap().clear();
    }

    /// Returns the items that answer this body, or the code and the text of the refusal.
    pub fn answer(&self, body: &Value) -> Result<Vec<Value>, Refusal> {
        if let Err(refusal) = self.check(body) {
            self.script.refuse(&refusal.1);
            return Err(refusal);
        }

        let next = self.script.next();
        let items = next.unwrap_or_else(|| vec![message("msg_end", "")]);
        self.given.lock().unwrap().push(items.clone());
        Ok(items)
    }

    fn reply(&self, request: &Received) -> Reply {
        if let Some(reply) = self.script.turned_away(request) {
            return reply;
        }
        match self.answer(&request.json()) {
            Ok(items) => stream(&items),
            Err((code, text)) => {
                let kind = "invalid_request_error";
                let error = json!({"message": text, "type": kind, "code": code});
                Reply::json(400, json!({"error": error}).to_string())
            }
        }
    }

    fn check(&self, body: &Value) -> Result<(), Refusal> {
        let refuse = |text: String| Err((None, text));
        for name in body.as_object().unwrap().keys() {
            if !FIELDS.contains(&&**name) {
                return refuse(format!("Unknown parameter: '{name}'."));
            }
        }
        if body["store"] != false {
            return refuse("'store' must be false.".to_owned());
        }
        let model = body["model"].as_str().unwrap_or_default();
        let included = body["include"].to_string();
        if NEVER_REASONING.contains(&model) && included.contains("encrypted_content") {
            return refuse("Encrypted content is not supported with this model.".to_owned());
        }
        for tool in body["tools"].as_array().into_iter().flatten() {
            if tool["type"] == "function" && tool.get("strict").is_none() {
                return refuse("Missing required parameter: 'tools[0].strict'.".to_owned());
            }
            if tool["strict"] == true
                && let Some(fault) = strict_fault(&tool["parameters"])
            {
                return refuse(format!("Invalid schema for function: {fault}"));
            }
        }
        let format = &body["text"]["format"];
        if format["strict"] == true
            && let Some(fault) = strict_fault(&format["schema"])
        {
            return refuse(format!("Invalid schema for response_format: {fault}"));
        }

        let input = body["input"].as_array().unwrap();
        if let Some(kind) = unknown_image(input) {
            let text = format!("The image data of type {kind} does not represent a valid image.");
            return Err((Some("invalid_image_format"), text));
        }
        self.check_calls(input).or_else(refuse)?;
        let given = self.given.lock().unwrap();
        for (index, item) in input.iter().enumerate() {
            check_item(&given, input, index, item)?;
        }
        Ok(())
    }

    fn check_calls(&self, input: &[Value]) -> Result<(), String> {
        let of_kind = |kind: &'static str| {
            let items = input.iter().filter(move |item| item["type"] == kind);
            let ids = items.map(|item| item["call_id"].as_str().unwrap().to_owned());
            ids.collect::<Vec<_>>()
        };
        let calls = of_kind("function_call");
        let outputs = of_kind("function_call_output");
        for id in calls.iter().chain(&outputs) {
            if id.len() > 64 {
                let text = "string too long. Expected a string with maximum length 64";
                return Err(format!("Invalid 'input[0].call_id': {text}"));
            }
        }
        let names = input.iter().filter_map(|item| item["name"].as_str());
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        for name in names {
            if name.is_empty() || !name.chars().all(is_allowed) {
                return Err(format!("Invalid 'input[0].name': {name}"));
            }
        }
        for (index, call) in calls.iter().enumerate() {
            if calls[..index].contains(call) {
                return Err(format!("Duplicate item found with call_id {call}."));
            }
            if !outputs.contains(call) {
                return Err(format!("No tool output found for function call {call}."));
            }
        }
        match outputs.iter().find(|output| !calls.contains(output)) {
            Some(output) => Err(format!(
                "No tool call found for function call output with call_id {output}."
            )),
            None => Ok(()),
        }
    }
}

/// Returns the type of the first image that OpenAI's models do not accept.
fn unknown_image(input: &[Value]) -> Option<&str> {
    let lists = input
        .iter()
        .flat_map(|item| [&item["content"], &item["output"]]);
    let parts = lists.filter_map(Value::as_array).flatten();
    let data = parts.filter_map(|part| part["image_url"].as_str()?.strip_prefix("data:"));
    let mut types = data.filter_map(|data| Some(data.split_once(';')?.0));
    types.find(|kind| !["image/png", "image/jpeg", "image/webp", "image/gif"].contains(kind))
}

/// Checks an item with an id: the server must have sent it, and the reasoning that it was sent
/// after must precede it.
fn check_item(
    given: &[Vec<Value>],
    input: &[Value],
    index: usize,
    item: &Value,
) -> Result<(), Refusal> {
    let kind = item["type"].as_str().unwrap_or_default();
    if item.get("id").is_none() {
        if kind == "reasoning" && item.get("encrypted_content").is_some() {
            return check_nameless_reasoning(given, item, input.get(index + 1));
        }
        let needs_id = !matches!(kind, "" | "function_call" | "function_call_output");
        return if needs_id {
            Err((
                None,
                format!("Missing required parameter: 'input[{index}].id'."),
            ))
        } else {
            Ok(())
        };
    }

    let id = item["id"].as_str().unwrap();
    let place = given.iter().find_map(|answer| {
        let at = answer.iter().position(|own| own == item)?;
        Some((answer, at))
    });
    let Some((answer, at)) = place else {
        return if kind == "reasoning" {
            let code = "invalid_encrypted_content";
            Err((Some(code), format!("Reasoning {id} could not be verified.")))
        } else {
            Err((None, format!("Item with id '{id}' not found.")))
        };
    };

    if kind == "reasoning" {
        let next = input.get(index + 1);
        return if next.is_some() && next == answer.get(at + 1) {
            Ok(())
        } else {
            Err((
                None,
                format!(
                    "Item '{id}' of type 'reasoning' was provided without its required following item."
                ),
            ))
        };
    }

    let reasoning = answer[..at]
        .iter()
        .rposition(|item| item["type"] == "reasoning");
    let Some(reasoning) = reasoning else {
        return Ok(());
    };
    let needed = &answer[reasoning..=at];
    let start = (index + 1).checked_sub(needed.len());
    if start.is_some_and(|start| &input[start..=index] == needed) {
        return Ok(());
    }
    let missing = answer[reasoning]["id"].as_str().unwrap();
    Err((
        None,
        format!(
            "Item '{id}' of type '{kind}' was provided without its required 'reasoning' item: '{missing}'."
        ),
    ))
}

/// Checks reasoning without an id: the next item must be the one that it was sent with. That item
/// may have an id.
fn check_nameless_reasoning(
    given: &[Vec<Value>],
    item: &Value,
    next: Option<&Value>,
) -> Result<(), Refusal> {
    let encrypted = &item["encrypted_content"];
    let is_own = |own: &Value| own["encrypted_content"] == *encrypted;
    let place = given
        .iter()
        .find_map(|answer| Some((answer, answer.iter().position(is_own)?)));
    let Some((answer, at)) = place else {
        let code = "invalid_encrypted_content";
        return Err((
            Some(code),
            "The encrypted content could not be verified.".to_owned(),
        ));
    };

    let content = |item: &Value| match item["type"].as_str() {
        Some("function_call") => json!([item["name"], item["arguments"]]),
        _ if item["content"].is_string() => item["content"].clone(),
        _ => item["content"][0]["text"].clone(),
    };
    match (next, answer.get(at + 1)) {
        (Some(next), Some(own)) if content(next) == content(own) => Ok(()),
        _ => {
            let text = "A 'reasoning' item was provided without its required following item.";
            Err((None, text.to_owned()))
        }
    }
}

pub fn reasoning(id: &str) -> Value {
    let summary = json!([{"type": "summary_text", "text": format!("Thoughts of {id}.")}]);
    let encrypted = format!("gAAAA-{id}");
    json!({"type": "reasoning", "id": id, "summary": summary, "encrypted_content": encrypted})
}

pub fn call(id: &str, name: &str, arguments: &str) -> Value {
    json!({"type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": name,
        "arguments": arguments, "status": "completed"})
}

pub fn message(id: &str, text: &str) -> Value {
    let part = json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []});
    json!({"type": "message", "id": id, "role": "assistant", "status": "completed",
        "phase": "final_answer", "content": [part]})
}

/// The text of a message, or the arguments of a call, in two pieces.
fn deltas(index: usize, item: &Value) -> Vec<Value> {
    let (kind, text) = match item["type"].as_str() {
        Some("message") => ("response.output_text.delta", &item["content"][0]["text"]),
        Some("function_call") => ("response.function_call_arguments.delta", &item["arguments"]),
        _ => return Vec::new(),
    };
    let (start, end) = text
        .as_str()
        .map_or(("", ""), |text| text.split_at(text.len() / 2));
    let delta = |piece: &str| json!({"type": kind, "output_index": index, "content_index": 0, "delta": piece});
    [start, end].map(delta).into()
}

/// A stream that has each item in pieces, and complete at its end.
pub fn stream(items: &[Value]) -> Reply {
    let response = |status: &str| {
        json!({"id": "resp", "model": "gpt-6-luna", "status": status, "output": items,
            "usage": {"input_tokens": 10, "output_tokens": 5}})
    };
    let mut events = vec![json!({"type": "response.created", "response": response("in_progress")})];
    for (index, item) in items.iter().enumerate() {
        let mut event = json!({"type": "response.output_item.added", "output_index": index});
        event["item"] = json!({"type": item["type"], "id": item["id"], "call_id": item["call_id"],
            "name": item["name"]});
        events.push(event);
        events.extend(deltas(index, item));
        events.push(
            json!({"type": "response.output_item.done", "output_index": index, "item": item}),
        );
    }
    events.push(json!({"type": "response.completed", "response": response("completed")}));
    let frames = events.iter().map(|event| {
        let kind = event["type"].as_str().unwrap();
        format!("event: {kind}\ndata: {event}\n\n")
    });
    Reply::sse(frames.collect::<Vec<_>>())
}
