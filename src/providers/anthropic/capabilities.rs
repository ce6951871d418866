//! The capabilities that the server reports of a model.
//!
//! Format: `GET /v1/models/{id}` of the Messages API, as Anthropic's SDK 2.12 reads it.

use serde_json::Value;

use crate::model::ModelProfile;

use super::super::window;
use super::family::{Family, Off};

/// The family with the capabilities in the description of a model. What is not reported stays:
/// forced tools, sampling and the binding of thinking.
pub(super) fn reported_family(family: Family, model: &Value) -> Family {
    let Some(capabilities) = model.get("capabilities").filter(|all| all.is_object()) else {
        return family;
    };
    let is_supported = |path: &str| {
        let capability = capabilities.pointer(path);
        capability.is_some_and(|capability| capability["supported"] == true)
    };

    let off = if is_supported("/thinking/types/disabled") {
        Off::Disabled
    } else if is_supported("/thinking/types/between_tools") {
        Off::BetweenTools
    } else {
        Off::Never
    };
    let efforts = ["low", "medium", "high", "xhigh", "max"];
    let efforts = efforts
        .into_iter()
        .filter(|effort| is_supported(&format!("/effort/{effort}")));
    Family {
        adapts: is_supported("/thinking/types/adaptive"),
        has_budget: is_supported("/thinking/types/enabled"),
        off,
        efforts: efforts.collect(),
        has_schemas: is_supported("/structured_outputs"),
        ..family
    }
}

/// The profile with the limits in the description of a model.
pub(super) fn reported_profile(mut profile: ModelProfile, model: &Value) -> ModelProfile {
    if let Some(tokens) = window::plausible(&model["max_input_tokens"]) {
        profile.context_window = tokens;
    }
    let max_tokens = window::plausible(&model["max_tokens"]).map(u32::try_from);
    if let Some(Ok(tokens)) = max_tokens {
        profile.max_output_tokens = tokens;
    }
    if let Some(images) = model.pointer("/capabilities/image_input/supported") {
        profile.images = images.as_bool().unwrap_or(profile.images);
    }

    let end = model["retires_at"].as_str().and_then(|time| time.get(..10));
    if let Some(Ok(end)) = end.map(str::parse) {
        let lifecycle = profile.lifecycle.unwrap_or_default();
        profile.lifecycle = Some(lifecycle.with_ends(end));
    }
    profile
}
