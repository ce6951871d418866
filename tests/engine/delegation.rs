//! `delegate_to_agent`, the tools for tasks in the background, and their state in the prompt.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use agentcore::hooks::BackgroundTasksHook;
use agentcore::permission::PermissionRules;
use agentcore::sdk::SystemKind;
use agentcore::subagent::{SubagentDefinition, SubagentRegistry};
use agentcore::testing::{FunctionModel, ScriptedModel, Step};
use agentcore::tool::TaskOutcome;
use agentcore::tools;
use agentcore::{
    AgentBuilder, FuncTool, ModelEvent, ModelRequest, SdkMessage, ToolCall, UnfinishedTasks,
};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::kit::{agent, any_object, child_session, result_texts, text_of, watch};

fn scouts() -> SubagentRegistry {
    let mut registry = SubagentRegistry::new();
    let scout = SubagentDefinition::new("Looks around", "You look around.");
    registry.register("scout", scout).unwrap();
    registry
}

fn delegating(model: ScriptedModel, scout: ScriptedModel) -> AgentBuilder {
    agent(model).tools(tools::delegate(scouts()).model(scout).build().unwrap())
}

fn task(text: &str) -> Value {
    json!({"agent": "scout", "task": text})
}

#[tokio::test]
async fn delegated_task_returns_the_final_text() {
    let scout = ScriptedModel::new().say("All quiet.").say(" ").say(" ");
    let model = ScriptedModel::new()
        .call("delegate_to_agent", task("Look"))
        .call("delegate_to_agent", task("Look again"))
        .call("delegate_to_agent", json!({"agent": "x", "task": "Look"}))
        .say("done");
    let agent = delegating(model, scout.clone()).build().unwrap();
    let session = agent.session("s").user_id("ann");
    let output = session.run("Go").await.unwrap();
    let expected = [
        "All quiet.".to_owned(),
        text_of("delegate, no text"),
        text_of("delegate, unknown"),
    ];
    assert_eq!(result_texts(&output.messages), expected);
    assert_eq!(scout.requests()[0].messages.last_content(), "Look");
    assert_eq!(scout.requests()[0].system.to_string(), "You look around.");
    assert!(scout.requests()[0].tools.is_empty());
    let id = child_session(&**agent.store(), "s:sub:scout:call_1").await;
    let state = agent.session(id).state().await.unwrap();
    assert_eq!(state.unwrap().user_id.as_deref(), Some("ann"));
}

#[tokio::test]
async fn rule_about_an_agent_denies_delegation() {
    let rules = PermissionRules::new().allow("*").unwrap();
    let rules = rules.deny("Agent(scout)").unwrap();
    for tool in ["delegate_to_agent", "start_async_task"] {
        let model = ScriptedModel::new().call(tool, task("Look")).say("done");
        let scout = ScriptedModel::new();
        let agent = delegating(model, scout.clone()).permissions(rules.clone());
        let output = agent.build().unwrap().run("Go").await.unwrap();
        assert_eq!(output.permission_denials.len(), 1, "{tool}");
        assert!(scout.requests().is_empty(), "{tool}");
    }
}

/// A model that makes `calls` one after the other, with the id of the first task in place of `ID`,
/// and then answers `done`.
fn calling(calls: Vec<(&'static str, Value)>) -> FunctionModel {
    FunctionModel::new(move |request: ModelRequest| {
        let results: Vec<_> = request.messages.tool_messages().collect();
        let id = results.first().map(|result| {
            let text = result.text().into_owned();
            text.rsplit(' ').next().unwrap().to_owned()
        });
        let Some((name, args)) = calls.get(results.len()) else {
            return vec![Ok(ModelEvent::Text("done".into()))];
        };
        let args = args.to_string().replace("ID", &id.unwrap_or_default());
        let call = ToolCall::new(
            format!("call_{}", results.len()),
            *name,
            serde_json::from_str::<Value>(&args).unwrap(),
        );
        vec![Ok(ModelEvent::ToolCall(call))]
    })
}

#[tokio::test(start_paused = true)]
async fn async_task_is_checked_listed_and_awaited() {
    let scout =
        ScriptedModel::new().step(Step::text("All quiet.").delayed(Duration::from_secs(40)));
    let tools = tools::delegate(scouts()).model(scout).build().unwrap();
    let model = calling(vec![
        ("start_async_task", task("Look\naround")),
        ("check_async_task", json!({"task_id": "ID"})),
        ("list_async_tasks", json!({})),
        ("await_async_tasks", json!({})),
        (
            "await_async_tasks",
            // JSON Schema accepts 60000.0 as an integer.
            json!({"task_ids": ["ID"], "timeout": 60_000.0}),
        ),
        ("check_async_task", json!({"task_id": "ID"})),
        ("await_async_tasks", json!({})),
        ("cancel_async_task", json!({"task_id": "ID"})),
        (
            "update_async_task",
            json!({"task_id": "ID", "message": "Hurry"}),
        ),
        ("check_async_task", json!({"task_id": "task_9"})),
    ]);
    let agent = agent(model).tools(tools).build().unwrap();
    let output = agent.session("s").run("Go").await.unwrap();
    let line = "task_1 [running] scout: Look around";
    let done = "task_1 [done] scout: Look around\n\nAll quiet.";
    assert_eq!(
        result_texts(&output.messages),
        [
            "Task started in background. Task ID: task_1",
            line,
            line,
            line,
            done,
            done,
            "No task is running.",
            "Task task_1 has ended already.",
            "Error: task task_1 has ended",
            r#"Error: unknown task "task_9""#,
        ]
    );
    let id = child_session(&**agent.store(), "s:sub:scout:call_0").await;
    let state = agent.session(id).state().await.unwrap();
    assert_eq!(state.unwrap().messages.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn task_that_is_named_twice_is_reported_once() {
    let tools = tools::delegate(scouts()).model(ScriptedModel::new().say("All quiet."));
    let model = calling(vec![
        ("start_async_task", task("Look")),
        ("await_async_tasks", json!({"task_ids": ["ID", "ID", "ID"]})),
    ]);
    let agent = agent(model).tools(tools.build().unwrap()).build().unwrap();
    let output = agent.run("Go").await.unwrap();
    let reports = &result_texts(&output.messages)[1];
    assert_eq!(reports.matches("All quiet.").count(), 1, "{reports}");
}

#[tokio::test(start_paused = true)]
async fn wait_for_an_empty_list_is_a_wait_for_all_tasks() {
    let scout =
        ScriptedModel::new().step(Step::text("All quiet.").delayed(Duration::from_secs(10)));
    let tools = tools::delegate(scouts()).model(scout);
    let model = calling(vec![
        ("start_async_task", task("Look")),
        ("await_async_tasks", json!({"task_ids": []})),
    ]);
    let agent = agent(model).tools(tools.build().unwrap()).build().unwrap();
    let output = agent.run("Go").await.unwrap();
    let report = &result_texts(&output.messages)[1];
    assert_eq!(report, "task_1 [done] scout: Look\n\nAll quiet.");
}

#[tokio::test(start_paused = true)]
async fn cancelled_task_has_no_result() {
    let scout = ScriptedModel::new().step(Step::text("half").then_hang());
    let tools = tools::delegate(scouts()).model(scout).build().unwrap();
    let model = calling(vec![
        ("start_async_task", task("Look")),
        (
            "update_async_task",
            json!({"task_id": "ID", "message": "Hurry"}),
        ),
        ("cancel_async_task", json!({"task_id": "ID"})),
        ("await_async_tasks", json!({"task_ids": ["ID"]})),
    ]);
    let agent = agent(model).tools(tools).build().unwrap();
    let output = agent.run("Go").await.unwrap();
    let texts = result_texts(&output.messages);
    assert_eq!(texts[1], "The update waits for task task_1.");
    assert_eq!(texts[2], "Task task_1 is cancelled.");
    assert_eq!(texts[3], "task_1 [cancelled] scout: Look");
}

#[tokio::test]
async fn update_to_a_full_mailbox_is_refused() {
    let begin = FuncTool::new("begin", "Begins", any_object(), |cx, _args| async move {
        // The task does not read its messages.
        let id = cx.tasks().spawn("build", pending::<TaskOutcome>());
        format!("It is {id}")
    });
    let mut calls = vec![("begin", json!({}))];
    calls.extend((0..17).map(|number| {
        let args = json!({"task_id": "ID", "message": format!("Hurry {number}")});
        ("update_async_task", args)
    }));
    let tools = tools::delegate(scouts()).build().unwrap();
    let agent = agent(calling(calls)).tools(tools).tool(begin);
    let output = agent.build().unwrap().run("Go").await.unwrap();
    let texts = result_texts(&output.messages);
    assert_eq!(texts[16], "The update waits for task task_1.");
    assert_eq!(texts[17], text_of("mailbox").replace("<ID>", "task_1"));
}

#[tokio::test]
async fn update_reaches_the_subagent_before_its_next_turn() {
    let scout = ScriptedModel::new()
        .call("wait", json!({}))
        .expect(|request| assert_eq!(request.messages.last_content(), "Hurry"))
        .say("All quiet.");
    let gate = Arc::new(Notify::new());
    let (opened, waited) = (gate.clone(), gate);
    let wait = FuncTool::new("wait", "Waits", any_object(), move |_, _| {
        let gate = waited.clone();
        async move {
            gate.notified().await;
            "waited"
        }
    });
    let open = FuncTool::new("open", "Opens", any_object(), move |_, _| {
        opened.notify_one();
        async { "open" }
    });
    let tools = tools::delegate(scouts())
        .model(scout.clone())
        .build()
        .unwrap();
    let model = calling(vec![
        ("start_async_task", task("Look")),
        (
            "update_async_task",
            json!({"task_id": "ID", "message": "Hurry"}),
        ),
        ("open", json!({})),
        ("await_async_tasks", json!({"task_ids": ["ID"]})),
    ]);
    let agent = agent(model).tools(tools).tools([wait, open]);
    let output = agent.build().unwrap().run("Go").await.unwrap();
    assert!(result_texts(&output.messages)[3].ends_with("All quiet."));
    scout.assert_finished();
}

#[tokio::test(start_paused = true)]
async fn state_of_tasks_is_in_the_volatile_part_of_the_prompt() {
    let scout =
        ScriptedModel::new().step(Step::text("All quiet.").delayed(Duration::from_secs(40)));
    let section = text_of("section").replace("<ID>", "task_1");
    let ended = section.replace("running", "done");
    let model = ScriptedModel::new()
        .expect(|request| assert_eq!(request.system.to_string(), ""))
        .call("start_async_task", task("Look"))
        .expect(move |request| assert_eq!(request.system.to_string(), section))
        .say("I wait.")
        .expect(move |request| assert_eq!(request.system.to_string(), ended))
        .say("done");
    let agent = delegating(model, scout)
        .hook(BackgroundTasksHook::new())
        .unfinished_tasks(UnfinishedTasks::Await);
    assert_eq!(agent.build().unwrap().run("Go").await.unwrap().text, "done");
}

#[tokio::test(start_paused = true)]
async fn description_of_a_task_is_cut_and_the_task_is_not() {
    let long = "x".repeat(10_000);
    let scout = ScriptedModel::new()
        .expect(|request| assert_eq!(request.messages.last_content().len(), 10_000))
        .say("Done.");
    let tools = tools::delegate(scouts()).model(scout);
    let model = calling(vec![
        ("start_async_task", task(&long)),
        ("await_async_tasks", json!({"task_ids": [long]})),
        ("await_async_tasks", json!({})),
    ]);
    let agent = agent(model).tools(tools.build().unwrap()).build().unwrap();
    let (messages, output) = watch(agent.run("Go")).await;
    let lengths = messages.iter().filter_map(|message| match message {
        SdkMessage::System(event) => match &event.kind {
            SystemKind::TaskStarted(start) => Some(start.description.len()),
            _ => None,
        },
        _ => None,
    });
    assert_eq!(lengths.collect::<Vec<_>>(), [1_000]);
    let unknown = &result_texts(&output.unwrap().messages)[1];
    assert!(unknown.len() < 200, "{unknown}");
}
