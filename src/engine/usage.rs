//! The recording of a model call's usage.

use crate::message::{AssistantMessage, EstimateCounter, Message, TokenCounter, ToolCall};
use crate::model::{Model, ModelCard, ModelRequest, ModelResponse};
use crate::run::{ModelStats, Reservation, RunContext};
use crate::usage::Usage;
use crate::util::json::json_len;
use crate::util::panic;
use crate::util::sync::lock;

/// Records the usage of one call of the model `card` in the budgets and statistics of the run and
/// of its ancestors. Every path records its usage here, including calls that failed or were
/// interrupted.
fn record_usage(cx: &RunContext, card: &ModelCard, usage: Usage) {
    let profile = card.profile;

    // A limit would never be reached if a cost were NaN.
    let is_amount = |cost: &f64| cost.is_finite() && *cost >= 0.0;
    let cost = profile.cost(&usage).filter(is_amount);
    cx.budget().spend(usage, cost);
    let call_stats = ModelStats {
        usage,
        cost_usd: cost,
        context_window: profile.context_window,
        max_output_tokens: u64::from(profile.max_output_tokens),
    };

    for ancestor in std::iter::successors(cx.parent_run(), |run| run.parent_run()) {
        let mut models = lock(&ancestor.shared().child_models);
        call_stats.clone().add_to(&mut models, &card.id);
    }

    let mut stats = lock(&cx.shared().stats);
    stats.usage += usage;
    call_stats.add_to(&mut stats.by_model, &card.id);
}

/// One attempt of a model call.
#[derive(Clone, Copy)]
pub(super) struct ModelAttempt<'a> {
    pub(super) cx: &'a RunContext,
    /// The requested model, which may not be the one that answers.
    pub(super) model: &'a dyn Model,
    pub(super) request: &'a ModelRequest,
    /// It has the estimated length of the prompt if there is a limit.
    pub(super) reservation: &'a Reservation,
}

impl ModelAttempt<'_> {
    /// Records the usage of a response for the model that answered. If the provider reported no
    /// usage and there is a limit, the usage is estimated, so that the limit stays effective.
    pub(super) fn record_response_usage(self, response: &mut ModelResponse) {
        let usage = match self.reservation.input_tokens {
            Some(input) if response.usage.is_zero() => Usage::new(
                input,
                estimate_output_tokens(&**self.cx.token_counter(), response, 0),
            ),
            _ => response.usage,
        };
        self.record_usage_as(response, usage);
    }

    /// Records the usage of a partial response. Most providers report usage at the end of the
    /// stream, so it is estimated here. `unfinished` is the number of bytes of thinking and of
    /// calls received that are not in `response`. Returns `false` if nothing was used.
    pub(super) fn record_partial_usage(
        self,
        response: &mut ModelResponse,
        unfinished: usize,
    ) -> bool {
        let mut usage = response.usage;
        if let Some(input) = self.reservation.input_tokens {
            if usage.is_zero() {
                usage.input_tokens = input;
            }

            usage.output_tokens = usage.output_tokens.max(estimate_output_tokens(
                &**self.cx.token_counter(),
                response,
                unfinished,
            ));
        }

        let is_used = !usage.is_zero();
        if is_used {
            self.record_usage_as(response, usage);
        }

        is_used
    }

    fn record_usage_as(self, response: &ModelResponse, usage: Usage) {
        match &response.answered_by {
            Some(card) => record_usage(self.cx, card, usage),
            None => record_usage(self.cx, &self.model.card(self.request), usage),
        }
    }
}

/// The maximum length of a response, with its thinking and its calls, in bytes, whose tokens are
/// counted with the configured counter. Counting by a vocabulary takes a tenth of a second for as
/// much, on the executor.
const MAX_COUNTED: u64 = 1024 * 1024;

/// Estimates the number of tokens of a response and of `unfinished` bytes. If the token counter
/// panics, each byte counts as a token, which is the maximum in any vocabulary.
fn estimate_output_tokens(
    configured_counter: &dyn TokenCounter,
    response: &mut ModelResponse,
    unfinished: usize,
) -> u64 {
    // The counter takes messages; the content is moved instead of copied, because a response may be
    // large.
    let content = std::mem::take(&mut response.content);
    let message = Message::Assistant(AssistantMessage::new(content));
    let counter: &dyn TokenCounter = match Bytes.count_message(&message) {
        ..=MAX_COUNTED => configured_counter,
        _ => &EstimateCounter,
    };
    let tokens = panic::catch(|| counter.count_message(&message));
    let (tokens, unfinished) = match tokens {
        Ok(tokens) => (tokens, unfinished / 4),
        Err(text) => {
            tracing::warn!("the token counter panicked, and bytes are counted: {text}");
            (Bytes.count_message(&message), unfinished)
        }
    };

    if let Message::Assistant(message) = message {
        response.content = message.content;
    }

    tokens.saturating_add(unfinished as u64)
}

/// Counts a token for each byte.
struct Bytes;

impl TokenCounter for Bytes {
    fn count_text(&self, text: &str) -> u64 {
        text.len() as u64
    }

    fn count_args(&self, call: &ToolCall) -> u64 {
        match &call.raw_args {
            Some(raw) => self.count_text(raw),
            None => json_len(&call.args) as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use serde_json::json;

    use super::*;
    use crate::message::{Content, Part, ProviderBlock};

    /// Records the bytes of the texts that it counts.
    #[derive(Default)]
    struct Recording(AtomicU64);

    impl TokenCounter for Recording {
        fn count_text(&self, text: &str) -> u64 {
            let bytes = text.len() as u64;
            self.0.fetch_add(bytes, Ordering::Relaxed);
            bytes
        }
    }

    #[test]
    fn configured_counter_counts_a_limited_length_of_any_part() {
        let parts = |bytes: usize| {
            let text = "x".repeat(bytes);
            let block = serde_json::value::to_raw_value(&text).unwrap();
            let call = ToolCall::new("1", "t", json!({"text": text}));
            let mut raw_call = ToolCall::new("1", "t", json!({}));
            raw_call.raw_args = Some(json!({"text": text}).to_string().into());
            let named_call = ToolCall::new("1", &*text, json!({}));
            [
                Part::Text(text.clone()),
                Part::Thinking(ProviderBlock::new("p", block.clone())),
                Part::Opaque(ProviderBlock::new("p", block)),
                Part::ToolCall(call),
                Part::ToolCall(raw_call),
                Part::ToolCall(named_call),
            ]
        };
        let max_bytes = MAX_COUNTED as usize;
        for (bytes, is_counted) in [(max_bytes / 128, true), (max_bytes / 32, false)] {
            for part in parts(bytes) {
                let mut response = ModelResponse {
                    content: Content::from(vec![part; 64]),
                    ..ModelResponse::default()
                };
                let counter = Recording::default();
                let tokens = estimate_output_tokens(&counter, &mut response, 0);
                assert!(tokens >= (64 * bytes / 4) as u64);
                assert_eq!(counter.0.into_inner() > 0, is_counted);
                assert_eq!(response.content.parts().len(), 64);
            }
        }
    }
}
