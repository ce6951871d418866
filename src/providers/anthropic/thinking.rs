//! The thinking of a request, in the form that the model takes.

use serde_json::{Value, json};

use crate::error::{Error, ErrorKind, Result};
use crate::message::{Part, Role};
use crate::model::{ModelRequest, ThinkingMode};

use super::PROVIDER;
use super::family::{Family, ForcedTools, Off};

/// The minimum thinking budget that the API accepts, in tokens.
const MIN_BUDGET: u32 = 1_024;

/// The fields of a request that concern thinking.
#[derive(Default)]
pub(super) struct ThinkingFields {
    /// The field `thinking`.
    pub(super) field: Option<Value>,
    /// `effort` in the field `output_config`.
    pub(super) effort: Option<String>,
    /// True if the request turns thinking on.
    pub(super) is_on: bool,
}

/// Returns the thinking of `request` to `model`. The answer has at most `max_tokens`; with
/// `is_forced`, it must call a tool. A model without a family is on a compatible server: its
/// settings are not checked, and a forced tool turns a budget and adaptive thinking off.
///
/// # Errors
///
/// Returns [`ErrorKind::Config`] for a mode, an effort or a forced tool that the model refuses.
pub(super) fn thinking_fields(
    request: &ModelRequest,
    model: &str,
    family: Option<&Family>,
    max_tokens: u32,
    is_forced: bool,
) -> Result<ThinkingFields> {
    if is_forced && family.is_some_and(|family| family.forced_tools == ForcedTools::None) {
        let text = "cannot be forced to call a tool; use `ToolChoice::Auto` and ask for the call \
                    in the prompt";
        return Err(refused(model, text));
    }

    let Some(mode) = &request.settings.thinking else {
        return Ok(default_thinking(request, family));
    };

    match mode {
        ThinkingMode::Disabled => disabled(model, family),
        ThinkingMode::Adaptive if family.is_some_and(|family| !family.adapts) => Err(refused(
            model,
            "does not choose itself how much it thinks; use `ThinkingMode::Budget`",
        )),
        ThinkingMode::Adaptive if family.is_none() && is_forced => Ok(ThinkingFields::default()),
        ThinkingMode::Adaptive => Ok(ThinkingFields {
            field: Some(adaptive(request, family)),
            is_on: true,
            ..ThinkingFields::default()
        }),
        ThinkingMode::Effort(effort) => {
            check_effort(effort, model, family)?;
            let adapting = family.filter(|family| family.adapts);
            Ok(ThinkingFields {
                field: adapting.map(|family| adaptive(request, Some(family))),
                effort: Some(effort.to_string()),
                is_on: adapting.is_some(),
            })
        }
        ThinkingMode::Budget(_) if family.is_some_and(|family| !family.has_budget) => Err(refused(
            model,
            "takes no thinking budget; use `ThinkingMode::Effort` or `ThinkingMode::Adaptive`",
        )),
        // With a forced tool the API refuses the budget.
        ThinkingMode::Budget(_) if is_forced => Ok(ThinkingFields::default()),
        ThinkingMode::Budget(tokens) => Ok(budget(*tokens, request, family, max_tokens)),
    }
}

/// Returns the fields of thinking with a budget. Returns none after calls that were made without
/// thinking, because the API refuses a budget there.
fn budget(
    tokens: u32,
    request: &ModelRequest,
    family: Option<&Family>,
    max_tokens: u32,
) -> ThinkingFields {
    if family.is_some() && is_in_round_without_thinking(request) {
        return ThinkingFields::default();
    }

    let field = thinking_budget(tokens, max_tokens).map(|tokens| {
        let field = json!({"type": "enabled", "budget_tokens": tokens});
        with_display(field, request, family)
    });
    ThinkingFields {
        is_on: field.is_some(),
        field,
        ..ThinkingFields::default()
    }
}

/// Returns `true` if the request ends with the results of calls, and the first answer of this round
/// of calls does not begin with thinking of this API. Later answers of a round need none.
fn is_in_round_without_thinking(request: &ModelRequest) -> bool {
    let messages = request.messages.as_slice();
    // An answer may have several messages. Answers and the messages between them alternate.
    let mut groups = messages
        .chunk_by(|a, b| (a.role() == Role::Assistant) == (b.role() == Role::Assistant))
        .rev();
    let mut opening = None;
    while let (Some(others), Some(answer)) = (groups.next(), groups.next()) {
        if !others.iter().any(|message| message.role() == Role::Tool) {
            break;
        }
        opening = answer.first();
    }

    opening.is_some_and(|answer| {
        let mut parts = answer.content().parts().iter();
        let first = parts.find(|part| match part {
            Part::Thinking(block) | Part::Opaque(block) => block.is_for(PROVIDER),
            Part::Text(_) | Part::ToolCall(_) => true,
            _ => false,
        });
        !matches!(first, Some(Part::Thinking(_)))
    })
}

/// Returns the thinking of a request without a mode. A model that thinks by default omits the text
/// of its thoughts unless it is requested.
fn default_thinking(request: &ModelRequest, family: Option<&Family>) -> ThinkingFields {
    let family = family.filter(|family| family.thinks_by_default && is_shown(request));
    ThinkingFields {
        field: family.map(|family| adaptive(request, Some(family))),
        ..ThinkingFields::default()
    }
}

fn disabled(model: &str, family: Option<&Family>) -> Result<ThinkingFields> {
    let kind = match family.map_or(Off::Disabled, |family| family.off) {
        Off::Disabled => "disabled",
        Off::BetweenTools => "between_tools",
        Off::Never => {
            let text = "always thinks; remove `ThinkingMode::Disabled`, or use a low \
                        `ThinkingMode::Effort`";
            return Err(refused(model, text));
        }
    };
    Ok(ThinkingFields {
        field: Some(json!({"type": kind})),
        ..ThinkingFields::default()
    })
}

fn check_effort(effort: &str, model: &str, family: Option<&Family>) -> Result<()> {
    match family {
        Some(family) if family.efforts.is_empty() => Err(refused(
            model,
            "takes no effort; use `ThinkingMode::Budget`",
        )),
        Some(family) if !family.efforts.contains(&effort) => {
            let efforts = family.efforts.join(", ");
            let text = format!("does not take the effort {effort:?}; it takes {efforts}");
            Err(refused(model, &text))
        }
        _ => Ok(()),
    }
}

fn adaptive(request: &ModelRequest, family: Option<&Family>) -> Value {
    with_display(json!({"type": "adaptive"}), request, family)
}

fn with_display(mut field: Value, request: &ModelRequest, family: Option<&Family>) -> Value {
    if let Some(display) = family.and_then(|family| display(request, family)) {
        field["display"] = display.into();
    }
    field
}

/// Returns the form of the thoughts in the answer, where it is not the model's default.
fn display(request: &ModelRequest, family: &Family) -> Option<&'static str> {
    match (is_shown(request), family.hides_thoughts) {
        (true, true) => Some("summarized"),
        (false, false) => Some("omitted"),
        _ => None,
    }
}

fn is_shown(request: &ModelRequest) -> bool {
    request.settings.show_thinking != Some(false)
}

/// Returns the tokens that the model may spend on thinking, from the `max_tokens` of thinking and
/// answer together: the requested number, or half of `max_tokens` if the requested number would
/// leave nothing for the answer. Returns `None` if there is no room to think.
fn thinking_budget(requested: u32, max_tokens: u32) -> Option<u32> {
    let requested = requested.max(MIN_BUDGET);
    let budget = if requested < max_tokens {
        requested
    } else {
        max_tokens / 2
    };
    (budget >= MIN_BUDGET).then_some(budget)
}

fn refused(model: &str, text: &str) -> Error {
    Error::new(ErrorKind::Config, format!("{model} {text}"))
}
