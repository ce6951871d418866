//! The differences between Gemini's models.
//!
//! Source: the model profiles of pydantic-ai 2.68.

/// The signature of calls that the server did not make: `skip_thought_signature_validator` in
/// base64, as the SDK of the API sends it.
pub(super) const PLACEHOLDER: &str = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I=";

/// The control of a model's thinking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ThinkingControl {
    /// The model does not think, and rejects every setting.
    None,
    /// A budget of tokens.
    Budget {
        /// True if the model always thinks.
        is_always_on: bool,
    },
    /// A level, of these; the lowest is the first.
    Levels(&'static [&'static str]),
}

/// The requests that a model accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Family {
    pub(super) thinking: ThinkingControl,
    /// True from Gemini 3 on: signatures are checked, results may have media, and functions can be
    /// combined with the provider's own tools and with structured output.
    pub(super) is_modern: bool,
}

const FULL: &[&str] = &["minimal", "low", "medium", "high"];
const FROM_LOW: &[&str] = &["low", "medium", "high"];
const ENDS: &[&str] = &["minimal", "high"];

/// The prefixes of names, and the levels of their models. A prefix precedes its own beginnings.
const LEVELS: &[(&str, &[&str])] = &[
    ("gemini-3.1-flash-lite-image", ENDS),
    ("gemini-3.1-flash-image", ENDS),
    ("gemini-3.1-pro", FROM_LOW),
    ("gemini-3.7-flash", FROM_LOW),
    ("gemini-3.8-flash", FROM_LOW),
    ("gemini-3-pro-preview", &["low", "high"]),
    ("gemini-3", FULL),
];

/// Returns the family of the model of this name. A thinking model with none of the prefixes has the
/// levels of the newest known models.
pub(super) fn family_of(model: &str) -> Family {
    let is_2_5 = model.contains("gemini-2.5");
    let is_older = model.contains("gemini-1")
        || model.contains("gemini-2.") && !is_2_5
        || model.contains("gemma")
        || model == "gemini-pro";
    if is_older || model.contains("gemini-2.5-flash-image") {
        return Family {
            thinking: ThinkingControl::None,
            is_modern: false,
        };
    }

    if is_2_5 {
        let is_always_on = model.contains("pro");
        return Family {
            thinking: ThinkingControl::Budget { is_always_on },
            is_modern: false,
        };
    }

    let mut table = LEVELS.iter();
    let row = table.find(|(prefix, _)| model.starts_with(prefix));
    Family {
        thinking: ThinkingControl::Levels(row.map_or(FROM_LOW, |(_, levels)| levels)),
        is_modern: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longer_names_stand_before_their_beginnings() {
        for (index, (name, _)) in LEVELS.iter().enumerate() {
            for (prefix, _) in &LEVELS[..index] {
                assert!(!name.starts_with(prefix), "{name} is hidden by {prefix}");
            }
        }
    }

    #[test]
    fn families_of_models() {
        let budget = |is_always_on| ThinkingControl::Budget { is_always_on };
        for (name, thinking, is_modern) in [
            ("gemma-4-31b", ThinkingControl::None, false),
            ("gemini-pro", ThinkingControl::None, false),
            ("gemini-1.5-flash", ThinkingControl::None, false),
            ("gemini-2.0-flash-lite", ThinkingControl::None, false),
            ("gemini-2.5-flash-image", ThinkingControl::None, false),
            ("gemini-2.5-flash-lite", budget(false), false),
            ("gemini-2.5-pro", budget(true), false),
            (
                "gemini-3-pro-preview",
                ThinkingControl::Levels(&["low", "high"]),
                true,
            ),
            (
                "gemini-3.1-flash-lite-image",
                ThinkingControl::Levels(&["minimal", "high"]),
                true,
            ),
            (
                "gemini-3.1-pro-preview-customtools",
                ThinkingControl::Levels(FROM_LOW),
                true,
            ),
            ("gemini-3.6-flash", ThinkingControl::Levels(FULL), true),
            ("gemini-3.8-flash", ThinkingControl::Levels(FROM_LOW), true),
            ("gemini-4-argon", ThinkingControl::Levels(FROM_LOW), true),
            ("gemini-9-new", ThinkingControl::Levels(FROM_LOW), true),
        ] {
            let expected = Family {
                thinking,
                is_modern,
            };
            assert_eq!(family_of(name), expected, "{name}");
        }
    }
}
