//! The usage of a run so far.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::sdk::PermissionDenial;
use crate::usage::Usage;

/// The usage of a run so far, without its subagents.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct RunStats {
    /// The number of turns that were begun. A turn that was repeated, because its response was
    /// empty or the context was too long, counts once. Model calls that hooks and retries add do
    /// not count.
    pub turns: u32,
    /// Tokens of this run.
    pub usage: Usage,
    /// Tokens by model.
    pub by_model: BTreeMap<Arc<str>, ModelStats>,
    /// Time spent waiting for models.
    pub api_time: Duration,
    /// Time from the start to the first event of the first response.
    pub time_to_first_token: Option<Duration>,
    /// Calls that were not allowed.
    pub permission_denials: Vec<PermissionDenial>,
}

/// The usage of one model.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ModelStats {
    /// Tokens.
    pub usage: Usage,
    /// Cost in USD; `None` when the price is not known.
    pub cost_usd: Option<f64>,
    /// The model's context window.
    pub context_window: u64,
    /// The model's output limit.
    pub max_output_tokens: u64,
}

impl ModelStats {
    /// Adds this usage to the usage of `model` in `models`.
    pub(crate) fn add_to(self, models: &mut BTreeMap<Arc<str>, Self>, model: &Arc<str>) {
        let Some(entry) = models.get_mut(model) else {
            models.insert(model.clone(), self);
            return;
        };
        entry.usage += self.usage;
        entry.context_window = self.context_window;
        entry.max_output_tokens = self.max_output_tokens;
        let costs = entry.cost_usd.zip(self.cost_usd);
        entry.cost_usd = costs.map(|(before, cost)| before + cost);
    }
}
