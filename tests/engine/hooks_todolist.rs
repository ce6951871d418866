//! The hook that keeps a task list.

use agentcore::hooks::TodoListHook;
use agentcore::sdk::SystemKind;
use agentcore::testing::ScriptedModel;
use agentcore::{Hook, PermissionMode, RunOutput, SdkMessage, Todo, TodoStatus};
use serde_json::{Value, json};

use crate::kit::hooks::{golden, pretty};
use crate::kit::{agent, result_texts, watch};

async fn run<const N: usize>(lists: [Value; N]) -> (Vec<SdkMessage>, RunOutput) {
    let model = lists
        .into_iter()
        .fold(ScriptedModel::new(), |model, todos| {
            model.call("write_todos", json!({"todos": todos}))
        })
        .say("done");
    let agent = agent(model).hook(TodoListHook::new()).build().unwrap();
    let (messages, output) = watch(agent.session("s").run("Go")).await;
    (messages, output.unwrap())
}

fn todo(id: &str, title: &str, status: TodoStatus) -> Todo {
    let mut todo = Todo::new(id, title);
    todo.status = status;
    todo
}

#[tokio::test]
async fn todo_hook_adds_the_write_todos_tool() {
    let hook = TodoListHook::default();
    assert_eq!(hook.tools(), ["write_todos"]);
    assert_eq!(hook.phases().to_string(), "before_agent");
    let model = ScriptedModel::new().say("done");
    let agent = agent(model.clone()).hook(hook).build().unwrap();
    agent.run("Go").await.unwrap();
    let tool = &model.requests()[0].tools[0];
    let definition = json!({
        "name": tool.name,
        "description": tool.description,
        "parameters": *tool.parameters,
    });

    assert_eq!(
        pretty(&definition),
        golden(include_str!("../data/hooks/write_todos.json"))
    );
}

#[tokio::test]
async fn write_todos_replaces_the_list_and_emits_a_state_change() {
    let first = json!([
        {"id": "1", "title": "Parse config file", "status": "done"},
        {"id": "2", "title": "Implement handler", "status": "in_progress"},
    ]);
    let second = json!([{"id": "3", "title": "Write tests", "status": "pending"}]);
    let (messages, output) = run([first, second.clone(), second, json!([])]).await;
    assert_eq!(
        result_texts(&output.messages),
        [
            "Updated 2 todo(s)",
            "Updated 1 todo(s)",
            "Updated 1 todo(s)",
            "Updated 0 todo(s)",
        ]
    );
    let lengths: Vec<usize> = messages
        .iter()
        .filter_map(|message| match message {
            SdkMessage::System(event) => match &event.kind {
                SystemKind::StateChanged { todos, files: None } => todos.as_ref().map(Vec::len),
                _ => None,
            },
            _ => None,
        })
        .collect();
    assert_eq!(lengths, [2, 1, 0], "unchanged lists are not emitted");
    assert!(output.state.todos.is_empty());
}

#[tokio::test]
async fn todo_fields_of_other_agents_are_accepted() {
    let list = json!([
        {"content": "Run tests", "status": "completed", "activeForm": "Running tests"},
        {"id": "1", "title": "Fix", "status": "in_progress"},
        {"content": "Ship"},
    ]);
    let (_, output) = run([list]).await;
    assert_eq!(result_texts(&output.messages), ["Updated 3 todo(s)"]);
    assert_eq!(
        *output.state.todos,
        [
            todo("2", "Run tests", TodoStatus::Done),
            todo("1", "Fix", TodoStatus::InProgress),
            todo("3", "Ship", TodoStatus::Pending),
        ]
    );
}

#[tokio::test]
async fn invalid_todo_list_is_a_tool_error_and_changes_nothing() {
    let good = json!([{"id": "1", "title": "Look"}]);
    let wrong = [
        (
            json!([{"id": "1", "title": "Look"}, {"id": "2", "title": "Go", "status": "blocked"}]),
            vec![
                "/todos/1/status",
                "blocked",
                "pending",
                "in_progress",
                "done",
            ],
        ),
        (json!([{"id": "1"}]), vec!["todos[0].title is required"]),
        (
            json!([{"id": "1", "title": " "}]),
            vec!["todos[0].title is required"],
        ),
        (
            json!([{"id": "1", "title": "a"}, {"id": "1", "title": "b"}]),
            vec!["todos[1].id: another task has the same id"],
        ),
        (json!("none"), vec!["/todos"]),
    ];
    for (wrong, expected) in wrong {
        let (_, output) = run([good.clone(), wrong]).await;
        let text = &result_texts(&output.messages)[1];
        assert!(text.starts_with("Error: "), "{text}");
        for part in expected {
            assert!(text.contains(part), "{text}");
        }

        assert_eq!(*output.state.todos, [Todo::new("1", "Look")]);
    }
}

#[tokio::test]
async fn todo_list_is_kept_in_the_session() {
    let model = ScriptedModel::new()
        .call("write_todos", json!({"todos": [{"title": "Look"}]}))
        .say("done")
        .say("again");
    let agent = agent(model).hook(TodoListHook::new()).build().unwrap();
    agent.session("s").run("Go").await.unwrap();
    let output = agent.session("s").run("Go on").await.unwrap();
    assert_eq!(*output.state.todos, [Todo::new("1", "Look")]);
}

#[tokio::test]
async fn last_write_todos_call_of_a_turn_wins() {
    let list = |title: &str| ("TodoWrite", json!({"todos": [{"title": title}]}));
    let model = ScriptedModel::new()
        .calls([list("a"), list("b"), list("c")])
        .say("done");
    let agent = agent(model)
        .hook(TodoListHook::new().tool_name("TodoWrite"))
        // Plan mode allows a task list, since it changes nothing outside the run.
        .permission_mode(PermissionMode::Plan)
        .build()
        .unwrap();
    let output = agent.run("Go").await.unwrap();
    assert_eq!(*output.state.todos, [Todo::new("1", "c")]);
}

#[tokio::test]
async fn write_todos_executed_directly_checks_the_status() {
    use agentcore::{AgentState, ToolContext, hook};
    let model = ScriptedModel::new().say("done");
    let probe = hook::modify_request("probe", |cx, messages| async move {
        let tool = cx.tool("write_todos").unwrap();
        let args = json!({"todos": [{"title": "a", "status": "paused"}]});
        let error = tool.execute(ToolContext::detached(), args).await;
        assert_eq!(
            error.unwrap_err().to_string(),
            "todos[0].status: unknown status \"paused\"; use pending, in_progress or done"
        );
        let error = tool.execute(ToolContext::detached(), json!({})).await;
        assert_eq!(error.unwrap_err().to_string(), "todos is required, a list");
        Ok(messages)
    });

    let hooks = agent(model).hook(TodoListHook::new()).hook(probe);
    let state: AgentState = hooks.build().unwrap().run("Go").await.unwrap().state;
    assert!(state.todos.is_empty());
}

#[tokio::test]
async fn ten_thousand_tasks_get_unique_ids() {
    // Tasks without ids come first, and later tasks have the numbers that would be theirs.
    let named = (0..5_000).map(|n| json!({"id": (n + 1).to_string(), "title": "x"}));
    let list: Vec<Value> = (0..5_000)
        .map(|_| json!({"title": "y"}))
        .chain(named)
        .collect();
    let (_, output) = run([list.into()]).await;
    assert_eq!(result_texts(&output.messages), ["Updated 10000 todo(s)"]);
    let todos = &output.state.todos;
    let ids: std::collections::BTreeSet<&str> = todos.iter().map(|todo| &*todo.id).collect();
    assert_eq!((todos.len(), ids.len()), (10_000, 10_000));
    assert_eq!((&*todos[0].id, &*todos[4_999].id), ("5001", "10000"));

    let wrong: Vec<Value> = (0..10_000)
        .map(|n| json!({"title": n, "status": "?"}))
        .collect();
    let (_, output) = run([wrong.into()]).await;
    let text = &result_texts(&output.messages)[0];
    assert!(
        text.starts_with("Error: ") && text.len() < 10_000,
        "{}",
        text.len()
    );
}

#[tokio::test]
async fn list_over_a_limit_is_a_tool_error_and_changes_nothing() {
    let small = json!([{"id": "1", "title": "Small"}]);
    let many: Vec<Value> = (0..10_001)
        .map(|n| json!({"title": format!("t{n}")}))
        .collect();
    let together: Vec<Value> = (0..100)
        .map(|_| json!({"title": "x".repeat(4_000)}))
        .collect();
    for (list, why) in [
        (json!(many), "10001 tasks; at most 10000 are allowed"),
        (
            json!([{"title": "x".repeat(5_000)}]),
            "todos[0].title: 5000 bytes; at most 4096",
        ),
        (
            json!([{"id": "x".repeat(5_000), "title": "t"}]),
            "todos[0].id: 5000 bytes",
        ),
        (json!(together), "more than 262144 bytes together"),
    ] {
        let (_, output) = run([small.clone(), list]).await;
        let error = result_texts(&output.messages).pop().unwrap();
        assert!(error.contains(why), "{error:.300}");
        assert_eq!(output.state.todos.len(), 1);
    }

    let most: Vec<Value> = (0..1_000)
        .map(|n| json!({"title": format!("t{n}")}))
        .collect();
    let (_, output) = run([json!(most)]).await;
    assert_eq!(output.state.todos.len(), 1_000);
}
