//! The profiles of Anthropic's models.

use crate::model::{Catalog, ModelProfile};

/// The context window of a model the catalog does not list yet.
const WINDOW: u64 = 200_000;
/// Its output limit: the smallest of the current models'.
const OUTPUT: u32 = 32_000;

/// The profile of `model`; a `claude-*` that the catalog does not list has limits but no prices.
pub(super) fn profile(model: &str) -> ModelProfile {
    Catalog::builtin().lookup(model).unwrap_or_else(|| {
        let profile = ModelProfile::default();
        if model.starts_with("claude-") {
            return profile
                .with_context_window(WINDOW)
                .with_max_output_tokens(OUTPUT);
        }
        profile
    })
}
