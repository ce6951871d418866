//! The request body.

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::error::{Error, ErrorKind, Result};
use crate::model::{ModelRequest, ResponseFormat, ThinkingMode, ToolChoice};

use super::super::encode::{Encoded, encode};
use super::super::json::write_text;
use super::super::schema::instruction;
use super::super::schema::openai::{is_plain_object, is_strict, told_schema};
use super::family::{Family, effort, family, sampling, sent_effort};
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

/// The body, and the warning about what it leaves out.
///
/// # Errors
///
/// [`ErrorKind::Config`] for a request that OpenAI's own server refuses.
pub(super) fn body(
    request: &ModelRequest,
    options: &Options<'_>,
) -> Result<(Encoded, Option<String>)> {
    let model = request.model.as_deref().unwrap_or(options.model);
    let family = family(model);
    check(request, model, family.as_ref().filter(|_| options.official))?;
    let (sampling, warning) = sampling(request, model, family.as_ref());
    let told = told_schema(request).filter(|_| options.official);
    let encoded = encode(options.wire, request, &request.extra, |fields, sections| {
        fields.put("model", model)?;
        fields.put("stream", &true)?;
        fields.put("stream_options", &json!({"include_usage": true}))?;
        if !sections.tools.is_empty() {
            fields.raw("tools", sections.tools)?;
            fields.option("tool_choice", tool_choice(&request.tool_choice))?;
            fields.option("parallel_tool_calls", request.settings.parallel_tool_calls)?;
        }

        fields.option(options.max_tokens_field, options.max_output_tokens)?;
        fields.option("temperature", sampling.temperature)?;
        fields.option("top_p", sampling.top_p)?;
        if !options.official {
            fields.option("top_k", request.settings.top_k)?;
        }

        fields.option("seed", request.settings.seed)?;
        fields.option(
            "reasoning_effort",
            reasoning_effort(request, family.as_ref()),
        )?;

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
    })?;

    Ok((encoded, warning))
}

/// Refuses what OpenAI's server would refuse, and names the alternative.
fn check(request: &ModelRequest, model: &str, family: Option<&Family>) -> Result<()> {
    let Some(family) = family else {
        return Ok(());
    };

    let text = if !family.has_chat {
        "is not on Chat Completions; use the Responses API (`openai:MODEL` or `OpenAiResponses`)"
    } else if family.tools_need_responses
        && !request.tools.is_empty()
        && family.reasons_with(effort(request))
    {
        "takes no tools on Chat Completions while it reasons; use the Responses API \
         (`openai:MODEL` or `OpenAiResponses`), or the effort `none` if the model has it"
    } else if family.refuses_stop && !request.stop.is_empty() {
        "takes no stop sequences; remove them, or use another model"
    } else {
        return Ok(());
    };
    Err(Error::new(ErrorKind::Config, format!("{model} {text}")))
}

/// The effort. Compatible servers have none for [`ThinkingMode::Disabled`].
fn reasoning_effort<'a>(request: &'a ModelRequest, family: Option<&Family>) -> Option<&'a str> {
    let is_disabled = request.settings.thinking == Some(ThinkingMode::Disabled);
    sent_effort(request, family).filter(|_| family.is_some() || !is_disabled)
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
