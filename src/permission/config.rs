//! Rules in a configuration file.

use std::fmt::Display;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::tool::PermissionMode;
use crate::util::text::head_tail;

use super::rule::{Behavior, Rule};

/// The block `{"allow":[..],"deny":[..],"ask":[..],"mode":".."}` of a configuration file, in JSON
/// or, with the feature `yaml`, in YAML.
///
/// It contains nothing else: a project's file can set neither a provider's URL nor a key.
///
/// ```
/// use agentcore::permission::{PermissionConfig, PermissionRules};
///
/// let json = r#"{"allow":["Bash(git:*)"],"deny":["Bash(git push:*)"]}"#;
/// let config = PermissionConfig::from_json(json)?;
/// let permissions = PermissionRules::new().config(&config, "project settings")?;
/// assert_eq!(permissions.rules().count(), 2);
/// # Ok::<(), agentcore::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct PermissionConfig {
    /// Rules to allow, written without `allow:`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    /// Rules to deny.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<String>,
    /// Rules to ask about.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ask: Vec<String>,
    /// The mode that replaces the agent's mode, if set.
    #[serde(alias = "defaultMode", skip_serializing_if = "Option::is_none")]
    pub mode: Option<PermissionMode>,
}

impl PermissionConfig {
    /// Reads the block from JSON.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Config`] if the value is not such a block.
    pub fn from_json(json: &str) -> Result<Self> {
        serde_json::from_str(json)
            .map_err(|error| Error::new(ErrorKind::Config, parse_error(&error)))
    }

    /// Returns the rules, with `source` as their source.
    ///
    /// # Errors
    ///
    /// Returns an error if a rule could never match; the text names the rule and its position in
    /// the file.
    pub fn rules(&self, source: &str) -> Result<Vec<Rule>> {
        let source: Arc<str> = source.into();
        let lists = [
            (Behavior::Deny, &self.deny),
            (Behavior::Ask, &self.ask),
            (Behavior::Allow, &self.allow),
        ];
        let mut rules = Vec::new();
        for (behavior, texts) in lists {
            for (at, text) in texts.iter().enumerate() {
                let rule = Rule::new(behavior, text)
                    .map_err(|error| error.context(format!("{source}: {behavior}[{at}]")))?;
                rules.push(rule.with_source(source.clone()));
            }
        }

        Ok(rules)
    }
}

/// Returns the text for an error of the parser, which may quote a value of any length. Its end is
/// kept: it has the place.
pub(super) fn parse_error(error: &impl Display) -> String {
    let text = format!("permissions: {error}");
    head_tail(&text, 200, 200, |_| "...".to_owned()).into_owned()
}
