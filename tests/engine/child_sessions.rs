//! The sessions of subagents: their user, their parent, lists and deletion.

use agentcore::subagent::{SubagentDefinition, SubagentRegistry};
use agentcore::testing::ScriptedModel;
use agentcore::{AgentBuilder, SessionStore, ThreadStore, tools};
use serde_json::json;

use crate::kit::agent;

fn delegating(model: ScriptedModel, scout: ScriptedModel) -> AgentBuilder {
    let mut registry = SubagentRegistry::new();
    let definition = SubagentDefinition::new("Looks around", "You look around.");
    let definition = definition.with_tools(["delegate_to_agent"]);
    registry.register("scout", definition).unwrap();
    let tools = tools::delegate(registry).model(scout).build().unwrap();
    agent(model).tools(tools).cwd("/work")
}

fn look() -> serde_json::Value {
    json!({"agent": "scout", "task": "Look"})
}

#[tokio::test]
async fn session_of_a_subagent_has_its_parent_and_user_and_is_in_no_list() {
    let store = ThreadStore::new();
    let model = ScriptedModel::new()
        .call("delegate_to_agent", look())
        .say("done");
    let scout = ScriptedModel::new()
        .call("delegate_to_agent", look())
        .say("Below.")
        .say("All quiet.");
    let agent = delegating(model, scout)
        .store(store.clone())
        .build()
        .unwrap();
    agent.session("s").user_id("ann").run("Go").await.unwrap();

    let child = store.get("s:sub:scout:call_1").unwrap();
    assert_eq!(child.parent.as_deref(), Some("s"));
    assert_eq!(child.user_id.as_deref(), Some("ann"));
    assert_eq!(store.get("s").unwrap().parent, None);
    let below = "s:sub:scout:call_1:sub:scout:call_1";
    let below = store.get(below).unwrap();
    assert_eq!(below.parent.as_deref(), Some("s:sub:scout:call_1"));
    assert_eq!(below.user_id.as_deref(), Some("ann"));

    assert_eq!(store.list().await.unwrap().len(), 3);
    let list = agent.sessions().await.unwrap();
    let ids: Vec<_> = list.iter().map(|info| &*info.id).collect();
    assert_eq!(ids, ["s"]);
    let latest = agent.latest_session().await.unwrap().unwrap();
    assert_eq!(&**latest.id(), "s");
}

#[tokio::test]
async fn deleted_session_takes_those_of_its_subagents_with_it() {
    let store = ThreadStore::new();
    let call = |model: ScriptedModel| model.call("delegate_to_agent", look()).say("done");
    let scout = ScriptedModel::new()
        .call("delegate_to_agent", look())
        .say("Below.")
        .say("All quiet.")
        .say("Quiet.");
    let model = call(call(ScriptedModel::new()));
    let agent = delegating(model, scout)
        .store(store.clone())
        .build()
        .unwrap();
    agent.session("s").run("Go").await.unwrap();
    agent.session("other").run("Go").await.unwrap();
    assert_eq!(store.len(), 5);
    assert!(agent.session("s").delete().await.unwrap());
    let list = store.list().await.unwrap();
    let mut ids: Vec<_> = list.iter().map(|info| &*info.id).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["other", "other:sub:scout:call_2"]);
    assert!(!agent.session("s").delete().await.unwrap());
}

#[tokio::test]
async fn session_that_a_user_began_stays_the_users() {
    let store = ThreadStore::new();
    let helper = agent(ScriptedModel::new().say("one").say("two"));
    let helper = helper.store(store.clone()).build().unwrap();
    helper.session("mine").run("Go").await.unwrap();
    let session = helper.session("mine");
    let ask = agentcore::FuncTool::new("ask", "", json!({"type": "object"}), move |cx, _args| {
        let session = session.clone();
        async move {
            let output = session.run_as_child(&cx, "More").await?;
            Ok::<_, agentcore::BoxError>(output.text)
        }
    });
    let model = ScriptedModel::new().call("ask", json!({})).say("done");
    let lead = agent(model).tool(ask).store(store.clone());
    lead.build().unwrap().session("s").run("Go").await.unwrap();
    assert_eq!(store.get("mine").unwrap().parent, None);
    assert_eq!(helper.sessions().await.unwrap().len(), 2);
}
