//! The differences between Claude models.
//!
//! Source: the model profiles of pydantic-ai 2.68, most of them measured, and the types of
//! Anthropic's SDK 2.12.

use std::borrow::Cow;

/// The way to turn thinking off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Off {
    /// The model does not think.
    Disabled,
    /// The model still thinks before an answer, though not between tool calls.
    BetweenTools,
    /// Thinking cannot be turned off.
    Never,
}

/// The requests in which a model may be forced to call a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ForcedTools {
    All,
    /// Requests without a thinking budget.
    WithoutBudget,
    None,
}

/// The requests that a model of the family takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Family {
    /// True if the model can choose itself how much it thinks.
    pub(super) adapts: bool,
    /// True if the model takes a thinking budget.
    pub(super) has_budget: bool,
    pub(super) off: Off,
    /// True if the model thinks unless a request turns it off.
    pub(super) thinks_by_default: bool,
    /// True if thoughts arrive without their text unless it is requested.
    pub(super) hides_thoughts: bool,
    /// The efforts, the lowest first.
    pub(super) efforts: Cow<'static, [&'static str]>,
    pub(super) has_sampling: bool,
    pub(super) forced_tools: ForcedTools,
    /// True if thoughts are sent back only after the very conversation in which they were made.
    pub(super) binds_thinking: bool,
    /// True if answers can be held to a schema.
    pub(super) has_schemas: bool,
}

const TO_HIGH: &[&str] = &["low", "medium", "high"];
const TO_MAX: &[&str] = &["low", "medium", "high", "max"];
const ALL: &[&str] = &["low", "medium", "high", "xhigh", "max"];

/// Models with a budget and without efforts.
const BUDGET: Family = Family {
    adapts: false,
    has_budget: true,
    off: Off::Disabled,
    thinks_by_default: false,
    hides_thoughts: false,
    efforts: Cow::Borrowed(&[]),
    has_sampling: true,
    forced_tools: ForcedTools::WithoutBudget,
    binds_thinking: false,
    has_schemas: true,
};

/// Models that always think and refuse what the newest known ones refuse.
const STRICTEST: Family = Family {
    adapts: true,
    has_budget: false,
    off: Off::Never,
    thinks_by_default: true,
    hides_thoughts: true,
    efforts: Cow::Borrowed(ALL),
    has_sampling: false,
    forced_tools: ForcedTools::None,
    binds_thinking: true,
    has_schemas: true,
};

/// Returns the family of a model's name, in the spelling of Anthropic, Bedrock, Vertex or a
/// gateway; `None` for names that are not Claude's. A name that is newer than this table is of the
/// strictest family.
pub(super) fn family_of(model: &str) -> Option<Family> {
    let (tier, version) = identify(model)?;
    let thinking_when_asked = Family {
        off: Off::Disabled,
        thinks_by_default: false,
        forced_tools: ForcedTools::All,
        binds_thinking: false,
        ..STRICTEST
    };
    let thinking_by_default = Family {
        thinks_by_default: true,
        ..thinking_when_asked.clone()
    };

    Some(match (tier, version) {
        ("opus", (4, 5)) => Family {
            efforts: Cow::Borrowed(TO_HIGH),
            ..BUDGET
        },
        ("opus" | "sonnet", (4, 6)) => Family {
            adapts: true,
            efforts: Cow::Borrowed(TO_MAX),
            ..BUDGET
        },
        ("opus", (4, 7 | 8)) => thinking_when_asked,
        ("opus" | "sonnet", (5, 0)) => thinking_by_default,
        ("haiku", (5, 5)) => Family {
            binds_thinking: true,
            ..thinking_by_default
        },
        ("sonnet", (5, 5)) => Family {
            off: Off::BetweenTools,
            ..STRICTEST
        },
        ("fable" | "mythos", (5, 0)) => Family {
            forced_tools: ForcedTools::All,
            binds_thinking: false,
            ..STRICTEST
        },
        ("mythos", (5, 1)) => Family {
            binds_thinking: false,
            ..STRICTEST
        },
        (_, (4, 1 | 5)) => BUDGET,
        (_, version) if version < (4, 5) => Family {
            has_schemas: false,
            ..BUDGET
        },
        _ => STRICTEST,
    })
}

/// Returns the tier and the version in a name such as `claude-opus-4-6-20260205`,
/// `eu.anthropic.claude-opus-4-6-v1:0` or `claude-4.6-opus@20260205`.
fn identify(model: &str) -> Option<(&str, (u32, u32))> {
    let start = model.find("claude-")?;
    if model[..start].ends_with(|c: char| c.is_alphanumeric() || c == '-' || c == '_') {
        return None;
    }

    let segments = || model[start..].split(['-', '.', '@', ':']).skip(1);
    let is_version = |segment: &&str| {
        (1..3).contains(&segment.len()) && segment.bytes().all(|byte| byte.is_ascii_digit())
    };
    let tier = segments()
        .find(|segment| segment.starts_with(|c: char| c.is_ascii_alphabetic()))
        .unwrap_or_default();
    let mut numbers = segments()
        .skip_while(|segment| !is_version(segment))
        .take_while(is_version)
        .map(|segment| segment.parse().unwrap_or(0));
    // A name without a version, such as `claude-opus-latest`, is newer than the table.
    let major = numbers.next().unwrap_or(u32::MAX);
    Some((tier, (major, numbers.next().unwrap_or(0))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_names_have_no_family() {
        for name in ["qwen3", "", "m", "not-claude-opus-4-6", "claude", "opus-5"] {
            assert_eq!(family_of(name), None, "{name}");
        }
    }

    #[test]
    fn spellings_of_bedrock_vertex_and_gateways_are_read() {
        let expected = family_of("claude-opus-4-6");
        for name in [
            "claude-opus-4-6-20260205",
            "claude-opus-4-6@20260205",
            "claude-opus-4.6",
            "claude-4-6-opus",
            "claude-4.6-opus-latest",
            "anthropic/claude-opus-4.6",
            "anthropic.claude-opus-4-6-v1:0",
            "us.anthropic.claude-opus-4-6-20260205-v1:0",
        ] {
            assert_eq!(family_of(name), expected, "{name}");
        }

        let old = family_of("claude-3-5-sonnet-20241022");
        assert_eq!(family_of("claude-sonnet-4@20250514"), old);
        assert!(!old.unwrap().has_schemas);
        assert!(family_of("claude-haiku-4-5").unwrap().has_schemas);
    }

    #[test]
    fn unknown_models_get_the_strictest_family() {
        for name in [
            "claude-opus-5-6",
            "claude-sonnet-6",
            "claude-haiku-5",
            "claude-opus-latest",
            "claude-mythos-5-2",
            "claude-new-5-0",
            "claude-opus-99999999999",
            "claude-",
        ] {
            assert_eq!(family_of(name), Some(STRICTEST), "{name}");
        }
    }

    #[test]
    fn thoughts_of_mythos_5_1_are_not_bound_to_their_conversation() {
        for (name, is_bound) in [
            ("claude-mythos-5", false),
            ("claude-mythos-5-1", false),
            ("claude-mythos-5-2", true),
            ("claude-fable-5-1", true),
        ] {
            let family = family_of(name).unwrap();
            assert_eq!(family.binds_thinking, is_bound, "{name}");
            assert_eq!(family.off, Off::Never, "{name}");
        }
    }
}
