//! The field that switches thinking.

use serde_json::{Value, json};

use crate::error::Result;
use crate::model::{ModelRequest, ThinkingMode};

use super::family::{Family, effort, sent_effort, unknown_effort};
use super::rules::{Rules, ThinkingField};

/// Returns the name of the field and its value; `None` where the request sets nothing that the API
/// has.
///
/// # Errors
///
/// Returns [`Config`](crate::ErrorKind::Config) for an effort that the model does not have.
pub(super) fn thinking(
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
            match (entry, effort(request)) {
                (_, None) => None,
                (Some((_, efforts)), Some(effort)) if efforts.contains(&effort) => {
                    effort_field(effort)
                }
                (Some((_, efforts)), _) if is_disabled => {
                    efforts.first().copied().and_then(effort_field)
                }
                (Some((_, efforts)), Some(effort)) => {
                    return Err(unknown_effort(model, effort, efforts));
                }
                (None, Some(effort)) => effort_field(effort).filter(|_| !is_disabled),
            }
        }
        ThinkingField::Template => match (&request.settings.thinking, effort(request)) {
            (Some(ThinkingMode::Adaptive), _) => template_switch(true),
            (_, Some("none")) => template_switch(false),
            (_, effort) => effort.and_then(effort_field),
        },
        ThinkingField::DeepSeek => match effort(request) {
            None => None,
            Some("none") => Some(("thinking", json!({"type": "disabled"}))),
            Some("minimal" | "low") => effort_field("low"),
            Some("medium" | "high" | "xhigh") => effort_field("high"),
            Some("max") => effort_field("max"),
            Some(effort) => {
                return Err(unknown_effort(
                    model,
                    effort,
                    &["none", "low", "high", "max"],
                ));
            }
        },
        ThinkingField::OpenRouter => {
            let mode = request.settings.thinking.as_ref();
            mode.map(|mode| ("reasoning", openrouter_switch(mode)))
        }
    })
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
        None => effort(request) != Some("none"),
    }
}
