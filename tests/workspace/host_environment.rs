//! Environment variables of the host process in the output of commands.

use std::process::Command;

use agentcore::backend::LocalBackend;
use agentcore::session::JsonlStore;
use agentcore::testing::ScriptedModel;
use agentcore::tools::coding;
use serde_json::json;

use crate::kit::workspace::Workspace;
use crate::kit::{agent, result_texts};

/// The variable of the child process: the folder of its session.
const CHILD: &str = "AGENTCORE_TEST_HOST_ENVIRONMENT";
const KEY: &str = "kd83-PQ7z+0aZ/11c?x";

/// Runs in a child process that has a key in its environment.
#[tokio::test]
async fn child_host_with_a_key() {
    let Ok(folder) = std::env::var(CHILD) else {
        return;
    };

    let environment = format!("/proc/{}/environ", std::process::id());
    let model = ScriptedModel::new()
        .call(
            "Bash",
            json!({"command": format!("tr '\\0' '\\n' < {environment}")}),
        )
        .call(
            "Bash",
            json!({"command": format!("base64 -w0 {environment}")}),
        )
        .call(
            "Bash",
            json!({"command": format!("od -An -v -tx1 {environment} | tr -d ' \\n'")}),
        )
        .say("done");
    let backend = LocalBackend::new(&folder).unwrap();
    let agent = agent(model)
        .tool(coding::bash(backend))
        .store(JsonlStore::open(format!("{folder}/sessions")).unwrap())
        .build()
        .unwrap();
    let output = agent.session("s").run("Go").await.unwrap();
    let results = result_texts(&output.messages).join("\n");
    assert!(results.contains("HOST_API_KEY=[redacted]"), "{results}");
    assert!(results.contains("HOST_WORD=kd83-word"), "{results}");
    assert!(!results.contains(KEY), "{results}");
    println!("@{}", results.matches("[redacted]").count());
}

#[test]
fn keys_of_the_host_in_the_output_of_commands_are_redacted() {
    let workspace = Workspace::new();
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "host_environment::child_host_with_a_key"])
        .args(["--nocapture", "--test-threads=1"])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env(CHILD, &workspace.root)
        .env("HOST_API_KEY", KEY)
        .env("HOST_WORD", "kd83-word")
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success(), "{stdout}");
    // The key is replaced as text, in base64 and in hexadecimal.
    assert!(stdout.contains("@3"), "{stdout}");
    let stored = std::fs::read_dir(workspace.root.join("sessions")).unwrap();
    let stored: Vec<String> = stored
        .flatten()
        .filter_map(|entry| std::fs::read_to_string(entry.path()).ok())
        .collect();
    assert!(
        stored
            .iter()
            .any(|text| text.contains("HOST_API_KEY=[redacted]"))
    );
    assert!(!stored.iter().any(|text| text.contains(KEY)));
}
