//! The notes that the headless agent prints in text mode before its answer.

use std::process::Output;

use serde_json::{Value, json};

use crate::agent_cli::{Workshop, agent, call, text};

fn run(workshop: &Workshop, options: &[&str]) -> Output {
    let output = workshop.agent(options).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    output
}

fn script() -> Value {
    json!([
        call("Bash", json!({"command": "printf 'one\\ntwo\\n'"})),
        call("Read", json!({"file_path": "missing.txt"})),
        call("Bash", json!({"command": "touch made"})),
        {"text": "done"}
    ])
}

const ALLOWED: [&str; 2] = ["--allow", "Bash(printf:*)"];

#[test]
fn text_output_shows_calls_and_why_they_failed_on_standard_error() {
    let output = run(&Workshop::new(&script()), &ALLOWED);
    assert_eq!(text(&output.stdout), "done\n");
    let notes = text(&output.stderr);
    let notes: Vec<&str> = notes.lines().collect();
    assert_eq!(notes[0], "agent: Bash(printf 'one\\ntwo\\n')");
    assert_eq!(notes[1], "agent: Read(missing.txt)");
    assert!(notes[2].starts_with("agent: Read failed: "), "{notes:?}");
    assert!(notes[2].contains("missing.txt"), "{notes:?}");
    assert_eq!(notes[3], "agent: Bash(touch made)");
    // A denial has one note, and a successful result has none.
    assert!(notes[4].starts_with("agent: Bash is denied: "), "{notes:?}");
    assert_eq!(notes.len(), 5, "{notes:?}");
}

#[test]
fn quiet_leaves_calls_and_their_failures_out() {
    let options = [&ALLOWED[..], &["--quiet"]].concat();
    let output = run(&Workshop::new(&script()), &options);
    assert_eq!(text(&output.stdout), "done\n");
    let notes = text(&output.stderr);
    assert!(notes.starts_with("agent: Bash is denied: "), "{notes}");
    assert_eq!(notes.lines().count(), 1, "{notes}");
}

#[test]
fn verbose_adds_results_tokens_and_costs() {
    let options = [&ALLOWED[..], &["--verbose"]].concat();
    let output = run(&Workshop::new(&script()), &options);
    assert_eq!(text(&output.stdout), "done\n");
    let notes = text(&output.stderr);
    assert!(
        notes.contains("agent: Bash returned:\nagent:     one\nagent:     two\n"),
        "{notes}"
    );
    let last = notes.lines().last().unwrap();
    assert!(last.starts_with("agent: 4 turns, "), "{last}");
    assert!(
        last.contains(" tokens in, ") && last.contains("cost"),
        "{last}"
    );

    let both = agent(&["--quiet", "--verbose", "Hello"]).output().unwrap();
    assert_eq!(both.status.code(), Some(2));
}

#[test]
fn verbose_results_are_cut_in_lines_and_length() {
    let command = format!("printf '%s\\n' {} {{1..40}}", "y".repeat(500));
    let workshop = Workshop::new(&json!([
        call("Bash", json!({"command": format!("bash -c '{}'", command.replace('\'', "\""))})),
        {"text": "done"}
    ]));
    let output = run(
        &workshop,
        &["--verbose", "--permission-mode", "bypassPermissions"],
    );
    let notes = text(&output.stderr);
    assert!(notes.lines().count() < 20, "{notes}");
    assert!(notes.lines().all(|line| line.len() < 250), "{notes}");
    assert!(notes.contains("more lines)"), "{notes}");
}

#[test]
fn control_characters_of_a_model_do_not_reach_the_terminal() {
    let hostile = "\u{1b}[2J\u{9b}31m\u{7}\rb";
    let workshop = Workshop::new(&json!([
        {
            "text": format!("a{hostile}\tc\nd"),
            "calls": [
                {"name": "Bash", "args": {"command": format!("printf x{hostile}")}},
                {"name": "Nothing", "args": {"x": hostile}},
                {"name": "Read", "args": {"file_path": format!("\u{202e}{hostile}")}},
            ],
        },
        {"text": "done"}
    ]));
    for options in [&["--verbose"][..], &[]] {
        let output = run(&workshop, options);
        for bytes in [&output.stdout, &output.stderr] {
            let shown = text(bytes);
            let controls = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
            assert!(!shown.contains(controls), "{shown:?}");
        }

        let answer = text(&output.stdout);
        assert!(
            answer.starts_with("a\\u{1b}[2J\\u{9b}31m\\u{7}\\rb\tc\nd\n"),
            "{answer:?}"
        );
        let notes = text(&output.stderr);
        assert!(
            notes.contains("agent: Bash(printf x\\u{1b}[2J"),
            "{notes:?}"
        );
        assert!(notes.contains("agent: Read(\\u{202e}"), "{notes:?}");
    }
}

#[test]
fn json_output_is_the_same_with_every_amount_of_notes() {
    let workshop = Workshop::new(&json!([call("Read", json!({"file_path": "a"})), {"text": "b"}]));
    for option in ["--quiet", "--verbose"] {
        let output = run(&workshop, &[option, "--output", "json"]);
        let result: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(result["result"], "b");
        assert_eq!(text(&output.stderr), "");
    }
}
