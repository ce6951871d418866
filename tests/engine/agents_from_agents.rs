//! Agents that are built from other agents, and the origin of their permission requests.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use agentcore::testing::ScriptedModel;
use agentcore::tool::{Asking, Confirmer, GateRequest};
use agentcore::{
    AgentBuilder, Answer, BoxError, FuncTool, PermissionRequest, ToolContext, ToolDecision,
    async_trait, hook,
};
use serde_json::{Value, json};

use crate::kit::{Gate, Log, agent, any_object, asking, echo, logged, result_texts};

/// A tool that runs a copy of the agent of its run, named `clone`, which does not delegate further.
fn copy_of_run() -> FuncTool {
    let run = |cx: ToolContext, args: Value| async move {
        let builder = AgentBuilder::of_run(&cx).ok_or("outside any run")?;
        let session = builder.name("clone").build()?.session("copy");
        let task = args["task"].as_str().unwrap_or("Help").to_owned();
        let output = session.run_as_child(&cx, task).await?;
        let results = result_texts(&output.messages).join("; ");
        Ok::<_, BoxError>(format!("{} [{results}]", output.text))
    };
    FuncTool::new("copy", "Runs a copy", any_object(), run)
}

#[tokio::test]
async fn agent_of_a_run_has_its_model_tools_hooks_and_store() {
    let log = Log::default();
    let noted = log.clone();
    let note = hook::before_agent("note", move |cx: agentcore::RunContext, state| {
        noted.add(format!(
            "{} at {}",
            cx.agent(),
            cx.cwd().unwrap_or_default()
        ));
        async move { Ok(state) }
    });
    let model = ScriptedModel::new()
        .call("copy", json!({}))
        .call("echo", json!({"text": "below"}))
        .say("copied")
        .say("done");
    let agent = agent(model.clone())
        .name("lead")
        .cwd("/work")
        .system_prompt("Lead.")
        .tool(copy_of_run())
        .tool(echo())
        .hook(note)
        .build()
        .unwrap();
    let output = agent.session("s").run("Go").await.unwrap();
    assert_eq!(result_texts(&output.messages), ["copied [below]"]);
    assert_eq!(log.take(), ["lead at /work", "clone at /work"]);
    assert!(agent.session("copy").state().await.unwrap().is_some());
    let requests = model.requests();
    assert_eq!(requests[1].tools.len(), 2);
    assert!(requests[1].system.to_string().is_empty(), "its own prompt");
}

#[tokio::test]
async fn agent_of_a_run_has_the_model_that_is_in_use() {
    let small = ScriptedModel::new().with_id("small");
    let small = small.call("copy", json!({})).say("copied").say("done");
    let large = ScriptedModel::new().with_id("large");
    let agent = agent(large).tool(copy_of_run()).build().unwrap();
    let run = agent.run("Go");
    run.handle().set_model(small.clone());
    assert_eq!(run.await.unwrap().text, "done");
    small.assert_finished();
    assert!(AgentBuilder::of_run(&ToolContext::detached()).is_none());
}

#[tokio::test]
async fn clone_of_a_builder_builds_an_independent_agent() {
    let model = ScriptedModel::new().say("one");
    let builder = agent(model).name("one").tool(echo());
    let other = builder.clone().name("two").max_turns(1);
    let (one, two) = (builder.build().unwrap(), other.build().unwrap());
    assert_eq!((one.name(), two.name()), ("one", "two"));
    assert_eq!((one.info().max_turns, two.info().max_turns), (100, 1));
    assert_eq!(one.session("s").run("Hi").await.unwrap().text, "one");
    assert!(two.session("s").state().await.unwrap().is_none());
}

/// Allows every call for the session and counts the questions.
#[derive(Clone, Default)]
struct Granting(Arc<AtomicUsize>);

#[async_trait]
impl Confirmer for Granting {
    async fn confirm(&self, _request: &PermissionRequest, _asking: &Asking) -> Answer {
        self.0.fetch_add(1, Ordering::SeqCst);
        Answer::AllowForSession
    }
}

#[tokio::test]
async fn agent_of_a_cloned_builder_does_not_share_grants() {
    let granting = Granting::default();
    let ask = hook::pre_tool_use("ask", |_cx, _call| async { Ok(ToolDecision::ask("sure?")) });
    let call = |model: ScriptedModel| model.call("echo", json!({})).say("done");
    let builder = agent(call(call(call(ScriptedModel::new()))))
        .tool(echo())
        .hook(ask)
        .confirmer(granting.clone());
    let (one, two) = (builder.clone().build().unwrap(), builder.build().unwrap());
    for (agent, questions) in [(&one, 1), (&one, 1), (&two, 2)] {
        agent.session("s").run("Go").await.unwrap();
        assert_eq!(granting.0.load(Ordering::SeqCst), questions);
    }
}

#[tokio::test]
async fn agent_of_a_run_is_denied_what_the_run_is_denied() {
    let gate = Gate(|request: &GateRequest| match &*request.call.name {
        "echo" => ToolDecision::deny("not here"),
        _ => ToolDecision::allow(),
    });
    let model = ScriptedModel::new()
        .call("copy", json!({}))
        .call("echo", json!({"text": "below"}))
        .say("copied")
        .say("done");
    let agent = agent(model)
        .tool(copy_of_run())
        .tool(echo())
        .permissions(gate)
        .build()
        .unwrap();
    let output = agent.run("Go").await.unwrap();
    assert_eq!(result_texts(&output.messages), ["copied [Error: not here]"]);
}

#[tokio::test]
async fn agent_of_a_run_discards_what_the_agent_of_the_run_discards() {
    let run = |cx: ToolContext, _args: Value| async move {
        let builder = AgentBuilder::of_run(&cx).ok_or("outside any run")?;
        Ok::<_, BoxError>(builder.build()?.run("Help").await?.text)
    };
    let ask = FuncTool::new("ask", "Asks another agent", any_object(), run);
    let model = ScriptedModel::new()
        .call("ask", json!({}))
        .say("helped")
        .say("done");
    let agent = agent(model).tool(ask).build().unwrap();
    let output = agent.session("s").run("Go").await.unwrap();
    assert_eq!(result_texts(&output.messages), ["helped"]);
    let sessions = agent.sessions().await.unwrap();
    let ids: Vec<_> = sessions.iter().map(|session| &*session.id).collect();
    assert_eq!(ids, ["s"]);
}

/// The chat of a session.
struct Chat(&'static str);

/// Allows every call and keeps the origins of the questions.
#[derive(Clone, Default)]
struct Origins(Arc<Mutex<Vec<Asking>>>);

#[async_trait]
impl Confirmer for Origins {
    async fn confirm(&self, _request: &PermissionRequest, asking: &Asking) -> Answer {
        self.0.lock().unwrap().push(asking.clone());
        Answer::Allow
    }
}

#[tokio::test]
async fn question_of_a_child_names_its_session_and_finds_values_of_the_runs_above() {
    let log = Log::default();
    let origins = Origins::default();
    let child = agent(ScriptedModel::new().call("act", json!({})).say("acted"))
        .tool(logged("act", &log))
        .permissions(asking())
        .build()
        .unwrap();
    let delegate = FuncTool::new("delegate", "Delegates", any_object(), move |cx, _args| {
        let session = child.session("c").with(7_u32);
        async move { Ok::<_, BoxError>(session.run_as_child(&cx, "Help").await?.text) }
    });
    let parent = agent(ScriptedModel::new().call("delegate", json!({})).say("done"))
        .tool(delegate)
        .confirmer(origins.clone())
        .build()
        .unwrap();
    let session = parent.session("p").with(Chat("123")).with(1_u32);
    session.user_id("ann").run("Go").await.unwrap();

    let origins = origins.0.lock().unwrap();
    let [origin] = &origins[..] else {
        panic!("one question: {origins:?}");
    };
    assert_eq!((&*origin.session_id, &*origin.call_id), ("c", "call_1"));
    assert_eq!(origin.user_id.as_deref(), Some("ann"));
    assert_eq!(origin.value::<Chat>().unwrap().0, "123");
    assert_eq!(*origin.value::<u32>().unwrap(), 7, "the nearest run");
    assert_eq!(log.len(), 1);
}

#[tokio::test]
async fn asking_of_a_tool_names_its_call() {
    let ask = FuncTool::new("ask", "Asks", any_object(), |cx, _args| async move {
        let asking = cx.asking();
        let chat = asking.value::<Chat>().expect("a chat").0;
        format!("{} {} {chat}", asking.session_id, asking.call_id)
    });
    let model = ScriptedModel::new().call("ask", json!({})).say("done");
    let agent = agent(model).tool(ask).build().unwrap();
    let output = agent.session("s").with(Chat("9")).run("Go").await.unwrap();
    assert_eq!(result_texts(&output.messages), ["s call_1 9"]);
}
