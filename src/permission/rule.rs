//! One rule.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::Result;

use super::glob::{NameGlob, alternatives};
use super::parse;
use super::paths::{PathContext, PathPattern};
use super::pattern::CommandPattern;
use super::url::UrlPattern;

/// The effect of a rule on a call it matches, and the decision of all rules about a call; from the
/// least to the most strict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Behavior {
    /// The call may run.
    Allow,
    /// A person has to answer first.
    Ask,
    /// The call does not run.
    Deny,
}

impl Behavior {
    /// Returns the behavior's name in a rule's text.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
            Self::Ask => "ask",
        }
    }
}

impl fmt::Display for Behavior {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A permission rule: `deny:Bash(rm -rf*)`.
///
/// | text | matches |
/// |---|---|
/// | `Bash`, `Bash(*)` | every command, whichever tool runs it |
/// | `Bash(npm run build)` | that command |
/// | `Bash(git:*)`, `Bash(git *)` | `git` alone and with any arguments, not `gitk` |
/// | `Bash(ls*)` | also `lsof` |
/// | `Bash(git * main)` | `*` alone is one word or more |
/// | `Read(/etc/**)`, `Edit(src/*.rs)` | paths: absolute, below `~`, or in the workspace; a name without a slash anywhere |
/// | `WebFetch(domain:example.com)` | the host and every host below it; with `:8080` on that port only |
/// | `WebFetch(https://example.com/docs/*)` | URLs |
/// | `mcp__server`, `mcp__server__*` | all tools of a server |
/// | `Agent(name)`, `Task(name)` | that agent, whichever tool starts it |
/// | `Skill(name *)` | a skill |
/// | `Tool(parameter:value)`, of any other tool | a call whose argument has that value; `*` is a wildcard |
///
/// Tool names may contain `*`, `?` and `{a,b}`. `Bash(..)` also governs other tools that run
/// commands. `Read(..)` governs other tools that read and, in rules to deny and to ask, the words
/// of commands. `Write(..)` and `Edit(..)` govern everything that writes, redirections included.
/// `WebFetch(..)` governs the requests of all tools, and no addresses in commands. A tool declares
/// its accesses in [`Tool::accesses`](crate::Tool::accesses), whose docs state which arguments
/// count as accesses if a tool declares none.
///
/// In a specifier of a rule to deny or to ask about commands or paths, `{a,b}` means each of its
/// items, and `[..]` in a path any one character. The rule also matches braces and brackets as they
/// are written.
///
/// A rule that could never match is an error, such as `Task(subagent_type:helper)`, which has to be
/// `Task(helper)`:
///
/// ```
/// use agentcore::permission::Rule;
///
/// let rule: Rule = "deny:Bash(rm -rf*)".parse()?;
/// assert_eq!(rule.to_string(), "deny:Bash(rm -rf*)");
/// let error = "allow:Bash()".parse::<Rule>().unwrap_err();
/// assert!(error.to_string().contains("empty specifier"));
/// # Ok::<(), agentcore::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Rule {
    pub(super) behavior: Behavior,
    pub(super) tool: String,
    pub(super) specifier: Option<String>,
    pub(super) message: Option<String>,
    pub(super) source: Option<Arc<str>>,
    pub(super) name: NameGlob,
    pub(super) kind: RuleKind,
}

/// The kind of a specifier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RuleKind {
    /// No specifier.
    Tool,
    Command(CommandPattern),
    Path(PathPattern),
    Url(UrlPattern),
    /// A subagent's or a skill's name.
    Named(CommandPattern),
    /// An argument and its value.
    Argument(String, String),
}

impl Rule {
    /// Parses `tool(specifier)`, such as `Bash(git:*)`, as a rule with this behavior. A prefix such
    /// as `deny:` must agree with it.
    ///
    /// # Errors
    ///
    /// Returns [`Config`](crate::ErrorKind::Config) if the rule could never match; the text
    /// contains a correction.
    pub fn new(behavior: Behavior, text: &str) -> Result<Self> {
        parse::rule(Some(behavior), text)
    }

    /// Returns the rules that braces and brackets in its specifier mean, unless it is one to allow:
    /// a rule to deny or to ask is also about them as wildcards.
    pub(super) fn alternatives(&self) -> Vec<Self> {
        let specifier = self.specifier().unwrap_or_default();
        if self.behavior == Behavior::Allow || !specifier.contains(['{', '[']) {
            return Vec::new();
        }

        let texts = alternatives(specifier).unwrap_or_default();
        let kind = |text: String| match &self.kind {
            RuleKind::Path(_) => Some(RuleKind::Path(PathPattern::new(&any_of(&text)).ok()?)),
            RuleKind::Command(_) => Some(RuleKind::Command(CommandPattern::new(&text).ok()?)),
            _ => None,
        };
        let kinds = texts.into_iter().filter_map(kind);
        kinds
            .map(|kind| Self {
                kind,
                ..self.clone()
            })
            .collect()
    }

    /// Returns the rule about the folder that its path leads to through links, unless it is one to
    /// allow.
    pub(super) fn through_links(&self, context: &PathContext) -> Option<Self> {
        let RuleKind::Path(pattern) = &self.kind else {
            return None;
        };
        let is_allowing = self.behavior == Behavior::Allow;
        let pattern = pattern.through_links(context).filter(|_| !is_allowing)?;
        Some(Self {
            kind: RuleKind::Path(pattern),
            ..self.clone()
        })
    }

    /// Sets the reason of a denial, which the model reads, or of a question, which a person reads,
    /// instead of the rule's own text.
    pub fn with_message(mut self, message: impl Into<String>) -> Self {
        self.message = Some(message.into());
        self
    }

    /// Sets the source of the rule, for explanations: a file, `user settings`.
    pub fn with_source(mut self, source: impl Into<Arc<str>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Returns the effect of the rule on a call.
    pub fn behavior(&self) -> Behavior {
        self.behavior
    }

    /// Returns the pattern of tool names.
    pub fn tool(&self) -> &str {
        &self.tool
    }

    /// Returns the text in the parentheses.
    pub fn specifier(&self) -> Option<&str> {
        self.specifier.as_deref()
    }

    /// Returns the reason that [`with_message`](Self::with_message) has set.
    pub fn message(&self) -> Option<&str> {
        self.message.as_deref()
    }

    /// Returns the source of the rule.
    pub fn source(&self) -> Option<&str> {
        self.source.as_deref()
    }

    /// Returns `true` if a word of the specifier is the path, alone or after an option or a mark.
    pub(super) fn spells(&self, path: &str) -> bool {
        let mut words = self.specifier().unwrap_or_default().split_whitespace();
        words.any(|word| {
            let word = word.strip_suffix(":*").unwrap_or(word);
            word.strip_suffix(path).is_some_and(|option| {
                let is_letter = option.len() == 2 && option.starts_with('-');
                option.is_empty() || is_letter || option.ends_with(['=', ':', ',', '@', '<'])
            })
        })
    }
}

/// Returns the pattern with `?` in the place of each `[..]`.
fn any_of(pattern: &str) -> String {
    let mut parts = pattern.split('[');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.extend(match part.split_once(']') {
            Some((class, after)) if !class.is_empty() && !class.contains('/') => ["?", after],
            _ => ["[", part],
        });
    }
    text
}

impl PartialEq for Rule {
    fn eq(&self, other: &Self) -> bool {
        self.behavior == other.behavior
            && self.tool == other.tool
            && self.specifier == other.specifier
            && self.message == other.message
            && self.source == other.source
    }
}

impl Eq for Rule {}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.behavior, self.tool)?;
        match &self.specifier {
            Some(specifier) => write!(f, "({specifier})"),
            None => Ok(()),
        }
    }
}

impl std::str::FromStr for Rule {
    type Err = crate::error::Error;

    /// Reads `behavior:Tool(specifier)`. Without a behavior it is a rule to allow.
    fn from_str(text: &str) -> Result<Self> {
        parse::rule(None, text)
    }
}

impl Serialize for Rule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Rule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}
