//! The files of the working directory that the headless agent reads.

use std::process::Command;

use agentcore::testing::Reply;
use serde_json::json;

use crate::agent_cli::{Workshop, agent, call, text};
use crate::serving::{events, last, serve};

const SKILL: &str = "---\nname: deploy\ndescription: Ship a release\n---\nPush the button.\n";

/// Returns a complete answer of a Chat Completions server.
fn answer() -> Reply {
    let choice = json!({"index": 0, "delta": {"content": "Done."}, "finish_reason": "stop"});
    let chunk = json!({"id": "c", "model": "m", "choices": [choice]});
    events(&format!("data: {chunk}\n\ndata: [DONE]\n\n"))
}

async fn run(mut command: Command) -> String {
    let output = tokio::task::spawn_blocking(move || command.output().unwrap());
    let output = output.await.unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stderr)
}

#[tokio::test]
async fn memory_and_skills_of_the_directory_are_in_the_prompt() {
    let workshop = Workshop::new(&json!([]));
    workshop.put("AGENTS.md", "Speak like a sailor.");
    workshop.put("skills/deploy/SKILL.md", SKILL);
    let server = serve([answer()]).await;
    let ask = |arguments: &[&str]| {
        let mut command = agent(&["--model", "openai:m"]);
        command
            .args(arguments)
            .env("XDG_STATE_HOME", workshop.beside("state"));
        command.arg("--cwd").arg(workshop.project()).arg("Hi");
        command.env("OPENAI_BASE_URL", server.url());
        command.env("OPENAI_API_KEY", "a-key-for-tests");
        command
    };

    let shown = run(ask(&["--trust-project"])).await;
    assert!(!shown.contains("--trust-project"), "{shown}");
    let request = last(&server).json();
    let system = request["messages"][0]["content"].as_str().unwrap();
    assert!(system.contains("Speak like a sailor."), "{system}");
    assert!(system.contains("[deploy] Ship a release"), "{system}");
    assert!(!system.contains("Push the button."), "{system}");
    let has_system = || last(&server).json()["messages"].as_array().unwrap().len() > 1;
    let shown = run(ask(&["--trust-project", "--tools", "none"])).await;
    assert!(!has_system() && !shown.contains("AGENTS.md"), "{shown}");

    // Without a terminal there is no question, and an earlier `--trust-project` is not stored.
    let shown = run(ask(&[])).await;
    let note = "AGENTS.md and skills of this directory not read; --trust-project gives them";
    assert!(!has_system() && shown.contains(note), "{shown}");
    let state = workshop.beside("state/agentcore");
    std::fs::create_dir_all(&state).unwrap();
    let project = workshop.project().canonicalize().unwrap();
    let trusted = format!("/elsewhere\n{}\n", project.display());
    std::fs::write(format!("{state}/trusted"), trusted).unwrap();
    run(ask(&[])).await;
    assert!(has_system());
}

#[tokio::test]
async fn sandbox_confines_commands_and_lists_the_rules_that_the_kernel_holds() {
    let workshop = Workshop::new(&json!([]));
    let secret = workshop.beside("secret");
    std::fs::write(&secret, "x").unwrap();
    let command = format!("cp {secret} here; touch made");
    workshop.script(&json!([call("Bash", json!({"command": command})), {"text": "Done."}]));
    let rules = ["--deny", "Read(/etc/ssl/**)", "--deny", "Read(*.pem)"];
    let agent = |options: &[&str]| {
        let mut command = workshop.agent(&["--permission-mode", "bypassPermissions"]);
        command.args(options);
        command
    };
    let notes = run(agent(&[])).await;
    assert!(!notes.contains("sandbox:"), "{notes}");
    assert!(workshop.get("here").is_some());
    std::fs::remove_file(workshop.project().join("here")).unwrap();

    let notes = run(agent(&[&["--sandbox"], &rules[..]].concat())).await;
    let anywhere = "deny:Read(*.pem): not held by the kernel, the files it matches may be anywhere";
    assert!(notes.contains(anywhere), "{notes}");
    if !notes.contains("sandbox: Landlock") {
        eprintln!("skipped: this machine cannot keep a sandbox: {notes}");
        return;
    }
    assert!(
        notes.contains("deny:Read(/etc/ssl/**): held by the kernel"),
        "{notes}"
    );
    assert_eq!(workshop.get("here"), None);
    assert!(workshop.get("made").is_some());
}

#[tokio::test]
async fn task_list_changes_are_printed() {
    let tasks = |first: &str, second: &str| {
        let todos = json!([
            {"title": "Plan", "status": first},
            {"title": "Build", "status": second},
        ]);
        call("write_todos", json!({"todos": todos}))
    };

    let workshop = Workshop::new(&json!([
        tasks("in_progress", "pending"),
        tasks("done", "in_progress"),
        {"text": "Done."},
    ]));
    let shown = run(workshop.agent(&[])).await;
    let tasks: Vec<&str> = shown.lines().filter(|line| line.contains('[')).collect();
    assert_eq!(
        tasks,
        [
            "agent: [>] Plan",
            "agent: [ ] Build",
            "agent: [x] Plan",
            "agent: [>] Build",
        ],
        "{shown}"
    );
}
