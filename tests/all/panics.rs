//! What is plugged in may panic: the run ends with one result, and the caller does not notice.

use std::sync::Arc;

use agentcore::message::TokenCounter;
use agentcore::state::{Lease, Record, SessionInfo, StoredSession};
use agentcore::testing::{FunctionModel, ScriptedModel};
use agentcore::tool::{Answer, Confirmer};
use agentcore::{
    AgentBuilder, AgentState, Error, ErrorKind, PermissionRequest, Result, SdkMessage,
    SessionStore, ThreadStore, ToolContext, async_trait,
};
use futures::StreamExt;
use serde_json::json;

use crate::kit::{agent, any_object, asking, echo, texts, watch};

/// Runs and wants one result at the end, which it returns.
async fn result_of(builder: AgentBuilder) -> serde_json::Value {
    let (messages, _) = watch(builder.build().unwrap().session("s").run("Go")).await;
    assert_eq!(messages.iter().filter(|one| one.is_result()).count(), 1);
    serde_json::to_value(messages.last().unwrap()).unwrap()
}

fn says(result: &serde_json::Value, text: &str) {
    assert_eq!(result["subtype"], "error_during_execution", "{result}");
    assert_eq!(result["is_error"], true, "{result}");
    assert!(result["errors"].to_string().contains(text), "{result}");
}

struct Bad;

impl TokenCounter for Bad {
    fn count_text(&self, _text: &str) -> u64 {
        panic!("cannot count")
    }
}

#[async_trait]
impl Confirmer for Bad {
    async fn confirm(&self, _request: &PermissionRequest) -> Answer {
        panic!("no dialog")
    }
}

#[tokio::test]
async fn a_model_that_panics() {
    let at_once = FunctionModel::new(|_| panic!("no model"));
    says(&result_of(agent(at_once)).await, "no model");

    let midway = FunctionModel::stream(|_| async {
        let events = futures::stream::iter(0..2).map(|n| match n {
            0 => Ok(agentcore::ModelEvent::Text("Hal".into())),
            _ => panic!("lost the thread"),
        });
        Ok(events.boxed())
    });
    says(&result_of(agent(midway)).await, "lost the thread");
}

#[tokio::test]
async fn a_counter_that_panics() {
    let builder = agent(FunctionModel::text(|_| "a".into())).token_counter(Bad);
    says(&result_of(builder).await, "cannot count");
}

#[tokio::test]
async fn a_confirmer_that_panics_answers_nothing() {
    let model = ScriptedModel::new()
        .call("echo", json!({"text": "x"}))
        .say("done");
    let agent = agent(model)
        .tool(echo())
        .permissions(asking())
        .confirmer(Bad)
        .build()
        .unwrap();
    let output = agent.run("Go").await.unwrap();
    assert!(texts(&output.messages)[0].starts_with("Error: "));
    assert_eq!(output.text, "done");
}

/// A store that panics in one of its methods.
struct BadStore(ThreadStore, &'static str);

impl BadStore {
    fn at(&self, method: &str) {
        assert!(self.1 != method, "no {method}");
    }
}

#[async_trait]
impl SessionStore for BadStore {
    async fn load(&self, id: &str) -> Result<Option<StoredSession>> {
        self.at("load");
        SessionStore::load(&self.0, id).await
    }

    async fn append(&self, lease: &Lease, records: Vec<Record>) -> Result<()> {
        self.at("append");
        SessionStore::append(&self.0, lease, records).await
    }

    async fn save(&self, lease: &Lease, state: &AgentState) -> Result<()> {
        SessionStore::save(&self.0, lease, state).await
    }

    async fn list(&self) -> Result<Vec<SessionInfo>> {
        SessionStore::list(&self.0).await
    }

    async fn fork(&self, from: &str, to: &str) -> Result<()> {
        SessionStore::fork(&self.0, from, to).await
    }

    async fn delete(&self, id: &str) -> Result<bool> {
        SessionStore::delete(&self.0, id).await
    }

    async fn lease(&self, id: &str) -> Result<Lease> {
        self.at("lease");
        SessionStore::lease(&self.0, id).await
    }
}

#[tokio::test]
async fn a_store_that_panics() {
    for method in ["load", "append", "lease"] {
        let store = BadStore(ThreadStore::new(), method);
        let result = result_of(agent(FunctionModel::text(|_| "a".into())).store(store)).await;
        says(&result, &format!("no {method}"));
    }
}

/// A tool that panics in what it says of itself.
struct BadTool;

#[async_trait]
impl agentcore::Tool for BadTool {
    fn name(&self) -> &str {
        "bad"
    }

    fn description(&self) -> &str {
        "Panics"
    }

    fn parameters(&self) -> &serde_json::Value {
        static ANY: std::sync::LazyLock<serde_json::Value> = std::sync::LazyLock::new(any_object);
        &ANY
    }

    fn is_idempotent(&self) -> bool {
        panic!("who knows")
    }

    async fn execute(
        &self,
        _cx: ToolContext,
        _args: serde_json::Value,
    ) -> std::result::Result<agentcore::ToolOutput, agentcore::BoxError> {
        Ok("fine".into())
    }
}

#[tokio::test]
async fn a_tool_that_panics_in_what_it_says_of_itself() {
    let model = ScriptedModel::new()
        .calls([("bad", json!({})), ("echo", json!({"text": "x"}))])
        .say("done");
    let wrap =
        agentcore::hook::wrap_tool_call("wrap", |call, next| async move { next.run(call).await });
    let agent = agent(model)
        .tool(Arc::new(BadTool))
        .tool(echo())
        .hook(wrap)
        .build()
        .unwrap();
    let (messages, output) = watch(agent.run("Go")).await;
    let output = output.unwrap();
    assert_eq!(texts(&output.messages)[1], "x");
    assert!(texts(&output.messages)[0].contains("who knows"));
    assert!(matches!(messages.last(), Some(SdkMessage::Result(_))));
}

#[tokio::test]
async fn a_run_that_panicked_says_so_to_who_awaits_it() {
    let bad = FunctionModel::new(|_| panic!("no model"));
    let error: Error = agent(bad).build().unwrap().run("Go").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Other);
    assert!(error.partial().is_some());
}
