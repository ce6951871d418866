//! The body of a request to the Messages API.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use crate::error::Result;
use crate::model::{ModelProfile, ModelRequest, ResponseFormat, ToolChoice};

use super::super::encode::{Encoded, KeptBody, encode};
use super::super::fields::BodyFields;
use super::super::hosted::with_hosted;
use super::super::json::write_text;
use super::super::media::{Target, check};
use super::super::schema::claude::understood;
use super::super::schema::{any_object, instruction};
use super::PROVIDER;
use super::container::container;
use super::family::Family;
use super::hosted::own_tools;
use super::thinking::{ThinkingFields, thinking_fields};
use super::wire::{MessagesWire, interrupted_call_warning};

/// The data that a body depends on in addition to the request.
pub(super) struct Options<'a> {
    pub(super) model: &'a str,
    pub(super) kept_body: &'a KeptBody,
    pub(super) family: Option<&'a Family>,
    /// The tag of the model's own blocks.
    pub(super) tag: &'static str,
    pub(super) profile: &'a ModelProfile,
    /// True if the server runs tools itself.
    pub(super) has_hosted_tools: bool,
}

/// Returns the body of `request`, and warnings. Sampling settings that a model does not take while
/// it thinks are omitted without a warning. The prompt cache requires the order of the fields:
/// tools, system prompt, messages.
pub(super) fn body(
    request: &ModelRequest,
    options: &Options<'_>,
) -> Result<(Encoded, Vec<String>)> {
    let Options {
        model,
        family,
        profile,
        has_hosted_tools,
        ..
    } = *options;
    let target = Target {
        model,
        takes_images: profile.images,
        api: "the Messages API",
    };
    let wire = messages_wire(request, options);
    check(request, target, |part| wire.takes(part))?;
    let max_tokens = request
        .max_output_tokens
        .unwrap_or(profile.max_output_tokens);
    let tool_choice = choose_tool(request, has_hosted_tools);
    let is_forced = tool_choice.is_some() && request.tool_choice.is_forced();
    let thinking = thinking_fields(request, model, family, max_tokens, is_forced)?;
    let mut warnings = Vec::new();
    warnings.extend(sampling_warning(request, model, family));
    let form = answer_form(request, family);
    let (kept_body, extra) = (options.kept_body, &request.extra);
    let encoded = encode(&wire, kept_body, request, extra, |fields, sections| {
        fields.put("model", model)?;
        fields.put("max_tokens", &max_tokens)?;
        fields.put("stream", &true)?;
        fields.option("thinking", thinking.field.as_ref())?;
        put_sampling(fields, request, &thinking, family)?;
        if !request.stop.is_empty() {
            fields.put("stop_sequences", &*request.stop)?;
        }

        fields.option("tool_choice", tool_choice)?;
        let provider = has_hosted_tools.then_some(PROVIDER);
        let (tools, warning) = with_hosted(sections.tools, &request.hosted_tools, provider)?;
        warnings.extend(warning);
        if !tools.is_empty() {
            fields.raw("tools", &tools)?;
        }

        put_system(fields, sections.system, form.as_ref())?;
        fields.option("output_config", output_config(thinking.effort, form))?;
        let container = has_hosted_tools.then(|| container(request)).flatten();
        fields.option("container", container)?;
        Ok(Cow::default())
    })?;

    if has_hosted_tools {
        warnings.extend(interrupted_call_warning(request.messages.as_slice()));
    }
    warnings.extend(encoded.warning.clone());
    Ok((encoded, warnings))
}

fn messages_wire(request: &ModelRequest, options: &Options<'_>) -> MessagesWire {
    MessagesWire {
        tag: options.tag,
        cache: request.settings.prompt_cache != Some(false),
        long_cache: request.settings.long_prompt_cache == Some(true),
        takes_images: options.profile.images,
        has_hosted_tools: options.has_hosted_tools,
        binds_reasoning: options.family.is_some_and(|family| family.binds_thinking),
    }
}

/// Writes the system prompt, with the instruction about the form of the answer if there is one.
fn put_system(fields: &mut BodyFields<'_>, system: &[u8], form: Option<&AnswerForm>) -> Result<()> {
    match form {
        Some(AnswerForm::Instruction(text)) => {
            let mut system = system.to_vec();
            add_text(&mut system, text)?;
            fields.raw("system", &system)
        }
        _ if system.is_empty() => Ok(()),
        _ => fields.raw("system", system),
    }
}

/// Writes the sampling settings. A model that thinks takes neither temperature nor `top_k`, and
/// `top_p` only from 0.95 on.
fn put_sampling(
    fields: &mut BodyFields<'_>,
    request: &ModelRequest,
    thinking: &ThinkingFields,
    family: Option<&Family>,
) -> Result<()> {
    if family.is_some_and(|family| !family.has_sampling) {
        return Ok(());
    }

    let settings = &request.settings;
    let thinks = thinking.is_on;
    fields.option("temperature", request.temperature.filter(|_| !thinks))?;
    fields.option("top_k", settings.top_k.filter(|_| !thinks))?;
    let top_p = settings.top_p.filter(|top_p| !thinks || *top_p >= 0.95);
    fields.option("top_p", top_p)
}

fn sampling_warning(
    request: &ModelRequest,
    model: &str,
    family: Option<&Family>,
) -> Option<String> {
    let settings = &request.settings;
    let is_set =
        request.temperature.is_some() || settings.top_k.is_some() || settings.top_p.is_some();
    let has_no_sampling = family.is_some_and(|family| !family.has_sampling);
    (is_set && has_no_sampling).then(|| {
        format!("{model} takes no sampling settings; temperature, top_p and top_k were left out")
    })
}

/// Returns the choice among the tools of a request: its own, and those that the server runs.
fn choose_tool(request: &ModelRequest, has_hosted_tools: bool) -> Option<Value> {
    let mut hosted_tools = own_tools(request);
    if request.tools.is_empty() && !(has_hosted_tools && hosted_tools.next().is_some()) {
        return None;
    }

    let one_at_a_time = request.settings.parallel_tool_calls == Some(false);
    let mut choice = match &request.tool_choice {
        ToolChoice::Auto if !one_at_a_time => return None,
        ToolChoice::Auto => json!({"type": "auto"}),
        ToolChoice::None => return Some(json!({"type": "none"})),
        ToolChoice::Required => json!({"type": "any"}),
        ToolChoice::Tool(name) => json!({"type": "tool", "name": name}),
    };

    if one_at_a_time {
        choice["disable_parallel_tool_use"] = true.into();
    }

    Some(choice)
}

/// The way in which the form of the answer is set.
enum AnswerForm {
    /// A field with the parts of the schema that the API supports.
    Schema(Value),
    /// The text of an instruction, for a schema that the API does not support, or a model without
    /// structured output.
    Instruction(String),
}

/// Returns the form of the answer; `None` if it is free. The API has no field for any JSON object.
fn answer_form(request: &ModelRequest, family: Option<&Family>) -> Option<AnswerForm> {
    let schema = match request.response_format.as_ref()? {
        ResponseFormat::JsonObject => {
            return Some(AnswerForm::Instruction(instruction(&any_object())));
        }
        ResponseFormat::JsonSchema { schema, .. } => schema,
    };
    let has_schemas = family.is_none_or(|family| family.has_schemas);
    Some(match understood(schema).filter(|_| has_schemas) {
        Some(schema) => AnswerForm::Schema(schema),
        None => AnswerForm::Instruction(instruction(schema)),
    })
}

/// Adds a block to a system prompt, after what is cached.
fn add_text(system: &mut Vec<u8>, text: &str) -> Result<()> {
    match system.pop() {
        Some(_) => system.push(b','),
        None => system.push(b'['),
    }
    system.extend_from_slice(br#"{"type":"text","text":"#);
    write_text(system, text)?;
    system.extend_from_slice(b"}]");
    Ok(())
}

/// Returns the field with the effort and the output format; `None` without either.
fn output_config(effort: Option<String>, form: Option<AnswerForm>) -> Option<Value> {
    let mut config = Map::new();
    if let Some(effort) = effort {
        config.insert("effort".to_owned(), effort.into());
    }

    if let Some(AnswerForm::Schema(schema)) = form {
        config.insert(
            "format".to_owned(),
            json!({"type": "json_schema", "schema": schema}),
        );
    }

    Some(config)
        .filter(|config| !config.is_empty())
        .map(Value::Object)
}
