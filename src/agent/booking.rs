//! Writing down what a model call has used.

use crate::message::Message;
use crate::model::{Model, ModelCard, ModelRequest, ModelResponse};
use crate::run::{Reservation, RunContext};
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
/// unless another one answered. A provider that does not say what it has used, or breaks off before
/// it does, must not make a limit void: where there is one, that is estimated. False when nothing
/// was used.
pub(super) fn book_answer(
    cx: &RunContext,
    asked: &dyn Model,
    request: &ModelRequest,
    answer: &ModelResponse,
    reservation: &Reservation,
) -> bool {
    let usage = match reservation.input_tokens {
        Some(input) if answer.usage.is_zero() => {
            let message = Message::Assistant(answer.message());
            Usage::new(input, cx.token_counter().count_message(&message))
        }
        _ => answer.usage,
    };
    match &answer.answered_by {
        Some(card) => book(cx, card, usage),
        None => book(cx, &asked.card(request), usage),
    }
    !usage.is_zero()
}
