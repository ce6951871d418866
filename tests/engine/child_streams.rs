//! Messages of child runs in the stream of their parent.

use agentcore::model::{ModelProfile, Prices};
use agentcore::sdk::{SystemKind, TaskNotification, TaskStarted, TaskState};
use agentcore::testing::ScriptedModel;
use agentcore::{
    Agent, BoxError, Error, ErrorKind, FuncTool, OnUnanswered, RunContext, SdkMessage,
    ToolDecision, Usage, hook,
};
use futures::StreamExt;
use serde_json::{Value, json};

use crate::kit::{agent, any_object, asking, echo, kinds, watch};

/// A tool that runs `child` in session `child_CALL`.
fn delegate(child: Agent) -> FuncTool {
    let run = move |cx: agentcore::ToolContext, _args: Value| {
        let session = child.session(format!("child_{}", cx.call_id()));
        async move { Ok::<_, BoxError>(session.run_as_child(&cx, "Help").await?.text) }
    };
    FuncTool::new("delegate", "Delegates", any_object(), run)
}

fn delegating(child: Agent) -> Agent {
    let model = ScriptedModel::new().call("delegate", json!({})).say("done");
    agent(model).tool(delegate(child)).build().unwrap()
}

/// A model with prices, each answer of which uses `tokens` tokens.
fn priced(tokens: u64) -> ScriptedModel {
    ScriptedModel::new()
        .with_profile(ModelProfile::default().with_prices(Prices::new(1.0, 1.0)))
        .with_usage(Usage::new(tokens, 0))
}

fn started(messages: &[SdkMessage]) -> Vec<&TaskStarted> {
    let events = messages.iter().filter_map(|message| match message {
        SdkMessage::System(event) => match &event.kind {
            SystemKind::TaskStarted(started) => Some(&**started),
            _ => None,
        },
        _ => None,
    });
    events.collect()
}

fn notifications(messages: &[SdkMessage]) -> Vec<&TaskNotification> {
    let events = messages.iter().filter_map(|message| match message {
        SdkMessage::System(event) => match &event.kind {
            SystemKind::TaskNotification(notification) => Some(&**notification),
            _ => None,
        },
        _ => None,
    });
    events.collect()
}

#[tokio::test]
async fn child_run_starts_and_ends_as_a_task_of_its_parent() {
    let model = priced(10)
        .call("echo", json!({"text": "deep"}))
        .say("found");
    let child = agent(model).name("scout").tool(echo());
    let parent = delegating(child.build().unwrap());
    let (messages, output) = watch(parent.session("p").run("Go")).await;
    assert_eq!(output.unwrap().text, "done");

    let kinds = kinds(&messages);
    let count = |kind: &str| kinds.iter().filter(|one| *one == kind).count();
    assert_eq!((count("system/init"), count("result/success")), (1, 1));
    let [started] = started(&messages)[..] else {
        panic!("one task: {kinds:?}");
    };
    assert_eq!(&*started.task_id, "child_call_1");
    assert_eq!(started.tool_use_id.as_deref(), Some("call_1"));
    assert_eq!(started.subagent_type.as_deref(), Some("scout"));

    let [end] = notifications(&messages)[..] else {
        panic!("one notification: {kinds:?}");
    };
    assert_eq!(
        (&*end.task_id, &end.status),
        ("child_call_1", &TaskState::Completed)
    );
    assert_eq!(end.tool_use_id.as_deref(), Some("call_1"));
    assert_eq!(end.summary, "found");
    let usage = end.usage.expect("the usage of the child");
    assert_eq!((usage.total_tokens, usage.tool_uses), (20, 1));
}

#[tokio::test]
async fn reader_that_stops_at_the_first_result_has_the_whole_answer() {
    let child = agent(ScriptedModel::new().say("found")).build().unwrap();
    let grandparent = delegating(delegating(child));
    let mut run = grandparent.run("Go");
    let mut last = None;
    while let Some(message) = run.next().await {
        let is_result = message.is_result();
        last = Some(message);
        if is_result {
            break;
        }
    }
    let result = last.expect("a result");
    assert_eq!(result.as_result().unwrap().result.as_deref(), Some("done"));
    assert!(run.next().await.is_none(), "nothing follows");
}

#[tokio::test]
async fn child_run_of_its_own_reader_keeps_its_init_and_result() {
    let child = agent(ScriptedModel::new().say("found")).build().unwrap();
    let read = move |cx: agentcore::ToolContext, _args: Value| {
        let run = child.session("c").child_of(&cx).run("Help");
        async move { kinds(&run.collect::<Vec<_>>().await).join(" ") }
    };
    let tool = FuncTool::new("delegate", "Delegates", any_object(), read);
    let model = ScriptedModel::new().call("delegate", json!({})).say("done");
    let output = agent(model).tool(tool).build().unwrap().run("Go").await;
    let texts = crate::kit::result_texts(&output.unwrap().messages);
    assert!(texts[0].starts_with("system/init"), "{texts:?}");
    assert!(texts[0].ends_with("result/success"), "{texts:?}");
}

#[tokio::test]
async fn failed_child_run_is_a_failed_task() {
    let model = ScriptedModel::new().fail(Error::new(ErrorKind::Auth, "no key"));
    let parent = delegating(agent(model).build().unwrap());
    let (messages, output) = watch(parent.run("Go")).await;
    assert_eq!(output.unwrap().text, "done");
    let [end] = notifications(&messages)[..] else {
        panic!("one notification");
    };
    assert_eq!(end.status, TaskState::Failed);
    assert!(end.summary.contains("no key"), "{}", end.summary);
}

#[tokio::test(start_paused = true)]
async fn child_run_that_ends_with_its_call_is_a_stopped_task() {
    let child = agent(ScriptedModel::new().hang()).build().unwrap();
    let model = ScriptedModel::new().call("delegate", json!({}));
    let parent = agent(model).tool(delegate(child)).build().unwrap();
    let mut run = parent.run("Go");
    let handle = run.handle();
    let mut messages = Vec::new();
    while let Some(message) = run.next().await {
        messages.push(message);
        if !started(&messages).is_empty() {
            handle.interrupt();
        }
    }
    let [end] = notifications(&messages)[..] else {
        panic!("one notification: {:?}", kinds(&messages));
    };
    assert_eq!(
        (&*end.task_id, &end.status),
        ("child_call_1", &TaskState::Stopped)
    );
    assert!(messages.last().unwrap().is_result());
}

#[tokio::test]
async fn model_usage_of_a_result_covers_its_children() {
    let deep = agent(priced(1).with_id("deep").say("found"));
    let delegating = |tokens, below: Agent| {
        let model = priced(tokens).call("delegate", json!({})).say("found");
        agent(model.with_id("shared")).tool(delegate(below))
    };
    let child = delegating(10, deep.build().unwrap());
    let parent = delegating(100, child.build().unwrap());
    let (messages, output) = watch(parent.build().unwrap().run("Go")).await;
    let output = output.unwrap();
    let result = messages.last().unwrap().as_result().unwrap();
    let tokens = |model: &str| result.model_usage[model].input_tokens;
    assert_eq!((tokens("shared"), tokens("deep")), (220, 1));
    assert_eq!(
        (result.usage.input_tokens, output.usage.input_tokens),
        (200, 200)
    );
    let costs = result.model_usage.values().map(|usage| usage.cost_usd);
    let cost: f64 = costs.map(|cost| cost.expect("a price")).sum();
    assert!((cost - result.total_cost_usd.unwrap()).abs() < 1e-12);
}

#[tokio::test]
async fn child_that_waits_or_is_stopped_by_a_hook_is_not_reported_as_completed() {
    let calling = || agent(ScriptedModel::new().call("echo", json!({}))).tool(echo());
    let waiting = calling()
        .permissions(asking())
        .unanswered(OnUnanswered::Park);
    let stop = hook::pre_tool_use("stop", |cx: RunContext, _call| {
        cx.stop("enough");
        async { Ok(ToolDecision::proceed()) }
    });
    let cases = [
        (waiting, TaskState::Paused),
        (calling().hook(stop), TaskState::Stopped),
    ];
    for (child, status) in cases {
        let parent = delegating(child.build().unwrap());
        let (messages, output) = watch(parent.session("p").run("Go")).await;
        assert_eq!(output.unwrap().text, "done");
        assert_eq!(notifications(&messages)[0].status, status);
    }
}
