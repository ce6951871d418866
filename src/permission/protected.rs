//! Paths that decide what runs later: writing them always needs an answer.

use super::glob::Match;
use super::paths::{PathContext, PathOf, PathPattern};

/// Protected whether they exist or not, in any case of letters.
const PROTECTED: [&str; 6] = [
    "/**/.git/hooks/**",
    "/**/.git/config",
    "/**/.git/modules/**/{hooks,config}",
    "/**/.agentcore/**",
    "/**/.mcp.json",
    "/**/.git/info/attributes",
];

/// The protected path that writing `path` may change.
pub(super) fn is_protected(
    path: &PathOf,
    context: &PathContext,
    protected_paths: &[String],
) -> bool {
    let context = in_any_case(context);
    let is_listed = PROTECTED
        .iter()
        .flat_map(|text| match text.split_once('{') {
            None => vec![(*text).to_owned()],
            Some((head, tail)) => tail
                .trim_end_matches('}')
                .split(',')
                .map(|name| format!("{head}{name}/**"))
                .collect(),
        });
    is_listed
        .chain(protected_paths.iter().cloned())
        .filter_map(|text| PathPattern::new(&text).ok())
        .any(|pattern| pattern.catches(path, &context) >= Match::Maybe)
}

/// Returns `true` if writing `path` puts another repository in place, including its hooks.
pub(super) fn is_repository(path: &PathOf, context: &PathContext) -> bool {
    PathPattern::new("/**/.git")
        .is_ok_and(|pattern| pattern.is(path, &in_any_case(context)) >= Match::Maybe)
}

fn in_any_case(context: &PathContext) -> PathContext {
    PathContext {
        folds_case: true,
        ..context.clone()
    }
}
