//! The setting of a model's thinking.

use serde_json::{Map, Value};

use crate::error::{Error, ErrorKind, Result};
use crate::model::{ModelRequest, ThinkingMode};

use super::super::gemini_family::ThinkingControl;

/// The budgets for efforts, in tokens.
const BUDGETS: &[(&str, i64)] = &[("low", 1_024), ("medium", 8_192), ("high", 24_576)];

/// The lowest budget of a model that always thinks.
const LOWEST: i64 = 128;

/// The budget that lets a model decide.
const AUTOMATIC: i64 = -1;

/// Returns the field `thinkingConfig` of a request to `model`, and a warning if the model thinks
/// more than the request sets.
///
/// # Errors
///
/// Returns [`ErrorKind::Config`] for a mode that the model does not have.
pub(super) fn thinking_config(
    request: &ModelRequest,
    model: &str,
    thinking: ThinkingControl,
) -> Result<(Option<Value>, Option<String>)> {
    let mut config = Map::new();
    let mut warning = None;
    let mode = request.settings.thinking.as_ref();
    match (thinking, mode) {
        (ThinkingControl::None, None | Some(ThinkingMode::Disabled)) => return Ok((None, None)),
        (ThinkingControl::None, Some(_)) => {
            return refusal(format!(
                "the model {model} does not think; remove ModelSettings::thinking"
            ));
        }
        (_, None) => {}
        (ThinkingControl::Budget { is_always_on }, Some(mode)) => {
            let mut budget = budget_of(model, mode)?;
            if is_always_on && budget == 0 {
                budget = LOWEST;
                warning = Some(format!(
                    "the model {model} always thinks; it was set to its lowest budget, {LOWEST}"
                ));
            }
            config.insert("thinkingBudget".to_owned(), budget.into());
        }
        (ThinkingControl::Levels(levels), Some(mode)) => {
            if let Some(level) = level(model, mode, levels)? {
                config.insert("thinkingLevel".to_owned(), level.to_uppercase().into());
                let is_less = mode == &ThinkingMode::Disabled && level != "minimal";
                warning = is_less.then(|| {
                    format!(
                        "the model {model} always thinks; it was set to its lowest level, {level}"
                    )
                });
            }
        }
    }

    let is_shown = request.settings.show_thinking != Some(false);
    let is_off = matches!(mode, Some(ThinkingMode::Disabled | ThinkingMode::Budget(0)));
    if is_shown && !is_off {
        config.insert("includeThoughts".to_owned(), true.into());
    }

    let config = (!config.is_empty()).then_some(Value::Object(config));
    Ok((config, warning))
}

fn budget_of(model: &str, mode: &ThinkingMode) -> Result<i64> {
    match mode {
        ThinkingMode::Disabled => Ok(0),
        ThinkingMode::Budget(tokens) => Ok(i64::from(*tokens)),
        ThinkingMode::Adaptive => Ok(AUTOMATIC),
        ThinkingMode::Effort(effort) => {
            let name = highest_is_high(effort);
            let budget = BUDGETS.iter().find(|(own, _)| *own == name);
            match budget {
                Some((_, budget)) => Ok(*budget),
                None => no_level(model, effort, BUDGETS.iter().map(|(name, _)| *name)),
            }
        }
    }
}

/// Returns the level for a mode; `None` if the model chooses it.
fn level<'a>(
    model: &str,
    mode: &'a ThinkingMode,
    levels: &[&'static str],
) -> Result<Option<&'a str>> {
    match mode {
        ThinkingMode::Adaptive => Ok(None),
        ThinkingMode::Disabled => Ok(levels.first().copied()),
        ThinkingMode::Budget(_) => refusal(format!(
            "the model {model} takes no thinking budget; use ThinkingMode::Effort with one of: {}",
            levels.join(", ")
        )),
        ThinkingMode::Effort(effort) => {
            let name = highest_is_high(effort);
            if levels.contains(&name) {
                Ok(Some(name))
            } else {
                no_level(model, effort, levels.iter().copied())
            }
        }
    }
}

/// Returns the level for an effort: the highest efforts of other providers are `high`.
fn highest_is_high(effort: &str) -> &str {
    match effort {
        "xhigh" | "max" => "high",
        effort => effort,
    }
}

fn no_level<T>(model: &str, effort: &str, levels: impl Iterator<Item = &'static str>) -> Result<T> {
    let levels: Vec<_> = levels.collect();
    refusal(format!(
        "the model {model} has no thinking level {effort:?}; use one of: {}",
        levels.join(", ")
    ))
}

fn refusal<T>(text: String) -> Result<T> {
    Err(Error::new(ErrorKind::Config, text))
}
