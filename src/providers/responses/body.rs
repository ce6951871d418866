//! The body of a request to the Responses API.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use crate::error::{Error, ErrorKind, Result};
use crate::model::{HostedTool, ModelRequest, ResponseFormat, ToolChoice};

use super::super::encode::{Encoded, Items, KeptBody, encode};
use super::super::hosted::with_hosted;
use super::super::openai::family::{
    Family, ReasoningMode, check_effort, family_of, sampling_settings, sent_effort,
};
use super::super::schema::instruction;
use super::super::schema::openai::{is_strict, non_object_schema};
use super::PROVIDER;
use super::input::{ItemWire, developer};

/// The data that a body depends on in addition to the request.
pub(super) struct Options<'a> {
    pub(super) model: &'a str,
    pub(super) kept_body: &'a KeptBody,
    /// The output limit that is sent, if one is.
    pub(super) max_output_tokens: Option<u32>,
    /// True for OpenAI's own server.
    pub(super) is_official: bool,
    /// True if summaries of the reasoning are requested.
    pub(super) has_summaries: bool,
    /// True if the server runs tools itself.
    pub(super) has_hosted_tools: bool,
    /// True if the model has not refused to give its reasoning in encrypted form.
    pub(super) has_encrypted: bool,
    pub(super) wire: &'a ItemWire,
}

/// Returns the body, and warnings about settings that it omits.
///
/// # Errors
///
/// Returns [`ErrorKind::Config`] for settings that the API does not have.
pub(super) fn body(
    request: &ModelRequest,
    options: &Options<'_>,
) -> Result<(Encoded, Vec<String>)> {
    if !request.stop.is_empty() {
        return Err(Error::new(
            ErrorKind::Config,
            "the Responses API has no stop sequences; remove them, or use Chat Completions \
             (`openai-chat:MODEL`) with a model that takes them",
        ));
    }

    let model = request.model.as_deref().unwrap_or(options.model);
    let family = family_of(model);
    check_effort(request, model, family.as_ref())?;
    let words_schema = non_object_schema(request);
    let (sampling, warning) = sampling_settings(request, model, family.as_ref());
    let mut warnings: Vec<String> = warning.into_iter().collect();
    let (wire, kept_body, extra) = (options.wire, options.kept_body, &request.extra);
    let encoded = encode(wire, kept_body, request, extra, |fields, sections| {
        fields.put("model", model)?;
        if !sections.system.is_empty() {
            fields.raw("instructions", sections.system)?;
        }

        fields.put("stream", &true)?;
        fields.put("store", &false)?;
        if options.is_official {
            fields.put("stream_options", &json!({"include_obfuscation": false}))?;
        }

        let hosted = &request.hosted_tools;
        let own_provider = options.has_hosted_tools.then_some(PROVIDER);
        let (tools, warning) = with_hosted(sections.tools, hosted, own_provider)?;
        warnings.extend(warning);
        let choice = choose_tool(&request.tool_choice);
        fields.openai_tools(&tools, choice, request.settings.parallel_tool_calls)?;
        let has_encrypted = options.has_encrypted
            && (family.as_ref()).is_none_or(|family| family.reasons != ReasoningMode::Never);
        let mut own_tools = hosted
            .iter()
            .filter(|tool| Some(&*tool.provider) == own_provider);
        let searches = own_tools.any(is_search);
        fields.option("include", included(searches, has_encrypted))?;
        fields.option("max_output_tokens", options.max_output_tokens)?;
        fields.option("temperature", sampling.temperature)?;
        fields.option("top_p", sampling.top_p)?;
        fields.option(
            "reasoning",
            reasoning(request, family.as_ref(), options.has_summaries),
        )?;
        if words_schema.is_none() {
            let format = request.response_format.as_ref().map(text_format);
            fields.option("text", format)?;
        }

        let mut opening = Vec::new();
        if let Some(schema) = words_schema {
            developer(&instruction(schema), &mut Items::new(&mut opening))?;
        }
        Ok(Cow::Owned(opening))
    })?;

    Ok((encoded, warnings))
}

fn choose_tool(choice: &ToolChoice) -> Option<Value> {
    Some(match choice {
        ToolChoice::Auto => return None,
        ToolChoice::None => json!("none"),
        ToolChoice::Required => json!("required"),
        ToolChoice::Tool(name) => json!({"type": "function", "name": &**name}),
    })
}

fn is_search(tool: &HostedTool) -> bool {
    let kind = tool.raw.get("type").and_then(Value::as_str);
    kind.is_some_and(|kind| kind.starts_with("web_search"))
}

/// Returns the optional parts of the answer: the reasoning in its encrypted form, without which it
/// cannot be sent back, and the sources of searches. A model that never reasons refuses the first.
fn included(searches: bool, has_encrypted: bool) -> Option<Value> {
    let mut included = Vec::new();
    if has_encrypted {
        included.push("reasoning.encrypted_content");
    }
    if searches {
        included.push("web_search_call.action.sources");
    }
    (!included.is_empty()).then(|| json!(included))
}

/// Returns the effort and the summaries. A model that is not known to reason gets neither unless an
/// effort is set: it would refuse them.
fn reasoning(
    request: &ModelRequest,
    family: Option<&Family>,
    has_summaries: bool,
) -> Option<Value> {
    let effort = sent_effort(request, family);
    let reasons = match effort {
        Some(effort) => effort != "none",
        None => family.is_some_and(|family| family.reasons_by_default()),
    };
    let is_shown = has_summaries && request.settings.show_thinking != Some(false);

    let mut fields = Map::new();
    if let Some(effort) = effort {
        fields.insert("effort".to_owned(), effort.into());
    }
    if reasons && is_shown {
        fields.insert("summary".to_owned(), "auto".into());
    }
    (!fields.is_empty()).then_some(fields.into())
}

fn text_format(format: &ResponseFormat) -> Value {
    let format = match format {
        ResponseFormat::JsonObject => json!({"type": "json_object"}),
        ResponseFormat::JsonSchema { name, schema } => json!({
            "type": "json_schema",
            "name": &**name,
            "schema": &**schema,
            "strict": is_strict(schema),
        }),
    };
    json!({"format": format})
}
