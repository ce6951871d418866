//! The request body.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::error::Result;
use crate::model::{ModelRequest, ResponseFormat, ThinkingMode, ToolChoice};

use super::super::encode::{History, encode};
use super::super::fields::Fields;
use super::messages::ChatWire;

/// What a body depends on besides the request.
pub(super) struct Options<'a> {
    pub(super) model: &'a str,
    pub(super) max_tokens_field: &'a str,
    /// The output limit of requests without one; `None` leaves it to the server.
    pub(super) max_tokens: Option<u32>,
    /// Whether the server is OpenAI's own, which refuses fields it does not know.
    pub(super) official: bool,
    pub(super) wire: &'a ChatWire,
}

pub(super) fn body(request: &ModelRequest, options: &Options<'_>) -> Result<(Bytes, History)> {
    encode(options.wire, request, |sections| {
        let mut fields = Fields::new(&request.extra, sections.len() + 160);
        fields.put("model", request.model.as_deref().unwrap_or(options.model))?;
        fields.put("stream", &true)?;
        fields.put("stream_options", &json!({"include_usage": true}))?;
        fields.raw("messages", |out| {
            out.push(b'[');
            out.extend_from_slice(sections.system);
            if !sections.system.is_empty() {
                out.push(b',');
            }
            sections.write_messages(out);
            out.push(b']');
        })?;
        if !sections.tools.is_empty() {
            fields.raw("tools", |out| out.extend_from_slice(sections.tools))?;
            fields.option("tool_choice", tool_choice(&request.tool_choice))?;
            fields.option("parallel_tool_calls", request.settings.parallel_tool_calls)?;
        }
        let max_tokens = request.max_tokens.or(options.max_tokens);
        fields.option(options.max_tokens_field, max_tokens)?;
        fields.option("temperature", request.temperature)?;
        fields.option("top_p", request.settings.top_p)?;
        if !options.official {
            fields.option("top_k", request.settings.top_k)?;
        }
        fields.option("seed", request.settings.seed)?;
        if let Some(ThinkingMode::Effort(effort)) = &request.settings.thinking {
            fields.put("reasoning_effort", &**effort)?;
        }
        if !request.stop.is_empty() {
            fields.put("stop", &*request.stop)?;
        }
        fields.option(
            "response_format",
            request.response_format.as_ref().map(response_format),
        )?;
        fields.finish()
    })
}

fn tool_choice(choice: &ToolChoice) -> Option<Value> {
    Some(match choice {
        ToolChoice::Auto => return None,
        ToolChoice::None => json!("none"),
        ToolChoice::Required => json!("required"),
        ToolChoice::Tool(name) => json!({"type": "function", "function": {"name": &**name}}),
    })
}

fn response_format(format: &ResponseFormat) -> Value {
    match format {
        ResponseFormat::JsonObject => json!({"type": "json_object"}),
        ResponseFormat::JsonSchema { name, schema } => json!({
            "type": "json_schema",
            "json_schema": {"name": &**name, "schema": &**schema, "strict": is_strict(schema)},
        }),
    }
}

/// Whether the API's strict mode takes the schema: in every object all properties are required
/// and no others are allowed. Other schemas would be refused there.
fn is_strict(schema: &Value) -> bool {
    match schema {
        Value::Object(map) => {
            let closed = match map.get("properties").and_then(Value::as_object) {
                Some(properties) => {
                    let required = map.get("required").and_then(Value::as_array);
                    map.get("additionalProperties") == Some(&Value::Bool(false))
                        && properties
                            .keys()
                            .all(|key| required.is_some_and(|all| all.iter().any(|one| one == key)))
                }
                None => map.get("type") != Some(&Value::from("object")),
            };
            closed && map.values().all(is_strict)
        }
        Value::Array(items) => items.iter().all(is_strict),
        _ => true,
    }
}
