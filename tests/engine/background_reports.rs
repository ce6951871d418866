//! Background tasks that report to the reader of their run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agentcore::sdk::SystemKind;
use agentcore::testing::{ScriptedModel, StrictModel};
use agentcore::tool::{TaskOutcome, TaskSpec};
use agentcore::{
    Agent, AgentBuilder, ErrorKind, ExitReason, FuncTool, SdkMessage, ToolContext, UnfinishedTasks,
    Usage, hook,
};
use serde_json::{Value, json};

use crate::kit::{Bomb, agent, any_object, echo, kinds, roles, sleep, warnings, watch};

/// Returns the system messages about tasks as texts, each with the id of its task.
fn reports(messages: &[SdkMessage]) -> Vec<String> {
    let reports = messages.iter().filter_map(|message| match message {
        SdkMessage::System(event) => match &event.kind {
            SystemKind::TaskStarted(event) => Some(format!(
                "{} starts: {} by {:?} of {:?}",
                event.task_id, event.description, event.tool_use_id, event.subagent_type
            )),
            SystemKind::TaskProgress(event) => Some(format!(
                "{} {:?} {:?}, {} calls, of {:?}",
                event.task_id,
                event.summary,
                event.last_tool_name,
                event.usage.tool_uses,
                event.tool_use_id
            )),
            SystemKind::TaskUpdated(event) => Some(format!(
                "{} is {}",
                event.task_id,
                event.patch.status.as_ref().expect("a status")
            )),
            SystemKind::TaskNotification(event) => Some(format!(
                "{} {}: {} ({} tokens) of {:?}",
                event.task_id,
                event.status,
                event.summary,
                event.usage.expect("the usage").total_tokens,
                event.tool_use_id
            )),
            _ => None,
        },
        _ => None,
    });
    reports.collect()
}

/// A tool that begins a task which reports its progress once and ends after five seconds.
fn counting() -> FuncTool {
    FuncTool::new("count", "Counts", any_object(), |cx, _args| async move {
        let spec = TaskSpec::new("count")
            .with_id("my_task")
            .with_description("counts to ten")
            .with_tool_use_id(cx.call_id());
        let handle = cx.tasks().begin(spec, |task| async move {
            sleep(1).await;
            task.progress("five so far").await;
            sleep(4).await;
            TaskOutcome::Completed("ten".into())
        });
        handle.id().to_string()
    })
}

/// A tool that begins a task which never ends.
fn endless() -> FuncTool {
    FuncTool::new("work", "Works", any_object(), |cx, _args| async move {
        cx.tasks()
            .begin(TaskSpec::new("work"), |_| std::future::pending());
        "started"
    })
}

/// Runs an agent whose first task is stopped, and checks the reports about it.
async fn check_stopped(agent: &Agent) {
    let (messages, output) = watch(agent.run("Go")).await;
    assert_eq!(output.unwrap().text, "done");
    assert_eq!(
        reports(&messages),
        [
            "task_1 starts: work by None of None",
            "task_1 is killed",
            "task_1 stopped: The task was stopped. (0 tokens) of None",
        ]
    );
}

fn awaiting(model: ScriptedModel) -> AgentBuilder {
    agent(StrictModel::new(model)).unfinished_tasks(UnfinishedTasks::Await)
}

#[tokio::test(start_paused = true)]
async fn task_reports_its_start_its_progress_and_its_end() {
    let model = ScriptedModel::new()
        .call("count", json!({}))
        .say("It counts.")
        .expect(|request| {
            let text = request.messages.last_content();
            assert_eq!(text, "Task 'count' (my_task) completed.\n\nResult:\nten");
        })
        .say("It is ten.");
    let agent = awaiting(model).tool(counting()).build().unwrap();
    let (messages, output) = watch(agent.session("s").run("Go")).await;
    let output = output.unwrap();
    assert_eq!(output.text, "It is ten.");
    assert_eq!(
        roles(&output.messages),
        "user assistant tool assistant user assistant"
    );
    assert_eq!(
        reports(&messages),
        [
            r#"my_task starts: counts to ten by Some("call_1") of None"#,
            r#"my_task Some("five so far") None, 0 calls, of Some("call_1")"#,
            r#"my_task completed: ten (0 tokens) of Some("call_1")"#,
        ]
    );
    assert_eq!(
        kinds(&messages)
            .iter()
            .filter(|kind| *kind == "result/success")
            .count(),
        1
    );
}

/// A tool that runs `child` in the background and returns at once.
fn scouting(child: Agent) -> FuncTool {
    let run = move |cx: ToolContext, _args: Value| {
        let session = child.session("child");
        let spec = TaskSpec::new("scout")
            .with_tool_use_id(cx.call_id())
            .with_subagent_type("scout");
        let task = cx.tasks().begin(spec, |task| async move {
            match session.run_as_task(&cx, &task, "Look").await {
                Ok(output) => TaskOutcome::Completed(output.text),
                Err(error) => TaskOutcome::Failed(error.to_string()),
            }
        });
        let text = format!("started {}", task.id());
        async move { text }
    };
    FuncTool::new("scout", "Starts a scout", any_object(), run)
}

fn slow_child() -> Agent {
    let model = ScriptedModel::new()
        .with_usage(Usage::new(10, 5))
        .call("echo", json!({"text": "deep"}))
        .delayed(Duration::from_secs(5))
        .say("all quiet")
        .delayed(Duration::from_secs(5));
    agent(model).tool(echo()).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn messages_of_a_background_child_reach_the_reader_after_its_call_has_returned() {
    let model = ScriptedModel::new()
        .call("scout", json!({}))
        .say("I wait.")
        .say("It is quiet.");
    let agent = awaiting(model)
        .tool(scouting(slow_child()))
        .build()
        .unwrap();
    let (messages, output) = watch(agent.session("p").run("Go")).await;
    assert_eq!(output.unwrap().text, "It is quiet.");

    let waits = messages
        .iter()
        .position(|m| m.text().as_deref() == Some("I wait."));
    let below: Vec<_> = messages
        .iter()
        .filter(|m| m.session_id() == "child")
        .collect();
    assert!(below.len() >= 4, "{:?}", kinds(&messages));
    for message in &below {
        assert_eq!(message.parent_tool_use_id(), Some("call_1"));
        assert!(!message.is_result());
    }
    let last = messages.iter().rposition(|m| m.session_id() == "child");
    assert!(last > waits, "after the turn of the call");
    assert_eq!(
        kinds(&messages)
            .iter()
            .filter(|kind| *kind == "system/init")
            .count(),
        1
    );
    assert_eq!(
        reports(&messages),
        [
            r#"task_1 starts: scout by Some("call_1") of Some("scout")"#,
            r#"task_1 None Some("echo"), 1 calls, of Some("call_1")"#,
            r#"task_1 completed: all quiet (30 tokens) of Some("call_1")"#,
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn stopped_task_is_dropped_and_reported() {
    struct Dropped(Arc<AtomicBool>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    let is_dropped = Arc::<AtomicBool>::default();
    let flag = is_dropped.clone();
    let work = FuncTool::new("work", "Works", any_object(), move |cx, _args| {
        let dropped = Dropped(flag.clone());
        async move {
            let task = cx.tasks().begin(TaskSpec::new("work"), |_task| async move {
                let _dropped = dropped;
                std::future::pending().await
            });
            assert!(task.output().is_none());
            assert!(task.wait(Duration::from_secs(3)).await.is_none());
            let handle = cx.tasks().get(task.id()).expect("the task");
            assert!(handle.stop() && !task.stop(), "once");
            let error = task.send("too late").unwrap_err();
            assert_eq!(error.to_string(), "task task_1 was stopped");
            let outcome = task.wait(Duration::from_secs(3)).await;
            assert_eq!(outcome, Some(TaskOutcome::Stopped));
            assert!(task.send("too late").is_err());
            let ids: Vec<_> = cx
                .tasks()
                .list()
                .iter()
                .map(|task| task.id().clone())
                .collect();
            assert_eq!(ids, [task.id().clone()]);
            assert!(cx.tasks().get("task_9").is_none());
            "stopped"
        }
    });
    let model = ScriptedModel::new()
        .call("work", json!({}))
        .expect(|request| {
            let text = request.messages.last_content();
            assert!(
                text.ends_with("(task_1) stopped.\n\nResult:\nThe task was stopped."),
                "{text}"
            );
        })
        .say("done");
    let agent = agent(StrictModel::new(model)).tool(work).build().unwrap();
    check_stopped(&agent).await;
    assert!(is_dropped.load(Ordering::SeqCst));
}

/// A tool that begins two tasks: one that panics when it is dropped, and one that ends after three
/// seconds.
fn bomb_tool() -> FuncTool {
    let parameters = json!({"type": "object", "properties": {"stop": {"type": "boolean"}}});
    FuncTool::new("work", "Works", parameters, |cx, args: Value| async move {
        let bomb = Bomb;
        let task = cx.tasks().begin(TaskSpec::new("bomb"), |_task| async move {
            let _bomb = bomb;
            std::future::pending().await
        });
        cx.tasks().begin(TaskSpec::new("other"), |_task| async {
            sleep(3).await;
            TaskOutcome::Completed("all quiet".into())
        });
        // Both are polled before one is stopped.
        sleep(1).await;
        if args["stop"] == true {
            task.stop();
        }
        "begun"
    })
}

#[tokio::test(start_paused = true)]
async fn task_that_panics_when_it_is_dropped_harms_no_other() {
    let model = ScriptedModel::new()
        .call("work", json!({"stop": true}))
        .say("waiting")
        .say("done");
    let waiting_agent = awaiting(model).tool(bomb_tool()).build().unwrap();
    let (messages, output) = watch(waiting_agent.run("Go")).await;
    output.unwrap();
    let ends = reports(&messages).join("|");
    assert!(ends.contains("task_1 stopped"), "{ends}");
    assert!(ends.contains("task_2 completed: all quiet"), "{ends}");

    let model = ScriptedModel::new()
        .call("work", json!({"stop": false}))
        .say("done");
    let agent = agent(model).tool(bomb_tool()).build().unwrap();
    let (messages, output) = watch(agent.run("Go")).await;
    output.unwrap();
    let ends = reports(&messages).join("|");
    assert!(ends.contains("task_1 stopped"), "{ends}");
    assert!(ends.contains("task_2 stopped"), "{ends}");
}

#[tokio::test(start_paused = true)]
async fn task_that_is_stopped_in_its_last_step_is_reported_as_stopped() {
    let work = FuncTool::new("work", "Works", any_object(), |cx, _args| async move {
        let tasks = cx.tasks().clone();
        let task = cx.tasks().begin(TaskSpec::new("work"), |task| async move {
            let handle = tasks.get(task.id()).expect("the task");
            assert!(handle.stop());
            TaskOutcome::Completed("too late".into())
        });
        let outcome = task.wait(Duration::from_secs(3)).await;
        assert_eq!(outcome, Some(TaskOutcome::Stopped));
        "stopped"
    });
    let model = ScriptedModel::new().call("work", json!({})).say("done");
    check_stopped(&agent(model).tool(work).build().unwrap()).await;
}

#[tokio::test(start_paused = true)]
async fn context_that_outlives_its_task_reports_nothing() {
    let work = FuncTool::new("work", "Works", any_object(), |cx, _args| async move {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let task = cx.tasks().begin(TaskSpec::new("work"), |task| async move {
            task.progress("in time").await;
            drop(sender.send(task));
            TaskOutcome::Completed("done".into())
        });
        task.wait(Duration::from_secs(3)).await.expect("it ends");
        let context = receiver.await.unwrap();
        context.progress("too late").await;
        "worked"
    });
    let model = ScriptedModel::new().call("work", json!({})).say("done");
    let agent = agent(model).tool(work).build().unwrap();
    let (messages, output) = watch(agent.run("Go")).await;
    output.unwrap();
    assert_eq!(
        reports(&messages),
        [
            "task_1 starts: work by None of None",
            "task_1 Some(\"in time\") None, 0 calls, of None",
            "task_1 completed: done (0 tokens) of None",
        ]
    );
}

#[tokio::test]
async fn generated_id_of_a_task_differs_from_given_ones() {
    let work = FuncTool::new("work", "Works", any_object(), |cx, _args| async move {
        let begin = |spec: TaskSpec| {
            let task = cx.tasks().begin(spec, |_task| std::future::pending());
            task.id().to_string()
        };
        let given_id = begin(TaskSpec::new("one").with_id("task_2"));
        let ids = [
            given_id,
            begin(TaskSpec::new("two")),
            begin(TaskSpec::new("three")),
        ];
        ids.join(" ")
    });
    let model = ScriptedModel::new().call("work", json!({})).say("done");
    let agent = agent(model).tool(work).build().unwrap();
    let output = agent.run("Go").await.unwrap();
    let texts = crate::kit::result_texts(&output.messages);
    assert_eq!(texts, ["task_2 task_3 task_4"]);
}

#[tokio::test(start_paused = true)]
async fn mailbox_of_a_task_holds_16_messages() {
    let work = FuncTool::new("work", "Works", any_object(), |cx, _args| async move {
        let task = cx.tasks().begin(TaskSpec::new("work"), |task| async move {
            sleep(5).await;
            let mut texts = Vec::new();
            for _ in 0..16 {
                texts.push(task.next_message().await.text().into_owned());
            }
            TaskOutcome::Completed(texts.join(","))
        });
        for number in 0..16 {
            task.send(number.to_string()).expect("room");
        }
        let error = task.send("one more").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert_eq!(
            error.to_string(),
            "the mailbox of task task_1 is full (16 updates)"
        );
        let outcome = task.wait(Duration::from_secs(60)).await;
        match outcome.expect("it has ended") {
            TaskOutcome::Completed(text) => text,
            other => format!("{other:?}"),
        }
    });
    let model = ScriptedModel::new().call("work", json!({})).say("done");
    let agent = agent(model).tool(work).build().unwrap();
    let output = agent.run("Go").await.unwrap();
    let texts = crate::kit::result_texts(&output.messages);
    assert_eq!(texts, ["0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15"]);
}

#[tokio::test(start_paused = true)]
async fn message_to_a_background_child_steers_it() {
    let child_model = ScriptedModel::new()
        .call("echo", json!({"text": "x"}))
        .delayed(Duration::from_secs(5))
        .expect(|request| assert_eq!(request.messages.last_content(), "Faster"))
        .say("fast");
    let child = agent(child_model).tool(echo()).build().unwrap();
    let send = FuncTool::new("send", "Sends", any_object(), |cx, _args| async move {
        let task = cx.tasks().get("task_1").expect("the task");
        task.send("Faster").expect("room");
        "sent"
    });
    let model = ScriptedModel::new()
        .call("scout", json!({}))
        .call("send", json!({}))
        .say("I wait.")
        .say("done");
    let agent = awaiting(model).tool(scouting(child)).tool(send).build();
    assert_eq!(agent.unwrap().run("Go").await.unwrap().text, "done");
}

#[tokio::test(start_paused = true)]
async fn waiting_for_tasks_ends_with_steering_and_with_an_interrupt() {
    let model = ScriptedModel::new()
        .call("work", json!({}))
        .say("I wait.")
        .say("I wait longer.");
    let agent = awaiting(model).tool(endless()).build().unwrap();
    let run = agent.run("Go");
    let handle = run.handle();
    tokio::spawn(async move {
        sleep(5).await;
        assert!(handle.steer("And now?"));
        sleep(5).await;
        handle.interrupt();
    });
    let output = run.await.unwrap();
    assert_eq!(output.end, ExitReason::Interrupted);
    assert_eq!(output.text, "I wait longer.");
}

#[tokio::test(start_paused = true)]
async fn waiting_for_tasks_goes_on_after_messages_that_are_not_added() {
    let model = ScriptedModel::new()
        .call("count", json!({}))
        .say("It counts.")
        .say("It is ten.");
    let agent = awaiting(model.clone()).tool(counting()).build().unwrap();
    let mut run = agent.session("s").input_id("m1").run("Go");
    let handle = run.handle();
    tokio::spawn(async move {
        sleep(2).await;
        assert!(handle.steer_input("m1", "Go"));
        sleep(1).await;
        assert!(handle.steer(""));
    });
    let mut messages = Vec::new();
    while let Some(message) = run.next().await {
        messages.push(message);
    }
    let output = run.into_output().unwrap();
    assert_eq!((output.text.as_str(), output.turns), ("It is ten.", 3));
    assert_eq!(
        roles(&output.messages),
        "user assistant tool assistant user assistant"
    );
    let warnings = warnings(&messages);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("was not sent to the model"));
    model.assert_finished();
}

#[tokio::test(start_paused = true)]
async fn run_that_a_hook_stops_does_not_wait_for_its_tasks() {
    for seconds in [0, 5] {
        let stop = hook::wrap_model_call("stop", move |request, next| async move {
            let cx = next.context().clone();
            let response = next.run(request).await;
            if cx.turn() == 2 {
                let stop = async move {
                    sleep(seconds).await;
                    cx.stop("enough");
                };
                match seconds {
                    0 => stop.await,
                    _ => drop(tokio::spawn(stop)),
                }
            }
            response
        });
        let model = ScriptedModel::new().call("work", json!({})).say("I wait.");
        let agent = awaiting(model).tool(endless()).hook(stop).build().unwrap();
        let limit = Duration::from_secs(60);
        let output = tokio::time::timeout(limit, agent.run("Go").into_future()).await;
        let output = output.expect("the run ends").unwrap();
        assert_eq!(output.end, ExitReason::HookStopped);
        assert_eq!(output.text, "I wait.");
    }
}

#[tokio::test(start_paused = true)]
async fn message_to_a_background_child_after_its_last_turn_is_reported_as_unread() {
    let slow = hook::after_agent("slow", |_cx, state| async move {
        sleep(5).await;
        Ok(state)
    });
    let child = agent(ScriptedModel::new().say("all quiet")).hook(slow);
    let send = FuncTool::new("send", "Sends", any_object(), |cx, _args| async move {
        let task = cx.tasks().get("task_1").expect("the task");
        task.send("Faster").expect("room");
        "sent"
    });
    let model = ScriptedModel::new()
        .call("scout", json!({}))
        .call("send", json!({}))
        .delayed(Duration::from_secs(1))
        .say("I wait.")
        .expect(|request| {
            let text = request.messages.last_content();
            let expected = "all quiet\n\nMessages to the task that it did not read: 1";
            assert!(text.ends_with(expected), "{text}");
        })
        .say("done");
    let agent = awaiting(model)
        .tool(scouting(child.build().unwrap()))
        .tool(send);
    let output = agent.build().unwrap().run("Go").await.unwrap();
    assert_eq!(output.text, "done");
}
