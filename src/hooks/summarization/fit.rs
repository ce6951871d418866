//! The last resort for a request that is too long even with a summary: its tool results are cut.

use std::sync::Arc;

use crate::message::{Message, TokenCounter};
use crate::model::ModelRequest;
use crate::usage::total;
use crate::util::text::head_tail;

use super::super::text::with_text;
use super::measure::Measure;

/// The minimum limit for a result that is cut, in tokens.
const MIN_RESULT_TOKENS: u64 = 64;
/// The minimum room for a response, in tokens.
const MIN_RESPONSE_TOKENS: u64 = 16;
/// The divisor of the tokens that are left free because counts are not exact: 1/64 of the request.
const SLACK_DIVISOR: u64 = 64;

/// A request that was made to fit.
pub(super) struct FittedRequest {
    pub(super) request: ModelRequest,
    pub(super) estimated_tokens: u64,
}

/// Cuts tool results until the request fits into a window of `window` tokens, or none can be cut
/// further, and limits the response to the remaining room. The history does not change.
pub(super) async fn fit(
    mut request: ModelRequest,
    window: u64,
    max_output: u32,
    counter: &Arc<dyn TokenCounter>,
    measure: Measure,
) -> FittedRequest {
    let max_output = request.max_output_tokens.unwrap_or(max_output);
    let reserve = u64::from(max_output).min(window / 8);
    let limit = window.saturating_sub(reserve);
    let cache = request.provider_cache().clone();
    let overhead = request.overhead(&**counter);
    let history_tokens = cache.count(counter, &request.messages).await;
    let mut estimated_tokens = history_tokens.saturating_add(overhead);
    let is_within_limit = |estimated_tokens| measure.tokens(estimated_tokens) <= limit;
    if !is_within_limit(estimated_tokens) {
        shorten_results(&mut request, &cache.message_tokens(), limit, |saved| {
            is_within_limit(estimated_tokens.saturating_sub(saved))
        });

        let history_tokens = cache.count(counter, &request.messages).await;
        estimated_tokens = history_tokens.saturating_add(overhead);
    }

    let tokens = measure.tokens(estimated_tokens);
    let reserved_tokens = tokens.saturating_add(tokens / SLACK_DIVISOR);
    let room = window
        .saturating_sub(reserved_tokens)
        .max(MIN_RESPONSE_TOKENS);
    if room < u64::from(max_output) {
        request.max_output_tokens = u32::try_from(room).ok();
    }

    FittedRequest {
        request,
        estimated_tokens,
    }
}

/// Cuts the longest results, all to one length below `limit`: the greatest length that saves
/// enough. Because the length is halved, every turn makes the same cut. `message_tokens` has the
/// tokens of each message.
fn shorten_results(
    request: &mut ModelRequest,
    message_tokens: &[u64],
    limit: u64,
    is_enough: impl Fn(u64) -> bool,
) {
    let results: Vec<(usize, u64)> = request
        .messages
        .iter()
        .zip(message_tokens)
        .enumerate()
        .filter(|(_, (message, _))| message.as_tool_result().is_some())
        .map(|(at, (_, tokens))| (at, *tokens))
        .collect();
    let mut cap = limit / 2;
    loop {
        let savings = results.iter().map(|(_, tokens)| tokens.saturating_sub(cap));
        if is_enough(total(savings)) || cap <= MIN_RESULT_TOKENS {
            break;
        }

        cap = (cap / 2).max(MIN_RESULT_TOKENS);
    }

    for (at, tokens) in results.into_iter().filter(|(_, tokens)| *tokens > cap) {
        if let Some(message) = request.messages.get(at) {
            let short_message = Arc::new(shortened(message, cap as f64 / tokens as f64));
            request.messages.replace(at, short_message);
        }
    }
}

/// Returns the message with a share of its text, from the beginning and the end.
fn shortened(message: &Message, share: f64) -> Message {
    let text = message.text();
    let chars = text.chars().count() as f64 * share;
    // Less than half, because the marker needs space as well.
    let half_chars = (chars * 0.45) as usize;
    let text = head_tail(&text, half_chars, half_chars, |left| {
        format!("\n\n... (truncated {left} characters: there is no room for them) ...\n\n")
    });
    with_text(message, text.into_owned())
}
