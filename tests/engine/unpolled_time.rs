//! Time during which a reader does not poll its run, which counts for no tool and no hook.

use agentcore::hook;
use agentcore::testing::ScriptedModel;
use agentcore::{Agent, Answer, FuncTool, Run, SdkMessage, ToolContext, ToolDecision};
use serde_json::{Value, json};

use crate::kit::{agent, any_object, echo, result_texts, results, sleep, stuck, warnings};

/// A tool that asks a question and returns the answer.
fn asks() -> FuncTool {
    FuncTool::new("asks", "Asks", any_object(), |cx, _args| async move {
        format!("{:?}", cx.ask("May I?").await)
    })
}

/// A tool that sleeps for a second, ten times.
fn naps() -> FuncTool {
    FuncTool::new("naps", "Sleeps", any_object(), |_cx, _args| async {
        for _ in 0..10 {
            sleep(1).await;
        }
        "rested"
    })
}

/// Reads a run to its end, and answers each question after `seconds` seconds without a poll.
async fn answer_after(mut run: Run, seconds: u64) -> agentcore::RunOutput {
    let responder = run.responder();
    while let Some(message) = run.next().await {
        if let SdkMessage::PermissionRequest(request) = message {
            sleep(seconds).await;
            responder.respond(&request, Answer::Allow);
        }
    }
    run.into_output().unwrap()
}

fn asking_and_napping() -> ScriptedModel {
    ScriptedModel::new()
        .calls([("asks", json!({})), ("naps", json!({}))])
        .say("done")
}

#[tokio::test(start_paused = true)]
async fn reader_that_answers_late_does_not_time_out_a_sibling_call() {
    let agent = agent(asking_and_napping())
        .tool(asks())
        .tool(naps())
        .build()
        .unwrap();
    let output = answer_after(agent.run("Go"), 180).await;
    assert_eq!(result_texts(&output.messages), ["Allow", "rested"]);
}

#[tokio::test(start_paused = true)]
async fn reader_that_pauses_does_not_time_out_a_hook() {
    let naps = hook::pre_tool_use("naps", |cx, _call| async move {
        cx.warn("this takes a while");
        for _ in 0..3 {
            sleep(1).await;
        }

        Ok(ToolDecision::proceed())
    });

    let model = ScriptedModel::new()
        .call("echo", json!({"text": "a"}))
        .say("done");
    let agent = agent(model).tool(echo()).hook(naps).build().unwrap();
    let mut run = agent.run("Go");
    while let Some(message) = run.next().await {
        if !warnings(&[message]).is_empty() {
            sleep(90).await;
        }
    }

    assert_eq!(result_texts(&run.into_output().unwrap().messages), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn tool_that_hangs_times_out_with_a_slow_reader() {
    let model = ScriptedModel::new().call("stuck", json!({})).say("done");
    let agent = agent(model).tool(stuck()).build().unwrap();
    let mut run = agent.run("Go");
    while let Some(_message) = run.next().await {
        sleep(1).await;
    }
    let output = run.into_output().unwrap();
    let results = results(&output.messages);
    assert!(results[0].is_error);
    assert!(results[0].content.text().contains("timed out"));
}

#[tokio::test(start_paused = true)]
async fn child_call_is_not_timed_out_by_the_parents_reader() {
    let child = agent(asking_and_napping())
        .tool(asks())
        .tool(naps())
        .build()
        .unwrap();
    let delegate = FuncTool::new("delegate", "Runs a child", any_object(), {
        move |cx: ToolContext, _args: Value| {
            let child: Agent = child.clone();
            async move {
                let output = child.session("").run_as_child(&cx, "Go").await.unwrap();
                result_texts(&output.messages).join(" ")
            }
        }
    });

    let model = ScriptedModel::new().call("delegate", json!({})).say("done");
    let parent = agent(model).tool(delegate).build().unwrap();
    let output = answer_after(parent.run("Go"), 180).await;
    assert_eq!(result_texts(&output.messages), ["Allow rested"]);
}
