//! Hooks that wrap calls, nested in each other.

use agentcore::testing::ScriptedModel;
use agentcore::{Agent, AgentBuilder, ErrorKind, hook};
use serde_json::json;

use crate::kit::small_stack::survives;
use crate::kit::{agent, delegate, result_texts};

/// Adds `count` hooks that wrap model calls, and as many that wrap tool calls.
fn with_wrapping_hooks(builder: AgentBuilder, count: usize) -> AgentBuilder {
    (0..count).fold(builder, |builder, _| {
        builder
            .hook(hook::wrap_model_call("model", |request, next| async move {
                next.run(request).await
            }))
            .hook(hook::wrap_tool_call("tool", |call, next| async move {
                next.run(call).await
            }))
    })
}

/// An agent that delegates to an agent of the same kind, `depth` deep, each with `hooks` hooks.
fn nested(depth: u32, hooks: usize) -> Agent {
    let model = ScriptedModel::new();
    let builder = match depth {
        0 => agent(model.say("found")),
        _ => {
            let child = nested(depth - 1, hooks);
            agent(model.call("delegate", json!({})).say("done")).tool(delegate(child))
        }
    };
    let builder = builder.max_subagent_depth(8);
    with_wrapping_hooks(builder, hooks).build().unwrap()
}

fn results_of(agent: &Agent) -> Vec<String> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().unwrap();
    let output = runtime.block_on(async { agent.run("Go").await.unwrap() });
    result_texts(&output.messages)
}

#[test]
fn most_hooks_around_a_call_fit_on_a_small_stack() {
    survives(
        "hook_depth::most_hooks_around_a_call_fit_on_a_small_stack",
        || assert_eq!(results_of(&nested(1, 48)), ["found []"]),
    );
}

#[test]
fn most_hooks_around_calls_of_nested_runs_fit_on_a_small_stack() {
    survives(
        "hook_depth::most_hooks_around_calls_of_nested_runs_fit_on_a_small_stack",
        || {
            let results = results_of(&nested(8, 10));
            let depth = results[0].matches("done").count();
            assert_eq!(depth, 7, "{results:?}");
        },
    );
}

#[test]
fn agent_with_more_wrapping_hooks_is_not_built() {
    let builder = agent(ScriptedModel::new());
    let error = with_wrapping_hooks(builder, 97).build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(
        error
            .to_string()
            .starts_with("97 hooks would wrap one call"),
        "{error}"
    );
}

#[test]
fn subagent_with_too_many_hooks_including_its_parents_is_refused() {
    let results = results_of(&nested(2, 40));
    let expected = "120 hooks would wrap one call, those of the parent runs included; at most 96";
    assert!(results[0].contains(expected), "{results:?}");
}
