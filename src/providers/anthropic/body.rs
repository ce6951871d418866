//! A request's body.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::error::Result;
use crate::model::{ModelProfile, ModelRequest, ResponseFormat, ThinkingMode, ToolChoice};

use super::super::encode::{Sections, encode};
use super::super::json::write;
use super::wire::MessagesWire;

/// The least the API takes as a thinking budget.
const LEAST_BUDGET: u32 = 1_024;

/// The body for `request` to `model`.
pub(super) fn body(request: &ModelRequest, model: &str, profile: &ModelProfile) -> Result<Bytes> {
    let wire = MessagesWire {
        cache: request.settings.prompt_cache != Some(false),
    };
    let fields = fields(request, model, profile);
    let (body, _) = encode(&wire, request, |sections| {
        assemble(sections, &fields, request)
    })?;
    Ok(body)
}

/// Tools, system prompt and messages stand first and in the order the prompt cache sees them; what
/// `extra` names replaces the field of that name.
fn assemble(
    sections: &Sections<'_>,
    fields: &Map<String, Value>,
    request: &ModelRequest,
) -> Result<Vec<u8>> {
    let wanted = |name: &str| !request.extra.contains_key(name);
    let mut out = Vec::with_capacity(sections.len() + 1024);
    out.push(b'{');
    if !sections.tools.is_empty() && wanted("tools") {
        out.extend_from_slice(br#""tools":"#);
        out.extend_from_slice(sections.tools);
        out.push(b',');
    }
    if !sections.system.is_empty() && wanted("system") {
        out.extend_from_slice(br#""system":"#);
        out.extend_from_slice(sections.system);
        out.push(b',');
    }
    if wanted("messages") {
        out.extend_from_slice(br#""messages":["#);
        sections.write_messages(&mut out);
        out.extend_from_slice(b"],");
    }
    let mut rest = Vec::new();
    write(&mut rest, fields)?;
    // The fields' own opening brace: the object is open already.
    out.extend_from_slice(&rest[1..]);
    Ok(out)
}

/// Every field but the three large ones.
fn fields(request: &ModelRequest, model: &str, profile: &ModelProfile) -> Map<String, Value> {
    let settings = &request.settings;
    let mut fields = Map::new();
    let mut set = |name: &str, value: Value| {
        fields.insert(name.to_owned(), value);
    };
    let max_tokens = request.max_tokens.unwrap_or(profile.max_output_tokens);
    let forced = matches!(
        request.tool_choice,
        ToolChoice::Required | ToolChoice::Tool(_)
    );
    // The API refuses thinking together with a forced tool.
    let thinking = settings.thinking.as_ref().filter(|_| !forced);
    let mut thinks = false;
    match thinking {
        Some(ThinkingMode::Budget(budget)) => {
            if let Some(budget) = thinking_budget(*budget, max_tokens) {
                set(
                    "thinking",
                    json!({"type": "enabled", "budget_tokens": budget}),
                );
                thinks = true;
            }
        }
        Some(ThinkingMode::Adaptive) => {
            set("thinking", json!({"type": "adaptive"}));
            thinks = true;
        }
        Some(ThinkingMode::Disabled) => set("thinking", json!({"type": "disabled"})),
        Some(ThinkingMode::Effort(_)) | None => {}
    }
    set("model", model.into());
    set("max_tokens", max_tokens.into());
    set("stream", true.into());
    // While the model thinks the API takes neither, and `top_p` only near 1.
    if let Some(temperature) = request.temperature.filter(|_| !thinks) {
        set("temperature", temperature.into());
    }
    if let Some(top_k) = settings.top_k.filter(|_| !thinks) {
        set("top_k", top_k.into());
    }
    if let Some(top_p) = settings.top_p.filter(|top_p| !thinks || *top_p >= 0.95) {
        set("top_p", top_p.into());
    }
    if !request.stop.is_empty() {
        set("stop_sequences", json!(&*request.stop));
    }
    if let Some(choice) = tool_choice(request) {
        set("tool_choice", choice);
    }
    if let Some(config) = output_config(request) {
        set("output_config", config);
    }
    fields.extend(request.extra.clone());
    fields
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

/// Effort and output format. "Any JSON object" has no counterpart and is left out.
fn output_config(request: &ModelRequest) -> Option<Value> {
    let mut config = Map::new();
    if let Some(ThinkingMode::Effort(effort)) = &request.settings.thinking {
        config.insert("effort".to_owned(), json!(effort));
    }
    if let Some(ResponseFormat::JsonSchema { schema, .. }) = &request.response_format {
        config.insert(
            "format".to_owned(),
            json!({"type": "json_schema", "schema": schema}),
        );
    }
    Some(config)
        .filter(|config| !config.is_empty())
        .map(Value::Object)
}
