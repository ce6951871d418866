//! The task list and the files of a session at each of its messages.

use std::sync::Arc;

use agentcore::hooks::TodoListHook;
use agentcore::session::Record;
use agentcore::testing::ScriptedModel;
use agentcore::{FuncTool, Messages, Todo};
use serde_json::json;
use tokio::sync::Notify;

use super::places::{Held, Place, for_each_place, said};
use crate::kit::{agent, any_object};

for_each_place!(
    fork_has_todos_and_files_as_of_its_last_message,
    fork_of_a_run_has_the_todo_list_as_of_its_last_message,
    fork_of_a_subagents_session_has_the_todo_list_as_of_its_last_message,
    todo_list_survives_a_dropped_run,
);

fn todos(title: &str) -> Arc<Vec<Todo>> {
    Arc::new(vec![Todo::new("1", title)])
}

fn file(path: &str, content: Option<&str>) -> Record {
    Record::File {
        path: path.into(),
        content: content.map(Into::into),
    }
}

/// Forks the session at a message. Returns the number of messages, the task and the file `x` of the
/// fork.
async fn cut<P: Place>(held: &Held<P>, at: usize) -> (usize, String, Option<String>) {
    let id = uuid::Uuid::new_v4().to_string();
    held.store.fork_at("a", &id, at).await.unwrap();
    let state = held.store.load(&id).await.unwrap().unwrap().state;
    let task = state.todos.first().map_or("", |todo| &todo.title);
    let file = state.files.get("x").map(|text| text.to_string());
    (state.messages.len(), task.to_owned(), file)
}

async fn fork_has_todos_and_files_as_of_its_last_message<P: Place>() {
    let mut held = Held::<P>::new();
    let list = |title: &str| Record::Todos {
        todos: todos(title),
    };

    let lease = held.store.lease("a").await.unwrap();
    for records in [
        vec![said("one")],
        vec![list("first"), file("x", Some("1"))],
        vec![said("two"), list("second"), said("three")],
        vec![list("third"), file("x", None)],
        vec![said("four")],
    ] {
        held.store.append(&lease, records).await.unwrap();
    }

    drop(lease);
    let owned = |(len, task, file): (usize, &str, Option<&str>)| {
        (len, task.to_owned(), file.map(str::to_owned))
    };

    for at in 0..2 {
        for (at, expected) in [
            (0, (0, "", None)),
            (1, (1, "first", Some("1"))),
            (2, (2, "second", Some("1"))),
            (3, (3, "third", None)),
            (4, (4, "third", None)),
        ] {
            assert_eq!(cut(&held, at).await, owned(expected), "cut at {at}");
        }

        if at == 0 {
            held.reopen();
        }
    }

    // The history is truncated and continues with other messages.
    let lease = held.store.lease("a").await.unwrap();
    let mut state = held.store.load("a").await.unwrap().unwrap().state;
    state.messages = state.messages.as_slice()[..1]
        .iter()
        .cloned()
        .collect::<Messages>();
    state.todos = todos("other");
    held.store.save(&lease, &state).await.unwrap();
    let records = vec![said("2"), said("3")];
    held.store.append(&lease, records).await.unwrap();
    state.messages = state.messages.human("2").human("3");
    state.todos = todos("last");
    held.store.save(&lease, &state).await.unwrap();
    for (at, expected) in [
        (0, (0, "", None)),
        (1, (1, "other", None)),
        (2, (2, "other", None)),
        (3, (3, "last", None)),
    ] {
        assert_eq!(cut(&held, at).await, owned(expected), "cut at {at}");
    }
}

async fn fork_of_a_run_has_the_todo_list_as_of_its_last_message<P: Place>() {
    let held = Held::<P>::new();
    let list = |title: &str| json!({"todos": [{"id": "1", "title": title, "status": "pending"}]});
    let model = ScriptedModel::new()
        .call("write_todos", list("first"))
        .say("listed")
        .call("write_todos", list("second"))
        .call("write_todos", list("third"))
        .say("listed anew");
    let agent = agent(model)
        .hook(TodoListHook::new())
        .store(held.store.clone())
        .build()
        .unwrap();
    agent.session("a").run("List").await.unwrap();
    agent.session("a").run("Again").await.unwrap();
    let mut tasks = Vec::new();
    for at in 0..=10 {
        tasks.push(cut(&held, at).await.1);
    }

    // A fork between a call and its result has the list that the call wrote.
    let expected = [
        "", "", "first", "first", "first", "first", "second", "second", "third", "third", "third",
    ];
    assert_eq!(tasks, expected);
}

async fn fork_of_a_subagents_session_has_the_todo_list_as_of_its_last_message<P: Place>() {
    let held = Held::<P>::new();
    let list = |title: &str| Record::Todos {
        todos: todos(title),
    };
    let about = Record::About {
        user_id: None,
        title: None,
        cwd: None,
        parent: Some("parent".into()),
    };

    let lease = held.store.lease("a").await.unwrap();
    for records in [
        vec![about, said("one"), list("first")],
        vec![said("two"), list("second")],
    ] {
        held.store.append(&lease, records).await.unwrap();
    }
    drop(lease);

    let agent = agent(ScriptedModel::new())
        .store(held.store.clone())
        .build()
        .unwrap();
    drop(agent.session("a").fork_at("b", 1).await.unwrap());
    let state = held.store.load("b").await.unwrap().unwrap().state;
    assert_eq!((state.parent, state.todos), (None, todos("first")));
}

async fn todo_list_survives_a_dropped_run<P: Place>() {
    let mut held = Held::<P>::new();
    let halted = Arc::new(Notify::new());
    let tell = halted.clone();
    let halt = FuncTool::new("halt", "Never ends", any_object(), move |_cx, _args| {
        tell.notify_one();
        std::future::pending::<&str>()
    });

    let task = json!({"todos": [{"id": "1", "title": "go on", "status": "pending"}]});
    let model = ScriptedModel::new()
        .call("write_todos", task)
        .call("halt", json!({}));
    let agent = agent(model)
        .tool(halt)
        .hook(TodoListHook::new())
        .store(held.store.clone())
        .build()
        .unwrap();
    let mut run = agent.session("a").run("Go");
    tokio::select! {
        () = halted.notified() => {}
        () = async { while run.next().await.is_some() {} } => panic!("the run has ended"),
    }

    drop(run);
    held.reopen();
    let session = held.store.load("a").await.unwrap().unwrap();
    assert_eq!(&*session.state.todos[0].title, "go on");
    assert_eq!(session.state.messages.len(), 4);
}
