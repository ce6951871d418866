//! Background tasks that outlive the turn that started them.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Context;
use std::time::Duration;

use agentcore::sdk::{SystemKind, TaskState};
use agentcore::testing::{ScriptedModel, StrictModel};
use agentcore::tool::{TaskOutcome, TaskSpec};
use agentcore::{AgentBuilder, FuncTool, SdkMessage, Secret, ToolOutput, hook};
use futures::StreamExt;
use serde_json::json;

use crate::kit::{Log, agent, any_object, kinds, nap, roles, sleep, stored, warnings, watch};

#[tokio::test(start_paused = true)]
async fn background_tasks_notify_reader_and_model_and_end_with_the_run() {
    let dropped = Arc::new(AtomicBool::new(false));
    struct DropFlag(Arc<AtomicBool>);
    impl Drop for DropFlag {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let begin =
        hook::wrap_tool_call_with("begin", dropped.clone(), |dropped, call, next| async move {
            let tasks = next.context().tasks().clone();
            if call.args["n"] == 1 {
                tasks.spawn("build", async {
                    sleep(5).await;
                    TaskOutcome::Completed("built".into())
                });
                tasks.spawn("bad", async {
                    sleep(6).await;
                    panic!("boom")
                });
                let flag = DropFlag(dropped);
                tasks.spawn("endless", async move {
                    let _flag = flag;
                    std::future::pending().await
                });
            }
            next.run(call).await
        });
    let log = Log::default();
    let model = ScriptedModel::new()
        .call("nap", json!({"n": 1}))
        .call("nap", json!({"n": 20}))
        .expect(|request| {
            let texts = request
                .messages
                .user_messages()
                .map(|m| m.text().into_owned());
            let texts = texts.collect::<Vec<_>>().join("\n");
            assert!(
                texts.contains("built") && texts.contains("panicked: boom"),
                "{texts}"
            );
        })
        .say("done");
    let agent = agent(model.clone())
        .tool(nap(&log))
        .hook(begin)
        .build()
        .unwrap();
    let (messages, output) = watch(agent.run("Go")).await;
    assert_eq!(output.unwrap().text, "done");
    model.assert_finished();
    let notification_count = kinds(&messages)
        .iter()
        .filter(|kind| *kind == "system/task_notification")
        .count();
    assert_eq!(notification_count, 3);
    assert!(
        dropped.load(Ordering::SeqCst),
        "open tasks end with the run"
    );
}

#[tokio::test(start_paused = true)]
async fn task_that_returns_stopped_is_not_reported_as_ended_with_its_run() {
    let start = FuncTool::new("start", "Starts work", any_object(), |cx, _| async move {
        let spec = TaskSpec::new("work");
        let task = cx.tasks().begin(spec, |_| async { TaskOutcome::Stopped });
        task.wait(Duration::from_secs(3)).await;
        "started"
    });
    let model = ScriptedModel::new()
        .call("start", json!({}))
        .expect(|request| {
            let text = request.messages.last_content();
            assert_eq!(
                text,
                "Task 'work' (task_1) stopped.\n\nResult:\nThe task was stopped."
            );
        })
        .say("done");
    let agent = agent(model).tool(start).build().unwrap();
    assert_eq!(agent.run("Go").await.unwrap().text, "done");
}

#[tokio::test(start_paused = true)]
async fn background_task_of_a_tool_outlives_its_turn() {
    let start = FuncTool::new("start", "Starts work", any_object(), |cx, _| async move {
        let id = cx.tasks().spawn("count", async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            TaskOutcome::Completed("counted to 10".into())
        });

        ToolOutput::new(format!("started {id}")).in_background()
    });

    let wait = FuncTool::new("wait", "Waits", any_object(), |_, _| async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        "waited"
    });

    let model = ScriptedModel::new()
        .call("start", json!({}))
        .call("wait", json!({}))
        .say("done");
    let output = agent(model)
        .tools([start, wait])
        .build()
        .unwrap()
        .run("Go")
        .await
        .unwrap();
    let texts: Vec<_> = output
        .messages
        .user_messages()
        .map(|m| m.text().into_owned())
        .collect();
    assert_eq!(texts.len(), 2, "{texts:?}");
    assert!(texts[1].contains("counted to 10"), "{texts:?}");
}

#[tokio::test]
async fn unfinished_background_task_is_reported_as_stopped() {
    let start = FuncTool::new("start", "Starts work", any_object(), |cx, _| async move {
        let id = cx.tasks().spawn("server", std::future::pending());
        ToolOutput::new(format!("started {id}"))
    });

    let model = ScriptedModel::new()
        .call("start", json!({}))
        .say("It is up.")
        .expect(|request| {
            let texts = request
                .messages
                .user_messages()
                .map(|m| m.text().into_owned());
            let texts = texts.collect::<Vec<_>>().join("\n");
            assert!(texts.contains("Task 'server' (task_1) stopped"), "{texts}");
        })
        .say("It is not.");
    let agent = agent(StrictModel::new(model.clone()))
        .tool(start)
        .build()
        .unwrap();
    let first = || agent.session("s").input_id("i1").run("Go");
    let (messages, output) = watch(first()).await;
    assert_eq!(output.unwrap().text, "It is up.");
    let stopped: Vec<_> = messages
        .iter()
        .filter_map(|message| match message {
            SdkMessage::System(event) => match &event.kind {
                SystemKind::TaskNotification(event) => {
                    Some((&*event.task_id, event.status.clone()))
                }
                _ => None,
            },
            _ => None,
        })
        .collect();
    assert_eq!(stopped, [("task_1", TaskState::Stopped)]);
    assert_eq!(kinds(&messages).last().unwrap(), "result/success");
    assert!(warnings(&messages).is_empty());
    assert_eq!(
        roles(&stored(&agent, "s").await),
        "user assistant tool assistant user"
    );
    let again = first().await.unwrap();
    assert_eq!((&*again.text, again.turns), ("It is up.", 0));
    assert_eq!(
        agent.session("s").run("Sure?").await.unwrap().text,
        "It is not."
    );
    model.assert_finished();
}

#[tokio::test]
async fn background_task_report_follows_results_of_pending_calls() {
    let start = FuncTool::new("start", "Starts work", any_object(), |cx, _| async move {
        cx.tasks().spawn("server", std::future::pending());
        "started"
    });

    let gate =
        crate::kit::Gate(
            |request: &agentcore::tool::GateRequest| match &*request.call.name {
                "start" => agentcore::ToolDecision::allow(),
                _ => agentcore::ToolDecision::ask("sure?"),
            },
        );
    let model = ScriptedModel::new()
        .calls([("start", json!({})), ("echo", json!({"text": "x"}))])
        .say("done");
    let agent = agent(StrictModel::new(model))
        .tools([start, crate::kit::echo()])
        .permissions(gate)
        .unanswered(agentcore::OnUnanswered::Park)
        .build()
        .unwrap();
    let (messages, output) = watch(agent.session("s").run("Go")).await;
    assert_eq!(output.unwrap().end, agentcore::ExitReason::AwaitingApproval);
    assert!(kinds(&messages).contains(&"system/task_notification".to_owned()));
    assert_eq!(
        roles(&stored(&agent, "s").await),
        "user assistant tool user"
    );
    let calls = agent.session("s").pending().await.unwrap();
    let resumed = agent
        .session("s")
        .resume(agentcore::Decision::allow(&calls[0]));
    let history = resumed.await.unwrap().messages;
    assert_eq!(roles(&history), "user assistant tool tool user assistant");
    assert!(history.get(4).unwrap().text().contains("server"));
}

/// The number of tasks that `busy` starts, and the bytes of each outcome.
const TASKS: usize = 100;
const OUTCOME: usize = 200_000;

/// An agent whose model starts many tasks that end at once, and waits for them. `ended_count`
/// counts the tasks that have ended.
fn busy(ended_count: &Arc<AtomicUsize>) -> AgentBuilder {
    let ended_count = ended_count.clone();
    let start = FuncTool::new("start", "Starts work", any_object(), move |cx, _| {
        for _ in 0..TASKS {
            let ended_count = ended_count.clone();
            cx.tasks().spawn("work", async move {
                ended_count.fetch_add(1, Ordering::Relaxed);
                TaskOutcome::Completed("x".repeat(OUTCOME))
            });
        }

        async { "started" }
    });

    let wait = FuncTool::new("wait", "Waits", any_object(), |_, _| async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        "waited"
    });

    let model = ScriptedModel::new()
        .call("start", json!({}))
        .call("wait", json!({}))
        .say("done");
    agent(model).tools([start, wait])
}

#[tokio::test(start_paused = true)]
async fn outcomes_of_background_tasks_share_the_limit_of_the_history() {
    const LIMIT: usize = 2_000_000;
    let agent = busy(&Arc::default()).max_history_bytes(LIMIT);
    let output = agent.build().unwrap().run("Go").await.unwrap();
    assert_eq!(output.text, "done");
    let texts = output.messages.user_messages();
    let sizes: Vec<_> = texts.map(|message| message.text().len()).collect();
    assert_eq!(sizes.len(), 1 + TASKS, "{sizes:?}");
    assert!(sizes[1] > OUTCOME, "{sizes:?}");
    assert!(sizes.iter().sum::<usize>() <= LIMIT, "{sizes:?}");
}

#[tokio::test(start_paused = true)]
async fn many_outcomes_of_background_tasks_are_announced_with_pauses() {
    let ended_count = Arc::new(AtomicUsize::new(0));
    let mut run = busy(&ended_count).build().unwrap().run("Go");
    let mut most_ended = 0;
    let mut poll = |cx: &mut Context<'_>| {
        let before = ended_count.load(Ordering::Relaxed);
        let message = run.poll_next_unpin(cx);
        most_ended = most_ended.max(ended_count.load(Ordering::Relaxed) - before);
        message
    };
    while poll_fn(&mut poll).await.is_some() {}
    assert_eq!(ended_count.load(Ordering::Relaxed), TASKS);
    assert!(
        most_ended * OUTCOME <= 512 * 1024,
        "{most_ended} in one poll"
    );
    assert_eq!(run.into_output().unwrap().text, "done");
}

#[tokio::test]
async fn long_outcome_of_a_background_task_has_no_secrets() {
    let secret = Secret::new("sk-long-outcome-5f1c09ab77");
    let text = secret.expose().to_owned();
    let start = FuncTool::new("start", "Starts work", any_object(), move |cx, _| {
        let outcome = format!("{}{text}", "x".repeat(1_000_000));
        cx.tasks()
            .spawn("work", async { TaskOutcome::Failed(outcome) });
        async { "started" }
    });

    let is_notification = |message: &SdkMessage| match message {
        SdkMessage::System(event) => matches!(event.kind, SystemKind::TaskNotification(_)),
        _ => false,
    };
    let notified = Arc::new(tokio::sync::Notify::new());
    let is_over = notified.clone();
    let wait = FuncTool::new("wait", "Waits", any_object(), move |_, _| {
        let is_over = is_over.clone();
        async move {
            is_over.notified().await;
            "waited"
        }
    });

    let model = ScriptedModel::new()
        .call("start", json!({}))
        .call("wait", json!({}))
        .say("done");
    let agent = agent(model).tools([start, wait]).build().unwrap();
    let mut run = agent.run("Go");
    while let Some(message) = run.next().await {
        if is_notification(&message) {
            notified.notify_one();
        }
    }

    let output = run.into_output().unwrap();
    let outcome = output.messages.user_messages().nth(1).unwrap().text();
    assert!(outcome.len() > 1_000_000 && outcome.ends_with("[redacted]"));
    assert!(outcome.contains("failed") && !outcome.contains(secret.expose()));
}

#[tokio::test(start_paused = true)]
async fn before_agent_hook_can_wait_for_a_task_that_reports() {
    let prepare = hook::before_agent("prepare", |cx, state| async move {
        let task = cx
            .tasks()
            .begin(TaskSpec::new("warm up"), |task| async move {
                task.progress("begun").await;
                task.progress("half").await;
                TaskOutcome::Completed("warm".to_owned())
            });
        let outcome = task.wait(Duration::from_secs(5)).await;
        assert!(outcome.is_some(), "the task has not ended");
        Ok(state)
    });
    let model = ScriptedModel::new().say("done").say("done");
    model.allow_unused();
    let agent = agent(model).hook(prepare).build().unwrap();
    let (messages, output) = watch(agent.run("Go")).await;
    assert_eq!(output.unwrap().text, "done");
    let kinds = kinds(&messages);
    assert_eq!(kinds[0], "system/init");
    let progress = kinds
        .iter()
        .filter(|kind| *kind == "system/task_progress")
        .count();
    assert_eq!(progress, 2, "{kinds:?}");
}

#[tokio::test]
async fn texts_of_a_background_task_have_no_secrets() {
    let secret = Secret::new("sk-task-label-8d2b6f0c41");
    let key = secret.expose().to_owned();
    let start = FuncTool::new("start", "Starts work", any_object(), move |cx, _| {
        let spec = TaskSpec::new(format!("label {key}"))
            .with_description(format!("{}{key}", "x".repeat(990)));
        let summary = format!("half of {key}");
        let task = cx.tasks().begin(spec, |task| async move {
            task.progress(summary).await;
            TaskOutcome::Completed("done".to_owned())
        });
        async move { format!("started {}", task.id()) }
    });
    let model = ScriptedModel::new().call("start", json!({})).say("started");
    let agent = agent(model).tool(start).build().unwrap();
    let mut run = agent.run("Go");
    let mut texts = Vec::new();
    while let Some(message) = run.next().await {
        texts.push(serde_json::to_string(&message).unwrap());
    }
    let text = texts.join("\n");
    assert!(text.contains("label [redacted]"), "{text}");
    assert!(text.contains("half of [redacted]"), "{text}");
    assert!(!text.contains("sk-task"), "{text}");
}
