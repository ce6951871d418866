//! The profiles of Anthropic's models.

use crate::model::{Catalog, ModelProfile};

/// The context window of a model the catalog does not list yet.
const WINDOW: u64 = 200_000;
/// Its output limit: the smallest of the models of Claude 4 and later.
const OUTPUT: u32 = 32_000;

/// Returns the profile of `model`; a `claude-*` that the catalog does not list has limits but no
/// prices.
pub(super) fn profile(model: &str) -> ModelProfile {
    let catalog = Catalog::builtin();
    let name = anthropic_name(model);
    let profile = catalog.lookup(model).or_else(|| catalog.lookup(name));
    profile.unwrap_or_else(|| {
        let profile = ModelProfile::default();
        if name.starts_with("claude-") {
            return profile
                .with_context_window(WINDOW)
                .with_max_output_tokens(OUTPUT);
        }
        profile
    })
}

/// Returns Anthropic's name of a model. On Bedrock, the region and the maker precede that name, and
/// a version follows it.
fn anthropic_name(model: &str) -> &str {
    let name = match model.split_once("anthropic.") {
        Some((region, name)) if region.is_empty() || region.ends_with('.') => name,
        _ => return model,
    };
    let name = name.split(':').next().unwrap_or(name);
    match name.rsplit_once("-v") {
        Some((name, version)) if version.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_bedrock_have_the_profile_of_the_model() {
        for (name, own) in [
            ("anthropic.claude-sonnet-5", "claude-sonnet-5"),
            ("us.anthropic.claude-sonnet-5", "claude-sonnet-5"),
            ("eu.anthropic.claude-opus-4-6-v1:0", "claude-opus-4-6"),
            ("anthropic.claude-haiku-5-5-v1", "claude-haiku-5-5"),
        ] {
            assert!(profile(own).prices.is_some(), "{own}");
            assert_eq!(profile(name), profile(own), "{name}");
        }
        let unknown = profile("anthropic.claude-unheard-of-9");
        assert_eq!(unknown.context_window, WINDOW);
        let other = profile("not-anthropic.claude-sonnet-5");
        assert_eq!(other, ModelProfile::default());
    }
}
