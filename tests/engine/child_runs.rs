//! Runs inside a tool call of another run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use agentcore::model::{ModelProfile, Prices};
use agentcore::testing::{FunctionModel, ScriptedModel, Step};
use agentcore::{
    Agent, Answer, BoxError, Decision, ErrorKind, ExitReason, FuncTool, ModelEvent, OnUnanswered,
    Run, SdkMessage, Usage,
};
use futures::StreamExt;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::kit::{
    Log, agent, any_object, asking, echo, logged, result_texts, sleep, stored, stuck, watch,
};

/// A tool that runs `child` on its `task`.
fn delegate(child: Agent) -> FuncTool {
    FuncTool::new(
        "delegate",
        "Delegates",
        any_object(),
        move |cx, args: Value| {
            let child = child.clone();
            async move {
                let id = format!("child_{}", cx.call_id());
                let task = args["task"].as_str().unwrap_or("Help").to_owned();
                let output = child.session(id).run_as_child(&cx, task).await?;
                Ok::<_, BoxError>(output.text)
            }
        },
    )
}

/// A tool that runs `child` in a task of its own, and sends the reason of its end.
fn spawning(child: Agent, ends: UnboundedSender<ExitReason>) -> FuncTool {
    FuncTool::new("spawn", "Spawns", any_object(), move |cx, _: Value| {
        let (session, ends) = (child.session("child"), ends.clone());
        tokio::spawn(async move {
            let output = session.run_as_child(&cx, "Help").await.unwrap();
            ends.send(output.end).unwrap();
        });
        async {
            sleep(1).await;
            "spawned"
        }
    })
}

#[tokio::test(start_paused = true)]
async fn child_in_a_task_of_its_own_ends_with_the_parent() {
    for asks in [false, true] {
        let child = ScriptedModel::new().call("stuck", json!({})).say("late");
        child.allow_unused();
        let mut child = agent(child).tool(stuck());
        if asks {
            child = child.permissions(asking());
        }
        let (ends, mut received) = unbounded_channel();
        let parent = agent(ScriptedModel::new().call("spawn", json!({})).say("done"))
            .tool(spawning(child.build().unwrap(), ends))
            .build()
            .unwrap();
        let mut run = parent.run("Go");
        let _responder = run.responder();
        while run.next().await.is_some() {}
        let end = tokio::time::timeout(Duration::from_secs(60), received.recv()).await;
        assert_eq!(end.unwrap(), Some(ExitReason::Interrupted), "{asks}");
    }
}

#[tokio::test]
async fn child_that_begins_after_the_end_of_the_parent_asks_no_model() {
    let model = ScriptedModel::new().say("late");
    model.allow_unused();
    let child = agent(model.clone()).build().unwrap();
    let (contexts, mut received) = unbounded_channel();
    let tool = FuncTool::new("leave", "Leaves", any_object(), move |cx, _: Value| {
        contexts.send(cx).unwrap();
        async { "left" }
    });
    let parent = agent(ScriptedModel::new().call("leave", json!({})).say("done"));
    parent.tool(tool).build().unwrap().run("Go").await.unwrap();
    let cx = received.recv().await.unwrap();
    let output = child.session("child").run_as_child(&cx, "Help").await;
    assert_eq!(output.unwrap().end, ExitReason::Interrupted);
    assert!(model.requests().is_empty());
}

#[tokio::test]
async fn child_messages_carry_the_parent_call_id() {
    let child = agent(
        ScriptedModel::new()
            .call("echo", json!({"text": "deep"}))
            .say("found"),
    )
    .tool(echo())
    .include_partial_messages(true)
    .build()
    .unwrap();
    let parent = agent(ScriptedModel::new().call("delegate", json!({})).say("done"))
        .tool(delegate(child.clone()))
        .build()
        .unwrap();
    let (messages, output) = watch(parent.session("p").run("Go")).await;
    assert_eq!(result_texts(&output.unwrap().messages), ["found"]);
    let (own, below): (Vec<_>, Vec<_>) = messages
        .iter()
        .partition(|message| message.session_id() == "p");
    assert!(
        own.iter()
            .all(|message| message.parent_tool_use_id().is_none())
    );
    assert!(below.len() > 8);
    for message in &below {
        assert_eq!(message.parent_tool_use_id(), Some("call_1"));
        assert_eq!(message.session_id(), "child_call_1");
    }

    let results = messages
        .iter()
        .filter(|message| message.is_result())
        .count();
    assert_eq!(results, 1);
    assert!(messages.last().unwrap().as_result().is_some());
    let numbers: Vec<_> = messages.iter().map(SdkMessage::seq).collect();
    assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    assert_eq!(stored(&child, "child_call_1").await.len(), 4);
}

#[tokio::test]
async fn grandchild_messages_carry_their_own_call_id_and_depth_is_limited() {
    for (limit, end) in [(2, "found"), (1, "Error: subagents may nest 1 deep")] {
        let grandchild = agent(if limit == 2 {
            ScriptedModel::new().say("found")
        } else {
            ScriptedModel::new()
        })
        .build()
        .unwrap();
        let seen = Log::default();
        let model = FunctionModel::new({
            let seen = seen.clone();
            move |request| {
                let last = request.messages.last_content().into_owned();
                seen.add(last.clone());
                match request.messages.len() {
                    1 => vec![Ok(ModelEvent::ToolCall(agentcore::ToolCall::new(
                        "inner",
                        "delegate",
                        json!({}),
                    )))],
                    _ => vec![Ok(ModelEvent::Text(last))],
                }
            }
        });

        let child = agent(model).tool(delegate(grandchild)).build().unwrap();
        let parent = agent(ScriptedModel::new().call("delegate", json!({})).say("done"))
            .tool(delegate(child))
            .max_subagent_depth(limit)
            .build()
            .unwrap();
        let (messages, output) = watch(parent.run("Go")).await;
        assert!(result_texts(&output.unwrap().messages)[0].starts_with(end));
        let inner = messages
            .iter()
            .filter(|message| message.parent_tool_use_id() == Some("inner"))
            .count();
        assert!(inner >= 2);
    }
}

#[tokio::test]
async fn failed_child_run_is_an_error_result() {
    for model in [
        ScriptedModel::new().fail(agentcore::Error::new(ErrorKind::Auth, "no key")),
        ScriptedModel::new().step(vec![]).step(vec![]),
    ] {
        let child = agent(model).build().unwrap();
        let parent = agent(ScriptedModel::new().call("delegate", json!({})).say("done"))
            .tool(delegate(child))
            .build()
            .unwrap();
        let output = parent.run("Go").await.unwrap();
        assert!(result_texts(&output.messages)[0].starts_with("Error: "));
        assert_eq!(output.text, "done");
    }
}

/// A model that uses all output tokens that a request allows, and adds them to `spent`.
fn greedy(prices: Prices, spent: Arc<AtomicU64>) -> FunctionModel {
    let profile = ModelProfile::default()
        .with_prices(prices)
        .with_max_output_tokens(1000);
    FunctionModel::stream(move |request| {
        let spent = spent.clone();
        async move {
            let output = u64::from(request.max_output_tokens.unwrap_or(1000));
            sleep(1).await;
            spent.fetch_add(output, Ordering::SeqCst);
            let events = vec![
                Ok(ModelEvent::Text("more".into())),
                Ok(ModelEvent::Usage(Usage::new(0, output))),
                Ok(ModelEvent::stop(agentcore::StopReason::EndTurn)),
            ];
            Ok(futures::stream::iter(events).boxed())
        }
    })
    .with_profile(profile)
}

#[tokio::test(start_paused = true)]
async fn parallel_children_never_exceed_the_parent_budget() {
    // One output token costs a thousandth of a dollar, so a budget of 2.5 dollars pays for 2500.
    let prices = Prices::new(0.0, 1000.0);
    let spent = Arc::<AtomicU64>::default();
    let child = agent(greedy(prices, spent.clone())).build().unwrap();
    let model = ScriptedModel::new()
        .with_profile(ModelProfile::default().with_prices(prices))
        .calls((0..6).map(|_| ("delegate", json!({}))))
        .with_usage(Usage::new(1, 0));
    let parent = agent(model)
        .tool(delegate(child))
        .max_output_tokens(10)
        .max_budget_usd(2.5)
        .build()
        .unwrap();
    let output = parent.run("Go").await.unwrap();
    assert_eq!(output.end, ExitReason::MaxBudget);
    assert_eq!(spent.load(Ordering::SeqCst), 2500, "all of it and no more");
    assert!((output.cost.unwrap() - 2.5).abs() < 1e-9);
    let helped = result_texts(&output.messages)
        .iter()
        .filter(|text| *text == "more")
        .count();
    assert_eq!(helped, 3);
}

#[tokio::test(start_paused = true)]
async fn child_run_ends_with_its_parent() {
    for interrupt in [false, true] {
        let child = agent(ScriptedModel::new().hang()).build().unwrap();
        let parent = agent(ScriptedModel::new().call("delegate", json!({})))
            .tool(delegate(child.clone()))
            .build()
            .unwrap();
        let mut run = parent.session("p").run("Go");
        while futures::poll!(run.next()).is_ready() {}
        let handle = child.handle("child_call_1").expect("it runs");
        if interrupt {
            run.handle().interrupt();
            assert_eq!(run.await.unwrap().end, ExitReason::Interrupted);
        } else {
            drop(run);
        }

        assert_eq!(handle.wait().await, None);
        assert!(child.handle("child_call_1").is_none());
        assert!(child.store().lease("child_call_1").await.is_ok());
    }
}

/// Runs `child` in a call of a run that is interrupted after a second. Returns the text of the
/// call's result.
async fn interrupted_call(child: Agent) -> String {
    let model = ScriptedModel::new().call("delegate", json!({}));
    let parent = agent(model).tool(delegate(child)).build().unwrap();
    interrupted_result(parent.session("p").run("Go")).await
}

/// Interrupts a run after a second. Returns the text of its first result.
async fn interrupted_result(run: Run) -> String {
    let handle = run.handle();
    tokio::spawn(async move {
        sleep(1).await;
        handle.interrupt();
    });
    let output = run.await.unwrap();
    assert_eq!(output.end, ExitReason::Interrupted);
    let text = result_texts(&output.messages).remove(0);
    assert!(text.contains("may have had an effect"), "{text}");
    text
}

#[tokio::test(start_paused = true)]
async fn interrupted_call_has_the_text_that_its_child_was_writing() {
    for keep in [true, false] {
        let model = ScriptedModel::new().step(Step::text("Half of it").then_hang());
        let child = agent(model).keep_interrupted(keep).build().unwrap();
        let text = interrupted_call(child).await;
        assert_eq!(text.ends_with("Its last text:\nHalf of it"), keep, "{text}");
        assert_eq!(text.contains("the subagent was cut off"), keep, "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn interrupted_call_has_the_last_text_and_the_calls_of_its_child() {
    let model = ScriptedModel::new()
        .call("echo", json!({"text": "a"}))
        .step(Step::text("It is here.").and_call("stuck", json!({})));
    let child = agent(model).tools([echo(), stuck()]).build().unwrap();
    let text = interrupted_call(child).await;
    let end = "the subagent was cut off\n\nIts last text:\nIt is here.\n\nIts calls: echo, stuck";
    assert!(text.ends_with(end), "{text}");
}

#[tokio::test(start_paused = true)]
async fn interrupted_call_that_was_approved_has_the_text_of_its_child() {
    let model = ScriptedModel::new().step(Step::text("Half of it").then_hang());
    let child = agent(model).build().unwrap();
    let parent = agent(ScriptedModel::new().call("delegate", json!({})))
        .tool(delegate(child))
        .permissions(asking())
        .unanswered(OnUnanswered::Park)
        .build()
        .unwrap();
    let session = parent.session("p");
    let output = session.clone().run("Go").await.unwrap();
    let run = session.resume(Decision::allow(&output.pending()[0]));
    let text = interrupted_result(run).await;
    assert!(text.ends_with("Its last text:\nHalf of it"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn long_text_of_an_interrupted_child_is_cut() {
    let long = "x".repeat(1024 * 1024);
    let model = ScriptedModel::new().step(Step::text(long).then_hang());
    let text = interrupted_call(agent(model).build().unwrap()).await;
    assert!(text.len() <= 300 * 1024, "{} bytes", text.len());
    assert!(text.contains("Its last text:\nxxx"), "{} bytes", text.len());
}

#[tokio::test(start_paused = true)]
async fn child_questions_are_answered_by_the_parent_responder() {
    let log = Log::default();
    let child = agent(ScriptedModel::new().call("act", json!({})).say("acted"))
        .tool(logged("act", &log))
        .permissions(asking())
        .build()
        .unwrap();
    let parent = agent(ScriptedModel::new().call("delegate", json!({})).say("done"))
        .tool(delegate(child))
        .tool_timeout(Duration::from_secs(60))
        .build()
        .unwrap();
    let mut run = parent.run("Go");
    let responder = run.responder();
    while let Some(message) = run.next().await {
        if let SdkMessage::PermissionRequest(request) = &message {
            assert_eq!(message.parent_tool_use_id(), Some("call_1"));
            let (id, responder) = (request.id.clone(), responder.clone());
            tokio::spawn(async move {
                sleep(600).await;
                responder.respond(id, Answer::Allow);
            });
        }
    }

    assert_eq!(log.len(), 1);
    assert_eq!(
        result_texts(&run.into_output().unwrap().messages),
        ["acted"]
    );
}

#[tokio::test]
async fn child_question_is_unanswered_when_the_parent_has_no_responder() {
    let log = Log::default();
    let child = agent(ScriptedModel::new().call("act", json!({})).say("could not"))
        .tool(logged("act", &log))
        .permissions(asking())
        .build()
        .unwrap();
    let parent = agent(ScriptedModel::new().call("delegate", json!({})).say("done"))
        .tool(delegate(child))
        .build()
        .unwrap();
    let output = parent.run("Go").await.unwrap();
    assert_eq!(result_texts(&output.messages), ["could not"]);
    assert_eq!(log.len(), 0);
}

/// A model that counts its calls in progress in `now`, and their maximum in `most`.
fn counting(now: Arc<AtomicU64>, most: Arc<AtomicU64>) -> FunctionModel {
    FunctionModel::stream(move |_request| {
        let (now, most) = (now.clone(), most.clone());
        async move {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            sleep(1).await;
            now.fetch_sub(1, Ordering::SeqCst);
            let events = vec![
                Ok(ModelEvent::Text("ok".into())),
                Ok(ModelEvent::stop(agentcore::StopReason::EndTurn)),
            ];
            Ok(futures::stream::iter(events).boxed())
        }
    })
}

#[tokio::test(start_paused = true)]
async fn parallel_model_calls_limit_applies_to_the_whole_run_tree() {
    for (children, limit, expected) in [(30, Some(4), 4), (1000, None, 16)] {
        let most = Arc::<AtomicU64>::default();
        let child = agent(counting(Arc::default(), most.clone()))
            .build()
            .unwrap();
        let calls = (0..children).map(|_| ("delegate", json!({})));
        let mut parent = agent(ScriptedModel::new().calls(calls).say("done"))
            .tool(delegate(child))
            .parallel_tools(children)
            .max_subagents(1000);
        if let Some(limit) = limit {
            parent = parent.parallel_model_calls(limit);
        }
        let output = parent.build().unwrap().run("Go").await.unwrap();
        assert_eq!(most.load(Ordering::SeqCst), expected);
        assert_eq!(result_texts(&output.messages).len(), children);
    }
}

#[tokio::test(start_paused = true)]
async fn slow_child_run_does_not_time_out_the_parent_call() {
    let slow = ScriptedModel::new()
        .say("thought it over")
        .delayed(Duration::from_secs(500));
    let child = agent(slow).build().unwrap();
    let model = ScriptedModel::new().call("delegate", json!({})).say("ok");
    let parent = agent(model).tool(delegate(child)).build().unwrap();
    let output = parent.run("Go").await.unwrap();
    assert_eq!(output.messages.get(2).unwrap().text(), "thought it over");
}
