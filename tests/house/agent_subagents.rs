//! The subagents of the headless agent.

use serde_json::json;

use crate::agent_cli::{Workshop, text};

#[test]
fn subagents_of_a_folder_work_and_their_calls_are_indented() {
    let call = json!({"name": "Task", "args": {
        "prompt": "Look", "description": "Look around", "subagent_type": "scout"
    }});
    let script = json!([
        {"calls": [call]},
        {"calls": [{"name": "Read", "args": {"file_path": "notes.txt"}}]},
        {"text": "All quiet."},
        {"text": "It is quiet."},
    ]);
    let workshop = Workshop::new(&script);
    workshop.put("notes.txt", "nothing\n");
    let scout = "---\nname: scout\ndescription: Looks around\ntools: Read\n---\nYou look around.\n";
    workshop.put("agents/scout.md", scout);
    workshop.put("agents/broken.md", "no front matter\n");
    let folder = workshop.project().join("agents");
    let folder = folder.display().to_string();
    let output = workshop.agent(&["--agents", &folder]).output().unwrap();
    let notes = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{notes}");
    assert_eq!(text(&output.stdout), "It is quiet.\n");
    let lines: Vec<_> = notes.lines().collect();
    assert!(
        lines[0].contains("broken.md") && lines[0].contains("is left out"),
        "{notes}"
    );
    let expected = [
        "agent: Task({\"description\":\"Look around\",\"prompt\":\"Look\",\"subagent_type\":\"scout\"})",
        "agent:     scout begins: Look around",
        "agent:     Read(notes.txt)",
        "agent:     completed: All quiet.",
    ];
    assert_eq!(lines[1..], expected, "{notes}");
}

#[test]
fn folder_without_subagents_is_wrong_usage() {
    let workshop = Workshop::new(&json!([]));
    let folder = workshop.project().display().to_string();
    let output = workshop.agent(&["--agents", &folder]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("no subagent is registered"));
}
