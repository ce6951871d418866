//! The help of the headless agent.

use crate::agent_cli::{agent, text};

const DOCS: &str = include_str!("../../examples/agent/main.rs");
const SOURCES: [&str; 6] = [
    include_str!("../../examples/agent/model.rs"),
    include_str!("../../examples/agent/store.rs"),
    include_str!("../../src/providers/anthropic/model.rs"),
    include_str!("../../src/providers/connection.rs"),
    include_str!("../../src/providers/gemini/model.rs"),
    include_str!("../../src/providers/ollama/model.rs"),
];

/// Returns the rows of the tables in the module comment of the program.
fn rows() -> Vec<(String, String)> {
    let lines = DOCS.lines().filter_map(|line| line.strip_prefix("//! | "));
    lines
        .filter_map(|line| line.strip_suffix(" |")?.split_once(" | "))
        .map(|(name, what)| (name.replace('`', ""), what.replace('`', "")))
        .collect()
}

#[test]
fn help_lists_the_documented_exit_codes_and_variables() {
    let output = agent(&["--help"]).output().unwrap();
    let help = text(&output.stdout);
    let (_, after) = help.split_once("\nExit codes:\n").unwrap();
    let rows_of_help: Vec<(String, String)> = after
        .lines()
        .filter_map(|line| line.strip_prefix("  ")?.split_once(' '))
        .map(|(name, what)| (name.to_owned(), what.trim_start().to_owned()))
        .collect();
    assert_eq!(rows_of_help, rows());
    let codes: Vec<String> = rows_of_help
        .into_iter()
        .map(|(name, _)| name)
        .take(5)
        .collect();
    assert_eq!(codes, ["0", "1", "2", "3", "130"]);
}

#[test]
fn every_environment_variable_is_documented() {
    let rows = rows();
    let mut count = 0;
    for source in SOURCES {
        let mut named: Vec<&str> = source.split("var(\"").skip(1).collect();
        named.extend(source.split("VARIABLE: &str = \"").skip(1));
        for rest in named {
            let (name, _) = rest.split_once('"').unwrap();
            count += 1;
            assert!(rows.iter().any(|(row, _)| row.contains(name)), "{name}");
        }
    }

    assert!(count > 5, "only {count} were found");
}
