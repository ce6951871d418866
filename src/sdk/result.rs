//! The end of a run.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::envelope::Envelope;
use super::fields::{Fields, read, words};
use crate::usage::{Usage, count, maybe_count};

words! {
    /// The outcome of a run, in the classes of the wire.
    ResultSubtype {
        /// The run ended without an error, also with calls that wait for approval, a response that
        /// was truncated, or the stop of a hook.
        Success = "success",
        /// The run failed, was interrupted, or was stopped.
        ErrorDuringExecution = "error_during_execution",
        /// The run used up its turns.
        ErrorMaxTurns = "error_max_turns",
        /// The run used up its budget.
        ErrorMaxBudgetUsd = "error_max_budget_usd",
        /// Structured output never matched its schema.
        ErrorMaxStructuredOutputRetries = "error_max_structured_output_retries",
    }
}

impl ResultSubtype {
    /// Returns `true` for [`Success`](Self::Success).
    pub(crate) fn is_success(&self) -> bool {
        *self == Self::Success
    }
}

/// The end of a run. Type `result`; the last message, and the only one of its type.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ResultMessage {
    /// The common fields of every message.
    pub envelope: Envelope,
    /// The outcome of the run.
    pub subtype: ResultSubtype,
    /// The duration, in milliseconds.
    pub duration_ms: u64,
    /// The time spent waiting for the model, in milliseconds.
    pub duration_api_ms: u64,
    /// True if it did not succeed.
    pub is_error: bool,
    /// The number of turns that were begun. A turn that was repeated counts once.
    pub num_turns: u32,
    /// The text of the last response. Empty if that has no text.
    pub result: Option<String>,
    /// The reasons why the run did not succeed.
    pub errors: Vec<String>,
    /// The model's last stop reason.
    pub stop_reason: Option<Arc<str>>,
    /// The cost of the run in US dollars, subagents included; from other emitters, the cost of the
    /// session so far. `None` when some price is unknown: the wire form is then 0, with a model
    /// whose `costBasis` is `unknown`.
    pub total_cost_usd: Option<f64>,
    /// The tokens of this run, without subagents.
    pub usage: Usage,
    /// Tokens and costs of this run by model, subagents included. Other emitters report the tokens
    /// and costs of the session so far.
    pub model_usage: BTreeMap<Arc<str>, ModelUsage>,
    /// The calls that were not allowed.
    pub permission_denials: Vec<PermissionDenial>,
    /// The response in the form that was asked for.
    pub structured_output: Option<Value>,
    /// The reason the run ended, in more detail than `subtype`: `completed`, `max_turns`, ...
    pub terminal_reason: Option<Arc<str>>,
    /// The time to the first token, in milliseconds.
    pub ttft_ms: Option<u64>,
}

/// A call that was not allowed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PermissionDenial {
    /// The tool's name.
    pub tool_name: Arc<str>,
    /// The call's id.
    pub tool_use_id: Arc<str>,
    /// The arguments.
    pub tool_input: Arc<Value>,
}

impl PermissionDenial {
    /// Creates a denied call.
    pub fn new(
        tool_name: impl Into<Arc<str>>,
        tool_use_id: impl Into<Arc<str>>,
        tool_input: impl Into<Arc<Value>>,
    ) -> Self {
        Self {
            tool_name: tool_name.into(),
            tool_use_id: tool_use_id.into(),
            tool_input: tool_input.into(),
        }
    }
}

/// The usage of one model. In camel case on the wire.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "ModelWire", into = "ModelWire")]
#[non_exhaustive]
pub struct ModelUsage {
    /// Prompt tokens outside the cache.
    pub input_tokens: u64,
    /// Generated tokens.
    pub output_tokens: u64,
    /// Prompt tokens read from the cache.
    pub cache_read_input_tokens: u64,
    /// Prompt tokens written to the cache.
    pub cache_creation_input_tokens: u64,
    /// Searches the provider made.
    pub web_search_requests: u64,
    /// The cost in US dollars; `None` when the price is not known.
    pub cost_usd: Option<f64>,
    /// The maximum number of tokens of prompt and response together.
    pub context_window: u64,
    /// The maximum number of tokens of a response.
    pub max_output_tokens: u64,
    /// Fields this crate does not interpret.
    pub extra: Map<String, Value>,
}

impl ModelUsage {
    /// Creates the usage with the tokens of `usage` and their cost.
    pub fn new(usage: Usage, cost_usd: Option<f64>) -> Self {
        Self {
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            cache_read_input_tokens: usage.cache_read_tokens,
            cache_creation_input_tokens: usage.cache_write_tokens,
            web_search_requests: usage.server_tool_requests,
            cost_usd,
            ..Self::default()
        }
    }

    /// Sets the limits of the model, in tokens.
    #[must_use]
    pub fn with_limits(mut self, context_window: u64, max_output_tokens: u64) -> Self {
        self.context_window = context_window;
        self.max_output_tokens = max_output_tokens;
        self
    }

    /// Adds the tokens and the cost of another run; the limits stay.
    pub(crate) fn add(&mut self, other: &Self) {
        let add = |count: &mut u64, other: u64| *count = count.saturating_add(other);
        add(&mut self.input_tokens, other.input_tokens);
        add(&mut self.output_tokens, other.output_tokens);
        add(
            &mut self.cache_read_input_tokens,
            other.cache_read_input_tokens,
        );
        add(
            &mut self.cache_creation_input_tokens,
            other.cache_creation_input_tokens,
        );
        add(&mut self.web_search_requests, other.web_search_requests);
        let costs = self.cost_usd.zip(other.cost_usd);
        self.cost_usd = costs.map(|(cost, other)| cost + other);
    }
}

/// The `costBasis` of a cost that is not known.
const UNKNOWN: &str = "unknown";

#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ModelWire {
    #[serde(deserialize_with = "count")]
    input_tokens: u64,
    #[serde(deserialize_with = "count")]
    output_tokens: u64,
    #[serde(deserialize_with = "count")]
    cache_read_input_tokens: u64,
    #[serde(deserialize_with = "count")]
    cache_creation_input_tokens: u64,
    #[serde(deserialize_with = "count")]
    web_search_requests: u64,
    #[serde(rename = "costUSD")]
    cost_usd: f64,
    #[serde(deserialize_with = "count")]
    context_window: u64,
    #[serde(deserialize_with = "count")]
    max_output_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost_basis: Option<String>,
    #[serde(flatten)]
    extra: Map<String, Value>,
}

impl From<ModelWire> for ModelUsage {
    fn from(mut wire: ModelWire) -> Self {
        let is_known = wire.cost_basis.as_deref() != Some(UNKNOWN) || wire.cost_usd != 0.0;
        if let Some(basis) = wire.cost_basis.filter(|_| is_known) {
            wire.extra.insert("costBasis".into(), basis.into());
        }

        Self {
            input_tokens: wire.input_tokens,
            output_tokens: wire.output_tokens,
            cache_read_input_tokens: wire.cache_read_input_tokens,
            cache_creation_input_tokens: wire.cache_creation_input_tokens,
            web_search_requests: wire.web_search_requests,
            cost_usd: is_known.then_some(wire.cost_usd),
            context_window: wire.context_window,
            max_output_tokens: wire.max_output_tokens,
            extra: wire.extra,
        }
    }
}

impl From<ModelUsage> for ModelWire {
    fn from(usage: ModelUsage) -> Self {
        Self {
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            cache_read_input_tokens: usage.cache_read_input_tokens,
            cache_creation_input_tokens: usage.cache_creation_input_tokens,
            web_search_requests: usage.web_search_requests,
            cost_usd: usage.cost_usd.unwrap_or_default(),
            context_window: usage.context_window,
            max_output_tokens: usage.max_output_tokens,
            cost_basis: usage.cost_usd.is_none().then(|| UNKNOWN.into()),
            extra: usage.extra,
        }
    }
}

#[derive(Deserialize)]
struct Wire {
    subtype: ResultSubtype,
    #[serde(default, deserialize_with = "count")]
    duration_ms: u64,
    #[serde(default, deserialize_with = "count")]
    duration_api_ms: u64,
    #[serde(default)]
    is_error: bool,
    #[serde(default)]
    num_turns: u32,
    result: Option<String>,
    errors: Option<Vec<String>>,
    stop_reason: Option<Arc<str>>,
    total_cost_usd: Option<f64>,
    usage: Option<Usage>,
    #[serde(rename = "modelUsage")]
    model_usage: Option<BTreeMap<Arc<str>, ModelUsage>>,
    permission_denials: Option<Vec<PermissionDenial>>,
    structured_output: Option<Value>,
    terminal_reason: Option<Arc<str>>,
    #[serde(default, deserialize_with = "maybe_count")]
    ttft_ms: Option<u64>,
}

impl ResultMessage {
    /// Creates the result of a run without usage and output. Sets `is_error` unless `subtype` is
    /// [`Success`](ResultSubtype::Success).
    pub fn new(envelope: Envelope, subtype: ResultSubtype) -> Self {
        Self {
            envelope,
            is_error: !subtype.is_success(),
            subtype,
            duration_ms: 0,
            duration_api_ms: 0,
            num_turns: 0,
            result: None,
            errors: Vec::new(),
            stop_reason: None,
            total_cost_usd: None,
            usage: Usage::default(),
            model_usage: BTreeMap::new(),
            permission_denials: Vec::new(),
            structured_output: None,
            terminal_reason: None,
            ttft_ms: None,
        }
    }

    /// Returns `true` if the run ended because calls wait for a decision.
    pub(crate) fn has_pending_calls(&self) -> bool {
        self.terminal_reason.as_deref() == Some("tool_deferred")
    }

    /// Returns `true` if the run was interrupted or aborted.
    pub(crate) fn is_aborted(&self) -> bool {
        let reason = self.terminal_reason.as_deref();
        reason.is_some_and(|reason| reason.starts_with("aborted"))
    }

    pub(super) fn read(text: &str) -> serde_json::Result<Self> {
        let wire: Wire = read(text)?;
        let model_usage = wire.model_usage.unwrap_or_default();
        let is_unknown = model_usage.values().any(|one| one.cost_usd.is_none());
        Ok(Self {
            envelope: read(text)?,
            subtype: wire.subtype,
            duration_ms: wire.duration_ms,
            duration_api_ms: wire.duration_api_ms,
            is_error: wire.is_error,
            num_turns: wire.num_turns,
            result: wire.result,
            errors: wire.errors.unwrap_or_default(),
            stop_reason: wire.stop_reason,
            total_cost_usd: wire
                .total_cost_usd
                .filter(|cost| *cost != 0.0 || !is_unknown),
            usage: wire.usage.unwrap_or_default(),
            model_usage,
            permission_denials: wire.permission_denials.unwrap_or_default(),
            structured_output: wire.structured_output,
            terminal_reason: wire.terminal_reason,
            ttft_ms: wire.ttft_ms,
        })
    }

    /// Removes the unknown fields in which other emitters report measurements of themselves, so
    /// that they are not emitted again.
    pub(super) fn remove_emitter_fields(&mut self) {
        const KEYS: [&str; 5] = [
            "request_sent_wall_ms",
            "first_content_frame_ms",
            "time_to_request_from_spawn_ms",
            "warm_spare_claimed",
            "time_origin_ms",
        ];
        self.envelope.extra.retain(|key, _| {
            let is_post =
                key.starts_with("first_stream_post_") || key.starts_with("first_text_post_");
            !is_post && !KEYS.contains(&key.as_str())
        });
    }

    pub(super) fn write<M: SerializeMap>(&self, to: &mut Fields<'_, M>) -> Result<(), M::Error> {
        to.put("type", "result")?;
        to.put("subtype", &self.subtype)?;
        to.put("duration_ms", &self.duration_ms)?;
        to.put("duration_api_ms", &self.duration_api_ms)?;
        to.put("is_error", &self.is_error)?;
        to.put("num_turns", &self.num_turns)?;
        if self.subtype.is_success() {
            to.put("result", self.result.as_deref().unwrap_or_default())?;
            to.list("errors", &self.errors)?;
        } else {
            to.maybe("result", &self.result)?;
            to.put("errors", &self.errors)?;
        }

        to.put("stop_reason", &self.stop_reason)?;
        to.put("total_cost_usd", &self.total_cost_usd.unwrap_or_default())?;
        to.put("usage", &self.usage)?;
        to.put("modelUsage", &self.model_usage)?;
        to.put("permission_denials", &self.permission_denials)?;
        to.maybe("structured_output", &self.structured_output)?;
        to.maybe("terminal_reason", &self.terminal_reason)?;
        to.maybe("ttft_ms", &self.ttft_ms)?;
        self.envelope.write(to, false)
    }
}
