//! Stores that the headless agent must not create when it refuses to start, or only reads.

use std::path::Path;

use serde_json::json;

use crate::agent_cli::{Workshop, agent, text};
use crate::agent_sessions::{talk, told};

/// Returns addresses of stores that do not exist, each with its path.
fn places(workshop: &Workshop) -> Vec<(String, String)> {
    let folder = workshop.beside("typo");
    let mut places = vec![(folder.clone(), folder)];
    if cfg!(feature = "sqlite") {
        let file = workshop.beside("typo.db");
        places.push((format!("sqlite:{file}"), file));
    }
    places
}

fn exists(path: &str) -> bool {
    [
        path.to_owned(),
        format!("{path}-locks"),
        format!("{path}-wal"),
    ]
    .iter()
    .any(|path| Path::new(path).exists())
}

#[test]
fn list_of_a_missing_store_is_empty_and_creates_nothing() {
    let workshop = talk();
    for (place, path) in places(&workshop) {
        for (output, expected) in [("json", "[]\n"), ("text", ""), ("stream-json", "")] {
            let list = ["--list-sessions", "--store", &*place, "--output", output];
            let output = agent(&list).output().unwrap();
            let stderr = text(&output.stderr);
            assert_eq!(text(&output.stdout), expected);
            assert!(
                stderr.contains(&format!("there is nothing at {path}")),
                "{stderr}"
            );
            assert_eq!((output.status.code(), exists(&path)), (Some(0), false));
        }
    }
}

#[test]
fn command_on_a_missing_session_creates_nothing() {
    let workshop = talk();
    for (place, path) in places(&workshop) {
        for (arguments, why) in [
            (&["--resume", "s"][..], "there is no session \"s\""),
            (&["--continue"], "no session began in"),
            (
                &["--session", "s", "--fork", "t"],
                "there is no session \"s\"",
            ),
            (&["--session", "s", "--rewind"], "there is no session \"s\""),
            (
                &["--session", "s", "--list-messages"],
                "there is no session \"s\"",
            ),
            (
                &["--session", "s", "--decisions", "/dev/null"],
                "there is no session \"s\"",
            ),
            (
                &["--session", "s", "--dismiss"],
                "there is no session \"s\"",
            ),
            (&["--session", "s"], "there is no prompt"),
        ] {
            let mut command = match arguments {
                ["--session", "s"] | [.., "--rewind" | "--list-messages"] => {
                    workshop.without_prompt(arguments)
                }
                _ => workshop.agent(arguments),
            };
            command.args(["--store", &place]);
            let (stderr, code, has_output) = told(command);
            assert!(stderr.contains(why), "{arguments:?}: {stderr}");
            assert_eq!(
                (code, has_output, exists(&path)),
                (Some(2), false, false),
                "{stderr}"
            );
        }
    }
}

#[test]
fn rejected_store_path_is_not_created() {
    let workshop = talk();
    let beneath = workshop.project().join("state").display().to_string();
    let odd = workshop.project().join("s*t").display().to_string();
    for (arguments, why) in [
        (
            vec!["--store", &*beneath, "--checkpoints"],
            "beneath the work",
        ),
        (vec!["--store", &odd], "choose another place"),
        (
            vec!["--store", &beneath, "--max-turns", "1", "--deny", "Bash()"],
            "--deny",
        ),
    ] {
        let (stderr, code, has_output) = told(workshop.agent(&arguments));
        assert!(stderr.contains(why), "{stderr}");
        assert_eq!((code, has_output), (Some(2), false));
        assert_eq!(
            workshop.project().read_dir().unwrap().count(),
            0,
            "{arguments:?}"
        );
    }

    let home = workshop.project().display().to_string();
    let mut command = workshop.agent(&["--session", "s", "--checkpoints"]);
    command.env_remove("XDG_STATE_HOME").env("HOME", home);
    let (why, code, _) = told(command);
    assert!(why.contains("beneath the work"), "{why}");
    assert_eq!(
        (code, workshop.project().read_dir().unwrap().count()),
        (Some(2), 0)
    );
}

#[test]
fn unavailable_model_creates_no_store() {
    let workshop = Workshop::new(&json!({"not": "a list"}));
    let store = workshop.beside("store");
    let (_, code, _) = told(workshop.agent(&["--store", &store, "--session", "s"]));
    assert_eq!((code, exists(&store)), (Some(2), false));
}
