//! Child runs of one tree that wait for each other's part of the budget, or for a model call's
//! permit.

use std::time::Duration;

use agentcore::model::{ModelProfile, Prices};
use agentcore::testing::{ScriptedModel, Step};
use agentcore::{Agent, AgentBuilder, FuncTool, RunOutput, ToolContext};
use futures::FutureExt;
use serde_json::{Value, json};

use crate::kit::{agent, any_object, result_texts, sleep};

/// A model whose answer ends a minute after its first text.
fn slow_answer(prices: Prices) -> ScriptedModel {
    ScriptedModel::new()
        .step(Step::text("slow").delayed(Duration::from_secs(60)))
        .with_profile(profile(prices))
}

fn profile(prices: Prices) -> ModelProfile {
    ModelProfile::default()
        .with_prices(prices)
        .with_max_output_tokens(1000)
}

/// A tool that polls a run of `first` until it waits for its model, runs `second` to its end
/// without polling `first`, and then `first` to its end.
fn one_after_the_other(first: Agent, second: Agent) -> FuncTool {
    FuncTool::new("delegate", "Runs two children", any_object(), {
        move |cx: ToolContext, _args: Value| {
            let (first, second) = (first.clone(), second.clone());
            async move {
                let mut first = first.session("").run_as_child(&cx, "Go").boxed();
                tokio::select! {
                    _ = &mut first => panic!("the first child ended"),
                    () = sleep(10) => {}
                }

                let second = second.session("").run_as_child(&cx, "Go").await;
                let first = first.await;
                let end = |output: agentcore::Result<RunOutput>| match output {
                    Ok(output) => format!("{}: {}", output.end, output.text),
                    Err(error) => error.to_string(),
                };

                format!("{}\n{}", end(second), end(first))
            }
        }
    })
}

fn delegating(first: ScriptedModel, second: ScriptedModel) -> AgentBuilder {
    let [first, second] = [first, second].map(|model| agent(model).build().unwrap());
    let model = ScriptedModel::new()
        .call("delegate", json!({}))
        .say("done")
        .with_profile(profile(Prices::new(0.0, 0.0)));
    agent(model)
        .tool(one_after_the_other(first, second))
        .tool_timeout(Duration::from_secs(600))
}

#[tokio::test(start_paused = true)]
async fn child_that_waits_for_an_unpolled_siblings_reservation_fails() {
    // One output token costs a thousandth of a dollar, so the first child reserves the whole
    // budget.
    let prices = Prices::new(0.0, 1000.0);
    let second = ScriptedModel::new()
        .say("quick")
        .with_profile(profile(prices));
    second.allow_unused();
    let parent = delegating(slow_answer(prices), second);
    let parent = parent.max_budget_usd(1.0).build().unwrap();
    let output = parent.run("Go").await.unwrap();
    assert_eq!(
        result_texts(&output.messages),
        ["max_budget: \nend_turn: slow"]
    );
}

#[tokio::test(start_paused = true)]
async fn child_waiting_for_an_unpolled_siblings_reservation_uses_the_remaining_budget() {
    let prices = Prices::new(0.0, 1000.0);
    let second = ScriptedModel::new()
        .expect(|request| assert_eq!(request.max_output_tokens, Some(500)))
        .say("quick")
        .with_profile(profile(prices));
    let parent = delegating(slow_answer(prices), second);
    let parent = parent.max_budget_usd(1.5).build().unwrap();
    let output = parent.run("Go").await.unwrap();
    assert_eq!(
        result_texts(&output.messages),
        ["end_turn: quick\nend_turn: slow"]
    );
}

#[tokio::test(start_paused = true)]
async fn child_that_waits_for_an_unpolled_siblings_permit_runs_without_one() {
    let free = Prices::new(0.0, 0.0);
    let second = ScriptedModel::new()
        .say("quick")
        .with_profile(profile(free));
    let parent = delegating(slow_answer(free), second);
    let parent = parent.parallel_model_calls(1).build().unwrap();
    let output = parent.run("Go").await.unwrap();
    assert_eq!(
        result_texts(&output.messages),
        ["end_turn: quick\nend_turn: slow"]
    );
}
