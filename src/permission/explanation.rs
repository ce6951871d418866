//! The decision of rules about a call, and its reason.

use std::fmt;

use serde::Serialize;

use super::rule::{Behavior, Rule};

/// A decision and its reason.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Explanation {
    /// The decision.
    pub decision: Behavior,
    /// The rule that decided, if one did.
    pub rule: Option<Rule>,
    /// The source of that rule, if it has one.
    pub source: Option<String>,
    /// True if a rule or a protection decided, so that a hook's allow is not enough.
    pub by_rule: bool,
    /// The reason, written for people and for the model.
    pub why: String,
}

impl Explanation {
    pub(super) fn new(decision: Behavior, why: impl Into<String>) -> Self {
        Self {
            decision,
            rule: None,
            source: None,
            by_rule: false,
            why: why.into(),
        }
    }

    pub(super) fn with_rule(mut self, rule: &Rule) -> Self {
        self.source = rule.source().map(str::to_owned);
        self.rule = Some(rule.clone());
        self.by_rule = true;
        self
    }

    pub(super) fn by_protection(mut self) -> Self {
        self.by_rule = true;
        self
    }
}

impl fmt::Display for Explanation {
    /// `deny: denied by rule deny:Bash(rm -rf*) (project settings)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.decision, self.why)?;
        match &self.source {
            Some(source) => write!(f, " ({source})"),
            None => Ok(()),
        }
    }
}

/// Returns the decision of a rule to deny or to ask.
pub(super) fn rule_decision(rule: &Rule) -> Explanation {
    let reason = match (rule.message(), rule.behavior()) {
        (Some(message), _) => message.to_owned(),
        (None, Behavior::Ask) => format!("rule {rule} asks"),
        (None, _) => format!("denied by rule {rule}"),
    };
    Explanation::new(rule.behavior(), reason).with_rule(rule)
}
