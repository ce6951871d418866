//! Sessions of the headless agent that continue without a prompt, and those that need one.

use std::fs;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use serde_json::json;

use crate::agent_cli::{Workshop, call, text};
use crate::agent_sessions::{list, succeed, talk, told};
use crate::agent_terminal::Somebody;

/// The time after which a command that has not begun is assumed not to begin.
const AT_MOST: Duration = Duration::from_secs(60);

/// Returns the store of a session whose process was killed while a command ran.
fn killed() -> (Workshop, String) {
    let command = "echo begun > pipe; sleep 600";
    let workshop = Workshop::new(&json!([call("Bash", json!({"command": command}))]));
    let store = workshop.beside("store");
    let pipe = workshop.project().join("pipe");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    let mut command = workshop.agent(&["--store", &store, "--session", "s"]);
    command.args(["--permission-mode", "bypassPermissions"]);
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    let (sender, begun) = channel();

    // Opening a pipe waits for its other end, which may never be opened.
    thread::spawn(move || sender.send(fs::read_to_string(pipe).unwrap()));
    assert_eq!(begun.recv_timeout(AT_MOST).unwrap(), "begun\n");
    child.kill().unwrap();
    child.wait().unwrap();
    workshop.script(&json!([{"text": "It was cut off."}]));
    (workshop, store)
}

#[test]
fn session_killed_inside_a_tool_continues_without_a_prompt() {
    for which in [&["--continue"][..], &["--session", "s"], &["--resume", "s"]] {
        let (workshop, store) = killed();
        let mut command = workshop.without_prompt(&["--store", &store]);
        let output = command.args(which).output().unwrap();
        let stderr = text(&output.stderr);
        assert_eq!(text(&output.stdout), "It was cut off.\n", "{stderr}");
        assert_eq!(output.status.code(), Some(0));
        let mut command = workshop.without_prompt(&["--store", &store, "--session", "s"]);
        command.args(["--list-messages", "--output", "json"]);
        let messages = text(&command.output().unwrap().stdout);
        assert!(messages.contains("may have run"), "{messages}");
    }
}

#[test]
fn fork_of_a_killed_session_continues_without_a_prompt() {
    let (workshop, store) = killed();
    let on = ["--store", &*store, "--session", "s", "--fork", "t"];
    succeed(workshop.without_prompt(&on));
    let lens: Vec<_> = list(&store)
        .iter()
        .map(|info| info["messages"].clone())
        .collect();
    assert_eq!(lens, [json!(4), json!(2)]);
}

#[test]
fn ended_session_needs_a_prompt() {
    let workshop = talk();
    let store = workshop.beside("store");
    succeed(workshop.agent(&["--store", &store, "--session", "s"]));
    for which in [&["--continue"][..], &["--session", "s"], &["--resume", "s"]] {
        let mut command = workshop.without_prompt(&["--store", &store]);
        command.args(which);
        let (why, code, has_output) = told(command);
        assert!(why.contains("there is no prompt"), "{why}");
        assert_eq!((code, has_output), (Some(2), false));
    }
}

#[test]
fn selected_session_asks_for_a_prompt() {
    for (typed, messages, code) in [("Once more\n", 4, 0), ("\n", 2, 2)] {
        let workshop = talk();
        let store = workshop.beside("store");
        succeed(workshop.agent(&["--store", &store, "--session", "s"]));
        let (mut user, terminal) = Somebody::sits_down();
        let mut command = workshop.without_prompt(&["--store", &store, "--resume"]);
        let child = command
            .stdin(terminal)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        drop(command);
        user.sees("1) Go - s, ");
        user.types("1\n");
        user.sees("What is to be done?");
        user.sees("> ");
        user.types(typed);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(code));
        assert_eq!(list(&store)[0]["messages"], messages);
    }
}
