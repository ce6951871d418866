//! The capabilities that the server reports of a model.
//!
//! Format: `GET /v1/models/{id}` of the Messages API, as Anthropic's SDK 2.12 reads it.

use serde_json::Value;

use crate::model::ModelProfile;

use super::super::window;
use super::family::{Family, Off};

/// Returns the family with the capabilities in the description of a model. Capabilities that are
/// not reported stay as they are; forced tools, sampling and the binding of thinking never are
/// reported.
pub(super) fn reported_family(family: Family, model: &Value) -> Family {
    let Some(capabilities) = model.get("capabilities").filter(|all| all.is_object()) else {
        return family;
    };
    // `None` if the report does not have the capability.
    let reported = |path: &str| {
        let capability = capabilities.pointer(path)?;
        capability
            .is_object()
            .then(|| capability["supported"] == true)
    };

    let off = match ["disabled", "between_tools"]
        .map(|kind| reported(&format!("/thinking/types/{kind}")))
    {
        [Some(true), _] => Off::Disabled,
        [_, Some(true)] => Off::BetweenTools,
        [None, None] => family.off,
        _ => Off::Never,
    };
    let efforts = reported("/effort").map(|_| {
        ["low", "medium", "high", "xhigh", "max"]
            .into_iter()
            .filter(|effort| reported(&format!("/effort/{effort}")) == Some(true))
            .collect()
    });
    Family {
        adapts: reported("/thinking/types/adaptive").unwrap_or(family.adapts),
        has_budget: reported("/thinking/types/enabled").unwrap_or(family.has_budget),
        off,
        efforts: efforts.unwrap_or(family.efforts),
        has_schemas: reported("/structured_outputs").unwrap_or(family.has_schemas),
        ..family
    }
}

/// Returns the profile with the limits in the description of a model.
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
