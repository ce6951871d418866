//! Rules about tools that an agent does not have.

use crate::error::{Error, ErrorKind, Result};
use crate::tool::near_names;

use super::glob::NameGlob;
use super::matching::is_server_of;
use super::parse::{Family, family};
use super::rule::Rule;

/// The names of rules that apply to the accesses of every tool, and of tools that may come with a
/// hook or a child run.
const GENERAL: &str = "Bash Read Write Edit WebFetch WebSearch Agent Task Skill";

/// Checks that a rule, of any behavior, matches one of these tools or what any tool may do.
///
/// # Errors
///
/// Returns [`ErrorKind::Config`], with the name that was probably meant, if a rule names an unknown
/// tool.
#[cfg(feature = "config")]
pub(crate) fn check_rule(rule: &Rule, names: &[&str]) -> Result<()> {
    KnownTools::new(names.iter().copied(), false).check(rule)
}

/// The tools that are known when an agent is built.
pub(super) struct KnownTools<'a> {
    /// Names of tools, and [`GENERAL`] ones.
    names: Vec<&'a str>,
    /// True if there may be tools with other names.
    has_sources: bool,
}

impl<'a> KnownTools<'a> {
    pub(super) fn new(names: impl Iterator<Item = &'a str>, has_sources: bool) -> Self {
        Self {
            names: names.chain(GENERAL.split(" ")).collect(),
            has_sources,
        }
    }

    /// Returns the first name of the rule that no tool has.
    pub(super) fn unmatched_name(&self, rule: &Rule) -> Option<String> {
        match rule.name.names() {
            Some(rule_names) => rule_names.into_iter().find(|rule_name| {
                let is_match = |name: &&str| *name == rule_name || is_server_of(rule_name, name);
                !self.names.iter().any(is_match)
            }),
            None => {
                let is_matched = self.names.iter().any(|name| rule.name.matches(name));
                (!is_matched).then(|| rule.tool().to_owned())
            }
        }
    }

    /// Refuses a rule that matches no tool. A rule with wildcards, and any rule where sources may
    /// bring tools, is refused only if a name differs from its own in the case of letters.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Config`], with the name that was probably meant, if a rule names an
    /// unknown tool.
    pub(super) fn check(&self, rule: &Rule) -> Result<()> {
        let Some(name) = self.unmatched_name(rule) else {
            return Ok(());
        };
        let same_letters = self.same_letters(&name);
        if same_letters.is_none() && (self.has_sources || rule.name.names().is_none()) {
            return Ok(());
        }

        let suggestion = same_letters.or_else(|| self.nearest(&name));
        let advice = match suggestion {
            Some(suggestion) => format!("did you mean {suggestion:?}?"),
            None => "write the name of one of the agent's tools, or remove the rule".to_owned(),
        };
        let source = match rule.source() {
            Some(source) => format!("{source}: "),
            None => String::new(),
        };
        let rule = rule.to_string();
        let text = format!("{source}permission rule {rule:?} matches no tool {name:?}; {advice}");
        Err(Error::new(ErrorKind::Config, text))
    }

    /// Returns the name that differs in the case of letters only.
    fn same_letters(&self, name: &str) -> Option<&'a str> {
        let pattern = NameGlob::new(&name.to_lowercase())?;
        let mut names = self.names.iter().copied();
        names.find(|other| pattern.matches(&other.to_lowercase()))
    }

    /// Returns the name that was most likely meant by a misspelled one.
    fn nearest(&self, name: &str) -> Option<&'a str> {
        let general_name = match family(&name.to_lowercase()) {
            Family::Command => Some("Bash"),
            Family::Read => Some("Read"),
            Family::Write => Some("Write"),
            Family::Url => Some("WebFetch"),
            Family::Named => Some("Agent"),
            Family::Other => None,
        };
        general_name.or_else(|| near_names(name, &self.names).first().copied())
    }
}
