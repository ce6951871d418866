//! Rewinds that the headless agent refuses, and those that change nothing.

use serde_json::json;

use crate::agent_cli::{Workshop, call, text};
use crate::agent_sessions::{succeed, talk, told};

fn rewound(workshop: &Workshop, arguments: &[&str]) -> (String, String, Option<i32>) {
    let output = workshop.without_prompt(arguments).output().unwrap();
    (
        text(&output.stdout),
        text(&output.stderr),
        output.status.code(),
    )
}

#[test]
fn rewind_in_another_folder_is_rejected() {
    let (workshop, elsewhere) = (talk(), talk());
    let store = workshop.beside("store");
    let on = ["--store", &*store, "--session", "s"];
    workshop.script(&json!([
        call("Write", json!({"file_path": "a", "content": "1\n"})),
        {"text": "done"}
    ]));
    let mut command = workshop.agent(&on);
    succeed({
        command.args(["--checkpoints", "--permission-mode", "acceptEdits"]);
        command
    });
    elsewhere.put("a", "1\n");
    let both = [&workshop, &elsewhere].map(|shop| {
        let path = shop.project().canonicalize().unwrap();
        path.display().to_string()
    });

    for more in [
        &["--rewind"][..],
        &["--rewind", "0"],
        &["--checkpoints", "Go"],
    ] {
        let mut command = elsewhere.without_prompt(&on);
        command.args(more);
        let (why, code, has_output) = told(command);
        for folder in &both {
            assert!(why.contains(folder), "{why}");
        }
        assert_eq!((code, has_output), (Some(2), false));
    }

    assert_eq!(elsewhere.get("a").as_deref(), Some("1\n"));
}

#[test]
fn rewind_without_effect_reports_nothing_to_do() {
    let workshop = talk();
    let store = workshop.beside("store");
    let on = |more: &[&'static str]| {
        let mut all = vec!["--store", &*store, "--session", "s"];
        all.extend(more);
        rewound(&workshop, &all)
    };

    succeed(workshop.agent(&["--store", &store, "--session", "s"]));
    for (more, expected) in [
        (&["--rewind"][..], ""),
        (&["--rewind", "0"], ""),
        (&["--rewind", "0", "--dry-run", "--output", "json"], "[]\n"),
        (&["--rewind", "--output", "stream-json"], "[]\n"),
    ] {
        let (stdout, stderr, code) = on(more);
        assert!(
            stderr.contains("nothing to do: this session has no checkpoints"),
            "{stderr}"
        );
        assert_eq!((stdout.as_str(), code), (expected, Some(0)));
    }

    workshop.script(&json!([
        call("Write", json!({"file_path": "a", "content": "1\n"})),
        {"text": "done"}
    ]));
    let mut command = workshop.agent(&["--store", &store, "--session", "s"]);
    command.args(["--checkpoints", "--permission-mode", "acceptEdits"]);
    succeed(command);
    let (_, stderr, code) = on(&["--rewind", "5"]);
    assert!(
        stderr.contains("nothing to do: every file is what it was before message 5"),
        "{stderr}"
    );
    assert_eq!(code, Some(0));

    for (more, why) in [
        (&["--rewind", "7"][..], "the session has 6 messages"),
        (
            &["--rewind", "18446744073709551615"],
            "the session has 6 messages",
        ),
    ] {
        let (stdout, stderr, code) = on(more);
        assert!(stderr.contains(why), "{stderr}");
        assert_eq!((stdout.as_str(), code), ("", Some(2)));
    }

    // A rewind to the end of the history undoes the earlier rewind.
    on(&["--rewind", "0"]);
    assert_eq!(workshop.get("a"), None);
    on(&["--rewind", "6"]);
    assert_eq!(workshop.get("a").as_deref(), Some("1\n"));
}
