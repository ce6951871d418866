//! A strict server of the Gemini API.
//!
//! It answers with scripted parts, remembers them for the check of their signatures, and refuses
//! requests with the texts of Google's server.

use std::sync::{Arc, Mutex};

use agentcore::testing::fault_server::Received;
use agentcore::testing::{FaultServer, Reply};
use serde_json::{Value, json};

use super::script::{Script, serve};

/// The fields that a request may have.
const FIELDS: &[&str] = &[
    "contents",
    "systemInstruction",
    "tools",
    "toolConfig",
    "generationConfig",
    "safetySettings",
];

/// The signature of calls that another model made.
pub const PLACEHOLDER: &str = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I=";

const MISSING: &str = "Function call is missing a thought_signature in functionCall parts. This is \
                       required for tools to work correctly.";

/// The scripted answers, and the requests that the server has answered or refused.
#[derive(Default)]
pub struct Double {
    script: Script,
    given: Mutex<Vec<Value>>,
}

impl Double {
    /// Starts a server that answers with these parts in order, and with the text `ok` after them.
    pub async fn start(answers: impl IntoIterator<Item = Vec<Value>>) -> (Arc<Self>, FaultServer) {
        let double = Self {
            script: Script::new(answers),
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

    /// Forgets the answers sent so far, so that their signatures are refused, as after a change of
    /// the model.
    pub fn forget(&self) {
        self.given.lock().unwrap().clear();
    }

    /// Returns the parts that answer this request, or the text of the refusal.
    pub fn answer(&self, path: &str, body: &Value) -> Result<Vec<Value>, String> {
        if let Err(refusal) = self.check(path, body) {
            self.script.refuse(&refusal);
            return Err(refusal);
        }

        let next = self.script.next();
        let parts = next.unwrap_or_else(|| vec![json!({"text": "ok"})]);
        self.given.lock().unwrap().extend(parts.iter().cloned());
        Ok(parts)
    }

    fn reply(&self, request: &Received) -> Reply {
        let error = |status: u16, code: &str, text: &str| {
            let error = json!({"code": status, "message": text, "status": code});
            Reply::json(status, json!({"error": error}).to_string())
        };
        let has_key = request.header("x-goog-api-key").is_some();
        if !has_key && request.header("authorization").is_none() {
            return error(
                403,
                "PERMISSION_DENIED",
                "Method doesn't allow unregistered callers.",
            );
        }

        match self.answer(&request.path, &request.json()) {
            Ok(parts) => stream(&parts),
            Err(text) => error(400, "INVALID_ARGUMENT", &text),
        }
    }

    fn check(&self, path: &str, body: &Value) -> Result<(), String> {
        check_body(&model_of(path)?, body)?;
        self.check_signatures(list(&body["contents"]))
    }

    /// Checks that every signature is at the part that it was sent with.
    fn check_signatures(&self, contents: &[Value]) -> Result<(), String> {
        let given = self.given.lock().unwrap();
        let answers = contents.iter().filter(|content| content["role"] == "model");
        for part in answers.flat_map(|content| list(&content["parts"])) {
            let Some(signature) = part.get("thoughtSignature") else {
                continue;
            };

            let is_placeholder = *signature == PLACEHOLDER && part.get("functionCall").is_some();
            if !is_placeholder && !given.iter().any(|own| is_same(own, part)) {
                return Err("Corrupted thought signature.".to_owned());
            }
        }

        Ok(())
    }
}

/// Checks a body to a model, except for the origin of its signatures.
pub fn check_body(model: &str, body: &Value) -> Result<(), String> {
    for name in body.as_object().unwrap().keys() {
        if !FIELDS.contains(&&**name) {
            return Err(format!(
                "Invalid JSON payload received. Unknown name \"{name}\": Cannot find field."
            ));
        }
    }

    let contents = list(&body["contents"]);
    for part in contents.iter().flat_map(|content| list(&content["parts"])) {
        check_type(&part["inlineData"]["mimeType"])?;
    }
    check_tools(model, body)?;
    check_thinking(model, &body["generationConfig"]["thinkingConfig"])?;
    check_turns(contents)?;
    if is_modern(model) {
        check_current_turn(contents)?;
    }

    Ok(())
}

/// Checks a media type, if there is one.
fn check_type(media_type: &Value) -> Result<(), String> {
    let Some(name) = media_type.as_str() else {
        return Ok(());
    };
    let images = ["png", "jpeg", "webp", "heic", "heif"];
    let is_known = match name.split_once('/') {
        Some(("image", kind)) => images.contains(&kind),
        Some(("audio" | "video", _)) => true,
        _ => name == "application/pdf",
    };
    if is_known {
        Ok(())
    } else {
        Err(format!("Unsupported MIME type: {name}"))
    }
}

/// Returns the model in a path, which must end with the method and the query of a stream.
fn model_of(path: &str) -> Result<String, String> {
    let name = path.split_once("/models/").map(|(_, name)| name);
    let name = name.and_then(|name| name.strip_suffix(":streamGenerateContent?alt=sse"));
    name.map(str::to_owned)
        .ok_or_else(|| format!("The requested URL {path} was not found on this server."))
}

fn is_modern(model: &str) -> bool {
    ["gemini-1", "gemini-2", "gemma"]
        .iter()
        .all(|start| !model.starts_with(start))
}

/// Returns `true` if the part is the one that was sent. A call that was sent without an id may have
/// one.
fn is_same(own: &Value, part: &Value) -> bool {
    let mut own = own.clone();
    if let Some(call) = own.get_mut("functionCall")
        && call.get("id").is_none()
    {
        call["id"] = part["functionCall"]["id"].clone();
    }
    own == *part
}

fn check_tools(model: &str, body: &Value) -> Result<(), String> {
    let tools = list(&body["tools"]);
    let declarations = tools
        .iter()
        .flat_map(|tool| list(&tool["functionDeclarations"]));
    let declarations: Vec<_> = declarations.collect();
    for declared in &declarations {
        if declared.get("parameters").is_some() && declared.get("parametersJsonSchema").is_some() {
            return Err("parameters and parameters_json_schema are mutually exclusive.".to_owned());
        }
    }

    let config = &body["toolConfig"];
    if config.get("functionCallingConfig").is_some() && declarations.is_empty() {
        return Err("Function calling config is set without function_declarations.".to_owned());
    }

    let is_circulating = config.get("includeServerSideToolInvocations").is_some();
    if is_circulating && !is_modern(model) {
        return Err("Tool call context circulation is not enabled.".to_owned());
    }

    let is_mixed = !declarations.is_empty()
        && tools
            .iter()
            .any(|tool| tool.get("functionDeclarations").is_none());
    if is_mixed && !is_circulating {
        return Err(
            "Please enable tool_config.include_server_side_tool_invocations to use built-in tools \
             with function calling."
                .to_owned(),
        );
    }

    let has_form = body["generationConfig"].get("responseMimeType").is_some();
    if has_form && !tools.is_empty() && !is_modern(model) {
        return Err(
            "Function calling with a response mime type: 'application/json' is unsupported".into(),
        );
    }

    Ok(())
}

fn check_thinking(model: &str, config: &Value) -> Result<(), String> {
    if config.is_null() {
        return Ok(());
    }
    if model.starts_with("gemini-2.0") || model.starts_with("gemma") {
        return Err("Thinking is not enabled for this model.".to_owned());
    }

    let lacks_minimal = ["gemini-3.8", "gemini-3.7", "gemini-3.1-pro", "gemini-4"];
    let lacks_minimal = lacks_minimal.iter().any(|start| model.starts_with(start));
    if config["thinkingLevel"] == "MINIMAL" && lacks_minimal {
        return Err("Thinking level MINIMAL is not supported for this model.".to_owned());
    }
    if config.get("thinkingLevel").is_some() && !is_modern(model) {
        return Err("Thinking level is not supported for this model.".to_owned());
    }
    Ok(())
}

/// Checks the roles of the contents, and the number of results after each answer.
fn check_turns(contents: &[Value]) -> Result<(), String> {
    if contents.first().is_none_or(|first| first["role"] != "user") {
        return Err("Please ensure that multiturn requests begin with a user turn.".to_owned());
    }

    for (index, content) in contents.iter().enumerate() {
        let parts = list(&content["parts"]);
        if parts.is_empty() {
            return Err("contents.parts must not be empty.".to_owned());
        }

        let former = index.checked_sub(1).map(|former| &contents[former]);
        let calls = former.map_or(0, |former| count(former, "functionCall"));
        let results = count(content, "functionResponse");
        if calls == 0 && results > 0 {
            return Err(
                "Please ensure that function response turn comes immediately after a function call \
                 turn."
                    .to_owned(),
            );
        }

        if calls != results {
            return Err(
                "Please ensure that the number of function response parts is equal to the number of \
                 function call parts of the function call turn."
                    .to_owned(),
            );
        }

        if results > 0 && results < parts.len() {
            return Err("A function response turn has other parts.".to_owned());
        }

        let is_behind_results = former.is_some_and(|former| count(former, "functionResponse") > 0);
        let has_same_role = former.is_some_and(|former| former["role"] == content["role"]);
        if has_same_role && !is_behind_results {
            return Err(
                "Please ensure that multiturn requests alternate between roles.".to_owned(),
            );
        }
    }

    let last_calls = contents
        .last()
        .map_or(0, |last| count(last, "functionCall"));
    if last_calls > 0 {
        return Err("The last function call turn has no function response turn.".to_owned());
    }
    Ok(())
}

/// Checks that the first call of each answer after the user's last text has a signature.
fn check_current_turn(contents: &[Value]) -> Result<(), String> {
    let is_text =
        |content: &Value| content["role"] == "user" && count(content, "functionResponse") == 0;
    let start = contents.iter().rposition(is_text).unwrap_or(0);
    for content in &contents[start..] {
        let mut parts = list(&content["parts"]).iter();
        let first = parts.find(|part| part.get("functionCall").is_some());
        if first.is_some_and(|first| first.get("thoughtSignature").is_none()) {
            return Err(MISSING.to_owned());
        }
    }
    Ok(())
}

fn count(content: &Value, field: &str) -> usize {
    let parts = list(&content["parts"]).iter();
    parts.filter(|part| part.get(field).is_some()).count()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// A text in one part per word.
pub fn words(words: &str) -> Vec<Value> {
    words.split_inclusive(' ').map(text).collect()
}

pub fn text(text: &str) -> Value {
    json!({"text": text})
}

/// A text with a signature.
pub fn signed_text(text: &str, signature: &str) -> Value {
    json!({"text": text, "thoughtSignature": signature})
}

pub fn thought(text: &str) -> Value {
    json!({"text": text, "thought": true})
}

/// A call with a signature and an id, unless they are empty.
pub fn call(id: &str, name: &str, args: &Value, signature: &str) -> Value {
    let mut part = json!({"functionCall": {"name": name, "args": args}});
    if !id.is_empty() {
        part["functionCall"]["id"] = id.into();
    }
    if !signature.is_empty() {
        part["thoughtSignature"] = signature.into();
    }
    part
}

/// A stream with one chunk per part.
pub fn stream(parts: &[Value]) -> Reply {
    stream_until(parts, "STOP")
}

/// A stream like that of [`stream`], which ends for this reason.
pub fn stream_until(parts: &[Value], reason: &str) -> Reply {
    let usage = json!({"promptTokenCount": 10, "candidatesTokenCount": 5});
    let mut chunks: Vec<_> = parts
        .iter()
        .map(|part| json!({"candidates": [{"content": {"role": "model", "parts": [part]}}]}))
        .collect();
    chunks.push(json!({"candidates": [{"finishReason": reason}], "usageMetadata": usage}));
    Reply::sse(chunks.into_iter().map(|mut chunk| {
        chunk["responseId"] = "r".into();
        chunk["modelVersion"] = "gemini-3.8-flash".into();
        format!("data: {chunk}\n\n")
    }))
}
