//! Pending calls of the headless agent: their output for programs, and the ways to answer them.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use crate::agent_cli::{Workshop, messages, results, text};
use crate::agent_sessions::{parked, told};

fn touch(name: &str) -> Value {
    json!({"name": "Bash", "args": {"command": format!("touch {name}")}})
}

/// Returns a session in which two calls are pending, and the messages of its process.
fn two(output: &str) -> (Workshop, String, Vec<Value>) {
    let workshop = Workshop::new(&json!([{"calls": [touch("a"), touch("b")]}]));
    let store = workshop.beside("store");
    let arguments = [
        "--store",
        &*store,
        "--session",
        "s",
        "--park",
        "--output",
        output,
    ];
    let mut command = workshop.agent(&arguments);
    let (run_messages, code) = messages(&command.output().unwrap());
    assert_eq!(code, Some(3));
    workshop.script(&json!([{"text": "It is made."}]));
    (workshop, store, run_messages)
}

fn decide(workshop: &Workshop, store: &str, decisions: &str) -> (String, String, Option<i32>) {
    let file = workshop.beside("decisions.json");
    fs::write(&file, decisions).unwrap();
    let arguments = ["--store", store, "--resume", "s", "--decisions", &file];
    let output = workshop.without_prompt(&arguments).output().unwrap();
    (
        text(&output.stdout),
        text(&output.stderr),
        output.status.code(),
    )
}

#[test]
fn json_output_lists_pending_calls_with_usable_decisions() {
    for output in ["json", "stream-json"] {
        let (workshop, store, run_messages) = two(output);
        let result = run_messages.last().unwrap();
        assert_eq!(
            run_messages.len() == 1,
            output == "json",
            "{run_messages:#?}"
        );
        assert_eq!(
            (&result["type"], &result["terminal_reason"]),
            (&json!("result"), &json!("tool_deferred"))
        );
        let pending = result["pending"].as_array().unwrap();
        assert_eq!(pending.len(), 2);
        let first = &pending[0];
        assert_eq!(first["name"], "Bash");
        assert_eq!(first["input"], json!({"command": "touch a"}));
        assert!(first["question"].as_str().unwrap().contains("touch a"));
        assert_eq!(first["allow"]["decision"], "allow");
        assert_eq!(first["deny"]["decision"], "deny");

        // A single decision, and then a list of decisions.
        let (_, stderr, code) = decide(&workshop, &store, &first["allow"].to_string());
        assert_eq!(code, Some(3), "{stderr}");
        let list = json!([pending[1]["deny"]]).to_string();
        let (stdout, stderr, code) = decide(&workshop, &store, &list);
        assert_eq!(
            (stdout.as_str(), code),
            ("It is made.\n", Some(0)),
            "{stderr}"
        );
        let files_exist = ["a", "b"].map(|name| workshop.get(name).is_some());
        assert_eq!(files_exist, [true, false]);
    }
}

#[test]
fn decisions_may_be_json_lines() {
    let (workshop, store, run_messages) = two("json");
    let pending = run_messages[0]["pending"].as_array().unwrap();
    let lines = format!("{}\n{}\n", pending[0]["allow"], pending[1]["allow"]);
    let (stdout, stderr, code) = decide(&workshop, &store, &lines);
    assert_eq!(
        (stdout.as_str(), code),
        ("It is made.\n", Some(0)),
        "{stderr}"
    );
    assert!(workshop.get("a").is_some() && workshop.get("b").is_some());
}

#[test]
fn resume_without_decisions_prints_pending_calls() {
    for output in ["json", "stream-json"] {
        let (workshop, store, run_messages) = two(output);
        let pending = &run_messages.last().unwrap()["pending"];
        let on = ["--store", &*store, "--resume", "s", "--output", output];
        let (again, code) = messages(&workshop.without_prompt(&on).output().unwrap());
        assert_eq!(again, [json!({"session_id": "s", "pending": pending})]);
        assert_eq!(code, Some(3));
    }
}

#[test]
fn decision_with_unknown_fields_is_rejected() {
    let (workshop, store, decision) = parked();
    let mut edited = decision.clone();
    edited["args"] = json!({"command": "touch other"});
    let whole = json!({"question": "?", "allow": decision, "deny": {}});
    for (wrong, why) in [
        (edited.to_string(), "unknown field `args`"),
        (json!([edited]).to_string(), "unknown field `args`"),
        (json!([whole]).to_string(), "missing field `decision`"),
        (json!([[decision]]).to_string(), "decisions.json: "),
        ("\"allow\"".to_owned(), "decisions.json: "),
        (format!("{decision} {{"), "decisions.json: EOF"),
        (String::new(), "decisions.json: there are no decisions"),
        ("[]".to_owned(), "decisions.json: there are no decisions"),
    ] {
        let (stdout, stderr, code) = decide(&workshop, &store, &wrong);
        assert!(stderr.contains(why), "{wrong}: {stderr}");
        assert_eq!((stdout.as_str(), code), ("", Some(2)), "{wrong}");
        assert_eq!(workshop.get("made"), None);
    }
}

fn resume(workshop: &Workshop, store: &str, more: &[&str]) -> Command {
    let mut command = workshop.without_prompt(&["--store", store, "--session", "s"]);
    command.args(more);
    command
}

#[test]
fn prompt_is_sent_only_with_dismiss_while_calls_are_pending() {
    let (workshop, store, _) = parked();
    let (why, code, has_output) = told(resume(&workshop, &store, &["Never mind"]));
    assert!(why.contains("the prompt was not sent"), "{why}");
    assert!(why.contains("--dismiss"), "{why}");
    assert_eq!((code, has_output), (Some(3), false));

    // Without a prompt, the message does not mention one.
    let (why, code, _) = told(resume(&workshop, &store, &[]));
    assert!(!why.contains("was not sent"), "{why}");
    assert_eq!(code, Some(3));

    let mut command = resume(&workshop, &store, &["--dismiss", "Never mind"]);
    command.args(["--output", "stream-json"]);
    let (run_messages, code) = messages(&command.output().unwrap());
    let results = results(&run_messages);
    assert_eq!((code, results.len()), (Some(0), 1));
    assert!(results[0].1.contains("not approved"), "{results:?}");
    assert_eq!(workshop.get("made"), None);
    let output = resume(&workshop, &store, &["--list-messages"])
        .output()
        .unwrap();
    let listed = text(&output.stdout);
    assert!(listed.contains("3  user: Never mind"), "{listed}");
    let (why, code, _) = told(resume(&workshop, &store, &[]));
    assert!(why.contains("there is no prompt"), "{why}");
    assert_eq!(code, Some(2));
}

#[test]
fn unsent_prompt_after_decisions_is_reported() {
    let (workshop, store, run_messages) = two("json");
    let first = &run_messages[0]["pending"][0];
    let mut forged = first["allow"].clone();
    forged["args_hash"] = "0".into();

    // A forged decision, and a decision about one of two calls.
    for (decision, then) in [(&forged, 1), (&first["deny"], 3)] {
        let file = workshop.beside("one.json");
        fs::write(&file, decision.to_string()).unwrap();
        let arguments = ["--decisions", &*file, "And now?"];
        let (why, code, _) = told(resume(&workshop, &store, &arguments));
        assert!(why.contains("the prompt was not sent"), "{why}");
        assert_eq!(code, Some(then));
    }
}

#[test]
fn dismiss_without_a_prompt_continues_the_run() {
    let (workshop, store, _) = parked();
    let output = resume(&workshop, &store, &["--dismiss"]).output().unwrap();
    assert_eq!(
        text(&output.stdout),
        "It is made.\n",
        "{}",
        text(&output.stderr)
    );
    assert_eq!(
        (output.status.code(), workshop.get("made")),
        (Some(0), None)
    );
    for (more, why) in [
        (
            &["--dismiss", "--decisions", "-"][..],
            "cannot be used with",
        ),
        (&["--dismiss", "--fork", "t", "Go"], "cannot be used with"),
    ] {
        let (stderr, code, _) = told(resume(&workshop, &store, more));
        assert!(stderr.contains(why), "{stderr}");
        assert_eq!(code, Some(2));
    }
}

#[test]
fn fork_leaves_pending_calls_in_the_original() {
    let (workshop, store, decision) = parked();
    let mut command = resume(&workshop, &store, &["--fork", "t", "Never mind"]);
    let output = command.output().unwrap();
    let stderr = text(&output.stderr);
    assert!(stderr.contains("stay in the session"), "{stderr}");
    assert_eq!(text(&output.stdout), "It is made.\n");
    assert_eq!(workshop.get("made"), None);
    let (_, stderr, code) = decide(&workshop, &store, &decision.to_string());
    assert_eq!(code, Some(0), "{stderr}");
    assert!(workshop.get("made").is_some());
}
