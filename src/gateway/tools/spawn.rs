//! The tool `spawn`.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::agent::{AgentBuilder, Decision, OnUnanswered, output_of};
use crate::error::{BoxError, ErrorKind};
use crate::run::{ExitReason, Run};
use crate::tool::{FuncTool, TaskOutcome, TaskSpec, ToolContext, ToolError, ToolOutput};
use crate::util::text::line_of;

use super::super::chat_turn::{ChatTurn, delete_once};
use super::super::message::InboundMessage;
use super::super::served::ServedRun;
use super::super::shared::GatewayShared;
use super::super::system_channel::task_message;
use super::super::task_slot::{MAX_TASKS, TaskSlot};
use super::super::waiting_tasks::SpawnedTask;
use super::subagent::{SubagentTask, agent_tool, child_session};

const NAME: &str = "spawn";
/// The maximum number of tasks in a row, each begun in the turn about the end of the previous task.
const MAX_CHAIN: u32 = 8;
/// The maximum length of a label, in characters.
const MAX_LABEL: usize = 200;
/// The pause before the end of a task is reported again to a bus that did not take it.
const REPORT_PAUSE: Duration = Duration::from_secs(5);
/// The time after which the end of a task is not reported again.
const REPORT_TIME: Duration = Duration::from_secs(600);

/// Creates the tool `spawn { task, label? }`, which starts a subagent on a task in the background
/// and returns at once.
///
/// A gateway adds this tool to its agents. Outside the runs of a gateway, each call fails.
///
/// The task belongs to the gateway and outlives the run that started it:
///
/// * It advances while the gateway [runs](super::super::Gateway::run), spends from the budget of
///   the run that started it, and has the permissions of that run.
/// * Its questions are asked in the chat of the conversation. A task whose question is not answered
///   in time counts as ended until the answer arrives, and continues then. If several gateways
///   share a bus, only an answer that the gateway of the task receives reaches it.
/// * Its end is an inbound message of the channel `system`, which is handled according to
///   [`DeliveryPolicy`](super::super::DeliveryPolicy). If the bus does not take the message within
///   ten minutes, or before the gateway stops, the result is lost, with a warning in the log.
///
/// A call fails if it exceeds one of these limits:
///
/// * 16 tasks of a conversation that have not ended;
/// * as many tasks of a gateway as
///   [`GatewayBuilder::max_tasks`](super::super::GatewayBuilder::max_tasks);
/// * 8 tasks that follow each other without a message of a person, each begun in the turn about the
///   end of the previous task.
pub fn spawn() -> FuncTool {
    let description = "Starts a subagent on a task in the background and returns at once; its \
        result is reported later. It sees nothing of this conversation, so the task needs \
        everything.";
    agent_tool(NAME, description, spawn_task)
}

async fn spawn_task(cx: ToolContext, args: Value) -> Result<ToolOutput, BoxError> {
    let SubagentTask { task, label } = SubagentTask::of(&args)?;
    let Some(turn) = ChatTurn::of_call(&cx) else {
        return Err(ToolError::new("spawn needs the run of a gateway").into());
    };
    if turn.report_depth >= MAX_CHAIN {
        let text = format!(
            "{MAX_CHAIN} tasks have followed each other without a message of a person; report what \
             is left to do instead"
        );
        return Err(ToolError::new(text).into());
    }
    let Some(slot) = TaskSlot::take(&turn.shared, &turn.session_key) else {
        let text = format!(
            "too many tasks are running: a conversation has {MAX_TASKS} at most. Wait for a report, \
             or do the work yourself"
        );
        return Err(ToolError::new(text).into());
    };

    let label = label.map(|label| line_of(&label, MAX_LABEL));
    let text = started_text(label.as_deref(), &task);
    let turn = turn.for_task();
    let permits = turn.shared.task_permits.clone();
    let Ok(permit) = permits.try_acquire_owned() else {
        return Err(ToolError::new(no_permit_text(turn.shared.max_tasks)).into());
    };
    let id = turn.shared.next_task_id();
    let label = label.unwrap_or_else(|| id.to_string());
    let ask_timeout = turn.shared.ask_timeout;
    // No caller waits for a task: unlike those of other subagents, its questions have the
    // gateway's time limit, and its calls are pending afterwards.
    let complete = |agent: AgentBuilder| {
        let agent = agent.ask_timeout(ask_timeout);
        agent.unanswered(OnUnanswered::Park)
    };
    let session = child_session(&cx, NAME, complete)?
        .with(turn.clone())
        .child_of(&cx)
        .outliving_parent();
    let run = session.clone().run(task.as_str());
    let spec = TaskSpec::new(label.as_str())
        .with_id(id.clone())
        .with_description(task.as_str())
        .with_tool_use_id(cx.call_id());
    let task = SpawnedTask {
        once_slot: TaskSlot::of_once_session(&turn),
        turn,
        id,
        label,
        session,
    };
    let tasks = task.turn.shared.tasks.clone();
    tasks.begin(spec, |_| async move {
        let _permits = (permit, slot);
        run_task(task, run).await
    });
    Ok(ToolOutput::new(text).in_background())
}

fn started_text(label: Option<&str>, task: &str) -> String {
    match label {
        Some(label) => format!("Spawned subagent '{label}' for task: {task}"),
        None => format!("Spawned subagent for task: {task}"),
    }
}

fn no_permit_text(max_tasks: usize) -> String {
    format!(
        "no subagent was spawned: {max_tasks} tasks are in progress, which is the limit of this \
         gateway. Spawn it again when one of them has ended, or do the task without spawn."
    )
}

/// Continues a task with the answer to the question that it waits for.
pub(in crate::gateway) fn resume_task(task: SpawnedTask, decision: Decision) {
    let shared = task.turn.shared.clone();
    let spec = TaskSpec::new(task.label.as_str()).with_id(task.id.clone());
    let run = task.session.clone().resume(decision);
    shared.tasks.begin(spec, |_| async move {
        let permits = task.turn.shared.task_permits.clone();
        // The semaphore is never closed.
        let _permit = permits.acquire_owned().await;
        run_task(task, run).await
    });
}

/// Runs a task to its end, and reports it in the channel `system`. A task that waits for an answer
/// is kept until the answer arrives.
async fn run_task(task: SpawnedTask, run: Run) -> TaskOutcome {
    let shared = task.turn.shared.clone();
    let run = ServedRun::Agent(Box::new(run));
    let outcome = shared.drive(run, &task.turn, false).await;
    if let Ok(output) = &outcome
        && output.end == ExitReason::AwaitingApproval
        && let Some(call) = output.state.pending.first()
    {
        let waiting_tasks = &shared.waiting_tasks;
        let oldest = waiting_tasks.add(task, call.clone(), shared.max_tasks.max(1));
        if let Some(oldest) = oldest {
            let text = "its question was not answered, and too many other tasks wait for answers";
            report(oldest, &TaskOutcome::Failed(text.to_owned())).await;
        }
        return TaskOutcome::Completed(String::new());
    }

    let outcome = match output_of(outcome) {
        Ok(output) => TaskOutcome::Completed(output.text),
        Err(error) => TaskOutcome::Failed(error.to_string()),
    };
    report(task, &outcome).await;
    outcome
}

/// Reports the end of a task in the channel `system`.
async fn report(task: SpawnedTask, outcome: &TaskOutcome) {
    let SpawnedTask {
        turn,
        id,
        label,
        session,
        once_slot,
    } = task;
    let message = task_message(&turn, &id, &label, outcome);
    if let Err(error) = publish_report(&turn.shared, &id, message).await {
        tracing::warn!("the end of task {id} could not be reported: {error}");
    }
    drop(once_slot);
    if let Some(once_id) = turn.once_id() {
        delete_once(&turn.shared, &session.agent().session(once_id.clone())).await;
    }
}

/// Publishes the message about the end of the task `id`, again and again while the bus cannot be
/// reached.
async fn publish_report(
    shared: &GatewayShared,
    id: &Arc<str>,
    message: InboundMessage,
) -> crate::error::Result<()> {
    // With an id, by which the bus recognizes a message that it has taken.
    let message = message.completed();
    let start = Instant::now();
    let mut has_warned = false;
    loop {
        let Err(error) = shared.publish_inbound(message.clone()).await else {
            return Ok(());
        };
        // The bus would refuse it each time, or is closed.
        let is_final = matches!(
            error.kind(),
            ErrorKind::InvalidRequest | ErrorKind::Cancelled
        );
        if is_final || start.elapsed() >= REPORT_TIME {
            return Err(error);
        }
        if !mem::replace(&mut has_warned, true) {
            tracing::warn!("the end of task {id} is reported again later: {error}");
        }
        tokio::select! {
            () = shared.stop.cancelled() => return Err(error),
            () = sleep(REPORT_PAUSE) => {}
        }
    }
}
