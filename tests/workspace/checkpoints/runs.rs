//! The message that each change belongs to.

use std::sync::Arc;

use agentcore::backend::{Backend, LocalBackend, MemoryBackend};
use agentcore::hooks::{FileCheckpoints, RewindMode};
use agentcore::testing::{FunctionModel, ScriptedModel};
use agentcore::{AgentBuilder, BoxError, FuncTool, Message, Messages, Session, hook};
use futures::future::join_all;
use serde_json::json;

use super::{Place, change, rewind, tree, two_workspace_agent};
use crate::kit::any_object;

fn builder(files: &FileCheckpoints, model: ScriptedModel) -> AgentBuilder {
    AgentBuilder::new(model)
        .tool(change())
        .hook(files.clone())
        .backend(files.clone())
}

#[tokio::test]
async fn every_user_message_is_a_checkpoint() {
    let place = Place::new();
    place.put("a", "0");
    let files = place.files();
    for text in ["1", "2", "3"] {
        place
            .changes(&files, json!([["write", "a", text], ["write", text, ""]]))
            .await;
        place.message(&files, vec![]).await;
    }

    let files = place.files();
    let listed = files.checkpoints("s").await.unwrap();
    let places: Vec<_> = listed.iter().map(|checkpoint| checkpoint.message).collect();
    assert_eq!(places, [0, 6, 12]);
    assert!(listed.iter().all(|checkpoint| checkpoint.files.len() == 2));

    // Includes a message without changes, and a position after the last message.
    for (message, text, files_left) in [
        (18, "3", 4),
        (10, "2", 3),
        (12, "2", 3),
        (1, "1", 2),
        (0, "0", 1),
    ] {
        rewind(&files, message).await;
        assert_eq!(place.get("a").as_deref(), Some(text), "{message}");
        assert_eq!(tree(&place.root()).len(), files_left);
    }

    // Rewinds forward: to a message with changes, to one without, and to the last state.
    for (message, text) in [(12, "2"), (16, "3"), (0, "0"), (usize::MAX, "3")] {
        rewind(&files, message).await;
        assert_eq!(place.get("a").as_deref(), Some(text), "{message}");
    }

    // Later messages follow the rewound state.
    rewind(&files, 6).await;
    place.message(&files, vec![]).await;
    assert!(rewind(&files, 18).await.is_empty());
    let at = place
        .changes(&files, json!([["write", "a", "other"]]))
        .await;
    for message in [at, 18, 20] {
        rewind(&files, message).await;
        assert_eq!(place.get("a").as_deref(), Some("1"), "{message}");
    }

    rewind(&files, 16).await;
    assert_eq!(place.get("a").as_deref(), Some("3"));

    // The message that follows a rewind has a checkpoint as well.
    place.changes(&files, json!([["write", "a", "more"]])).await;
    let listed = files.checkpoints("s").await.unwrap();
    let titles: Vec<_> = listed.iter().map(|one| one.title.as_deref()).collect();
    assert_eq!(titles, [Some("Go"); 5]);
}

#[tokio::test]
async fn steering_message_is_a_checkpoint() {
    let place = Place::new();
    place.put("a", "0");
    let files = place.files();
    let model = ScriptedModel::new()
        .call("change", json!({"ops": [["write", "a", "1"]]}))
        .call("change", json!({"ops": [["write", "a", "2"]]}))
        .say("done");
    let agent = builder(&files, model).build().unwrap();
    let mut run = agent.session("s").run("Go");
    let handle = run.handle();
    let mut steered = false;
    while let Some(_message) = run.next().await {
        if !steered && place.get("a").as_deref() == Some("1") {
            steered = true;
            assert!(handle.steer("Once more"));
        }
    }

    let listed = files.checkpoints("s").await.unwrap();
    let titles: Vec<_> = listed
        .iter()
        .map(|one| (one.message, one.title.as_deref()))
        .collect();
    assert_eq!(titles, [(0, Some("Go")), (3, Some("Once more"))]);
    rewind(&files, 3).await;
    assert_eq!(place.get("a").as_deref(), Some("1"));
}

#[tokio::test]
async fn writes_of_other_hooks_belong_to_their_own_run() {
    let files = FileCheckpoints::new(MemoryBackend::new());
    let notes = files.clone();
    let note = hook::wrap_tool_call("note", move |call, next| {
        let notes = notes.clone();
        async move {
            let result = next.run(call).await?;
            notes.write("note", b"a's").await?;
            Ok(result)
        }
    });
    let memory = files.clone();
    let remember = hook::before_agent("remember", move |_cx, state| {
        let memory = memory.clone();
        async move {
            memory.write("memory", b"a's").await?;
            Ok(state)
        }
    });
    let ops = json!([["write", "a", "a's"]]);
    let model = ScriptedModel::new().call("change", json!({"ops": ops}));
    let inner = AgentBuilder::new(model.say("done"))
        .tool(change())
        .hook(note)
        .hook(files.clone())
        .hook(remember)
        .backend(files.clone())
        .build()
        .unwrap();

    // Runs in a new task, so that it does not belong to the other run.
    let start = FuncTool::new("start", "Runs another", any_object(), move |_cx, _args| {
        let session = inner.session("a");
        async move {
            tokio::spawn(async move { session.run("Go").await }).await??;
            Ok::<_, BoxError>("started")
        }
    });
    let model = ScriptedModel::new().call("start", json!({})).say("done");
    let outer = builder(&files, model).tool(start).build().unwrap();
    outer.session("b").run("Go").await.unwrap();

    assert!(files.checkpoints("b").await.unwrap().is_empty());
    let checkpoints = files.checkpoints("a").await.unwrap();
    let mut paths: Vec<_> = checkpoints.iter().flat_map(|one| &one.files).collect();
    paths.sort();
    assert_eq!(
        paths,
        ["/workspace/a", "/workspace/memory", "/workspace/note"]
    );
}

/// With or without the hook in the subagent, its changes belong to the message of the parent.
#[tokio::test]
async fn changes_by_subagents_belong_to_the_message_of_the_parent() {
    for hooked in [true, false] {
        let place = Place::new();
        place.put("a", "0");
        let before = tree(&place.root());
        let files = place.files();
        let model = ScriptedModel::new()
            .call(
                "change",
                json!({"ops": [["write", "a", "child"], ["write", "b", "child"]]}),
            )
            .say("done");
        let mut child = AgentBuilder::new(model)
            .tool(change())
            .backend(files.clone());
        if hooked {
            child = child.hook(files.clone());
        }

        let child = child.build().unwrap();
        let delegate = FuncTool::new(
            "delegate",
            "Asks another",
            any_object(),
            move |cx, _args| {
                let session = child.session("child");
                async move { Ok::<_, BoxError>(session.run_as_child(&cx, "Do it").await?.text) }
            },
        );
        let model = ScriptedModel::new()
            .call("delegate", json!({}))
            .call("change", json!({"ops": [["append", "b", " and parent"]]}))
            .say("done");
        let agent = builder(&files, model).tool(delegate).build().unwrap();
        agent.session("s").run("Go").await.unwrap();
        assert_eq!(place.get("b").as_deref(), Some("child and parent"));
        assert_eq!(files.sessions().await.unwrap(), ["s"].map(Arc::from));
        assert_eq!(
            files.checkpoints("s").await.unwrap()[0].title.as_deref(),
            Some("Go")
        );
        assert_eq!(
            rewind(&files, 0).await,
            ["change a: done", "delete b: done"]
        );
        assert_eq!(tree(&place.root()), before);
    }
}

#[tokio::test]
async fn changes_by_parallel_calls_and_spawned_tasks_are_kept() {
    let place = Place::new();
    for number in 0..8 {
        place.put(&format!("{number}"), "before");
    }

    place.put("shared", "before");
    let before = tree(&place.root());
    let files = place.files();
    let touch = FuncTool::new("touch", "Writes", any_object(), |cx, args| async move {
        let backend = cx.backend().ok_or("no backend")?;
        let name = args["name"].to_string();
        backend.write(&name, b"first").await?;
        backend.append("shared", name.as_bytes()).await?;

        // Changes of a spawned task belong to the run as well.
        let own = tokio::spawn(async move { backend.write(&name, b"second").await });
        own.await??;
        Ok::<_, BoxError>("written")
    });

    let calls = (0..8).map(|name| ("touch", json!({"name": name})));
    let model = ScriptedModel::new().calls(calls).say("done");
    let agent = builder(&files, model).tool(touch).build().unwrap();
    agent.session("s").run("Go").await.unwrap();
    assert_eq!(place.get("shared").unwrap().len(), "before".len() + 8);
    assert_eq!(place.get("7").as_deref(), Some("second"));
    let files = place.files();
    assert_eq!(rewind(&files, 0).await.len(), 9);
    assert_eq!(tree(&place.root()), before);
}

/// One agent and one workspace with many concurrent sessions.
#[tokio::test]
async fn concurrent_sessions_have_separate_checkpoints() {
    let place = Place::new();
    let files = place.files();
    let model = FunctionModel::new(|request| {
        let last = request.messages.last().unwrap();
        if last.as_tool_result().is_some() {
            return vec![Ok(agentcore::ModelEvent::Text("done".into()))];
        }

        let name = last.text().into_owned();
        let args = json!({"ops": [["write", name, "x"], ["append", name, "y"]]});
        vec![Ok(agentcore::ModelEvent::ToolCall(
            agentcore::ToolCall::new("c", "change", args),
        ))]
    });

    let agent = AgentBuilder::new(model)
        .tool(change())
        .hook(files.clone())
        .backend(files.clone())
        .build()
        .unwrap();
    let names: Vec<String> = (0..8).map(|number| format!("s{number}")).collect();
    let runs = names.iter().map(|name| {
        let session: Session = agent.session(name.as_str());
        async move { session.run(name.as_str()).await.unwrap() }
    });

    join_all(runs).await;
    for name in &names {
        let listed = files.checkpoints(name).await.unwrap();
        assert_eq!(
            listed[0].files,
            [place.root().join(name).display().to_string()]
        );
    }

    files
        .rewind("s3", 0, RewindMode::SkipChanged)
        .await
        .unwrap();
    assert_eq!(tree(&place.root()).len(), 7);
    assert_eq!(place.get("s3"), None);
}

/// The positions in a history that a hook has shortened start from it; earlier changes cannot be
/// rewound.
#[tokio::test]
async fn shortened_history_starts_new_checkpoints() {
    let (place, _, at) = Place::with_shorter_history().await;
    assert_eq!(at, 2);
    let files = place.files();
    assert_eq!(files.checkpoints("s").await.unwrap().len(), 1);
    rewind(&files, 2).await;
    assert_eq!(place.get("a").as_deref(), Some("2"));
    rewind(&files, 0).await;
    assert_eq!(place.get("a").as_deref(), Some("2"));
}

/// After a compaction, the history has as many messages as before the last change, or more.
#[tokio::test]
async fn replaced_messages_start_new_checkpoints() {
    for left in [2, 4, 6] {
        let place = Place::new();
        place.put("a", "0");
        let files = place.files();
        place.message(&files, vec![]).await;
        let first = place.changes(&files, json!([["write", "a", "1"]])).await;
        for _ in 0..4 {
            place.message(&files, vec![]).await;
        }

        let mut state = place.store.get("s").unwrap();
        let messages = (0..left / 2).fold(Messages::from(vec![]), |said, number| {
            said.human(format!("Summary {number}")).ai("Yes.")
        });

        state.messages = messages;
        place.store.save("s", state);
        let at = place
            .changes(&place.files(), json!([["write", "a", "2"]]))
            .await;
        assert_eq!((first, at), (2, left));
        let files = place.files();
        assert_eq!(files.checkpoints("s").await.unwrap().len(), 1, "{left}");
        for message in [at, 0] {
            rewind(&files, message).await;
            assert_eq!(place.get("a").as_deref(), Some("1"), "{left}: {message}");
        }

        rewind(&files, usize::MAX).await;
        assert_eq!(place.get("a").as_deref(), Some("2"), "{left}");
    }
}

/// After `rewind_to`, changes before that message can still be rewound.
#[tokio::test]
async fn changes_before_rewind_to_can_still_be_rewound() {
    for is_rewound in [true, false] {
        let place = Place::new();
        place.put("a", "0");
        let files = place.files();
        for text in ["1", "2"] {
            place
                .changes(&files, json!([["write", "a", text], ["write", text, ""]]))
                .await;
        }

        if is_rewound {
            rewind(&files, 4).await;
        }

        let model = ScriptedModel::new()
            .call("change", json!({"ops": [["write", "a", "3"]]}))
            .say("done");
        let agent = builder(&files, model)
            .store(place.store.clone())
            .build()
            .unwrap();
        agent
            .session("s")
            .rewind_to(4)
            .run("Otherwise")
            .await
            .unwrap();
        let files = place.files();
        let listed = files.checkpoints("s").await.unwrap();
        let places: Vec<_> = listed.iter().map(|checkpoint| checkpoint.message).collect();
        assert_eq!(places, [0, 4]);
        let before = if is_rewound { "1" } else { "2" };
        for (message, text) in [(4, before), (0, "0"), (usize::MAX, "3")] {
            rewind(&files, message).await;
            assert_eq!(place.get("a").as_deref(), Some(text), "{message}");
        }

        rewind(&files, 0).await;
        assert_eq!(
            tree(&place.root()).len(),
            1,
            "later files are removed as well"
        );
    }
}

#[tokio::test]
async fn changes_before_several_messages_that_are_taken_back_can_still_be_rewound() {
    let place = Place::new();
    place.put("a", "0");
    let files = place.files();
    for text in ["1", "2", "3"] {
        place.changes(&files, json!([["write", "a", text]])).await;
    }

    let model = ScriptedModel::new()
        .call("change", json!({"ops": [["write", "a", "4"]]}))
        .say("done");
    let agent = builder(&files, model)
        .store(place.store.clone())
        .build()
        .unwrap();
    let session = agent.session("s").rewind_to(4);
    session.run("Otherwise").await.unwrap();
    let files = place.files();
    let listed = files.checkpoints("s").await.unwrap();
    let places: Vec<_> = listed.iter().map(|checkpoint| checkpoint.message).collect();
    assert_eq!(places, [0, 4]);
    for (message, text) in [(4, "3"), (0, "0")] {
        rewind(&files, message).await;
        assert_eq!(place.get("a").as_deref(), Some(text), "{message}");
    }
}

/// A message that arrives while calls wait follows their results in the history.
#[tokio::test]
async fn change_by_an_approved_call_belongs_to_the_message_that_requested_it() {
    let place = Place::new();
    place.put("a", "0");
    let files = place.files();
    let model = ScriptedModel::new()
        .call("change", json!({"ops": [["write", "a", "1"]]}))
        .say("done")
        .say("Well.");
    let agent = builder(&files, model)
        .permissions(crate::kit::asking())
        .unanswered(agentcore::OnUnanswered::Park)
        .store(place.store.clone())
        .build()
        .unwrap();
    agent.session("s").run("Go").await.unwrap();
    let mut state = place.store.get("s").unwrap();
    state.messages.push(Message::human("By the way"));
    place.store.save("s", state);
    let pending = agent.session("s").pending().await.unwrap();
    let decision = agentcore::Decision::allow(&pending[0]);
    agent.session("s").resume(decision).await.unwrap();
    agent.session("s").run("More").await.unwrap();
    let listed = files.checkpoints("s").await.unwrap();
    assert_eq!(
        listed.iter().map(|one| one.message).collect::<Vec<_>>(),
        [0]
    );
    rewind(&files, 0).await;
    assert_eq!(place.get("a").as_deref(), Some("0"));
}

#[tokio::test]
async fn session_without_changes_has_nothing_to_rewind() {
    let place = Place::new();
    let files = place.files();
    place.message(&files, vec![]).await;
    assert!(rewind(&files, 0).await.is_empty());
    assert!(files.checkpoints("nobody").await.unwrap().is_empty());
    assert!(!files.forget("nobody").await.unwrap());
}

/// Two workspaces of one agent have checkpoints of their own.
#[tokio::test]
async fn two_workspaces_have_separate_checkpoints() {
    let (one, two) = (Place::new(), Place::new());
    let (here, there) = (one.files(), two.files());
    let agent = two_workspace_agent(&here, &there, "b");
    agent.session("s").run("Go").await.unwrap();
    assert_eq!(here.checkpoints("s").await.unwrap()[0].files.len(), 1);
    assert_eq!(rewind(&there, 0).await, ["delete b: done"]);
    assert_eq!((one.get("a").as_deref(), two.get("b")), (Some("x"), None));

    // A backend without checkpoints reads the same files.
    let plain = LocalBackend::new(one.root()).unwrap();
    assert_eq!(
        plain.read("a").await.unwrap(),
        here.read("a").await.unwrap()
    );
}
