//! Writing down what a model call has used.

use crate::model::{Model, ModelCard, ModelRequest, ModelResponse};
use crate::run::RunContext;
use crate::usage::Usage;
use crate::util::sync::lock;

/// Books the tokens of one call of the model `card` names: in the run's budget and those above it,
/// and in its statistics. Every path books here, also calls that failed or were cut off.
pub(super) fn book(cx: &RunContext, card: &ModelCard, usage: Usage) {
    let profile = card.profile;
    let cost = profile.cost(&usage);
    cx.budget().spend(usage, cost);
    let mut stats = lock(&cx.shared().stats);
    stats.usage += usage;
    let known = stats.by_model.contains_key(&card.id);
    let entry = stats.by_model.entry(card.id.clone()).or_default();
    entry.usage += usage;
    entry.context_window = profile.context_window;
    entry.max_output_tokens = u64::from(profile.max_output_tokens);
    entry.cost_usd = match (known, entry.cost_usd, cost) {
        (false, _, cost) => cost,
        (true, Some(before), Some(cost)) => Some(before + cost),
        _ => None,
    };
}

/// Books an answer, or what there is of one, as the model's that gave it: the one that was asked,
/// unless another one answered.
pub(super) fn book_answer(
    cx: &RunContext,
    asked: &dyn Model,
    request: &ModelRequest,
    answer: &ModelResponse,
) {
    match &answer.answered_by {
        Some(card) => book(cx, card, answer.usage),
        None => book(cx, &asked.card(request), answer.usage),
    }
}
