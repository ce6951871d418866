//! The field that switches thinking.

use serde_json::{Value, json};

use crate::error::Result;
use crate::model::{ModelRequest, ThinkingMode};

use super::family::{Family, requested_effort, sent_effort, unknown_effort};
use super::rules::{Rules, ThinkingField};

/// Returns the name of the field and its value; `None` where the request sets nothing that the API
/// has.
///
/// # Errors
///
/// Returns [`Config`](crate::ErrorKind::Config) for an effort that the model does not have.
pub(super) fn thinking_field(
    request: &ModelRequest,
    model: &str,
    rules: &Rules,
    family: Option<&Family>,
) -> Result<Option<(&'static str, Value)>> {
    let is_disabled = request.settings.thinking == Some(ThinkingMode::Disabled);
    let effort_field = |effort: &str| Some(("reasoning_effort", json!(effort)));
    Ok(match rules.thinking {
        // Compatible servers have no effort for a disabled mode.
        ThinkingField::OpenAi => sent_effort(request, family)
            .filter(|_| family.is_some() || !is_disabled)
            .and_then(effort_field),
        ThinkingField::Efforts(table) => {
            let entry = table.iter().find(|(prefix, _)| model.starts_with(prefix));
            let effort = match (entry, requested_effort(request)) {
                (_, None) => None,
                (Some((_, efforts)), Some(effort)) => {
                    listed_effort(effort, efforts, model, is_disabled)?
                }
                (None, effort) => effort.filter(|_| !is_disabled),
            };
            effort.and_then(effort_field)
        }
        ThinkingField::Template => match (&request.settings.thinking, requested_effort(request)) {
            (Some(ThinkingMode::Adaptive), _) => template_switch(true),
            (_, Some("none")) => template_switch(false),
            (_, effort) => effort.and_then(effort_field),
        },
        ThinkingField::DeepSeek => match requested_effort(request) {
            None => None,
            Some("none") => Some(("thinking", json!({"type": "disabled"}))),
            Some(effort) => effort_field(deepseek_effort(effort, model)?),
        },
        ThinkingField::OpenRouter => {
            let mode = request.settings.thinking.as_ref();
            mode.map(|mode| ("reasoning", openrouter_switch(mode)))
        }
    })
}

/// Returns the effort of a model that has these efforts. If thinking is disabled and the model does
/// not have `effort`, this is its lowest effort, if there is one.
fn listed_effort<'a>(
    effort: &'a str,
    efforts: &[&'a str],
    model: &str,
    is_disabled: bool,
) -> Result<Option<&'a str>> {
    if efforts.contains(&effort) {
        Ok(Some(effort))
    } else if is_disabled {
        Ok(efforts.first().copied())
    } else {
        Err(unknown_effort(model, effort, efforts))
    }
}

/// Returns DeepSeek's word for an effort other than `none`.
fn deepseek_effort(effort: &str, model: &str) -> Result<&'static str> {
    match effort {
        "minimal" | "low" => Ok("low"),
        "medium" | "high" | "xhigh" => Ok("high"),
        "max" => Ok("max"),
        _ => Err(unknown_effort(
            model,
            effort,
            &["none", "low", "high", "max"],
        )),
    }
}

/// Returns the object that switches thinking at OpenRouter.
fn openrouter_switch(mode: &ThinkingMode) -> Value {
    match mode {
        ThinkingMode::Disabled => json!({"enabled": false}),
        ThinkingMode::Adaptive => json!({"enabled": true}),
        ThinkingMode::Budget(tokens) => json!({"max_tokens": tokens}),
        ThinkingMode::Effort(effort) if &**effort == "none" => json!({"enabled": false}),
        ThinkingMode::Effort(effort) => json!({"effort": &**effort}),
    }
}

/// Returns the switch that templates with a thinking mode read.
fn template_switch(thinks: bool) -> Option<(&'static str, Value)> {
    Some(("chat_template_kwargs", json!({"enable_thinking": thinks})))
}

/// Returns `true` if the model of a DeepSeek server thinks, which is the default.
pub(super) fn is_thinking(request: &ModelRequest) -> bool {
    let switch = request
        .extra
        .get("thinking")
        .and_then(|own| own.get("type"));
    match switch.and_then(Value::as_str) {
        Some(switch) => switch != "disabled",
        None => requested_effort(request) != Some("none"),
    }
}
