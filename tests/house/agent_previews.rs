//! Previews of changes to files in the questions of the headless agent.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::agent_cli::{Workshop, call, text};
use crate::agent_terminal::Somebody;

/// Returns the text that the terminal shows before the choices of the question.
fn question(mut command: Command) -> String {
    let (mut user, terminal) = Somebody::sits_down();
    let child = command
        .stdin(terminal)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(command);
    let shown = user.reads_until("1) Yes");
    user.types("y\n");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));

    // The terminal changes line ends.
    shown.replace("\r\n", "\n")
}

fn of(name: &str, args: Value) -> Workshop {
    let workshop = Workshop::new(&json!([call("Read", json!({"file_path": "a.txt"})),
        call(name, args), {"text": "done"}]));
    workshop.put("a.txt", "one\ntwo\nthree\n");
    workshop
}

#[test]
fn question_about_an_edit_shows_the_difference() {
    let args = json!({"file_path": "a.txt", "old_string": "one\ntwo", "new_string": "one\n2"});
    let workshop = of("Edit", args);
    let shown = question(workshop.agent(&[]));
    assert!(shown.contains("\n one\n-two\n+2\n"), "{shown}");
    assert!(shown.contains("Edit wants to"), "{shown}");
    assert_eq!(workshop.get("a.txt").as_deref(), Some("one\n2\nthree\n"));
}

#[test]
fn question_about_a_write_shows_the_difference_to_the_file() {
    let args = json!({"file_path": "a.txt", "content": "one\ntwo\n3\n"});
    let shown = question(of("Write", args).agent(&[]));
    assert!(shown.contains("-three\n+3\n"), "{shown}");
    let new = json!({"file_path": "new.txt", "content": "first\nsecond\n"});
    let shown = question(of("Write", new).agent(&[]));
    assert!(shown.contains("+first\n+second\n"), "{shown}");
}

#[test]
fn difference_is_bounded_and_escaped() {
    let content = format!(
        "{}\u{1b}[2J\u{202e}\n{}",
        "w".repeat(10_000),
        "x\n".repeat(5_000)
    );
    let shown = question(of("Write", json!({"file_path": "b.txt", "content": content})).agent(&[]));
    assert!(shown.lines().count() < 80, "{shown}");
    assert!(
        shown.lines().all(|line| line.chars().count() < 400),
        "{shown}"
    );
    assert!(shown.contains("more lines)"), "{shown}");

    let hostile = json!({"file_path": "c.txt", "content": "a\u{1b}[2Jb\u{202e}c\n"});
    let shown = question(of("Write", hostile).agent(&[]));
    assert!(shown.contains("+a\\u{1b}[2Jb\\u{202e}c"), "{shown}");
    let large = of("Write", json!({"file_path": "d.txt", "content": "x"}));
    large.put("d.txt", &"x\n".repeat(200_000));
    let shown = question(large.agent(&[]));
    assert!(shown.contains("too large to show"), "{shown}");
}

#[test]
fn question_about_a_pending_call_shows_the_difference() {
    let args = json!({"file_path": "a.txt", "old_string": "two", "new_string": "2"});
    let workshop = of("Edit", args);
    let store = workshop.beside("store");
    let options = ["--store", store.as_str(), "--session", "s", "--park"];
    let parked = workshop.agent(&options).output().unwrap();
    assert_eq!(parked.status.code(), Some(3), "{}", text(&parked.stderr));
    workshop.script(&json!([{"text": "done"}]));
    let shown = question(workshop.without_prompt(&["--store", &store, "--resume", "s"]));
    assert!(shown.contains("-two\n+2\n"), "{shown}");
    assert_eq!(workshop.get("a.txt").as_deref(), Some("one\n2\nthree\n"));
}
