//! Sessions of subagents: their user, their parent, lists and deletion.

use std::sync::Arc;
use std::task::Poll;

use agentcore::session::{Lease, Record, SessionInfo, StoredSession};
use agentcore::subagent::{SubagentDefinition, SubagentRegistry};
use agentcore::testing::{FunctionModel, ScriptedModel};
use agentcore::{
    AgentBuilder, ErrorKind, ExitReason, Message, ModelEvent, OnUnanswered, Result, SessionStore,
    ThreadStore, ToolCall, async_trait, tools,
};
use serde_json::json;

use crate::kit::{agent, asking, child_session, child_sessions, result_texts};

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

    let child_id = child_session(&store, "s:sub:scout:call_1").await;
    let child = store.get(&child_id).unwrap();
    assert_eq!(child.parent.as_deref(), Some("s"));
    assert_eq!(child.user_id.as_deref(), Some("ann"));
    assert_eq!(store.get("s").unwrap().parent, None);
    let below = child_session(&store, &format!("{child_id}:sub:scout:call_1")).await;
    let below = store.get(&below).unwrap();
    assert_eq!(below.parent, Some(child_id));
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
    let child_id = child_session(&store, "other:sub:scout:call_2").await;
    assert_eq!(ids, ["other", &*child_id]);
    assert!(!agent.session("s").delete().await.unwrap());
}

/// A store whose list contains only the newest session.
struct NewestListed(ThreadStore);

#[async_trait]
impl SessionStore for NewestListed {
    async fn load(&self, id: &str) -> Result<Option<StoredSession>> {
        self.0.load(id).await
    }

    async fn append(&self, lease: &Lease, records: Vec<Record>) -> Result<()> {
        self.0.append(lease, records).await
    }

    async fn list(&self) -> Result<Vec<SessionInfo>> {
        let mut list = self.0.list().await?;
        list.truncate(1);
        Ok(list)
    }

    async fn children(&self, id: &str) -> Result<Vec<Arc<str>>> {
        self.0.children(id).await
    }

    async fn delete(&self, id: &str) -> Result<bool> {
        SessionStore::delete(&self.0, id).await
    }

    async fn lease(&self, id: &str) -> Result<Lease> {
        self.0.lease(id).await
    }
}

#[tokio::test]
async fn deleted_session_takes_those_that_a_list_omits_with_it() {
    let store = ThreadStore::new();
    let model = ScriptedModel::new()
        .call("delegate_to_agent", look())
        .say("done");
    let scout = ScriptedModel::new()
        .call("delegate_to_agent", look())
        .say("Below.")
        .say("All quiet.");
    let agent = delegating(model, scout).store(NewestListed(store.clone()));
    let agent = agent.build().unwrap();
    agent.session("s").run("Go").await.unwrap();
    assert_eq!(store.len(), 3);
    assert!(agent.session("s").delete().await.unwrap());
    assert!(store.is_empty());
}

#[tokio::test]
async fn session_stays_until_those_of_its_subagents_are_removed() {
    let store = ThreadStore::new();
    let model = ScriptedModel::new()
        .call("delegate_to_agent", look())
        .say("done");
    let agent = delegating(model, ScriptedModel::new().say("All quiet."));
    let agent = agent.store(store.clone()).build().unwrap();
    agent.session("s").run("Go").await.unwrap();
    let child_id = child_session(&store, "s:sub:scout:call_1").await;
    for id in [&*child_id, "s"] {
        let lease = store.lease(id).await.unwrap();
        let error = agent.session("s").delete().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SessionBusy);
        assert_eq!(store.len(), 2, "{id}");
        drop(lease);
    }
    assert!(agent.session("s").delete().await.unwrap());
    assert!(store.is_empty());
}

#[tokio::test]
async fn copy_of_a_subagents_session_is_a_session_of_the_user() {
    let store = ThreadStore::new();
    let model = ScriptedModel::new()
        .call("delegate_to_agent", look())
        .say("done");
    let agent = delegating(model, ScriptedModel::new().say("All quiet."));
    let agent = agent.store(store.clone()).build().unwrap();
    agent.session("s").user_id("ann").run("Go").await.unwrap();
    let child_id = child_session(&store, "s:sub:scout:call_1").await;
    let child = agent.session(child_id).owned_by("ann");
    drop(child.fork("whole").await.unwrap());
    drop(child.fork_at("part", 1).await.unwrap());
    assert!(agent.session("s").delete().await.unwrap());
    for (id, messages) in [("whole", 2), ("part", 1)] {
        let copy = store.get(id).unwrap();
        assert_eq!((copy.parent, copy.messages.len()), (None, messages));
    }
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

/// A model that gives its call the same id in every run, as some servers do.
fn calling_as_before(tool: &'static str, args: serde_json::Value) -> FunctionModel {
    FunctionModel::new(move |request| {
        let mut messages = request.messages.iter();
        let has_result = messages.any(|message| message.as_tool_result().is_some());
        vec![Ok(if has_result {
            ModelEvent::Text("done".to_owned())
        } else {
            ModelEvent::ToolCall(ToolCall::new("call_1", tool, args.clone()))
        })]
    })
}

#[tokio::test]
async fn call_with_the_id_of_one_that_was_cut_off_has_a_session_of_its_own() {
    let store = ThreadStore::new();
    let scout = ScriptedModel::new().say("All quiet.").say("Still quiet.");
    let tools = {
        let mut registry = SubagentRegistry::new();
        let definition = SubagentDefinition::new("Looks around", "You look around.");
        registry.register("scout", definition).unwrap();
        tools::delegate(registry)
            .model(scout.clone())
            .build()
            .unwrap()
    };
    let agent = agent(calling_as_before("delegate_to_agent", look()))
        .tools(tools)
        .store(store.clone())
        .build()
        .unwrap();
    let session = agent.session("s");
    session.clone().run("Go").await.unwrap();
    let output = session.rewind_to(0).run("Go").await.unwrap();
    assert_eq!(result_texts(&output.messages), ["Still quiet."]);
    assert_eq!(scout.requests()[1].messages.len(), 1);

    let ids = child_sessions(&store, "s:sub:scout:call_1").await;
    assert_eq!(ids.len(), 2, "{ids:?}");
    for id in ids {
        assert_eq!(store.get(&id).unwrap().messages.len(), 2);
    }
}

#[tokio::test]
async fn call_that_runs_again_continues_the_session_of_its_subagent() {
    let store = ThreadStore::new();
    let helper = FunctionModel::new(|request| {
        let is_first = request.messages.len() == 1;
        let text = ModelEvent::Text("Quiet.".to_owned());
        vec![if is_first {
            Ok(ModelEvent::ToolCall(ToolCall::new(
                "wait",
                "wait",
                json!({}),
            )))
        } else {
            Ok(text)
        }]
    });
    let wait = agentcore::FuncTool::new("wait", "", json!({"type": "object"}), |_cx, _args| {
        std::future::pending::<String>()
    });
    let helper = agent(helper)
        .tool(wait)
        .store(store.clone())
        .build()
        .unwrap();
    let tool = helper.as_tool("helper", "Helps").idempotent();
    let model = calling_as_before("helper", json!({"task": "Look"}));
    let lead = agent(model)
        .tool(tool)
        .store(store.clone())
        .build()
        .unwrap();

    let mut run = lead.session("s").run("Go");
    while child_sessions(&store, "s:sub:helper:call_1")
        .await
        .is_empty()
    {
        assert!(run.next().await.is_some());
        while let Poll::Ready(Some(_)) = futures::poll!(run.next()) {}
    }
    drop(run);
    let output = lead.session("s").run("And?").await.unwrap();
    assert_eq!(result_texts(&output.messages), ["Quiet."]);
    let id = child_session(&store, "s:sub:helper:call_1").await;
    let tasks = store.get(&id).unwrap().messages;
    let tasks = tasks.iter().filter(|message| message.text() == "Look");
    assert_eq!(tasks.count(), 2);
}

#[tokio::test]
async fn call_that_waited_for_approval_starts_the_subagent_of_its_answer() {
    let store = ThreadStore::new();
    let helper = agent(ScriptedModel::new().say("Quiet.")).store(store.clone());
    let tool = helper.build().unwrap().as_tool("helper", "Helps");
    let model = calling_as_before("helper", json!({"task": "Look"}));
    let lead = agent(model)
        .tool(tool)
        .permissions(asking())
        .store(store.clone());
    let lead = lead.unanswered(OnUnanswered::Park).build().unwrap();
    let output = lead.session("s").run("Go").await.unwrap();
    assert_eq!(output.end, ExitReason::AwaitingApproval);
    let answer_id = output.state.message_info(1).unwrap().uuid.to_string();

    let calls = lead.session("s").pending().await.unwrap();
    let decision = agentcore::Decision::allow(&calls[0]);
    let output = lead.session("s").resume(decision).await.unwrap();
    assert!(matches!(output.messages.get(2), Some(Message::Tool(_))));
    let id = child_session(&store, "s:sub:helper:call_1").await;
    assert!(
        id.ends_with(&answer_id[answer_id.len() - 8..]),
        "{id}, {answer_id}"
    );
}
