//! Rules in YAML.

use serde::Deserialize;
use serde_saphyr::{Options, Spanned, from_str_with_options, options};

use crate::error::{Error, ErrorKind, Result};
use crate::tool::PermissionMode;
use crate::util::yaml::duplicate_key;

use super::config::{PermissionConfig, parse_error};
use super::rule::{Behavior, Rule};

/// The maximum size of a text, in bytes.
const MAX_BYTES: usize = 256 * 1024;
/// The maximum number of scalars, lists and other parts of a text; each use of an alias counts.
const MAX_EVENTS: usize = 10_000;

/// The block with the place of each rule.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Block {
    allow: Vec<Spanned<String>>,
    deny: Vec<Spanned<String>>,
    ask: Vec<Spanned<String>>,
    #[serde(alias = "defaultMode")]
    mode: Option<PermissionMode>,
}

impl PermissionConfig {
    /// Reads the block from YAML. An empty text is a block without rules.
    ///
    /// ```
    /// use agentcore::permission::PermissionConfig;
    ///
    /// let config = PermissionConfig::from_yaml("
    /// allow:
    ///   - Bash(git log:*)   # reading is fine
    /// deny: ['Bash(git push:*)']
    /// mode: acceptEdits
    /// ")?;
    /// assert_eq!(config.allow, ["Bash(git log:*)"]);
    ///
    /// let error = PermissionConfig::from_yaml("deny:\n  - Bash()\n").unwrap_err();
    /// assert!(error.to_string().contains("line 2"));
    /// assert!(error.to_string().contains("empty specifier"));
    /// # Ok::<(), agentcore::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Config`], with the line and the column, if the text is not such a
    /// block, if a rule could never match, or if the text is longer than 256 KiB or has more than
    /// about 10,000 rules.
    pub fn from_yaml(yaml: &str) -> Result<Self> {
        if yaml.len() > MAX_BYTES {
            let size = yaml.len();
            let text =
                format!("permissions: the text has {size} bytes, more than {MAX_BYTES} bytes");
            return Err(Error::new(ErrorKind::Config, text));
        }

        let block: Option<Block> = from_str_with_options(yaml, settings()).map_err(|error| {
            let text = match (duplicate_key(&error), error.location()) {
                (Some(text), Some(place)) => {
                    let (line, column) = (place.line(), place.column());
                    format!("permissions: line {line}, column {column}: {text}")
                }
                _ => parse_error(&error),
            };
            Error::new(ErrorKind::Config, text)
        })?;
        let block = block.unwrap_or_default();
        Ok(Self {
            allow: checked_texts(Behavior::Allow, block.allow)?,
            deny: checked_texts(Behavior::Deny, block.deny)?,
            ask: checked_texts(Behavior::Ask, block.ask)?,
            mode: block.mode,
        })
    }
}

/// Returns the settings of the parser: its limits, and errors without the lines around them, which
/// may hold what is not for logs.
fn settings() -> Options {
    options! {
        with_snippet: false,
        budget: serde_saphyr::budget! { max_events: MAX_EVENTS, max_nodes: MAX_EVENTS },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: MAX_EVENTS },
    }
}

fn checked_texts(behavior: Behavior, rules: Vec<Spanned<String>>) -> Result<Vec<String>> {
    let checked = rules.into_iter().map(|rule| {
        let (line, column) = (rule.defined.line(), rule.defined.column());
        let place = format!("permissions: line {line}, column {column}");
        let checked_rule = Rule::new(behavior, &rule.value);
        let checked_rule = checked_rule.map_err(|error| error.context(place));
        checked_rule.map(|_| rule.value)
    });
    checked.collect()
}
