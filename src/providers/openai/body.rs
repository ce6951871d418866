//! The request body.

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::error::Result;
use crate::model::{ModelRequest, ResponseFormat, ThinkingMode, ToolChoice};

use super::super::encode::{Encoded, encode};
use super::super::json::write_text;
use super::super::schema::instruction;
use super::super::schema::openai::{is_plain_object, is_strict};
use super::messages::ChatWire;

/// What a body depends on besides the request.
pub(super) struct Options<'a> {
    pub(super) model: &'a str,
    pub(super) max_tokens_field: &'a str,
    /// The output limit; `None` leaves it to the server.
    pub(super) max_output_tokens: Option<u32>,
    /// Whether the server is OpenAI's own, which refuses fields it does not know.
    pub(super) official: bool,
    pub(super) wire: &'a ChatWire,
}

pub(super) fn body(request: &ModelRequest, options: &Options<'_>) -> Result<Encoded> {
    let told = told_schema(request, options);
    encode(options.wire, request, &request.extra, |fields, sections| {
        fields.put("model", request.model.as_deref().unwrap_or(options.model))?;
        fields.put("stream", &true)?;
        fields.put("stream_options", &json!({"include_usage": true}))?;
        if !sections.tools.is_empty() {
            fields.raw("tools", sections.tools)?;
            fields.option("tool_choice", tool_choice(&request.tool_choice))?;
            fields.option("parallel_tool_calls", request.settings.parallel_tool_calls)?;
        }

        fields.option(options.max_tokens_field, options.max_output_tokens)?;
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

        if told.is_none() {
            let format = request.response_format.as_ref().map(response_format);
            fields.option("response_format", format)?;
        }

        let mut opening = Cow::Borrowed(sections.system);
        if let Some(schema) = told {
            let opening = opening.to_mut();
            if !opening.is_empty() {
                opening.push(b',');
            }

            opening.extend_from_slice(b"{\"role\":\"system\",\"content\":");
            write_text(opening, &instruction(schema))?;
            opening.push(b'}');
        }

        Ok(opening)
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
        ResponseFormat::JsonSchema { name, schema } => {
            let strict = is_plain_object(schema) && is_strict(schema);
            let schema = json!({"name": &**name, "schema": &**schema, "strict": strict});
            json!({"type": "json_schema", "json_schema": schema})
        }
    }
}

/// The schema that the model is told in words: OpenAI's own server takes none but of an object.
fn told_schema<'a>(request: &'a ModelRequest, options: &Options<'_>) -> Option<&'a Value> {
    match &request.response_format {
        Some(ResponseFormat::JsonSchema { schema, .. })
            if options.official && !is_plain_object(schema) =>
        {
            Some(schema)
        }
        _ => None,
    }
}
