//! The limits on a call that is compared with rules.

use crate::util::path::MAX_PATH;

use super::call_accesses::{CallAccess, CallAccesses};
use super::rule::Rule;

/// The maximum number of comparisons of a simple command, or of another access, with a rule in one
/// decision.
const MAX_COMPARISONS: usize = 200_000;

/// The maximum number of comparisons of a word with a rule in one decision.
const MAX_WORD_COMPARISONS: usize = 1_000_000;

/// The maximum number of comparisons of a path with a rule in one decision. A word of a command may
/// be several paths.
const MAX_PATH_COMPARISONS: usize = 2 * MAX_WORD_COMPARISONS;

/// The maximum of the bytes in the commands of a call times the bytes in the specifiers of rules,
/// which is about the number of steps that it takes to compare patterns with each other.
const MAX_STEPS: usize = 128 * 1024 * 1024;

/// Returns the parts of a call that are too many for a comparison of each with every rule. The
/// comparison of a path takes many times as much memory as the path.
pub(super) fn excess(call: &CallAccesses<'_>, rules: &[Rule]) -> Option<String> {
    let analyses = call.commands().map(|command| &command.analysis);
    let commands = analyses.flat_map(|analysis| &analysis.commands);
    let (commands, words) = commands.fold((0, 0), |(commands, words), command| {
        (commands + 1, words + command.argv.len())
    });
    let bytes: usize = call.commands().map(|command| command.text.len()).sum();
    let specifiers = rules.iter().filter_map(Rule::specifier);
    let rule_bytes: usize = specifiers.map(str::len).sum();

    let paths: usize = call.commands().map(|command| command.paths.count()).sum();
    let accesses = call.accesses.len() + call.possible.len();
    let rules = rules.len();
    let path_lens = call.accesses.iter().filter_map(CallAccess::path_len);
    let path_len = path_lens.max().unwrap_or_default();
    if path_len > MAX_PATH {
        return Some(format!("{path_len} bytes in a path"));
    }
    let counts = [
        (commands, MAX_COMPARISONS, "commands"),
        (accesses, MAX_COMPARISONS, "paths, addresses and commands"),
        (words, MAX_WORD_COMPARISONS, "words"),
        (paths, MAX_PATH_COMPARISONS, "words that may be paths"),
    ];
    let is_over = |(count, max, _): &(usize, usize, &str)| count.saturating_mul(rules) > *max;
    let is_long = bytes.saturating_mul(rule_bytes) > MAX_STEPS;
    let bytes = is_long.then_some((bytes, 0, "bytes"));
    let (count, _, parts) = counts.into_iter().find(is_over).or(bytes)?;
    Some(format!("{count} {parts}"))
}
