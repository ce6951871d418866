//! Background commands of a run.

use std::time::Duration;

use agentcore::agent::UnfinishedTasks;
use agentcore::backend::{Backend, Command};
use agentcore::testing::ScriptedModel;
use agentcore::tools::coding;
use agentcore::{AgentBuilder, ErrorKind, SdkMessage, Secret, Tool, ToolContext};
use futures::StreamExt;
use serde_json::json;

use crate::kit::processes::{FAMILY, dies, family};
use crate::kit::workspace::Workspace;

fn in_background(command: &str) -> serde_json::Value {
    json!({"command": command, "run_in_background": true})
}

#[tokio::test]
async fn background_command_ends_with_its_run() {
    for is_dropped in [true, false] {
        let workspace = Workspace::new();
        let model = ScriptedModel::new().call("Bash", in_background(FAMILY));
        let wait = json!({"command": "until [ -e ended ]; do sleep 0.01; done"});
        let model = model.call("Bash", wait).say("Done.");
        if is_dropped {
            model.allow_unused();
        }

        let bash = coding::bash(workspace.backend.clone());
        let agent = AgentBuilder::new(model).tool(bash).build().unwrap();
        let mut run = agent.run("Go");
        let pids = {
            let pids = family(&workspace.root);
            tokio::pin!(pids);
            loop {
                tokio::select! {
                    biased;
                    pids = &mut pids => break pids,
                    message = run.next() => assert!(message.is_some()),
                }
            }
        };

        if is_dropped {
            drop(run);
        } else {
            std::fs::write(workspace.root.join("ended"), "").unwrap();
            run.await.unwrap();
        }

        for pid in pids {
            dies(pid).await;
        }
    }
}

#[tokio::test]
async fn background_commands_of_many_runs_leave_room_for_others() {
    let workspace = Workspace::new();
    for _ in 0..40 {
        let model = ScriptedModel::new().call("Bash", in_background("true"));
        let bash = coding::bash(workspace.backend.clone());
        let agent = AgentBuilder::new(model.say("Done.")).tool(bash);
        let output = agent.build().unwrap().run("Go").await.unwrap();
        let message = output.messages.tool_messages().next().unwrap();
        let result = message.as_tool_result().unwrap();
        assert!(!result.is_error, "{}", result.content.text());
    }
}

#[tokio::test]
async fn end_of_a_background_command_reaches_the_reader_and_the_model() {
    let workspace = Workspace::new();
    let model = ScriptedModel::new()
        .call("Bash", in_background("echo out; exit 3"))
        .say("It runs.")
        .expect(|request| {
            let text = request.messages.last().unwrap().text().into_owned();
            assert!(
                text.contains("out") && text.contains("Exit code: 3"),
                "{text}"
            );
        })
        .say("It failed.");
    let agent = AgentBuilder::new(model)
        .tool(coding::bash(workspace.backend.clone()))
        .unfinished_tasks(UnfinishedTasks::Await)
        .build()
        .unwrap();
    let messages: Vec<SdkMessage> = agent.run("Go").collect().await;
    let json = serde_json::to_string(&messages).unwrap();
    assert!(json.contains("task_started") && json.contains("task_notification"));
    assert_eq!(
        messages.iter().rev().find_map(SdkMessage::text).as_deref(),
        Some("It failed.")
    );
}

#[tokio::test]
async fn ended_background_commands_make_room_and_their_ids_are_random() {
    let workspace = Workspace::new();
    let backend = &workspace.backend;
    let mut ids = Vec::new();
    for _ in 0..40 {
        let id = backend.start(Command::new("true")).await.unwrap();
        backend.wait(&id).await.unwrap();
        ids.push(id);
    }

    assert_eq!(
        backend.poll(&ids[0]).await.unwrap_err().kind(),
        ErrorKind::NotFound
    );
    assert!(!backend.poll(&ids[39]).await.unwrap().running);
    ids.sort();
    ids.dedup();
    assert!(
        ids.len() == 40 && ids.iter().all(|id| id.len() > 32),
        "{ids:?}"
    );
}

#[tokio::test]
async fn background_command_has_the_time_limit_of_its_backend() {
    let workspace = Workspace::new();
    let backend = workspace
        .backend
        .clone()
        .with_timeout(Duration::from_millis(200));
    let id = backend.start(Command::new("sleep 300")).await.unwrap();
    backend.wait(&id).await.unwrap();
    assert!(backend.poll(&id).await.unwrap().output.timed_out);
}

#[tokio::test]
async fn background_command_that_its_time_limit_ended_does_not_read_like_a_success() {
    let workspace = Workspace::new();
    let backend = workspace
        .backend
        .clone()
        .with_timeout(Duration::from_millis(200));
    let id = backend.start(Command::new("sleep 300")).await.unwrap();
    backend.wait(&id).await.unwrap();
    let tool = coding::bash_output(backend);
    let call = tool.execute(ToolContext::detached(), json!({"id": id}));
    let text = call.await.unwrap().content.text().into_owned();
    assert_eq!(text, "Ended by its time limit.\n\n(no output)");
}

/// Returns the first result of `BashOutput` that has output.
async fn next_result(tool: &impl Tool, id: &str) -> String {
    loop {
        let call = tool.execute(ToolContext::detached(), json!({"id": id}));
        let text = call.await.unwrap().content.text().into_owned();
        if !text.ends_with("(no output)") {
            return text;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn polls_divide_neither_a_character_nor_a_secret() {
    let _known = Secret::new("qzvkjwqxzgkqvwzxhjqkzv");
    let workspace = Workspace::new();
    let command = r"printf 'a\303'; until [ -e go ]; do sleep 0.01; done
        printf '\244 qzvkjwqxzgk'; until [ -e on ]; do sleep 0.01; done
        printf 'qvwzxhjqkzv qzv'; sleep 300";
    let command = Command::new(command).merged();
    let id = workspace.backend.start(command).await.unwrap();
    let tool = coding::bash_output(workspace.backend.clone());
    assert_eq!(next_result(&tool, &id).await, "Running.\n\na");
    workspace.put("go", "");
    assert_eq!(next_result(&tool, &id).await, "Running.\n\n\u{e4} ");
    workspace.put("on", "");
    assert_eq!(next_result(&tool, &id).await, "Running.\n\n[redacted] ");

    // The output that was held back as a possible key is returned after the end of the command.
    let output = workspace.backend.stop(&id).await.unwrap();
    assert_eq!(output.output.stdout.text(), "qzv");
}
