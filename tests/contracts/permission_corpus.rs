//! Rules, commands and the expected decisions: a row each in `tests/data/permission_cases.tsv`, and
//! in `tests/data/permission_more.tsv` for programs without a table.

use std::collections::HashMap;

use agentcore::PermissionMode;
use agentcore::permission::{Behavior, PermissionRules, Rule};

const ROWS: &str = include_str!("../data/permission_cases.tsv");
const MORE_ROWS: &str = include_str!("../data/permission_more.tsv");

pub(super) fn unescape(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, c == '\\') {
            (_, true) => match chars.next() {
                Some('n') => out.push('\n'),
                Some('r') => out.push('\r'),
                Some('t') => out.push('\t'),
                Some('0') => out.push('\0'),
                Some('e') => out.push('\x1b'),
                Some('\\') => out.push('\\'),
                other => panic!("unknown escape {other:?} in {text}"),
            },
            (c, false) => out.push(c),
        }
    }

    out
}

pub(super) fn permissions(rules: &str) -> PermissionRules {
    let mut permissions = PermissionRules::new()
        .home("/h/me")
        .workspace("/h/me/project");
    for item in rules
        .split(";;")
        .map(str::trim)
        .filter(|item| !item.is_empty())
    {
        permissions = match item.strip_prefix("mode:") {
            Some("bypass") => permissions.mode(PermissionMode::BypassPermissions),
            Some(name) => permissions.mode(name.parse().unwrap()),
            None => permissions.rule(item.parse::<Rule>().unwrap()),
        };
    }

    permissions
}

#[test]
fn every_permission_case_is_decided_as_listed() {
    let mut wrong = Vec::new();
    let mut rows = 0;
    let mut parsed_rules = HashMap::new();
    for line in ROWS.lines().skip(1).chain(MORE_ROWS.lines().skip(1)) {
        let [rules, command, expected] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("three columns expected: {line}");
        };

        let permissions = parsed_rules
            .entry(rules)
            .or_insert_with(|| permissions(rules));
        let explanation = permissions.explain_command(&unescape(command));
        let holds = match expected {
            "allow" => explanation.decision == Behavior::Allow,
            "ask" => explanation.decision == Behavior::Ask,
            "deny" => explanation.decision == Behavior::Deny,
            "not_allow" => explanation.decision != Behavior::Allow,
            "not_deny" => explanation.decision != Behavior::Deny,
            other => panic!("unknown expectation {other}"),
        };

        rows += 1;
        if !holds {
            wrong.push(format!(
                "{rules} | {command}: expected {expected}, got {explanation}"
            ));
        }
    }

    assert!(rows > 3500, "{rows} rows");
    assert!(
        wrong.is_empty(),
        "{} of {rows}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
