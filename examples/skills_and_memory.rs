//! An agent with a workspace: it reads a skill when it needs one, and writes a memory that is in
//! the system prompt of the next conversation.
//!
//! ```sh
//! cargo run --example skills_and_memory --features tools,yaml
//! ```

use agentcore::backend::{Backend, MemoryBackend};
use agentcore::hooks::{FilesystemHook, MemoryHook, SkillsHook, TodoListHook};
use agentcore::testing::ScriptedModel;
use agentcore::{Agent, ModelRequest};
use serde_json::json;

const SKILL: &str = "\
---
name: release-notes
description: Write release notes in the house style
---
Begin with the version, then one line for each change.
";

#[tokio::main(flavor = "current_thread")]
async fn main() -> agentcore::Result<()> {
    // A real agent has a `LocalBackend`, and a model from `providers::resolve`.
    let workspace = MemoryBackend::new();
    workspace
        .write("skills/release-notes/SKILL.md", SKILL.as_bytes())
        .await?;
    let model = ScriptedModel::new()
        .call(
            "write_todos",
            json!({"todos": [{"title": "Write the notes"}]}),
        )
        .call(
            "read_file",
            json!({"path": "/workspace/skills/release-notes/SKILL.md"}),
        )
        .call(
            "write_file",
            json!({"path": "NOTES.md", "content": "1.0\n- first release\n"}),
        )
        .call(
            "edit_file",
            json!({
                "path": "AGENTS.md",
                "old_text": "# What I know",
                "new_text": "# What I know\n- Releases are described in NOTES.md",
            }),
        )
        .say("The notes are written.")
        .say("In NOTES.md.");
    let agent = Agent::builder(model.clone())
        .system_prompt("You look after this project.")
        .hook(TodoListHook::new())
        .hook(FilesystemHook::new(workspace.clone()))
        .hook(SkillsHook::new(workspace.clone()))
        .hook(MemoryHook::new(workspace.clone()).initial_content("# What I know\n"))
        .build()?;

    let output = agent.run("Describe the release.").await?;
    println!("{}", output.text);
    for (path, content) in &*output.state.files {
        println!("\n--- {path}\n{content}");
    }

    println!(
        "\n--- the system prompt\n{}",
        system_prompt(&model.requests(), 0)
    );

    // Another conversation has the memory in its system prompt.
    let output = agent.run("Where are releases described?").await?;
    println!("\n{}", output.text);
    println!(
        "\n--- the system prompt\n{}",
        system_prompt(&model.requests(), 5)
    );
    Ok(())
}

fn system_prompt(requests: &[ModelRequest], turn: usize) -> String {
    requests[turn].system.to_string()
}
