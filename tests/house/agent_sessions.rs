//! Sessions of the headless agent: stored, listed, resumed, forked, and waiting for an approval.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::agent_cli::{Workshop, agent, call, messages, results, text};
use crate::agent_terminal::Somebody;

#[path = "../../examples/agent/address.rs"]
mod address;

pub fn talk() -> Workshop {
    Workshop::new(&json!([{"text": "Hello."}]))
}

/// Runs a command, and returns its standard error, its exit code, and whether it has other output.
pub fn told(mut command: Command) -> (String, Option<i32>, bool) {
    let output = command.output().unwrap();
    let has_output = !output.stdout.is_empty();
    (text(&output.stderr), output.status.code(), has_output)
}

pub fn list(store: &str) -> Vec<Value> {
    let arguments = ["--list-sessions", "--output", "json", "--store", store];
    let output = agent(&arguments).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

pub fn succeed(mut command: Command) -> String {
    let output = command.output().unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    stderr
}

#[test]
fn session_survives_the_process_and_is_listed() {
    let workshop = talk();
    let store = workshop.beside("store");
    for _ in 0..2 {
        succeed(workshop.agent(&["--store", &store, "--session", "th/1"]));
    }

    let listed = list(&store);
    let one = &listed[0];
    assert_eq!((listed.len(), &one["id"]), (1, &json!("th/1")));
    assert_eq!((&one["title"], &one["messages"]), (&json!("Go"), &json!(4)));
    let project = workshop.project().canonicalize().unwrap();
    assert_eq!(one["cwd"], json!(project));
    assert!(one["size"].as_u64().unwrap() > 100);
    assert!(one["updated_at_ms"].as_u64() >= one["created_at_ms"].as_u64());

    let output = agent(&["--list-sessions", "--store", &store])
        .output()
        .unwrap();
    let lines = text(&output.stdout);
    let lines: Vec<&str> = lines.lines().collect();
    assert_eq!((lines.len(), lines[0]), (2, "th/1  Go"));
    assert!(
        lines[1].contains("4 messages") && lines[1].contains("project"),
        "{}",
        lines[1]
    );
    assert!(list(&workshop.beside("empty")).is_empty());
}

#[test]
fn sessions_are_stored_in_the_state_directory_by_default() {
    let workshop = talk();
    for (name, value, place) in [
        (
            "XDG_STATE_HOME",
            workshop.beside("state"),
            "state/agentcore/sessions",
        ),
        (
            "HOME",
            workshop.beside("home"),
            "home/.local/state/agentcore/sessions",
        ),
    ] {
        let mut command = workshop.agent(&["--session", "s"]);
        command.env_remove("XDG_STATE_HOME").env_remove("HOME");
        succeed(with(command, name, &value));
        assert_eq!(list(&workshop.beside(place)).len(), 1);
    }

    let mut command = workshop.agent(&["--session", "s"]);
    command.env_remove("XDG_STATE_HOME").env_remove("HOME");
    let (why, code, _) = told(command);
    assert!(why.contains("--store DIR"), "{why}");
    assert_eq!(code, Some(2));
}

#[test]
fn title_that_changes_the_direction_of_text_is_listed_escaped() {
    let workshop = talk();
    let store = workshop.beside("store");
    let mut command = workshop.without_prompt(&["--store", &store, "--session", "s"]);
    command.arg("Go \u{202e}og\u{1b}[2J");
    succeed(command);
    let output = agent(&["--list-sessions", "--store", &store]).output();
    let lines = text(&output.unwrap().stdout);
    assert!(
        lines.starts_with("s  Go \\u{202e}og\\u{1b}[2J\n"),
        "{lines:?}"
    );
}

/// Two stores may have sessions with the same id.
#[test]
fn checkpoints_belong_to_one_store() {
    let write = |path: &str| {
        let call = call("Write", json!({"file_path": path, "content": "1\n"}));
        json!([call, {"text": "done"}])
    };

    let workshop = Workshop::new(&write("a"));
    let state = workshop.beside("state");
    let stores = ["one.db", "two.db"].map(|name| format!("sqlite:{}", workshop.beside(name)));
    for (store, file) in stores.iter().zip(["a", "b"]) {
        workshop.script(&write(file));
        let mut command = workshop.agent(&["--store", store, "--session", "s"]);
        command.args(["--checkpoints", "--permission-mode", "acceptEdits"]);
        succeed(with(command, "XDG_STATE_HOME", &state));
    }

    let project = workshop.project().canonicalize().unwrap();
    for (store, file) in stores.iter().zip(["a", "b"]) {
        let command = workshop.without_prompt(&["--store", store, "--session", "s", "--rewind"]);
        let output = with(command, "XDG_STATE_HOME", &state).output().unwrap();
        let expected = format!("0  Go\n    {}\n", project.join(file).display());
        assert_eq!(text(&output.stdout), expected);
    }
}

/// The checkpoints of a server are found by its address and user, and not by a secret.
#[test]
fn server_id_depends_on_address_and_user_only() {
    let id = address::id_of_server("redis://me:one@127.0.0.1:1/0");
    for same in [
        "redis://me:t%2Fwo@127.0.0.1:1/0",
        "redis://me:th@ree@127.0.0.1:1/0",
        "redis://me@127.0.0.1:1/0?sslmode=disable",
    ] {
        assert_eq!(address::id_of_server(same), id, "{same}");
    }

    for other in [
        "redis://me:one@127.0.0.1:1/1",
        "redis://me:one@127.0.0.1:2/0",
        "redis://you:one@127.0.0.1:1/0",
        "redis://me:one@127.0.0.1:1/0?dbname=other",
    ] {
        assert_ne!(address::id_of_server(other), id, "{other}");
    }
}

fn with(mut command: Command, name: &str, value: &str) -> Command {
    command.env(name, value);
    command
}

#[test]
fn continue_resumes_the_last_session_of_the_directory() {
    let (workshop, elsewhere) = (talk(), talk());
    let store = workshop.beside("store");
    let go = |workshop: &Workshop, more: &[&str]| {
        let mut arguments = vec!["--store", &*store];
        arguments.extend(more);
        workshop.agent(&arguments)
    };

    let (why, code, has_output) = told(go(&workshop, &["--continue"]));
    assert!(why.contains("no session began in"), "{why}");
    assert_eq!((code, has_output), (Some(2), false));
    for id in ["first", "last"] {
        succeed(go(&workshop, &["--session", id]));
    }

    succeed(go(&elsewhere, &["--session", "other"]));
    succeed(go(&workshop, &["--continue"]));
    let last = &list(&store)[0];
    assert_eq!(
        (&last["id"], &last["messages"]),
        (&json!("last"), &json!(4))
    );

    // The agent creates a session and prints its id.
    let stderr = succeed(go(&workshop, &[]));
    let id = list(&store)[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(stderr, format!("agent: session {id}\n"));
    let stderr = succeed(go(&elsewhere, &["--resume", "last"]));
    assert!(stderr.contains("this session began in"), "{stderr}");
}

#[test]
fn fork_leaves_the_session_unchanged() {
    let workshop = talk();
    let store = workshop.beside("store");
    succeed(workshop.agent(&["--store", &store, "--session", "a"]));
    succeed(workshop.agent(&["--store", &store, "--resume", "a", "--fork", "b"]));
    let lens = |id: &str| {
        let all = list(&store);
        let info = all.iter().find(|info| info["id"] == id).unwrap();
        info["messages"].as_u64().unwrap()
    };

    assert_eq!((lens("a"), lens("b")), (2, 4));
    for (from, to, why) in [
        ("a", "b", "exists already"),
        ("none", "c", "no session \"none\""),
    ] {
        let (stderr, code, _) =
            told(workshop.agent(&["--store", &store, "--session", from, "--fork", to]));
        assert!(stderr.contains(why), "{stderr}");
        assert_eq!(code, Some(2));
    }

    assert_eq!(list(&store).len(), 2);
}

#[test]
fn conflicting_options_are_rejected() {
    let workshop = talk();
    let store = workshop.beside("store");
    let cases: [(&[&str], &str); 15] = [
        (&["--session", "a", "--continue"], "cannot be used with"),
        (&["--session", "a", "--resume", "b"], "cannot be used with"),
        (&["--continue", "--resume", "b"], "cannot be used with"),
        (&["--fork", "b"], "were not provided"),
        (&["--decisions", "f"], "were not provided"),
        (&["--list-sessions"], "cannot be used with"),
        (&["--park"], "--park needs a session that lasts"),
        (
            &["--session", ""],
            "--session needs an id that is not empty",
        ),
        (&["--resume", ""], "--resume needs an id that is not empty"),
        (&["--session", "a", "--fork", ""], "--fork needs an id that"),
        (&["--dismiss"], "were not provided"),
        (
            &["--store", "mysql://a:secret@b/c"],
            "unknown kind of store \"mysql\"",
        ),
        (&["--store", "redis:"], "nothing follows the colon"),
        (
            &["--store", &store, "--resume", "none"],
            "there is no session \"none\"",
        ),
        (&["--store", &store, "--resume"], "--resume needs an ID"),
    ];
    for (arguments, reason) in cases {
        // The prompt is first, since an option with an optional value would take it.
        let mut command = agent(&["Hi", "--model", "scripted"]);
        command.args(arguments);
        let (why, code, has_output) = told(command);
        assert!(why.contains(reason), "{arguments:?}: {why}");
        assert!(!why.contains("secret"), "{why}");
        assert_eq!((code, has_output), (Some(2), false), "{arguments:?}");
    }

    let (why, code, _) = told(workshop.without_prompt(&["--store", &store, "--session", "new"]));
    assert!(why.contains("there is no prompt"), "{why}");
    assert_eq!(code, Some(2));
    assert!(list(&store).is_empty());
}

#[test]
fn session_files_are_protected_from_the_tools() {
    let workshop = Workshop::new(&json!([
        call("Read", json!({"file_path": "state/s.jsonl"})),
        call("Write", json!({"file_path": "state/t.jsonl", "content": ""})),
        call("Bash", json!({"command": "cat state/s.jsonl"})),
        call("Bash", json!({"command": "rm -r state"})),
        call("Grep", json!({"pattern": "thread_id|crc", "output_mode": "content", "glob": "*"})),
        {"text": "done"}
    ]));
    let store = workshop.project().join("state").display().to_string();
    let (messages, code) = workshop.run(&[
        "--permission-mode",
        "bypassPermissions",
        "--store",
        &store,
        "--session",
        "s",
    ]);
    let results = results(&messages);
    for (failed, why) in &results[..4] {
        assert!(*failed && why.contains("denied"), "{results:#?}");
    }

    assert!(!results[4].1.contains("\"crc\""), "{}", results[4].1);
    assert_eq!((code, list(&store).len()), (Some(0), 1));

    let odd = workshop.project().join("a*b").display().to_string();
    let (why, code, _) = told(workshop.agent(&["--store", &odd]));
    assert!(why.contains("choose another place"), "{why}");
    assert_eq!(code, Some(2));
}

/// Returns a workshop and a store in which a call is pending, and the decision that allows it.
pub fn parked() -> (Workshop, String, Value) {
    let workshop = Workshop::new(&json!([call("Bash", json!({"command": "touch made"})),]));
    let store = workshop.beside("store");
    let (stderr, code, _) = told(workshop.agent(&["--store", &store, "--session", "s", "--park"]));
    assert_eq!(code, Some(3), "{stderr}");
    assert!(
        stderr.contains("waits for an approval: Bash wants to run `touch made`"),
        "{stderr}"
    );
    assert!(stderr.contains("--resume s"), "{stderr}");
    let line = stderr.lines().find_map(|line| line.split_once("    "));
    let decision = serde_json::from_str(line.unwrap().1).unwrap();
    workshop.script(&json!([{"text": "It is made."}]));
    (workshop, store, decision)
}

#[test]
fn pending_call_is_decided_by_a_file() {
    let (workshop, store, decision) = parked();
    let on = ["--store", &*store, "--resume", "s"];

    // Without a decision nothing runs, with a prompt or without, and the call stays pending.
    for command in [workshop.without_prompt(&on), {
        let mut command = workshop.without_prompt(&["Never mind"]);
        command.args(on);
        command
    }] {
        let (stderr, code, has_output) = told(command);
        assert!(stderr.contains("touch made"), "{stderr}");
        assert_eq!((code, has_output), (Some(3), false));
    }

    let decide = |decisions: &Value| {
        let file = workshop.beside("decisions.json");
        fs::write(&file, decisions.to_string()).unwrap();
        let mut command = workshop.without_prompt(&on);
        command.args(["--decisions", &file]);
        let output = command.output().unwrap();
        (
            text(&output.stdout),
            text(&output.stderr),
            output.status.code(),
        )
    };

    let mut forged = decision.clone();
    forged["args_hash"] = "0".into();
    let (_, why, code) = decide(&json!([forged]));
    assert!(why.contains("other arguments"), "{why}");
    assert_eq!((code, workshop.get("made")), (Some(1), None));
    let (_, why, code) = decide(&json!({"allow": "all"}));
    assert!(
        why.contains("decisions.json: missing field `decision`"),
        "{why}"
    );
    assert_eq!((code, workshop.get("made")), (Some(2), None));

    let (stdout, _, code) = decide(&json!([decision]));
    assert_eq!((stdout.as_str(), code), ("It is made.\n", Some(0)));
    assert!(workshop.get("made").is_some());
    let (_, why, code) = decide(&json!([decision]));
    assert!(why.contains("answered already"), "{why}");
    assert_eq!(code, Some(1));
}

#[test]
fn pending_call_is_decided_at_the_terminal() {
    let (workshop, store, _) = parked();
    for (answer, then) in [("l\n", Some(3)), ("y\n", Some(0))] {
        let (mut user, terminal) = Somebody::sits_down();
        let mut command = workshop.without_prompt(&["--store", &store, "--continue"]);
        command.args(["--output", "stream-json"]);
        let child = command
            .stdin(terminal)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(command);
        user.sees("[waiting] Bash wants to run `touch made`");
        user.sees("1-3, or why not: ");
        user.types(answer);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), then, "{}", text(&output.stderr));
        if then == Some(0) {
            let (messages, _) = messages(&output);
            assert!(!results(&messages)[0].0);
        }
    }

    assert!(workshop.get("made").is_some());
}

#[test]
fn session_is_selected_at_the_terminal() {
    let workshop = talk();
    let store = workshop.beside("store");
    for id in ["a", "b"] {
        succeed(workshop.agent(&["--store", &store, "--session", id]));
    }

    let (mut user, terminal) = Somebody::sits_down();
    let mut command = workshop.agent(&["--store", &store]);
    command.arg("--resume").stdin(terminal);
    let child = command.stdout(Stdio::piped()).spawn().unwrap();
    drop(command);
    user.sees("1) Go - b, ");
    user.sees("2) Go - a, ");
    user.types("2\n");
    assert!(child.wait_with_output().unwrap().status.success());
    let all = list(&store);
    assert_eq!(
        (&all[0]["id"], &all[0]["messages"]),
        (&json!("a"), &json!(4))
    );
}

#[test]
fn rewind_restores_files_as_of_a_message() {
    let write = |content: &str| call("Write", json!({"file_path": "a", "content": content}));
    let workshop = Workshop::new(&json!([write("1\n"), {"text": "done"}]));
    workshop.put("a", "0\n");
    let store = workshop.beside("store");
    let on = ["--store", &*store, "--session", "s"];
    let go = |more: &[&str]| {
        let mut command = workshop.agent(&on);
        command.args(more);
        succeed(command);
    };

    let accept = ["--checkpoints", "--permission-mode", "acceptEdits"];
    go(&accept);
    workshop.script(&json!([write("2\n"), {"text": "done"}]));
    go(&accept);
    assert_eq!(workshop.get("a").as_deref(), Some("2\n"));
    let rewind = |more: &[&str]| {
        let mut command = workshop.without_prompt(&on);
        let output = command.args(more).output().unwrap();
        (
            text(&output.stdout),
            text(&output.stderr),
            output.status.code(),
        )
    };

    let file = workshop.project().canonicalize().unwrap().join("a");
    let file = file.display();
    let list = format!("0  Go\n    {file}\n4  Go\n    {file}\n");
    assert_eq!(rewind(&["--rewind"]), (list, String::new(), Some(0)));
    let change = format!("change {file} (+1 -1 lines)\n");
    let dry = rewind(&["--rewind", "0", "--dry-run"]);
    assert_eq!(dry, (change.clone(), String::new(), Some(0)));
    assert_eq!(workshop.get("a").as_deref(), Some("2\n"));
    assert_eq!(rewind(&["--rewind", "4"]).0, change);
    assert_eq!(workshop.get("a").as_deref(), Some("1\n"));

    // The fork has its own checkpoints.
    let mut fork = workshop.agent(&on);
    workshop.script(&json!([write("3\n"), {"text": "done"}]));
    fork.args(["--fork", "t"]).args(accept);
    succeed(fork);
    let mut command = workshop.without_prompt(&["--store", &store, "--continue"]);
    let output = command
        .args(["--rewind", "0", "--output", "json"])
        .output()
        .unwrap();
    let done: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&done[0]["action"], &done[0]["outcome"]),
        (&json!("change"), &json!("done"))
    );
    assert_eq!(workshop.get("a").as_deref(), Some("0\n"));

    workshop.put("a", "mine\n");
    let (stdout, _, code) = rewind(&["--rewind", "4"]);
    assert!(stdout.contains("another program"), "{stdout}");
    assert_eq!(
        (code, workshop.get("a").as_deref()),
        (Some(1), Some("mine\n"))
    );
    assert_eq!(rewind(&["--rewind", "4", "--overwrite"]).2, Some(0));
    assert_eq!(workshop.get("a").as_deref(), Some("1\n"));

    for (arguments, reason) in [
        (vec!["--rewind", "first"], "invalid value"),
        (vec!["--dry-run"], "were not provided"),
        (
            vec!["--rewind", "0", "--dry-run", "--overwrite"],
            "cannot be used with",
        ),
        (vec!["--fork", "x", "--rewind"], "cannot be used with"),
    ] {
        let (_, why, code) = rewind(&arguments);
        assert!(why.contains(reason), "{arguments:?}: {why}");
        assert_eq!(code, Some(2));
    }

    let beneath = workshop.project().join("state").display().to_string();
    for (arguments, reason) in [
        (
            ["--store", &*store, "--session", "none", "--rewind"],
            "no session \"none\"",
        ),
        (
            ["--store", &beneath, "--session", "s", "--checkpoints"],
            "beneath the workspace",
        ),
    ] {
        let (why, code, _) = told(workshop.without_prompt(&arguments));
        assert!(why.contains(reason), "{why}");
        assert_eq!(code, Some(2));
    }

    let (why, code, _) = told(workshop.agent(&["--checkpoints"]));
    assert!(why.contains("--checkpoints needs a session"), "{why}");
    assert_eq!(code, Some(2));
}
