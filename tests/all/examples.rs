//! The small programs of `examples`, as their users start them.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use agentcore::Messages;

use crate::agent_cli::example;

fn run(mut command: Command, input: &str) -> Output {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).unwrap();
    drop(stdin);
    child.wait_with_output().unwrap()
}

#[test]
fn a_history_is_repaired_from_input_to_output() {
    let program = example("repair_history");
    let cases = [
        (
            r#"[{"role":"user","content":"Hi"},{"role":"tool","content":"?","tool_call_id":"c","name":"x"}]"#,
            "message[1]",
        ),
        (r#"[{"role":"user","content":"Hi"}]"#, "nothing to repair"),
        ("[]", "nothing to repair"),
    ];
    for (input, said) in cases {
        let output = run(Command::new(program), input);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{errors}");
        assert!(errors.contains(said), "{input}: {errors}");
        let history = Messages::from_json(&output.stdout).unwrap();
        assert!(history.is_empty() || history.validate_for_model().is_ok());
    }
    for broken in ["", "[", "{}", r#"[{"role":"nobody","content":"x"}]"#] {
        let output = run(Command::new(program), broken);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{broken}");
        assert!(
            errors.starts_with("repair_history: cannot read"),
            "{errors}"
        );
        assert!(output.stdout.is_empty(), "{broken}");
    }
}

#[test]
fn the_quickstart_needs_no_key_and_finds_what_is_there() {
    let program = example("quickstart");
    let ask = |question: Option<&str>| {
        let mut command = Command::new(program);
        command
            .args(question)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .env_remove("AGENTCORE_MODEL")
            .env_remove("ANTHROPIC_API_KEY")
            .env_remove("OPENAI_API_KEY");
        let output = run(command, "");
        let said = String::from_utf8(output.stdout).unwrap();
        (output.status.code(), said)
    };
    let (code, said) = ask(None);
    assert_eq!(code, Some(0), "{said}");
    for expected in [
        "a scripted model stands in",
        "list_files",
        "read_file",
        "src/",
    ] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    let (code, said) = ask(Some("Why?"));
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("> Why?"), "{said}");
    assert!(said.contains("one question only"), "{said}");
}

#[test]
fn sessions_are_begun_and_removed_without_a_key() {
    let output = run(Command::new(example("sessions")), "");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    let said = String::from_utf8(output.stdout).unwrap();
    for expected in [
        "trip: Plan a trip to Oslo. (2 messages)",
        "continued: 4 messages",
        "forked: 4 messages",
        "imported: 4 messages",
        "removed: 3",
    ] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
}
