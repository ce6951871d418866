//! The rules that the kernel enforces for commands.

#[cfg(feature = "sandbox")]
use std::fmt;

use crate::backend::DeniedPath;
#[cfg(feature = "sandbox")]
use crate::backend::Sandbox;

use super::matching::governs_writes;
use super::paths::{PathContext, PathPattern, Segment, text_of};
use super::rule::{Behavior, Rule, RuleKind};

/// Returns the path that a rule denies to commands. `None` for other rules, and for patterns that
/// are not one file or folder.
pub(super) fn denied_path(rule: &Rule, context: &PathContext) -> Option<DeniedPath> {
    let RuleKind::Path(pattern) = &rule.kind else {
        return None;
    };
    let (read, write) = (rule.name.matches("Read"), governs_writes(rule));
    if rule.behavior() != Behavior::Deny || !(read || write) {
        return None;
    }
    let mut path = DeniedPath::reading(fixed_path(pattern, context)?);
    (path.read, path.write) = (read, write);
    Some(path)
}

/// Returns the path that the pattern matches with all below it, if it is one path.
fn fixed_path(pattern: &PathPattern, context: &PathContext) -> Option<String> {
    let text = pattern.text();
    let is_relative = !text.starts_with(['/', '~']);
    let is_unknown = is_relative && context.workspace.is_none()
        || text.starts_with('~') && context.home.is_none();
    if is_unknown {
        return None;
    }

    let mut segments = pattern.segments(context);
    if segments.last() == Some(&Segment::Deep) {
        segments.pop();
    }
    let names: Option<Vec<String>> = segments.iter().map(text_of).collect();
    Some(format!("/{}", names?.join("/")))
}

/// A rule that denies files to commands, and whether the kernel enforces it; from
/// [`kernel_enforcement`](crate::permission::PermissionRules::kernel_enforcement).
#[cfg(feature = "sandbox")]
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RuleEnforcement {
    /// The rule.
    pub rule: Rule,
    /// The reason why the kernel does not enforce the rule; `None` if it does.
    pub obstacle: Option<String>,
}

#[cfg(feature = "sandbox")]
impl fmt::Display for RuleEnforcement {
    /// `deny:Read(/srv/keys/**): held by the kernel`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.obstacle {
            None => write!(f, "{}: held by the kernel", self.rule),
            Some(obstacle) => write!(f, "{}: not held by the kernel, {obstacle}", self.rule),
        }
    }
}

/// Returns the rules that deny files to commands, in order.
#[cfg(feature = "sandbox")]
pub(super) fn rule_enforcement(
    rules: &[Rule],
    context: &PathContext,
    sandbox: &Sandbox,
) -> Vec<RuleEnforcement> {
    let governs_commands = |rule: &&Rule| {
        let is_path = matches!(rule.kind, RuleKind::Path(_));
        let is_general = rule.name.matches("Read") || governs_writes(rule);
        rule.behavior() == Behavior::Deny && is_path && is_general
    };
    let rules = rules.iter().filter(governs_commands);
    let enforcement = rules.map(|rule| RuleEnforcement {
        rule: rule.clone(),
        obstacle: match denied_path(rule, context) {
            Some(path) => sandbox.obstacle(&path),
            None => Some("the files it matches may be anywhere".to_owned()),
        },
    });
    enforcement.collect()
}
