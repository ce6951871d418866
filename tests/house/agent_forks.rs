//! Forks of the headless agent's sessions: complete or not at all, of all messages or up to one.

use std::fs;

use serde_json::{Value, json};

use crate::agent_cli::{Workshop, call, text};
use crate::agent_sessions::{list, succeed, talk, told};

fn ids(store: &str) -> Vec<String> {
    let mut ids: Vec<String> = list(store)
        .iter()
        .map(|info| info["id"].as_str().unwrap().to_owned())
        .collect();
    ids.sort_unstable();
    ids
}

fn write(content: &str) -> Value {
    json!([
        call("Write", json!({"file_path": "a", "content": content})),
        {"text": "done"}
    ])
}

/// Returns the store of a session `a` of two turns, each of which wrote the file `a`.
fn written() -> (Workshop, String) {
    let workshop = Workshop::new(&write("1\n"));
    workshop.put("a", "0\n");
    let store = workshop.beside("store");
    let accept = ["--checkpoints", "--permission-mode", "acceptEdits"];
    for content in ["1\n", "2\n"] {
        workshop.script(&write(content));
        let mut command = workshop.agent(&["--store", &store, "--session", "a"]);
        command.args(accept);
        succeed(command);
    }

    workshop.script(&json!([{"text": "Hello."}]));
    (workshop, store)
}

#[test]
fn fork_without_a_prompt_is_rejected() {
    let workshop = talk();
    let store = workshop.beside("store");
    succeed(workshop.agent(&["--store", &store, "--session", "a"]));
    let fork = ["--store", &*store, "--session", "a", "--fork", "b"];
    let (why, code, _) = told(workshop.without_prompt(&fork));
    assert!(why.contains("there is no prompt"), "{why}");
    assert_eq!((code, ids(&store)), (Some(2), vec!["a".to_owned()]));
    succeed(workshop.agent(&fork));
    assert_eq!(ids(&store), ["a", "b"]);
}

#[test]
fn fork_copies_checkpoints_without_the_checkpoints_option() {
    let (workshop, store) = written();
    succeed(workshop.agent(&["--store", &store, "--session", "a", "--fork", "b"]));
    let rewind = ["--store", &*store, "--session", "b", "--rewind", "0"];
    let output = workshop.without_prompt(&rewind).output().unwrap();
    assert!(text(&output.stdout).starts_with("change "));
    assert_eq!(workshop.get("a").as_deref(), Some("0\n"));
}

#[test]
fn fork_is_removed_when_its_checkpoints_cannot_be_copied() {
    let (workshop, store) = written();
    let fork = ["--store", &*store, "--session", "a", "--fork", "b"];
    succeed(workshop.agent(&fork));

    // The session of the fork is deleted, but its checkpoints stay.
    fs::remove_file(format!("{store}/b.jsonl")).unwrap();
    for more in [&[][..], &["--checkpoints"]] {
        let mut command = workshop.agent(&fork);
        command.args(more);
        let (why, code, has_output) = told(command);
        assert!(why.contains("has checkpoints already"), "{why}");
        assert_eq!((code, has_output), (Some(2), false));
        assert_eq!(ids(&store), ["a"]);
    }
}

#[test]
fn fork_at_a_message_copies_earlier_messages_only() {
    let (workshop, store) = written();
    let at = ["--store", &*store, "--session", "a"];
    let show = |arguments: &[&str]| {
        let mut command = workshop.without_prompt(&["--store", &store]);
        let output = command.args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        text(&output.stdout)
    };

    let messages = show(&["--session", "a", "--list-messages"]);
    let lines: Vec<&str> = messages.lines().collect();
    assert_eq!(lines.len(), 8, "{messages}");
    assert_eq!(lines[4], "4  user: Go");
    assert!(
        lines[5].starts_with("5  assistant: calls Write"),
        "{messages}"
    );
    assert!(lines[6].starts_with("6  tool: "), "{messages}");
    assert_eq!(lines[7], "7  assistant: done");
    let json = show(&["--session", "a", "--list-messages", "--output", "json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        json[4],
        json!({"message": 4, "role": "user", "text": "Go", "calls": []})
    );
    assert_eq!(json[5]["calls"], json!(["Write"]));

    let fork = |more: &[&str]| {
        let mut command = workshop.agent(&at);
        command.args(more);
        command
    };

    // The numbers of `--at` are those of `--rewind`.
    show(&["--session", "a", "--rewind", "4"]);
    assert_eq!(workshop.get("a").as_deref(), Some("1\n"));
    succeed(fork(&["--fork", "b", "--at", "4"]));
    let messages = show(&["--session", "b", "--list-messages"]);
    let lines: Vec<&str> = messages.lines().skip(3).collect();
    assert_eq!(
        lines,
        ["3  assistant: done", "4  user: Go", "5  assistant: Hello."]
    );
    let checkpoints = show(&["--session", "b", "--rewind"]);
    assert_eq!(
        checkpoints
            .lines()
            .filter(|line| !line.starts_with(' '))
            .count(),
        1
    );
    assert!(checkpoints.starts_with("0  Go\n"), "{checkpoints}");
    show(&["--session", "b", "--rewind", "0"]);
    assert_eq!(workshop.get("a").as_deref(), Some("0\n"));

    for (more, why) in [
        (&["--fork", "c", "--at", "9"][..], "has 8 messages"),
        (&["--at", "4"], "were not provided"),
        (&["--fork", "c", "--at", "first"], "invalid value"),
    ] {
        let (stderr, code, has_output) = told(fork(more));
        assert!(stderr.contains(why), "{stderr}");
        assert_eq!((code, has_output), (Some(2), false));
    }

    // A fork in the middle of a turn needs no prompt, since its last message has no answer yet.
    let (_, code, _) = told({
        let mut command = workshop.without_prompt(&at);
        command.args(["--fork", "c", "--at", "5"]);
        command
    });

    assert_eq!(code, Some(0));
    assert_eq!(ids(&store), ["a", "b", "c"]);
}
