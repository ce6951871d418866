//! Files that were changed by a user or by another program.

use std::fs;

use agentcore::backend::Backend;
use agentcore::hooks::RewindMode;
use agentcore::testing::ScriptedModel;
use agentcore::tools::preset;
use agentcore::{AgentBuilder, ErrorKind};
use serde_json::json;

use super::{Place, rewind, told, tree};

#[tokio::test]
async fn conflicting_file_is_reported_and_overwritten_only_on_request() {
    let place = Place::new();
    for name in ["a", "b", "c", "d"] {
        place.put(name, "before");
    }

    let files = place.files();
    let ops = json!([
        ["write", "a", "agent"],
        ["write", "b", "agent"],
        ["write", "c", "agent"],
        ["remove", "d"],
        ["write", "new", "agent"],
        ["write", "other", "agent"]
    ]);
    place.changes(&files, ops).await;
    place.put("a", "a person");
    fs::remove_file(place.root().join("b")).unwrap();

    // The user has restored this file.
    place.put("c", "before");
    place.put("d", "a person");
    place.put("new", "a person");
    fs::remove_file(place.root().join("other")).unwrap();
    let now = tree(&place.root());
    let expected = [
        "change a: conflict",
        "create b: conflict",
        "change d: conflict",
        "delete new: conflict",
    ];
    let would = files.rewind("s", 0, RewindMode::DryRun).await.unwrap();
    assert_eq!(told(&would), expected);
    assert_eq!(tree(&place.root()), now);
    assert!(
        would
            .to_string()
            .contains("a (+1 -1 lines): another program has changed it")
    );

    let careful = rewind(&files, 0).await;
    assert_eq!(careful, expected);
    assert_eq!(place.get("a").as_deref(), Some("a person"));
    assert_eq!(tree(&place.root()), now);

    let forced = files.rewind("s", 0, RewindMode::Overwrite).await.unwrap();
    assert_eq!(
        told(&forced),
        [
            "change a: done",
            "create b: done",
            "change d: done",
            "delete new: done"
        ]
    );
    assert!(forced.is_complete());
    let all = |path: &str| place.get(path).unwrap();
    assert_eq!([all("a"), all("b"), all("c"), all("d")], ["before"; 4]);
    assert_eq!(tree(&place.root()).len(), 4);
    assert!(rewind(&files, 0).await.is_empty());
}

#[tokio::test]
async fn change_by_a_user_between_messages_is_a_conflict() {
    let place = Place::new();
    place.put("a", "0");
    let files = place.files();
    let first = place.changes(&files, json!([["write", "a", "1"]])).await;
    place.put("a", "a person");
    let second = place
        .changes(&files, json!([["append", "a", " and the agent"]]))
        .await;
    assert_eq!(place.get("a").as_deref(), Some("a person and the agent"));
    assert_eq!(rewind(&files, first).await, ["change a: conflict"]);

    // The content before the second message is the user's.
    assert_eq!(rewind(&files, second).await, ["change a: done"]);
    assert_eq!(place.get("a").as_deref(), Some("a person"));
}

/// Changes by commands are not stored. They are detected if the agent has also written the file.
#[tokio::test]
async fn changes_by_commands_are_conflicts() {
    let place = Place::new();
    place.put("a", "0\n");
    let files = place.files();
    let model = ScriptedModel::new()
        .call("Write", json!({"file_path": "a", "content": "1\n"}))
        .call("Bash", json!({"command": "echo 2 >> a; echo 3 > b"}))
        .say("done");
    let agent = AgentBuilder::new(model)
        .registry(&preset::coding(files.clone()))
        .hook(files.clone())
        .build()
        .unwrap();
    agent.session("s").run("Go").await.unwrap();
    assert_eq!(place.get("a").as_deref(), Some("1\n2\n"));
    assert_eq!(rewind(&files, 0).await, ["change a: conflict"]);
    assert_eq!(place.get("b").as_deref(), Some("3\n"));
}

/// Outside of runs, the checkpoints pass each call to the inner backend.
#[tokio::test]
async fn changes_by_the_program_outside_runs_are_conflicts() {
    let place = Place::new();
    let files = place.files();
    files.write("a", b"program").await.unwrap();
    files.append("a", b"!").await.unwrap();
    assert!(files.sessions().await.unwrap().is_empty());
    place
        .changes(&files, json!([["write", "a", "agent"]]))
        .await;
    files.write("a", b"program again").await.unwrap();
    assert_eq!(rewind(&files, 0).await, ["change a: conflict"]);
    files.remove("a").await.unwrap();
    assert_eq!(rewind(&files, 0).await, ["create a: conflict"]);
    assert_eq!(place.get("a"), None);
    let forced = files.rewind("s", 0, RewindMode::Overwrite).await.unwrap();
    assert_eq!(told(&forced), ["create a: done"]);
    assert_eq!(place.get("a").as_deref(), Some("program!"));
}

/// The file did not exist once, but the session's last change left it there.
#[tokio::test]
async fn removal_by_a_user_is_a_conflict() {
    let place = Place::new();
    let files = place.files();
    place.changes(&files, json!([["write", "a", "1"]])).await;
    let second = place.changes(&files, json!([["write", "a", "2"]])).await;
    fs::remove_file(place.root().join("a")).unwrap();
    assert_eq!(rewind(&files, second).await, ["create a: conflict"]);
    assert_eq!(place.get("a"), None);
    assert!(rewind(&files, 0).await.is_empty());

    // The next message finds it missing.
    let third = place.changes(&files, json!([["write", "a", "3"]])).await;
    assert_eq!(rewind(&files, second).await, ["change a: conflict"]);
    assert_eq!(rewind(&files, third).await, ["delete a: done"]);
}

#[tokio::test]
async fn file_that_others_removed_in_between_is_deleted() {
    let place = Place::new();
    let files = place.files();
    place.changes(&files, json!([["write", "a", "1"]])).await;
    let second = place.changes(&files, json!([["write", "a", "2"]])).await;
    fs::remove_file(place.root().join("a")).unwrap();
    place.changes(&files, json!([["write", "a", "3"]])).await;
    assert_eq!(rewind(&files, second).await, ["change a: conflict"]);
    assert_eq!(rewind(&files, 0).await, ["delete a: done"]);
    assert_eq!(place.get("a"), None);
}

#[tokio::test]
async fn file_that_the_session_removed_twice_is_restored() {
    let place = Place::new();
    place.put("a", "0");
    let files = place.files();
    let ops = json!([["remove", "a"], ["write", "a", "1"]]);
    let first = place.changes(&files, ops).await;
    let ops = json!([["write", "a", "2"], ["remove", "a"]]);
    let second = place.changes(&files, ops).await;
    assert_eq!(rewind(&files, second).await, ["create a: done"]);
    assert_eq!(place.get("a").as_deref(), Some("1"));
    assert_eq!(rewind(&files, first).await, ["change a: done"]);
    assert_eq!(place.get("a").as_deref(), Some("0"));
}

#[tokio::test]
async fn rewind_of_a_running_session_is_session_busy() {
    let place = Place::new();
    place.put("a", "0");
    let files = place.files();
    let model = ScriptedModel::new()
        .call("change", json!({"ops": [["write", "a", "1"]]}))
        .hang();
    model.allow_unused();
    let agent = AgentBuilder::new(model)
        .tool(super::change())
        .hook(files.clone())
        .backend(files.clone())
        .build()
        .unwrap();
    let mut run = agent.session("s").run("Go");
    while place.get("a").as_deref() == Some("0") {
        run.next().await.unwrap();
    }

    let error = files
        .rewind("s", 0, RewindMode::SkipChanged)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SessionBusy);
    let would = files.rewind("s", 0, RewindMode::DryRun).await.unwrap();
    assert_eq!(told(&would), ["change a: planned"]);
    drop(run);
    assert_eq!(rewind(&files, 0).await, ["change a: done"]);
}
