//! Nested shell commands on the stack of a runtime's worker, in a build without optimization.

use agentcore::permission::{Behavior, PermissionRules};

use crate::kit::small_stack::survives;

/// The constructs that nest in a command, as their beginning and their end.
const NESTS: [(&str, &str); 32] = [
    ("$(", ")"),
    ("`", "`"),
    ("${x:-", "}"),
    ("${x[", "]}"),
    ("\"$(", ")\""),
    ("\"${x:-", "}\""),
    ("$((", "))"),
    ("$(( x[", "] ))"),
    ("((", "))"),
    ("(( x[$((", "))] ))"),
    ("( ", " )"),
    ("{ ", "; }"),
    ("{a,", "}"),
    ("<(", ")"),
    ("a > >(", ")"),
    ("if ", "; then a; fi"),
    ("if a; then ", "; fi"),
    ("if a; then b; elif ", "; then c; fi"),
    ("while ", "; do a; done"),
    ("until a; do ", "; done"),
    ("for x in a; do ", "; done"),
    ("for ((x = 0; x < $(", "); x++)); do a; done"),
    ("case a in a) ", ";; esac"),
    ("case $(", ") in a) b;; esac"),
    ("[[ -n $(", ") ]]"),
    ("f() { ", "; }"),
    ("coproc ", ""),
    ("! ", ""),
    ("bash -c '", "'"),
    ("eval ", ""),
    ("cat <<E\n$(", ")\nE\n"),
    ("x=(", ")"),
];

fn nested(pairs: &[(&str, &str)], depth: usize) -> String {
    let mut text = String::new();
    for level in 0..depth {
        text.push_str(pairs[level % pairs.len()].0);
    }
    text.push('a');
    for level in (0..depth).rev() {
        text.push_str(pairs[level % pairs.len()].1);
    }
    text
}

/// Returns the decision about a command that does not name the program of the deny rule.
fn decide(command: &str) -> Behavior {
    let rules = PermissionRules::new().allow("Bash").unwrap();
    let rules = rules.deny("Bash(curl:*)").unwrap();
    rules.explain_command(command).decision
}

#[test]
fn every_construct_nested_to_the_limit_fits_the_stack() {
    let test = "permission_shell_stack::every_construct_nested_to_the_limit_fits_the_stack";
    survives(test, || {
        for pair in NESTS {
            for depth in [10, 38, 39, 40, 41, 2_000] {
                decide(&nested(&[pair], depth));
            }
        }
    });
}

#[test]
fn constructs_nested_in_each_other_fit_the_stack() {
    let test = "permission_shell_stack::constructs_nested_in_each_other_fit_the_stack";
    survives(test, || {
        for first in NESTS {
            for second in NESTS {
                decide(&nested(&[first, second], 40));
                decide(&nested(&[first, first, second], 200));
            }
        }
    });
}

#[test]
fn commands_nested_over_the_limit_are_opaque() {
    for pair in NESTS.iter().take(8) {
        assert_eq!(decide(&nested(&[*pair], 200)), Behavior::Ask, "{pair:?}");
    }
}
