//! Trace recorders of one run.

use std::sync::Arc;

use agentcore::hooks::TracingHook;
use agentcore::subagent::{SubagentDefinition, SubagentRegistry};
use agentcore::testing::ScriptedModel;
use agentcore::tools::delegate;
use agentcore::trace::{MemoryRecorder, SpanHandle, TraceRecorder};
use agentcore::{AgentBuilder, AgentState, Hook, Result, RunContext, async_trait};
use serde_json::{Value, json};

use crate::kit::agent;

fn run_ids(recorder: &MemoryRecorder) -> Vec<String> {
    let spans = recorder.spans().into_iter();
    let ids = spans.filter_map(|span| Some(span.get("run_id")?.as_str()?.to_owned()));
    ids.collect()
}

#[tokio::test]
async fn run_with_its_own_recorder_does_not_use_the_agents() {
    let (of_agent, of_run) = (MemoryRecorder::new(), MemoryRecorder::new());
    let agent = agent(ScriptedModel::new().say("1").say("2"))
        .hook(TracingHook::new().with_run_span(true))
        .trace_recorder(of_agent.clone())
        .build()
        .unwrap();
    let run = agent
        .session("th_1")
        .trace_recorder(of_run.clone())
        .run("Hi");
    let id = run.handle().run_id().to_string();
    run.await.unwrap();
    assert!(of_agent.spans().is_empty());
    assert_eq!(run_ids(&of_run), [id.clone(), id.clone()]);

    agent.session("th_1").run("Again").await.unwrap();
    assert_eq!(of_run.spans().len(), 2);
    let ids = run_ids(&of_agent);
    assert_eq!(ids.len(), 2);
    assert_ne!(ids[0], id);
}

#[tokio::test]
async fn subagents_record_where_their_run_does() {
    let mut agents = SubagentRegistry::new();
    let scout = SubagentDefinition::new("Looks around", "Look around.");
    agents.register("scout", scout).unwrap();
    let model = ScriptedModel::new()
        .call(
            "delegate_to_agent",
            json!({"agent": "scout", "task": "Look"}),
        )
        .say("All quiet.")
        .say("It is quiet.");
    let tools = delegate(agents).build().unwrap();
    let agent = agent(model).tools(tools).hook(TracingHook::new());
    let recorder = MemoryRecorder::new();
    let session = agent.build().unwrap().session("th_1");
    session
        .trace_recorder(recorder.clone())
        .run("Go")
        .await
        .unwrap();

    let calls = recorder.spans().into_iter();
    let calls: Vec<_> = calls.filter(|span| span.name == "llm.call").collect();
    assert_eq!(calls.len(), 3);
}

/// A hook that sets the attributes of a span in one chain of calls.
struct Chained;

#[async_trait]
impl Hook for Chained {
    fn name(&self) -> &str {
        "chained"
    }

    async fn before_agent(&self, cx: &RunContext, state: AgentState) -> Result<AgentState> {
        let recorder = cx.trace().expect("the run has a recorder");
        let mut span = recorder.start_span("setup");
        span.set("first", json!(1)).set("second", json!(2));
        span.end();
        Ok(state)
    }
}

/// A recorder that records nothing.
#[derive(Default)]
struct Deaf;

impl TraceRecorder for Deaf {
    fn start_span(&self, _name: &str) -> Box<dyn SpanHandle> {
        Box::new(DeafSpan)
    }

    fn record_event(&self, _name: &str, _metadata: Value) {}
}

struct DeafSpan;

impl SpanHandle for DeafSpan {
    fn set(&mut self, _key: &str, _value: Value) -> &mut dyn SpanHandle {
        self
    }

    fn end(self: Box<Self>) {}
}

#[tokio::test]
async fn attributes_of_a_span_are_set_in_a_chain() {
    let recorder = MemoryRecorder::new();
    let agent = AgentBuilder::new(ScriptedModel::new().say("1").say("2"))
        .hook(Chained)
        .trace_recorder(Arc::new(Deaf))
        .build()
        .unwrap();
    let session = agent.session("th_1").trace_recorder(recorder.clone());
    session.run("Hi").await.unwrap();
    agent
        .run("And with the recorder of the agent")
        .await
        .unwrap();

    let spans = recorder.spans();
    let attributes = spans[0].attributes.to_vec();
    let expected = [("first", 1), ("second", 2)];
    let expected = expected.map(|(key, value)| (key.to_owned(), json!(value)));
    assert_eq!(attributes, expected);
}
