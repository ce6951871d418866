//! Background tasks that report progress without end.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentcore::testing::ScriptedModel;
use agentcore::tool::{TaskContext, TaskOutcome, TaskSpec};
use agentcore::{ExitReason, FuncTool, Run, RunOutput, SdkMessage, UnfinishedTasks};
use futures::FutureExt;
use serde_json::json;

use crate::kit::{agent, any_object, kinds};

/// A number of messages that no run of these tests reaches without its task.
const MANY: usize = 500;

/// A tool that begins a task which always has progress to report.
fn reporting() -> FuncTool {
    FuncTool::new("begin", "Begins", any_object(), |cx, _args| async move {
        cx.tasks().begin(TaskSpec::new("busy"), |task| async move {
            loop {
                task.progress("again").await;
            }
        });
        "begun"
    })
}

/// Reads up to [`MANY`] messages. Returns `None` if the run has not ended by then.
async fn end_of(mut run: Run) -> Option<(Vec<SdkMessage>, RunOutput)> {
    let mut messages = Vec::new();
    while messages.len() < MANY {
        match run.next().await {
            Some(message) => messages.push(message),
            None => return Some((messages, run.into_output().unwrap())),
        }
    }
    None
}

async fn read_many(run: &mut Run) {
    for _ in 0..MANY {
        run.next().await.expect("a message");
    }
}

#[tokio::test(start_paused = true)]
async fn task_that_always_reports_does_not_hold_up_the_next_turn() {
    let model = ScriptedModel::new().call("begin", json!({})).say("done");
    let agent = agent(model).tool(reporting()).build().unwrap();
    let (messages, output) = end_of(agent.run("Go")).await.expect("an end");
    assert_eq!(output.text, "done");
    assert_eq!(kinds(&messages).last().unwrap(), "result/success");
}

#[tokio::test(start_paused = true)]
async fn run_that_awaits_a_task_that_always_reports_ends_at_its_time_limit() {
    let model = ScriptedModel::new().call("begin", json!({})).say("done");
    let agent = agent(model)
        .tool(reporting())
        .unfinished_tasks(UnfinishedTasks::Await)
        .max_duration(Duration::from_secs(5))
        .build()
        .unwrap();
    let mut run = agent.run("Go");
    read_many(&mut run).await;
    tokio::time::advance(Duration::from_secs(6)).await;
    let (_, output) = end_of(run).await.expect("an end");
    assert_eq!(output.end, ExitReason::MaxDuration);
}

#[tokio::test(start_paused = true)]
async fn run_that_awaits_a_task_that_always_reports_can_be_interrupted() {
    let model = ScriptedModel::new().call("begin", json!({})).say("done");
    let agent = agent(model)
        .tool(reporting())
        .unfinished_tasks(UnfinishedTasks::Await)
        .build()
        .unwrap();
    let mut run = agent.run("Go");
    read_many(&mut run).await;
    run.handle().interrupt();
    let (_, output) = end_of(run).await.expect("an end");
    assert_eq!(output.end, ExitReason::Interrupted);
}

/// Reads a run while its task reports two messages for each that is read, as a task on another
/// thread can. Returns `None` if the run has not ended after [`MANY`] messages.
async fn end_of_flooded(mut run: Run, task: &TaskContext) -> Option<RunOutput> {
    for _ in 0..MANY {
        let _ = task.progress("again").now_or_never();
        let _ = task.progress("again").now_or_never();
        if run.next().await.is_none() {
            return Some(run.into_output().unwrap());
        }
    }
    None
}

#[tokio::test(start_paused = true)]
async fn run_with_messages_that_always_wait_is_stopped() {
    for is_interrupted in [false, true] {
        let slot = Arc::new(Mutex::new(None));
        let task_slot = slot.clone();
        let begin = FuncTool::new("begin", "Begins", any_object(), move |cx, _args| {
            let slot = task_slot.clone();
            async move {
                cx.tasks().begin(TaskSpec::new("busy"), |task| {
                    *slot.lock().unwrap() = Some(task);
                    std::future::pending::<TaskOutcome>()
                });
                "begun"
            }
        });
        let model = ScriptedModel::new().call("begin", json!({})).say("done");
        let agent = agent(model)
            .tool(begin)
            .unfinished_tasks(UnfinishedTasks::Await)
            .max_duration(Duration::from_secs(5))
            .build()
            .unwrap();
        let mut run = agent.run("Go");
        while run.next().await.expect("a message").text() != Some("done".into()) {}

        let task = slot.lock().unwrap().take().unwrap();
        let expected_end = if is_interrupted {
            run.handle().interrupt();
            ExitReason::Interrupted
        } else {
            tokio::time::advance(Duration::from_secs(6)).await;
            ExitReason::MaxDuration
        };
        let output = end_of_flooded(run, &task).await.expect("an end");
        assert_eq!(output.end, expected_end);
    }
}
