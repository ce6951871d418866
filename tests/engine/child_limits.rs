//! The depth and the number of child runs.

use agentcore::testing::ScriptedModel;
use agentcore::{AgentBuilder, FuncTool, PermissionMode};
use serde_json::json;

use crate::kit::{agent, any_object, delegate, result_texts};

/// An agent that delegates `calls` times at once.
fn delegating(child: AgentBuilder, calls: usize) -> AgentBuilder {
    let model = ScriptedModel::new()
        .calls((0..calls).map(|_| ("delegate", json!({}))))
        .say("done");
    agent(model).tool(delegate(child.build().unwrap()))
}

/// An agent that is expected to run `times` times.
fn leaf(times: usize) -> AgentBuilder {
    let model = (0..times).fold(ScriptedModel::new(), |model, _| model.say("found"));
    agent(model)
}

async fn results(agent: AgentBuilder) -> Vec<String> {
    result_texts(&agent.build().unwrap().run("Go").await.unwrap().messages)
}

#[tokio::test]
async fn smallest_depth_of_the_chain_applies() {
    let child = delegating(leaf(0).max_subagent_depth(8), 1).max_subagent_depth(8);
    let parent = delegating(child, 1).max_subagent_depth(1);
    let results = results(parent).await;
    let expected = "subagents may nest 1 deep; this run would be at depth 2";
    assert!(results[0].contains(expected), "{results:?}");

    let child = delegating(leaf(1).max_subagent_depth(8), 1).max_subagent_depth(8);
    let parent = delegating(child, 1);
    assert_eq!(self::results(parent).await, ["done [found []]"]);
}

#[tokio::test]
async fn depth_of_an_agent_counts_from_its_own_run() {
    let child = delegating(leaf(1), 1).max_subagent_depth(1);
    let results = results(delegating(child, 1)).await;
    assert_eq!(results, ["done [found []]"]);

    let child = delegating(leaf(0), 1).max_subagent_depth(0);
    let results = self::results(delegating(child, 1)).await;
    let expected = "done [Error: subagents may nest 1 deep; this run would be at depth 2";
    assert!(results[0].starts_with(expected), "{results:?}");
}

#[tokio::test]
async fn number_of_subagents_is_limited_for_the_whole_tree() {
    let refused = "Error: a parent run has started its 3 subagents; raise its max_subagents";
    // The first delegation starts one child, so two of its three children may start.
    let child = delegating(leaf(2), 3).max_subagents(100);
    let results = results(delegating(child, 1).max_subagents(3)).await;
    assert_eq!(results[0].matches("found []").count(), 2, "{results:?}");
    assert_eq!(results[0].matches(refused).count(), 1, "{results:?}");

    // A child with a lower limit counts its own subagents.
    let child = delegating(leaf(1), 2).max_subagents(1);
    let results = self::results(delegating(child, 1)).await;
    assert_eq!(results[0].matches("found []").count(), 1, "{results:?}");
    assert_eq!(results[0].matches("started its 1 subagents").count(), 1);
}

#[tokio::test]
async fn run_begins_100_subagents_unless_set() {
    let results = results(delegating(leaf(100), 101).parallel_tools(101)).await;
    let allowed = results.iter().filter(|text| *text == "found []").count();
    assert_eq!((allowed, results.len()), (100, 101));
    let results = self::results(delegating(leaf(0), 1).max_subagents(0)).await;
    assert!(results[0].starts_with("Error: "), "{results:?}");
}

#[tokio::test]
async fn tool_context_has_the_model_tools_mode_user_and_depth_of_its_run() {
    let look = || {
        FuncTool::new("look", "Looks", any_object(), |cx, _args| async move {
            let model = cx.model().map(|model| model.id().to_owned());
            let tools = cx.tools();
            format!(
                "{:?} {:?} {} {:?} {}",
                model,
                tools.names(),
                cx.permission_mode(),
                cx.user_id(),
                cx.depth()
            )
        })
    };
    let model = |id: &'static str| {
        let model = ScriptedModel::new().call("look", json!({})).say("seen");
        model.with_id(id)
    };
    let child = agent(model("small")).tool(look());
    let parent = agent(model("large").call("delegate", json!({})).say("done"))
        .tool(look())
        .tool(delegate(child.build().unwrap()))
        .permission_mode(PermissionMode::AcceptEdits);
    let session = parent.build().unwrap().session("s").user_id("ann");
    session.clone().run("Look").await.unwrap();
    let history = session.run("And below?").await.unwrap().messages;
    let texts = result_texts(&history);
    assert_eq!(
        texts[0],
        r#"Some("large") ["delegate", "look"] acceptEdits Some("ann") 0"#
    );
    assert_eq!(
        texts[1],
        r#"seen [Some("small") ["look"] default Some("ann") 1]"#
    );

    let cx = agentcore::ToolContext::detached();
    assert!(cx.model().is_none() && cx.tools().names().is_empty());
    assert!(cx.user_id().is_none() && cx.depth() == 0);
}
