//! The decisions about many commands under many sets of rules, compared with
//! `tests/data/permission_decisions.tsv`, so that a review shows their changes.
//!
//! `UPDATE_DECISIONS=1 cargo test --all-features --test contracts permission_decisions` writes the
//! letters. A new command is added to the file without letters.

use std::fs;
use std::path::Path;

use agentcore::permission::{Behavior, PermissionRules};

use super::permission_corpus::{permissions, unescape};

/// The letters of decisions, the most permissive first.
const LETTERS: &str = "aqd";

fn letter(permissions: &PermissionRules, command: &str) -> char {
    match permissions.explain_command(command).decision {
        Behavior::Allow => 'a',
        Behavior::Ask => 'q',
        Behavior::Deny => 'd',
    }
}

#[test]
fn decisions_are_as_recorded() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/permission_decisions.tsv");
    let recorded = fs::read_to_string(&path).unwrap();
    let is_head = |line: &&str| line.starts_with('#') || line.starts_with("rules\t");
    let (head, rows): (Vec<&str>, Vec<&str>) = recorded.lines().partition(is_head);
    let rule_sets = head.iter().filter_map(|line| line.strip_prefix("rules\t"));
    let rule_sets: Vec<_> = rule_sets.map(|rules| (rules, permissions(rules))).collect();
    let mut lines: Vec<String> = head.into_iter().map(str::to_owned).collect();
    let mut changes = Vec::new();
    let (mut permissive, mut strict) = (0, 0);
    for row in rows {
        let (old, command) = row.split_once('\t').unwrap();
        let text = unescape(command);
        let letters = rule_sets.iter().map(|(_, rules)| letter(rules, &text));
        let new: String = letters.collect();
        // Without a recorded decision, the new one is neither more permissive nor stricter.
        let old_letters = old.chars().map(Some).chain(std::iter::repeat(None));
        for ((old, new), (rules, _)) in old_letters.zip(new.chars()).zip(&rule_sets) {
            if old == Some(new) {
                continue;
            }
            let is_permissive = old.map(|old| LETTERS.find(old) > LETTERS.find(new));
            permissive += usize::from(is_permissive == Some(true));
            strict += usize::from(is_permissive == Some(false));
            let old = old.unwrap_or('-');
            changes.push(format!("{old} -> {new}\t{rules}\t{command}"));
        }
        lines.push(format!("{new}\t{command}"));
    }

    let text_of_lines = lines.join("\n") + "\n";
    if std::env::var_os("UPDATE_DECISIONS").is_some() {
        fs::write(path, text_of_lines).unwrap();
        return;
    }
    assert!(
        text_of_lines == recorded,
        "{} decisions changed (a: allow, q: ask, d: deny), {permissive} to more permissive ones and \
         {strict} to stricter ones. If that is meant, run this, and give the reason in the commit:\n  \
         UPDATE_DECISIONS=1 cargo test --all-features --test contracts permission_decisions\n{}\n",
        changes.len(),
        changes.join("\n")
    );
}
