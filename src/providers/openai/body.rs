//! The body of a request to Chat Completions.

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::error::{Error, ErrorKind, Result};
use crate::model::{ModelRequest, ResponseFormat, ToolChoice};

use super::super::encode::{Encoded, KeptBody, encode};
use super::super::json::write_text;
use super::super::schema::instruction;
use super::super::schema::openai::{is_plain_object, is_strict, non_object_schema};
use super::dialect::Dialect;
use super::family::{Family, check_effort, family_of, requested_effort, sampling_settings};
use super::messages::ChatWire;
use super::rules::{Rules, SchemaForm, ThinkingField};
use super::thinking::{is_thinking, thinking_field};

/// The data that a body depends on in addition to the request.
pub(super) struct Options<'a> {
    pub(super) model: &'a str,
    pub(super) kept_body: &'a KeptBody,
    /// The field of the output limit.
    pub(super) max_tokens_field: &'a str,
    /// The output limit; `None` leaves it to the server.
    pub(super) max_output_tokens: Option<u32>,
    pub(super) dialect: Dialect,
    pub(super) wire: &'a ChatWire,
}

/// Returns the body, and a warning about settings that it omits.
///
/// # Errors
///
/// Returns [`ErrorKind::Config`] for a request that the server refuses.
pub(super) fn body(
    request: &ModelRequest,
    options: &Options<'_>,
) -> Result<(Encoded, Option<String>)> {
    let model = request.model.as_deref().unwrap_or(options.model);
    let family = family_of(model);
    let rules = options.dialect.rules();
    check_openai(request, model, family.as_ref(), options.dialect)?;
    check_rules(request, model, rules)?;
    if rules.thinking == ThinkingField::OpenAi {
        check_effort(request, model, family.as_ref())?;
    }
    let thinking = thinking_field(request, model, rules, family.as_ref())?;
    let (sampling, warning) = sampling_settings(request, model, family.as_ref());
    let words_schema = schema_in_words(request, rules);
    let (wire, kept_body, extra) = (options.wire, options.kept_body, &request.extra);
    let encoded = encode(wire, kept_body, request, extra, |fields, sections| {
        fields.put("model", model)?;
        fields.put("stream", &true)?;
        if rules.has_stream_options {
            fields.raw("stream_options", br#"{"include_usage":true}"#)?;
        }

        let choice = choose_tool(&request.tool_choice);
        fields.openai_tools(sections.tools, choice, request.settings.parallel_tool_calls)?;
        fields.option(options.max_tokens_field, options.max_output_tokens)?;
        fields.option("temperature", sampling.temperature)?;
        fields.option("top_p", sampling.top_p)?;
        if rules.has_top_k {
            fields.option("top_k", request.settings.top_k)?;
        }

        if let Some(name) = rules.seed {
            fields.option(name, request.settings.seed)?;
        }

        if let Some((name, value)) = &thinking {
            fields.put(name, value)?;
        }

        if !request.stop.is_empty() {
            fields.put("stop", &*request.stop)?;
        }

        fields.option("response_format", format(request, words_schema, rules))?;
        opening(sections.system, words_schema)
    })?;

    Ok((encoded, warning))
}

/// Returns the messages before the history: the system prompt, and the schema that is sent in
/// words.
fn opening<'a>(system: &'a [u8], words_schema: Option<&Value>) -> Result<Cow<'a, [u8]>> {
    let mut opening = Cow::Borrowed(system);
    if let Some(schema) = words_schema {
        let opening = opening.to_mut();
        if !opening.is_empty() {
            opening.push(b',');
        }

        opening.extend_from_slice(b"{\"role\":\"system\",\"content\":");
        write_text(opening, &instruction(schema))?;
        opening.push(b'}');
    }

    Ok(opening)
}

/// Checks a request against the limits of servers of OpenAI's models.
fn check_openai(
    request: &ModelRequest,
    model: &str,
    family: Option<&Family>,
    dialect: Dialect,
) -> Result<()> {
    if !dialect.has_openai_models() {
        return Ok(());
    }
    // A deployment may have any name: the first check ignores a family that is guessed from it.
    let named_family = family.filter(|family| dialect.is_openai() || !family.is_guess);
    check_family(request, model, named_family, dialect)?;
    check_highest_effort(request, model, family, dialect)
}

/// Checks that the model accepts the request on Chat Completions. The error names an alternative.
fn check_family(
    request: &ModelRequest,
    model: &str,
    family: Option<&Family>,
    dialect: Dialect,
) -> Result<()> {
    let Some(family) = family else {
        return Ok(());
    };

    let alternative = alternative_api(dialect);
    let text = if !family.has_chat {
        format!("is not on Chat Completions; use {alternative}")
    } else if family.tools_need_responses
        && !request.tools.is_empty()
        && family.reasons_with(requested_effort(request))
    {
        format!(
            "takes no tools on Chat Completions while it reasons; use {alternative}, or the effort \
             `none` if the model has it"
        )
    } else if family.refuses_stop && !request.stop.is_empty() {
        "takes no stop sequences; remove them, or use another model".to_owned()
    } else {
        return Ok(());
    };
    Err(Error::new(ErrorKind::Config, format!("{model} {text}")))
}

/// Returns the text about the API of this server that accepts more.
fn alternative_api(dialect: Dialect) -> &'static str {
    if dialect.is_openai() {
        "the Responses API (`openai:MODEL` or `OpenAiResponses`)"
    } else {
        "the Responses API (`azure:DEPLOYMENT` at an address that ends in `/openai/v1`, or \
         `OpenAiResponses`)"
    }
}

/// Checks that the effort is not `max`, which OpenAI's models have only on the Responses API.
fn check_highest_effort(
    request: &ModelRequest,
    model: &str,
    family: Option<&Family>,
    dialect: Dialect,
) -> Result<()> {
    if requested_effort(request) != Some("max")
        || family.is_none_or(|one| !one.efforts.contains(&"max"))
    {
        return Ok(());
    }
    let alternative = alternative_api(dialect);
    let text = format!(
        "{model} has no effort \"max\" on Chat Completions; use {alternative}, or a lower effort"
    );
    Err(Error::new(ErrorKind::Config, text))
}

/// Checks a request against the rules of the server.
fn check_rules(request: &ModelRequest, model: &str, rules: &Rules) -> Result<()> {
    let text = if !rules.has_stop && !request.stop.is_empty() {
        "takes no stop sequences; remove them"
    } else if rules.thinking == ThinkingField::DeepSeek
        && request.tool_choice.is_forced()
        && !request.tools.is_empty()
        && is_thinking(request)
    {
        "takes no forced tool while it thinks; use `ToolChoice::Auto` or `ThinkingMode::Disabled`"
    } else {
        return Ok(());
    };
    Err(Error::new(ErrorKind::Config, format!("{model} {text}")))
}

/// Returns the schema that is sent to the model in words.
fn schema_in_words<'a>(request: &'a ModelRequest, rules: &Rules) -> Option<&'a Value> {
    match (&request.response_format, rules.schemas) {
        (_, SchemaForm::Any) => None,
        (_, SchemaForm::Objects) => non_object_schema(request),
        (Some(ResponseFormat::JsonSchema { schema, .. }), SchemaForm::Words) => Some(schema),
        (_, SchemaForm::Words) => None,
    }
}

/// Returns the `response_format` of a request, whose schema may be sent in words.
fn format(request: &ModelRequest, words_schema: Option<&Value>, rules: &Rules) -> Option<Value> {
    match words_schema {
        Some(schema) if rules.schemas == SchemaForm::Words && is_plain_object(schema) => {
            Some(json!({"type": "json_object"}))
        }
        Some(_) => None,
        None => request.response_format.as_ref().map(response_format),
    }
}

fn choose_tool(choice: &ToolChoice) -> Option<Value> {
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
