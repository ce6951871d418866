//! The context windows that servers report.

use serde_json::Value;

/// The range of reported values that are accepted as a window, in tokens.
const PLAUSIBLE: std::ops::RangeInclusive<u64> = 256..=100_000_000;

/// Returns the value, if it may be a window in tokens.
pub(super) fn plausible(value: &Value) -> Option<u64> {
    value.as_u64().filter(|tokens| PLAUSIBLE.contains(tokens))
}

/// Reads the window of one slot from llama.cpp's `/props`.
pub(super) fn of_props(props: &Value) -> Option<u64> {
    let slot = plausible(&props["default_generation_settings"]["n_ctx"]);
    slot.or_else(|| plausible(&props["n_ctx"]))
}

/// Returns the entry of a model in a list of models.
fn listed<'a>(models: &'a Value, model: &str) -> Option<&'a Value> {
    let mut entries = models["data"].as_array()?.iter();
    entries.find(|entry| entry["id"] == model)
}

/// Reads the window from vLLM's `/v1/models`. Other servers often report the size that the model
/// was trained with there, not the size that they use.
pub(super) fn of_models(models: &Value, model: &str) -> Option<u64> {
    plausible(&listed(models, model)?["max_model_len"])
}

/// Reads the window of a loaded model from LM Studio's `/api/v0/models`. A model that is yet to be
/// loaded has the assumed window, or the model's maximum if that is less.
pub(super) fn of_lm_studio(models: &Value, model: &str, assumed: u64) -> Option<u64> {
    let own = listed(models, model)?;
    let most = || plausible(&own["max_context_length"]);
    plausible(&own["loaded_context_length"]).or_else(|| Some(most()?.min(assumed)))
}

/// Reads the window of a loaded model from Ollama's `/api/ps`.
pub(super) fn of_loaded(loaded: &Value, model: &str) -> Option<u64> {
    let latest = format!("{model}:latest");
    let is_own = |name: &Value| *name == model || (!model.contains(':') && *name == *latest);
    let mut listed = loaded["models"].as_array()?.iter();
    let own = listed.find(|listed| is_own(&listed["name"]) || is_own(&listed["model"]))?;
    plausible(&own["context_length"])
}

/// Reads the window of a model from Ollama's `/api/show`: `requested`, or else the window in its
/// model file, or else `default`, limited to the model's maximum.
pub(super) fn of_shown(shown: &Value, requested: Option<u64>, default: u64) -> Option<u64> {
    let info = shown["model_info"].as_object()?;
    let mut lengths = info.iter();
    let (_, most) = lengths.find(|(name, _)| name.ends_with(".context_length"))?;
    let most = plausible(most)?;
    let parameters = shown["parameters"].as_str().unwrap_or_default();
    let mut of_file = parameters.lines().filter_map(|line| {
        let tokens = line.trim().strip_prefix("num_ctx")?.trim().parse().ok()?;
        Some(tokens).filter(|tokens| PLAUSIBLE.contains(tokens))
    });
    let window = requested.or_else(|| of_file.next()).unwrap_or(default);
    Some(window.min(most))
}
