//! A request's body.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use crate::error::Result;
use crate::model::{ModelProfile, ModelRequest, ResponseFormat, ThinkingMode, ToolChoice};

use super::super::encode::{Encoded, encode};
use super::super::fields::Fields;
use super::super::json::write_text;
use super::super::media::check;
use super::super::schema::claude::understood;
use super::super::schema::instruction;
use super::wire::{MessagesWire, takes};

/// The least the API takes as a thinking budget.
const LEAST_BUDGET: u32 = 1_024;

/// The body for `request` to `model`. Tools, system prompt and messages stand in the order the
/// prompt cache sees them.
pub(super) fn body(request: &ModelRequest, model: &str, profile: &ModelProfile) -> Result<Encoded> {
    let wire = MessagesWire {
        cache: request.settings.prompt_cache != Some(false),
    };

    check(request, profile, "the Messages API", takes)?;
    let form = form(request);
    encode(&wire, request, &request.extra, |fields, sections| {
        small_fields(fields, request, model, profile)?;
        if !sections.tools.is_empty() {
            fields.raw("tools", sections.tools)?;
        }

        match &form {
            Some(Form::Told(text)) => {
                let mut system = sections.system.to_vec();
                add_text(&mut system, text)?;
                fields.raw("system", &system)?;
            }
            _ if sections.system.is_empty() => {}
            _ => fields.raw("system", sections.system)?,
        }

        fields.option("output_config", output_config(request, form))?;
        Ok(Cow::default())
    })
}

/// Every field but the three large ones.
fn small_fields(
    fields: &mut Fields<'_>,
    request: &ModelRequest,
    model: &str,
    profile: &ModelProfile,
) -> Result<()> {
    let settings = &request.settings;
    let max_tokens = request
        .max_output_tokens
        .unwrap_or(profile.max_output_tokens);
    let forced = matches!(
        request.tool_choice,
        ToolChoice::Required | ToolChoice::Tool(_)
    );

    // The API refuses thinking together with a forced tool.
    let thinking = settings.thinking.as_ref().filter(|_| !forced);
    let mut thinks = false;
    let thinking = match thinking {
        Some(ThinkingMode::Budget(budget)) => {
            let budget = thinking_budget(*budget, max_tokens);
            thinks = budget.is_some();
            budget.map(|budget| json!({"type": "enabled", "budget_tokens": budget}))
        }
        Some(ThinkingMode::Adaptive) => {
            thinks = true;
            Some(json!({"type": "adaptive"}))
        }
        Some(ThinkingMode::Disabled) => Some(json!({"type": "disabled"})),
        Some(ThinkingMode::Effort(_)) | None => None,
    };

    fields.put("model", model)?;
    fields.put("max_tokens", &max_tokens)?;
    fields.put("stream", &true)?;
    fields.option("thinking", thinking)?;

    // While the model thinks the API takes neither, and `top_p` only near 1.
    fields.option("temperature", request.temperature.filter(|_| !thinks))?;
    fields.option("top_k", settings.top_k.filter(|_| !thinks))?;
    let top_p = settings.top_p.filter(|top_p| !thinks || *top_p >= 0.95);
    fields.option("top_p", top_p)?;
    if !request.stop.is_empty() {
        fields.put("stop_sequences", &*request.stop)?;
    }

    fields.option("tool_choice", tool_choice(request))
}

/// What the model may spend on thinking, of the tokens that thinking and answer have together: what
/// was asked for, or half of them if that would leave nothing for the answer. `None` when there is
/// no room to think.
fn thinking_budget(asked: u32, max_tokens: u32) -> Option<u32> {
    let asked = asked.max(LEAST_BUDGET);
    let budget = if asked < max_tokens {
        asked
    } else {
        max_tokens / 2
    };
    (budget >= LEAST_BUDGET).then_some(budget)
}

fn tool_choice(request: &ModelRequest) -> Option<Value> {
    if request.tools.is_empty() {
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

/// How the model is brought to an answer that matches a schema.
enum Form {
    /// By the API, with what it understands of the schema.
    Held(Value),
    /// By words, for a schema it does not understand.
    Told(String),
}

/// "Any JSON object" has no counterpart and is left out.
fn form(request: &ModelRequest) -> Option<Form> {
    let Some(ResponseFormat::JsonSchema { schema, .. }) = &request.response_format else {
        return None;
    };
    Some(match understood(schema) {
        Some(schema) => Form::Held(schema),
        None => Form::Told(instruction(schema)),
    })
}

/// Adds a block to a system prompt, behind what is cached.
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

/// Effort and output format.
fn output_config(request: &ModelRequest, form: Option<Form>) -> Option<Value> {
    let mut config = Map::new();
    if let Some(ThinkingMode::Effort(effort)) = &request.settings.thinking {
        config.insert("effort".to_owned(), json!(effort));
    }

    if let Some(Form::Held(schema)) = form {
        config.insert(
            "format".to_owned(),
            json!({"type": "json_schema", "schema": schema}),
        );
    }

    Some(config)
        .filter(|config| !config.is_empty())
        .map(Value::Object)
}
