//! Writing down what a model call has used.

use crate::model::Model;
use crate::run::RunContext;
use crate::usage::Usage;
use crate::util::sync::lock;

/// Books the tokens of one call of `model`: in the run's budget and those above it, and in its
/// statistics. Every path books here, also calls that failed or were cut off.
pub(super) fn book(cx: &RunContext, model: &dyn Model, usage: Usage) {
    let profile = model.profile();
    let cost = profile.prices.map(|prices| prices.cost(&usage));
    cx.budget().spend(usage, cost);
    let mut stats = lock(&cx.shared().stats);
    stats.usage += usage;
    let known = stats.by_model.contains_key(model.id());
    let entry = stats.by_model.entry(model.id().into()).or_default();
    entry.usage += usage;
    entry.context_window = profile.context_window;
    entry.max_output_tokens = u64::from(profile.max_output_tokens);
    entry.cost_usd = match (known, entry.cost_usd, cost) {
        (false, _, cost) => cost,
        (true, Some(before), Some(cost)) => Some(before + cost),
        _ => None,
    };
}
