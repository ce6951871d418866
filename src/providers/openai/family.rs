//! The differences between OpenAI's models.
//!
//! Source: the model profiles of pydantic-ai 2.68, and the error texts of the API.

use crate::error::{Error, ErrorKind, Result};
use crate::model::{ModelRequest, ThinkingMode};

use super::super::connection::openai_name;

/// The requests for which a model reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::providers) enum ReasoningMode {
    Never,
    /// Only with an effort.
    OnRequest,
    /// Unless the effort is `none`, where the model has that.
    ByDefault,
    Always,
}

/// The requests that a model of the family takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::providers) struct Family {
    pub(in crate::providers) reasons: ReasoningMode,
    pub(in crate::providers) efforts: &'static [&'static str],
    /// True if the model is on Chat Completions at all.
    pub(in crate::providers) has_chat: bool,
    /// True if Chat Completions refuses function tools while the model reasons.
    pub(in crate::providers) tools_need_responses: bool,
    /// True if the API refuses stop sequences.
    pub(in crate::providers) refuses_stop: bool,
    /// True if nothing of the name but its beginning is known. The name of a deployment may have
    /// this beginning by accident.
    pub(in crate::providers) is_guess: bool,
}

impl Family {
    pub(in crate::providers) fn reasons_by_default(&self) -> bool {
        matches!(
            self.reasons,
            ReasoningMode::ByDefault | ReasoningMode::Always
        )
    }

    /// Returns `true` if the model reasons with this effort.
    pub(in crate::providers) fn reasons_with(&self, effort: Option<&str>) -> bool {
        match effort {
            Some("none") => self.reasons == ReasoningMode::Always,
            Some(_) => self.reasons != ReasoningMode::Never,
            None => self.reasons_by_default(),
        }
    }
}

// The efforts that models take, the lowest first.
const NEWEST: &[&str] = &["none", "low", "medium", "high", "xhigh", "max"];
const NEWEST_ALWAYS: &[&str] = &["low", "medium", "high", "xhigh", "max"];
const TO_XHIGH: &[&str] = &["none", "low", "medium", "high", "xhigh"];
const TO_HIGH: &[&str] = &["none", "low", "medium", "high"];
const PRO: &[&str] = &["medium", "high", "xhigh"];
const FIRST: &[&str] = &["minimal", "low", "medium", "high"];
const CODEX: &[&str] = &["low", "medium", "high", "xhigh"];
const OLD: &[&str] = &["low", "medium", "high"];

/// The beginnings of names: when the model reasons, and with which efforts. The first that fits
/// counts.
const TABLE: &[(&str, ReasoningMode, &[&str])] = &[
    ("gpt-6.1-terra", ReasoningMode::ByDefault, NEWEST),
    ("gpt-6.1-sol", ReasoningMode::Always, NEWEST_ALWAYS),
    ("gpt-6-astra", ReasoningMode::Always, NEWEST_ALWAYS),
    ("gpt-6-luna", ReasoningMode::ByDefault, NEWEST),
    ("gpt-6-sol", ReasoningMode::ByDefault, NEWEST),
    ("gpt-5.1-chat", ReasoningMode::Always, &["medium"]),
    ("gpt-5.2-chat", ReasoningMode::Always, &["medium"]),
    ("gpt-5.3-chat", ReasoningMode::Always, &["medium"]),
    ("gpt-5.5-pro", ReasoningMode::Always, PRO),
    ("gpt-5.4-pro", ReasoningMode::Always, PRO),
    ("gpt-5.2-pro", ReasoningMode::Always, PRO),
    ("gpt-5-codex", ReasoningMode::Always, OLD),
    ("gpt-5.1-codex", ReasoningMode::Always, CODEX),
    ("gpt-5-chat", ReasoningMode::Never, &[]),
    ("gpt-5-pro", ReasoningMode::Always, &["high"]),
    ("gpt-5.6", ReasoningMode::ByDefault, NEWEST),
    ("gpt-5.5", ReasoningMode::ByDefault, TO_XHIGH),
    ("gpt-5.4", ReasoningMode::OnRequest, TO_XHIGH),
    ("gpt-5.3", ReasoningMode::OnRequest, TO_XHIGH),
    ("gpt-5.2", ReasoningMode::OnRequest, TO_XHIGH),
    ("gpt-5.1", ReasoningMode::OnRequest, TO_HIGH),
    ("gpt-5", ReasoningMode::ByDefault, FIRST),
    ("gpt-audio", ReasoningMode::Never, &[]),
    ("gpt-4", ReasoningMode::Never, &[]),
    ("gpt-3", ReasoningMode::Never, &[]),
    ("chatgpt-", ReasoningMode::Never, &[]),
    ("codex-", ReasoningMode::Always, OLD),
    ("computer-use", ReasoningMode::Always, OLD),
    ("o1", ReasoningMode::Always, OLD),
    ("o3", ReasoningMode::Always, OLD),
    ("o4", ReasoningMode::Always, OLD),
];

/// Models that are newer than the table: what the strictest known one takes.
const NEWER: (&str, ReasoningMode, &[&str]) = ("", ReasoningMode::Always, NEWEST_ALWAYS);

/// Returns the family of OpenAI's model of this name; `None` for names that are not OpenAI's.
pub(in crate::providers) fn family_of(model: &str) -> Option<Family> {
    let name = openai_name(model);
    if name.starts_with("gpt-oss") {
        return None;
    }

    let row = TABLE.iter().find(|(prefix, ..)| name.starts_with(prefix));
    let version = version_of(name);
    let is_guess = row.is_none() && version.is_none();
    // A guess counts as the newest model, and a known name without a version, such as `o3`, as the
    // oldest.
    let version = version.unwrap_or(if is_guess { (u32::MAX, 0) } else { (0, 0) });
    let (_, reasons, efforts) = match row {
        Some(row) => row,
        None if has_openai_prefix(name) => &NEWER,
        None => return None,
    };
    Some(Family {
        reasons: *reasons,
        efforts,
        has_chat: !(name.contains("-pro") || name.contains("codex") || name.contains("computer")),
        tools_need_responses: version >= (5, 4),
        refuses_stop: version >= (6, 0),
        is_guess,
    })
}

/// Returns `true` for the names of OpenAI's models, such as `gpt-7`, `gpt-luna` and `o5`.
fn has_openai_prefix(name: &str) -> bool {
    let number = name.strip_prefix('o').unwrap_or_default();
    name.starts_with("gpt-") || number.starts_with(|c: char| c.is_ascii_digit())
}

/// Checks the effort of a request against the efforts that its model has.
///
/// # Errors
///
/// Returns [`ErrorKind::Config`] for an effort that the model does not have; the text lists the
/// efforts that it has.
pub(in crate::providers) fn check_effort(
    request: &ModelRequest,
    model: &str,
    family: Option<&Family>,
) -> Result<()> {
    let (Some(family), Some(ThinkingMode::Effort(effort))) = (family, &request.settings.thinking)
    else {
        return Ok(());
    };
    if family.efforts.contains(&&**effort) {
        return Ok(());
    }

    Err(unknown_effort(model, effort, family.efforts))
}

/// Returns the error for an effort that a model does not have.
pub(super) fn unknown_effort(model: &str, effort: &str, efforts: &[&str]) -> Error {
    let text = match efforts {
        [] => format!("{model} takes no effort; remove ModelSettings::thinking"),
        _ => format!(
            "{model} has no effort {effort:?}; use one of: {}",
            efforts.join(", ")
        ),
    };
    Error::new(ErrorKind::Config, text)
}

/// Returns the version in a name such as `gpt-5.4-mini`; `None` for names of another form.
fn version_of(name: &str) -> Option<(u32, u32)> {
    let digits = name.strip_prefix("gpt-")?.split('-').next()?;
    let (major, minor) = digits.split_once('.').unwrap_or((digits, "0"));
    Some((major.parse().ok()?, minor.parse().unwrap_or(0)))
}

/// The effort that is sent to a model: its lowest instead of `none` if it cannot stop reasoning.
pub(in crate::providers) fn sent_effort<'a>(
    request: &'a ModelRequest,
    family: Option<&Family>,
) -> Option<&'a str> {
    let is_disabled = request.settings.thinking == Some(ThinkingMode::Disabled);
    match family {
        Some(family) if is_disabled && !family.efforts.contains(&"none") => {
            family.efforts.first().copied()
        }
        _ => requested_effort(request),
    }
}

/// Returns the sampling settings of a request, without settings that the model refuses while it
/// reasons, and the warning about the removed settings.
pub(in crate::providers) fn sampling_settings(
    request: &ModelRequest,
    model: &str,
    family: Option<&Family>,
) -> (Sampling, Option<String>) {
    let sampling = Sampling {
        temperature: request.temperature,
        top_p: request.settings.top_p,
    };
    let is_reasoning =
        family.is_some_and(|family| family.reasons_with(sent_effort(request, Some(family))));
    if !is_reasoning || sampling == Sampling::default() {
        return (sampling, None);
    }
    let warning = format!(
        "{model} takes no sampling settings while it reasons; temperature and top_p were left out"
    );
    (Sampling::default(), Some(warning))
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(in crate::providers) struct Sampling {
    pub(in crate::providers) temperature: Option<f64>,
    pub(in crate::providers) top_p: Option<f64>,
}

/// Returns the effort that a request sets.
pub(in crate::providers) fn requested_effort(request: &ModelRequest) -> Option<&str> {
    match &request.settings.thinking {
        Some(ThinkingMode::Effort(effort)) => Some(effort),
        Some(ThinkingMode::Disabled) => Some("none"),
        Some(ThinkingMode::Budget(_) | ThinkingMode::Adaptive) | None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_other_vendors_have_no_family() {
        for name in [
            "gpt-oss-120b",
            "qwen3",
            "llama",
            "",
            "o",
            "openai/gpt-oss-20b",
            "openai.gpt-oss-20b",
            "us.openai.gpt-oss-20b",
            "us.gpt-5.4",
            "opus",
            "olmo-3",
        ] {
            assert_eq!(family_of(name), None, "{name}");
        }
    }

    #[test]
    fn names_of_bedrock_and_gateways_have_the_family_of_the_model() {
        for name in ["openai/gpt-5.4", "openai.gpt-5.4", "us.openai.gpt-5.4"] {
            assert_eq!(family_of(name), family_of("gpt-5.4"), "{name}");
        }
    }

    #[test]
    fn tools_need_the_responses_api_from_gpt_5_4_on() {
        for (name, is_needed) in [
            ("gpt-5", false),
            ("gpt-5.1", false),
            ("gpt-5.2", false),
            ("gpt-5.3", false),
            ("gpt-5.4-mini", true),
            ("gpt-5.5", true),
            ("gpt-6-luna", true),
            ("gpt-7-new", true),
            ("gpt-chat-latest", true),
            ("gpt-rosalind-research", true),
            ("gpt-luna", true),
            ("gpt-4o", false),
            ("chatgpt-4o-latest", false),
            ("o3", false),
            ("o5", true),
        ] {
            let family = family_of(name).unwrap();
            assert_eq!(family.tools_need_responses, is_needed, "{name}");
        }
    }

    #[test]
    fn longer_names_stand_before_their_beginnings() {
        for (index, (name, ..)) in TABLE.iter().enumerate() {
            let earlier = TABLE.iter().take(index);
            for (prefix, ..) in earlier {
                assert!(!name.starts_with(prefix), "{name} is hidden by {prefix}");
            }
        }
    }

    #[test]
    fn families_know_when_models_reason() {
        for (name, effort, reasons) in [
            ("gpt-5.4-mini", None, false),
            ("gpt-5.4-mini", Some("low"), true),
            ("gpt-6-luna", None, true),
            ("gpt-6-luna", Some("none"), false),
            ("gpt-6-astra", Some("none"), true),
            ("gpt-7-new", None, true),
            ("gpt-4.1", Some("low"), false),
            ("o3-mini-2025-01-31", None, true),
        ] {
            let family = family_of(name).unwrap();
            assert_eq!(family.reasons_with(effort), reasons, "{name} {effort:?}");
        }
    }

    #[test]
    fn versions_are_read_from_names() {
        assert_eq!(version_of("gpt-5.4-mini"), Some((5, 4)));
        assert_eq!(version_of("gpt-6-luna-2026-10-01"), Some((6, 0)));
        assert_eq!(version_of("gpt-4o"), None);
        assert_eq!(version_of("gpt-luna"), None);
        assert_eq!(version_of("o3"), None);
    }
}
