//! The order of a run's writes and actions: each step is stored before it takes effect.

use agentcore::agent::Decision;
use agentcore::session::{Lease, Record, SessionInfo, StoredSession};
use agentcore::testing::{FunctionModel, ScriptedModel};
use agentcore::tool::{GateRequest, SideEffect};
use agentcore::{
    AgentState, FuncTool, Message, ModelEvent, OnUnanswered, Result, SessionStore, ThreadStore,
    ToolCall, ToolDecision, async_trait,
};
use serde_json::json;
use tokio::task::yield_now;

use crate::kit::{Gate, Log, agent, any_object, asking};

/// A store that logs each write after a delay, so that actions that do not wait for it are logged
/// first.
struct Logging {
    inner: ThreadStore,
    log: Log,
}

impl Logging {
    fn new(log: &Log) -> Self {
        Self {
            inner: ThreadStore::new(),
            log: log.clone(),
        }
    }

    async fn done(&self, what: String) {
        for _ in 0..10 {
            yield_now().await;
        }
        self.log.add(what);
    }
}

fn describe(message: &Message) -> String {
    match message {
        Message::Tool(result) => format!("result {}", result.tool_call_id),
        message => format!("{} {:?}", message.role(), message.text()),
    }
}

fn name(record: &Record) -> String {
    match record {
        Record::Message { message, .. } => describe(message),
        Record::ToolStarted { call_id } => format!("started {call_id}"),
        Record::ToolEnded { result } => format!("ended, {}", describe(result)),
        Record::Answered { ids } => format!("answered {}", ids.len()),
        Record::About { cwd, .. } => format!("began in {}", cwd.as_deref().unwrap_or("nowhere")),
        Record::MessageInfo { info } => match info.usage.output_tokens {
            0 => "info".into(),
            tokens => format!("info of {tokens} tokens"),
        },
        record => format!("{record:?}"),
    }
}

#[async_trait]
impl SessionStore for Logging {
    async fn load(&self, id: &str) -> Result<Option<StoredSession>> {
        let session = self.inner.load(id).await;
        self.done("loaded".into()).await;
        session
    }

    async fn append(&self, lease: &Lease, records: Vec<Record>) -> Result<()> {
        let names: Vec<_> = records.iter().map(name).collect();
        self.inner.append(lease, records).await?;
        self.done(format!("stored {}", names.join(", "))).await;
        Ok(())
    }

    async fn save(&self, lease: &Lease, state: &AgentState) -> Result<()> {
        SessionStore::save(&self.inner, lease, state).await?;
        let last = state.messages.last().map(describe).unwrap_or_default();
        self.done(format!(
            "saved up to {last}, {} pending",
            state.pending.len()
        ))
        .await;
        Ok(())
    }

    async fn list(&self) -> Result<Vec<SessionInfo>> {
        self.inner.list().await
    }

    async fn delete(&self, id: &str) -> Result<bool> {
        SessionStore::delete(&self.inner, id).await
    }

    async fn lease(&self, id: &str) -> Result<Lease> {
        let lease = self.inner.lease(id).await?;
        self.done("leased".into()).await;
        let log = self.log.clone();
        Ok(Lease::new(id, lease.token(), move || {
            drop(lease);
            log.add("released");
        }))
    }
}

fn tool(name: &'static str, log: &Log) -> FuncTool {
    let log = log.clone();
    FuncTool::new(name, "Logs", any_object(), move |cx, _args| {
        let log = log.clone();
        let id = std::sync::Arc::<str>::from(cx.call_id());
        async move {
            log.add(format!("{name} {id} acts"));
            yield_now().await;
            log.add(format!("{name} {id} is done"));
            "done"
        }
    })
}

#[tokio::test]
async fn run_stores_each_step_before_acting_on_it() {
    let log = Log::default();
    let asked = log.clone();
    let model = FunctionModel::new(move |request| {
        asked.add(format!("model asked with {}", request.messages.len()));
        let call =
            |id: &str, name: &str| Ok(ModelEvent::ToolCall(ToolCall::new(id, name, json!({}))));
        match request.messages.len() {
            1 => vec![call("1", "act"), call("2", "look"), call("3", "act")],
            _ => vec![Ok(ModelEvent::Text("Done.".into()))],
        }
    });

    let agent = agent(model)
        .tools([
            tool("act", &log).exclusive(),
            tool("look", &log)
                .side_effect(SideEffect::ReadOnly)
                .exclusive(),
        ])
        .cwd("/work")
        .store(Logging::new(&log))
        .build()
        .unwrap();
    agent.session("s").run("Go").await.unwrap();
    assert_eq!(
        log.take(),
        [
            "leased",
            "loaded",
            "stored began in /work, user \"Go\"",
            "model asked with 1",
            "stored assistant \"\", info, started 1",
            "act 1 acts",
            "act 1 is done",
            "stored ended, result 1",
            "look 2 acts",
            "look 2 is done",
            "stored started 3",
            "act 3 acts",
            "act 3 is done",
            "stored result 1, result 2, result 3",
            "model asked with 5",
            "stored assistant \"Done.\", info",
            "saved up to assistant \"Done.\", 0 pending",
            "released",
        ]
    );
    agent.session("s").run("Again").await.unwrap();
    assert_eq!(
        log.take()[2],
        "stored user \"Again\"",
        "the directory is stored once"
    );
    let latest = agent.latest_session().await.unwrap().unwrap();
    assert_eq!(&**latest.id(), "s");
}

#[tokio::test]
async fn starts_of_parallel_calls_are_stored_before_one_of_them_runs() {
    let log = Log::default();
    let model = ScriptedModel::new()
        .calls([("act", json!({"n": 1})), ("act", json!({"n": 2}))])
        .say("Done.");
    let agent = agent(model)
        .tool(tool("act", &log))
        .store(Logging::new(&log))
        .build()
        .unwrap();
    agent.session("s").run("Go").await.unwrap();
    let log = log.take();
    let at = |what: &str| log.iter().position(|line| line == what).unwrap();
    for id in ["call_1", "call_2"] {
        assert!(
            at("stored assistant \"\", info, started call_1, started call_2")
                < at(&format!("act {id} acts")),
            "{log:?}"
        );
        assert!(at(&format!("act {id} is done")) < at("stored result call_1, result call_2"));
    }
}

#[tokio::test]
async fn starts_of_calls_that_a_gate_permits_are_stored_before_one_of_them_runs() {
    let log = Log::default();
    let model = ScriptedModel::new()
        .calls([("act", json!({"n": 1})), ("act", json!({"n": 2}))])
        .say("Done.");
    let agent = agent(model)
        .tool(tool("act", &log))
        .permissions(Gate(|_: &GateRequest| ToolDecision::allow()))
        .store(Logging::new(&log))
        .build()
        .unwrap();
    agent.session("s").run("Go").await.unwrap();
    let log = log.take();
    let at = |what: &str| log.iter().position(|line| line == what).unwrap();
    let stored = at("stored started call_1, started call_2");
    assert!(at("stored assistant \"\", info") < stored, "{log:?}");
    assert!(stored < at("act call_1 acts"), "{log:?}");
    assert!(stored < at("act call_2 acts"), "{log:?}");
}

#[tokio::test]
async fn approval_is_removed_from_the_store_before_its_call_runs() {
    let log = Log::default();
    let agent = agent(ScriptedModel::new().call("act", json!({})).say("Done."))
        .tool(tool("act", &log))
        .permissions(asking())
        .unanswered(OnUnanswered::Park)
        .store(Logging::new(&log))
        .build()
        .unwrap();
    let parked = agent.session("s").run("Go").await.unwrap();
    assert_eq!(
        log.take()[4..],
        [
            // The state is saved before hooks may pass the question on, and at the end of the run.
            "saved up to assistant \"\", 1 pending",
            "saved up to assistant \"\", 1 pending",
            "released"
        ],
    );
    let decision = Decision::allow(&parked.state.pending[0]);
    agent.session("s").resume(decision).await.unwrap();
    assert_eq!(
        log.take()[2..],
        [
            "stored answered 1",
            "stored started call_1",
            "act call_1 acts",
            "act call_1 is done",
            "saved up to result call_1, 0 pending",
            "stored assistant \"Done.\", info",
            "saved up to assistant \"Done.\", 0 pending",
            "released",
        ]
    );
}
