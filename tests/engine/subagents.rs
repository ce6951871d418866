//! Subagents by their type, and agents as tools.

use std::sync::Arc;
use std::time::Duration;

use agentcore::hooks::PermissionHook;
use agentcore::model::{ModelProfile, Prices};
use agentcore::permission::{PermissionConfig, PermissionRules};
use agentcore::sdk::SystemKind;
use agentcore::subagent::{SubagentDefinition, SubagentRegistry};
use agentcore::testing::{ScriptedModel, Step};
use agentcore::tool::ToolRegistry;
use agentcore::tools::{self, ChildHooks, SubagentTools};
use agentcore::{
    AgentBuilder, Error, ErrorKind, FuncTool, PermissionMode, SdkMessage, UnfinishedTasks, Usage,
    hook,
};
use serde_json::{Value, json};

use crate::kit::{
    Log, agent, any_object, child_session, echo, logged, result_texts, results, text_of, warnings,
    watch,
};

/// A registry with the type `scout`.
fn scouts(definition: SubagentDefinition) -> SubagentRegistry {
    let mut registry = SubagentRegistry::new();
    registry.register("scout", definition).unwrap();
    registry
}

fn scout() -> SubagentDefinition {
    SubagentDefinition::new("Looks around", "You look around.")
}

fn task(definition: SubagentDefinition) -> SubagentTools {
    tools::task(scouts(definition))
}

fn call() -> Value {
    json!({"prompt": "Look!", "description": "Look around", "subagent_type": "scout"})
}

fn call_with(field: &str, value: Value) -> Value {
    let mut call = call();
    call[field] = value;
    call
}

/// An agent that calls `Task` with each of these arguments, one after the other.
fn lead(calls: impl IntoIterator<Item = Value>, tools: SubagentTools) -> AgentBuilder {
    let calls = calls.into_iter();
    let model = calls.fold(ScriptedModel::new(), |model, call| model.call("Task", call));
    agent(model.say("done")).tools(tools.build().unwrap())
}

/// Returns the id in the text of a result.
fn agent_id(text: &str) -> String {
    let id = text.strip_prefix("Agent ID: ").expect("an id");
    id.split('\n').next().unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn task_returns_the_final_text_with_details_and_a_display() {
    let profile = ModelProfile::default().with_prices(Prices::new(100.0, 1000.0));
    let model = ScriptedModel::new()
        .with_profile(profile)
        .with_usage(Usage::new(100, 10))
        .step(Step::text("All quiet.").delayed(Duration::from_millis(12_300)));
    let agent = lead([call()], task(scout()).model(model.clone()));
    let (messages, output) = watch(agent.build().unwrap().session("s").run("Go")).await;
    let output = output.unwrap();
    let result = &results(&output.messages)[0];
    let text = result.content.text();
    let id = agent_id(&text);
    let expected = text_of("Task").replace("<ID>", &id);
    assert_eq!(text, expected.replace("TEXT", "All quiet."));
    assert!(id.len() == 13 && id.starts_with("task_"), "{id}");
    assert_eq!(result.display.as_deref(), Some(&*text_of("Task, display")));
    let details = result.details.as_ref().unwrap();
    assert_eq!(details["agentId"], *id);
    assert_eq!(details["turns"], 1);
    assert_eq!(details["tokens"], json!({"input": 100, "output": 10}));
    assert!((details["duration"].as_f64().unwrap() - 12.3).abs() < 0.01);

    let request = &model.requests()[0];
    assert_eq!(request.system.to_string(), "You look around.");
    assert_eq!(request.messages.last_content(), "Look!");
    let started = messages.iter().find_map(|message| match message {
        SdkMessage::System(event) => match &event.kind {
            SystemKind::TaskStarted(started) => Some(started.clone()),
            _ => None,
        },
        _ => None,
    });
    let started = started.expect("a start");
    assert_eq!(
        (&*started.task_id, &*started.description),
        (&*id, "Look around")
    );
    assert_eq!(started.subagent_type.as_deref(), Some("scout"));
    assert_eq!(started.tool_use_id.as_deref(), Some("call_1"));
}

#[tokio::test]
async fn unknown_type_names_the_available_ones() {
    let mut registry = scouts(scout());
    registry.register("builder", scout()).unwrap();
    let agent = lead(
        [call_with("subagent_type", json!("x"))],
        tools::task(registry),
    );
    let output = agent.build().unwrap().run("Go").await.unwrap();
    assert_eq!(
        result_texts(&output.messages),
        [text_of("Task, unknown type")]
    );
}

#[tokio::test]
async fn subagent_has_the_tools_of_its_definition() {
    let named = |name: &'static str| FuncTool::new(name, "", any_object(), |_, _| async { "ok" });
    let announcing = Arc::new(hook::before_agent(
        "hook",
        move |_cx, mut state: agentcore::AgentState| {
            state.register_tool(named("Hooked"));
            async move { Ok(state) }
        },
    ));
    for (definition, expected) in [
        (scout(), vec!["Hooked", "Read", "Write"]),
        (scout().with_tools(["read", "Task"]), vec!["Read", "Task"]),
        (
            scout().with_disallowed_tools(["WRITE", "hooked"]),
            vec!["Read"],
        ),
        (
            scout()
                .with_tools(["Read", "Write"])
                .with_disallowed_tools(["read"]),
            vec!["Write"],
        ),
    ] {
        let model = ScriptedModel::new().say("seen");
        let agent = lead([call()], task(definition.clone()).model(model.clone()))
            .tools([named("Read"), named("Write")])
            .hook(announcing.clone());
        agent.build().unwrap().run("Go").await.unwrap();
        let request = &model.requests()[0];
        let names: Vec<_> = request.tools.iter().map(|tool| &*tool.name).collect();
        assert_eq!(names, expected, "{definition:?}");
    }
}

#[tokio::test]
async fn subagent_may_start_others_if_its_definition_and_the_depth_allow_it() {
    for (depth, expected) in [(1, vec![]), (2, vec!["Task"])] {
        let model = ScriptedModel::new().say("seen");
        let definition = scout().with_tools(["Task"]);
        let agent = lead([call()], task(definition).model(model.clone()));
        let agent = agent.max_subagent_depth(depth).build().unwrap();
        agent.run("Go").await.unwrap();
        let request = &model.requests()[0];
        let names: Vec<_> = request.tools.iter().map(|tool| &*tool.name).collect();
        assert_eq!(names, expected, "depth {depth}");
    }
}

#[tokio::test]
async fn model_and_hooks_of_a_subagent_are_configured() {
    let log = Log::default();
    let noting = |log: &Log, text: &'static str| {
        let log = log.clone();
        hook::before_agent("note", move |cx: agentcore::RunContext, state| {
            log.add(format!("{text} {}", cx.agent()));
            async move { Ok(state) }
        })
    };
    let haiku = ScriptedModel::new().say("one").say("two");
    let calls = [
        call(),
        call_with("model", json!("haiku")),
        call_with("model", json!("x")),
    ];
    let tools = task(scout().with_model("haiku"))
        .model_alias("haiku", haiku.clone())
        .hooks(ChildHooks::These(vec![Arc::new(noting(
            &log,
            "child hook",
        ))]));
    let agent = lead(calls, tools)
        .name("lead")
        .hook(noting(&log, "lead hook"));
    let output = agent.build().unwrap().run("Go").await.unwrap();
    haiku.assert_finished();
    let error = r#"Error: unknown model "x". Available models: [inherit, haiku]"#;
    assert_eq!(result_texts(&output.messages)[2], error);
    assert_eq!(
        log.take(),
        ["lead hook lead", "child hook scout", "child hook scout"]
    );

    let inherited = ScriptedModel::new();
    let model = inherited.call("Task", call()).say("below").say("done");
    let tools = task(scout()).hooks(ChildHooks::None).build().unwrap();
    let lead = crate::kit::agent(model).tools(tools);
    let lead = lead.hook(noting(&log, "lead hook"));
    assert_eq!(lead.build().unwrap().run("Go").await.unwrap().text, "done");
    assert_eq!(log.take(), ["lead hook agent"]);

    let error = task(scout().with_model("no_such_model"))
        .build()
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("scout"), "{error}");
    assert!(tools::task(SubagentRegistry::new()).build().is_err());
}

#[test]
fn unknown_model_of_a_definition_names_the_aliases() {
    let error = task(scout().with_model("auditer"))
        .model_alias("auditor", ScriptedModel::new())
        .model_alias("writer", ScriptedModel::new())
        .build()
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    let text = error.to_string();
    let expected = "subagent \"scout\": \"auditer\" is none of the aliases auditor, writer (did you \
                    mean \"auditor\"?): ";
    assert!(text.starts_with(expected), "{text}");

    let error = task(scout().with_model("nowhere:m"))
        .model_alias("auditor", ScriptedModel::new())
        .build()
        .unwrap_err();
    assert!(!error.to_string().contains("auditor"), "{error}");
}

/// Returns the warnings of a run that starts this subagent twice.
async fn warnings_about(definition: SubagentDefinition) -> Vec<String> {
    let named = |name: &'static str| FuncTool::new(name, "", any_object(), |_, _| async { "ok" });
    let model = ScriptedModel::new().say("one").say("two");
    let agent = lead([call(), call()], task(definition).model(model))
        .tools([named("add"), named("Bash")])
        .build()
        .unwrap();
    warnings(&watch(agent.run("Go")).await.0)
}

#[tokio::test]
async fn unknown_tool_of_a_definition_is_one_warning_with_the_near_name() {
    let listed = scout().with_tools(["ADD", "ad", "rocket", "Task"]);
    assert_eq!(
        warnings_about(listed).await,
        [
            "the subagent \"scout\" lacks the tool \"ad\"; did you mean \"add\"?",
            "the subagent \"scout\" lacks the tool \"rocket\"; its caller has no such tool",
        ]
    );
    let disallowed = scout().with_disallowed_tools(["bash", "Bsh", "rocket"]);
    assert_eq!(
        warnings_about(disallowed).await,
        ["the subagent \"scout\" disallows the unknown tool \"Bsh\"; did you mean \"Bash\"?"]
    );
}

#[tokio::test]
async fn registry_replaces_the_tools_of_the_calling_run() {
    let mut registry = ToolRegistry::new();
    registry.register(echo()).unwrap();
    let model = ScriptedModel::new()
        .call("echo", json!({"text": "x"}))
        .say("seen");
    let agent = lead(
        [call()],
        task(scout()).model(model.clone()).tools(&registry),
    );
    agent.build().unwrap().run("Go").await.unwrap();
    assert_eq!(model.requests()[0].tools.len(), 1);
}

#[tokio::test]
async fn resumed_subagent_continues_its_session() {
    let model = ScriptedModel::new()
        .say("first")
        .expect(|request| assert_eq!(request.messages.len(), 3))
        .say("second");
    let tools = || task(scout()).model(model.clone());
    let store = agentcore::ThreadStore::new();
    let first = lead([call()], tools())
        .store(store.clone())
        .build()
        .unwrap();
    let output = first.session("s").user_id("ann").run("Go").await.unwrap();
    let id = agent_id(&result_texts(&output.messages)[0]);
    let session = format!("s:sub:scout:{id}");
    let state = first
        .session(session.as_str())
        .state()
        .await
        .unwrap()
        .unwrap();
    assert_eq!(state.user_id.as_deref(), Some("ann"));

    let calls = [
        call_with("resume", json!(id)),
        call_with("resume", json!("task_00000000")),
        call_with("resume", json!("../s")),
    ];
    let second = lead(calls.clone(), tools()).store(store.clone());
    let output = second.build().unwrap().session("s").run("Again").await;
    let texts = result_texts(&output.unwrap().messages);
    assert_eq!(texts[1], format!("Agent ID: {id}\n\nsecond"));
    assert_eq!(texts[2], r#"Error: unknown agent ID "task_00000000""#);
    assert_eq!(texts[3], r#"Error: unknown agent ID "../s""#);

    // The id is unknown in another session.
    let other = lead([calls[0].clone()], tools()).store(store);
    let output = other.build().unwrap().session("t").run("Go").await.unwrap();
    let expected = format!("Error: unknown agent ID {id:?}");
    assert_eq!(crate::kit::result_texts(&output.messages), [expected]);
}

#[tokio::test]
async fn failed_or_cut_off_subagent_is_an_error_with_its_text_and_calls() {
    let log = Log::default();
    let act = || ScriptedModel::new().call("act", json!({}));
    let failing = act().fail(Error::new(ErrorKind::Auth, "no key"));
    let endless = act();
    for (model, definition, reason) in [
        (failing, scout(), "the subagent failed: "),
        (
            endless,
            scout().with_max_turns(1),
            "the subagent was cut off (max_turns)",
        ),
    ] {
        let agent = lead([call()], task(definition).model(model)).tool(logged("act", &log));
        let output = agent.build().unwrap().run("Go").await.unwrap();
        let result = &results(&output.messages)[0];
        let text = result.content.text();
        assert!(
            result.is_error && text.starts_with("Error: Agent ID: task_"),
            "{text}"
        );
        assert!(text.contains(reason), "{text}");
        assert!(text.ends_with("Its calls: act"), "{text}");
        assert_eq!(output.text, "done");
    }
}

#[tokio::test(start_paused = true)]
async fn subagent_is_limited_by_its_own_duration_and_not_by_the_tool_timeout() {
    let slow = ScriptedModel::new().step(Step::text("late").delayed(Duration::from_secs(500)));
    let agent = lead([call()], task(scout()).model(slow));
    let output = agent.build().unwrap().run("Go").await.unwrap();
    assert!(result_texts(&output.messages)[0].ends_with("\n\nlate"));

    let stuck = ScriptedModel::new().step(Step::text("half").then_hang());
    let agent = lead([call()], task(scout()).model(stuck));
    let output = agent.build().unwrap().run("Go").await.unwrap();
    let text = &result_texts(&output.messages)[0];
    assert!(text.contains("cut off (max_duration)"), "{text}");
    assert!(text.contains("Its last text:\nhalf"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn silent_subagent_outlives_a_short_tool_timeout() {
    for timeout in [Duration::from_millis(100), Duration::from_secs(5)] {
        let slow = ScriptedModel::new().step(Step::text("late").delayed(Duration::from_secs(20)));
        let agent = lead([call()], task(scout()).model(slow)).tool_timeout(timeout);
        let output = agent.build().unwrap().run("Go").await.unwrap();
        let text = &result_texts(&output.messages)[0];
        assert!(text.ends_with("\n\nlate"), "{timeout:?}: {text}");
    }
}

#[tokio::test]
async fn rules_about_agents_and_denials_of_the_calling_run_hold() {
    let log = Log::default();
    let rules = || PermissionRules::new().allow("*").unwrap();
    let denied = lead([call()], task(scout())).permissions(rules().deny("Agent(scout)").unwrap());
    let output = denied.build().unwrap().run("Go").await.unwrap();
    assert!(result_texts(&output.messages)[0].starts_with("Error: "));

    let model = ScriptedModel::new().call("act", json!({})).say("could not");
    let bypassing = scout().with_permission_mode(PermissionMode::BypassPermissions);
    let tools = task(bypassing).model(model);
    let mut config = PermissionConfig::default();
    config.deny.push("act".into());
    let agent = lead([call()], tools)
        .tool(logged("act", &log))
        .hook(PermissionHook::new(config).unwrap())
        .permission_mode(PermissionMode::BypassPermissions);
    let output = agent.build().unwrap().run("Go").await.unwrap();
    assert!(result_texts(&output.messages)[0].ends_with("could not"));
    assert_eq!(log.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn background_task_returns_at_once_and_its_output_can_be_awaited() {
    let slow = || ScriptedModel::new().step(Step::text("quiet").delayed(Duration::from_secs(40)));
    let model = agentcore::testing::FunctionModel::new(|request| {
        let text = request.messages.last_content().into_owned();
        let id = request.messages.tool_messages().next();
        let id = id.map(|message| message.text().rsplit(' ').next().unwrap().to_owned());
        let call = |name: &str, args: Value| {
            vec![Ok(agentcore::ModelEvent::ToolCall(
                agentcore::ToolCall::new(format!("call_{}", request.messages.len()), name, args),
            ))]
        };
        match request.messages.len() {
            1 => call("Task", call_with("run_in_background", json!(true))),
            3 => call("TaskOutput", json!({"task_id": id, "block": false})),
            5 => call("TaskOutput", json!({"task_id": id})),
            // JSON Schema accepts 60000.0 as an integer.
            7 => call("TaskOutput", json!({"task_id": id, "timeout": 60_000.0})),
            // The message about the end of the task makes the length even.
            10 => call("TaskOutput", json!({"task_id": "task_1"})),
            12 => call("TaskStop", json!({"task_id": id})),
            _ => vec![Ok(agentcore::ModelEvent::Text(text))],
        }
    });
    let tools = task(scout()).model(slow()).build().unwrap();
    let agent = agent(model).tools(tools).build().unwrap();
    let output = agent.session("s").run("Go").await.unwrap();
    let results = results(&output.messages);
    let id = results[0]
        .content
        .text()
        .rsplit(' ')
        .next()
        .unwrap()
        .to_owned();
    assert!(results[0].is_async);
    let texts = result_texts(&output.messages);
    assert_eq!(
        texts[0],
        format!("Task started in background. Task ID: {id}")
    );
    assert_eq!(texts[1], format!("Task {id} is running."));
    assert_eq!(texts[2], format!("Task {id} is running."), "after 30 s");
    assert_eq!(texts[3], "quiet");
    assert_eq!(texts[4], r#"Error: unknown task "task_1""#);
    assert_eq!(texts[5], format!("Task {id} has ended already."));
    assert!(
        agent
            .session(format!("s:sub:scout:{id}"))
            .state()
            .await
            .unwrap()
            .is_some()
    );
}

#[tokio::test(start_paused = true)]
async fn second_background_run_of_a_subagent_names_the_id_to_resume() {
    let model = agentcore::testing::FunctionModel::new(|request| {
        let results: Vec<_> = request.messages.tool_messages().collect();
        let last_word = |index: usize| {
            let text = results[index].text();
            text.rsplit(' ').next().unwrap().to_owned()
        };
        let background = call_with("run_in_background", json!(true));
        let (name, args) = match results.len() {
            0 => ("Task", background),
            1 => ("TaskOutput", json!({"task_id": last_word(0)})),
            2 => {
                let mut args = background;
                args["resume"] = json!(last_word(0));
                ("Task", args)
            }
            3 => ("TaskOutput", json!({"task_id": last_word(2)})),
            4 => ("Task", call_with("resume", json!(last_word(0)))),
            _ => return vec![Ok(agentcore::ModelEvent::Text("done".into()))],
        };
        let call = agentcore::ToolCall::new(format!("call_{}", results.len()), name, args);
        vec![Ok(agentcore::ModelEvent::ToolCall(call))]
    });
    let scout_model = ScriptedModel::new().say("one").say("two").say("three");
    let tools = task(scout()).model(scout_model).build().unwrap();
    let agent = agent(model).tools(tools).build().unwrap();
    let output = agent.session("s").run("Go").await.unwrap();
    let texts = result_texts(&output.messages);
    let text = "Task started in background. Task ID: ";
    let id = texts[0].strip_prefix(text).unwrap();
    let second_text = format!("Agent ID: {id}\n\n{text}");
    assert!(texts[2].starts_with(&second_text), "{}", texts[2]);
    assert!(!texts[2].ends_with(id), "{}", texts[2]);
    assert_eq!(texts[1], "one");
    assert_eq!(texts[3], "two");
    assert_eq!(texts[4], format!("Agent ID: {id}\n\nthree"));
}

#[tokio::test(start_paused = true)]
async fn background_definition_reports_to_the_model_when_it_ends() {
    let slow = ScriptedModel::new().step(Step::text("quiet").delayed(Duration::from_secs(40)));
    let tools = task(scout().in_background()).model(slow).build().unwrap();
    let model = ScriptedModel::new()
        .call("Task", call())
        .say("I wait.")
        .expect(|request| {
            let text = request.messages.last_content();
            assert!(text.starts_with("Task 'Look around' (task_"), "{text}");
            assert!(text.ends_with(") completed.\n\nResult:\nquiet"), "{text}");
        })
        .say("done");
    let agent = agent(model)
        .tools(tools)
        .unfinished_tasks(UnfinishedTasks::Await);
    assert_eq!(agent.build().unwrap().run("Go").await.unwrap().text, "done");
}

#[tokio::test]
async fn agent_as_a_tool_returns_its_final_text() {
    let librarian = agent(ScriptedModel::new().say("In 2015.")).build().unwrap();
    let model = ScriptedModel::new()
        .call("librarian", json!({"task": "When?"}))
        .say("done");
    let lead = agent(model).tool(librarian.as_tool("librarian", "Knows dates"));
    let output = lead.build().unwrap().session("s").run("Go").await.unwrap();
    assert_eq!(result_texts(&output.messages), ["In 2015."]);
    let id = child_session(&**librarian.store(), "s:sub:librarian:call_1").await;
    let state = librarian.session(id).state().await.unwrap();
    assert_eq!(state.unwrap().messages.len(), 2);

    let rules = PermissionRules::new().allow("*").unwrap();
    let rules = rules.deny("Agent(librarian)").unwrap();
    let model = ScriptedModel::new()
        .call("librarian", json!({"task": "When?"}))
        .say("done");
    let lead = agent(model).permissions(rules);
    let lead = lead.tool(librarian.as_tool("librarian", "Knows dates"));
    let output = lead.build().unwrap().run("Go").await.unwrap();
    assert_eq!(output.permission_denials.len(), 1);

    let failing = agent(ScriptedModel::new().fail(Error::new(ErrorKind::Auth, "no key")));
    let model = ScriptedModel::new()
        .call("librarian", json!({"task": "When?"}))
        .say("done");
    let tool = failing.build().unwrap().as_tool("librarian", "Knows dates");
    let output = agent(model)
        .tool(tool)
        .build()
        .unwrap()
        .run("Go")
        .await
        .unwrap();
    assert!(result_texts(&output.messages)[0].starts_with("Error: the subagent failed: "));
}
