//! Parts of an agent that panic: the run ends with one result, and the caller does not panic.

use std::sync::Arc;
use std::task::Poll;

use agentcore::message::TokenCounter;
use agentcore::model::{ModelProfile, ModelStream};
use agentcore::session::{Lease, Record, StoredSession};
use agentcore::testing::{FunctionModel, ScriptedModel};
use agentcore::tool::{Answer, Asking, Concurrency, Confirmer};
use agentcore::{
    AgentBuilder, AgentState, BoxError, Error, ErrorKind, ExitReason, Hook, Message, Model,
    ModelRequest, PermissionRequest, Result, Role, RunContext, SdkMessage, ThreadStore, Todo, Tool,
    ToolContext, ToolOutput, async_trait, hook,
};
use futures::StreamExt;
use futures::future::BoxFuture;
use serde_json::json;

use crate::kit::spied_store::{Spied, Spy};
use crate::kit::{agent, any_object, asking, echo, result_texts, warnings, watch};

/// Runs an agent, checks that there is one result message, and returns the last message.
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
    async fn confirm(&self, _request: &PermissionRequest, _asking: &Asking) -> Answer {
        panic!("no dialog")
    }
}

#[tokio::test]
async fn model_panic_is_an_error_result() {
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

/// A panic payload whose `drop` panics.
struct PanicsWhenDropped;

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        panic!("twice");
    }
}

#[tokio::test]
async fn panic_of_the_drop_of_a_payload_is_contained() {
    let model = FunctionModel::new(|_| std::panic::panic_any(PanicsWhenDropped));
    says(&result_of(agent(model)).await, "not a string");
}

/// A tool that panics in `agents`.
struct NoAgents(serde_json::Value);

#[async_trait]
impl Tool for NoAgents {
    fn name(&self) -> &str {
        "delegate"
    }

    fn description(&self) -> &str {
        "Panics."
    }

    fn parameters(&self) -> &serde_json::Value {
        &self.0
    }

    fn agents(&self) -> Vec<Arc<str>> {
        panic!("no agents")
    }

    async fn execute(
        &self,
        _cx: ToolContext,
        _args: serde_json::Value,
    ) -> std::result::Result<ToolOutput, BoxError> {
        Ok("done".into())
    }
}

#[tokio::test]
async fn panic_of_a_tool_that_is_asked_for_its_agents_ends_no_run() {
    let builder = agent(ScriptedModel::new().say("done")).tool(NoAgents(any_object()));
    let result = result_of(builder).await;
    assert_eq!(result["subtype"], "success", "{result}");
}

#[tokio::test]
async fn token_counter_panic_is_an_error_result() {
    let builder = agent(FunctionModel::text(|_| "a".into())).max_total_tokens(100_000);
    let builder = builder.token_counter(Bad);
    says(&result_of(builder).await, "cannot count");
}

/// A token counter that panics on answers.
struct CannotCountAnswers;

impl TokenCounter for CannotCountAnswers {
    fn count_text(&self, text: &str) -> u64 {
        text.len() as u64 / 4
    }

    fn count_message(&self, message: &Message) -> u64 {
        assert!(message.role() != Role::Assistant, "cannot count answers");
        4 + self.count_text(&message.text())
    }
}

/// An agent whose answer does not end, and whose token counter panics on it.
fn in_mid_answer() -> AgentBuilder {
    let model = FunctionModel::stream(|_| async {
        let text = agentcore::ModelEvent::Text("word ".repeat(100));
        let begun = futures::stream::iter([Ok(text)]);
        Ok(begun.chain(futures::stream::pending()).boxed())
    });
    agent(model)
        .token_counter(CannotCountAnswers)
        .max_total_tokens(100_000)
}

#[tokio::test]
async fn dropping_a_run_catches_a_token_counter_panic() {
    let mut run = in_mid_answer().build().unwrap().run("Go");
    while let Poll::Ready(Some(_)) = futures::poll!(run.next()) {}
    let handle = run.handle();
    drop(run);

    // If the counter panics, each byte counts as a token, the shortest that a token can be.
    assert!(handle.total_usage().output_tokens >= 500);

    let mut run = in_mid_answer().build().unwrap().run("Go");
    while let Poll::Ready(Some(_)) = futures::poll!(run.next()) {}
    let unwinding = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        let _run = run;
        panic!("the first panic");
    }));

    let payload = unwinding.unwrap_err();
    assert_eq!(payload.downcast_ref::<&str>(), Some(&"the first panic"));
}

/// A value that panics when it is dropped.
struct BadDrop;

impl Drop for BadDrop {
    fn drop(&mut self) {
        panic!("the drop");
    }
}

#[tokio::test]
async fn model_that_panics_when_it_is_dropped_does_not_reach_the_caller() {
    let model = FunctionModel::stream(|_| async {
        let _bad = BadDrop;
        futures::future::pending::<Result<ModelStream>>().await
    });
    let agent = agent(model).build().unwrap();
    let mut run = agent.run("Go");
    while let Poll::Ready(Some(_)) = futures::poll!(run.next()) {}
    drop(run);

    let mut run = agent.run("Go");
    while let Poll::Ready(Some(_)) = futures::poll!(run.next()) {}
    run.handle().interrupt();
    assert_eq!(run.await.unwrap().end, ExitReason::Interrupted);
}

#[tokio::test]
async fn value_that_panics_when_it_is_dropped_does_not_reach_the_caller() {
    let stores = || {
        hook::before_agent("stores", |cx, state| async move {
            cx.set_value(BadDrop);
            // Replaces the first, which is dropped.
            cx.set_value(BadDrop);
            Ok(state)
        })
    };
    let agent = agent(ScriptedModel::new().say("a")).hook(stores());
    assert_eq!(agent.build().unwrap().run("Go").await.unwrap().text, "a");

    let agent = in_mid_answer().hook(stores()).build().unwrap();
    let mut run = agent.run("Go");
    // The first message comes after the hook.
    assert!(matches!(futures::poll!(run.next()), Poll::Ready(Some(_))));
    while let Poll::Ready(Some(_)) = futures::poll!(run.next()) {}
    drop(run);
}

#[tokio::test]
async fn interrupt_with_a_panicking_token_counter_keeps_a_valid_history() {
    let mut run = in_mid_answer().build().unwrap().session("s").run("Go");
    while let Poll::Ready(Some(_)) = futures::poll!(run.next()) {}
    run.handle().interrupt();
    let output = run.await.unwrap();
    assert!(output.usage.output_tokens >= 500, "{:?}", output.usage);
    assert!(output.messages.validate_for_model().is_ok());
}

#[tokio::test]
async fn panic_in_lease_release_does_not_fail_the_run() {
    let store = Spied(ThreadStore::new(), BadStore("release"));
    let agent = agent(FunctionModel::text(|_| "a".into())).store(store);
    let agent = agent.build().unwrap();
    let (messages, output) = watch(agent.session("s").run("Go")).await;
    assert_eq!(output.unwrap().text, "a");
    assert!(messages.last().unwrap().is_result());
}

#[tokio::test]
async fn confirmer_panic_denies_the_call() {
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
    assert!(result_texts(&output.messages)[0].starts_with("Error: "));
    assert_eq!(output.text, "done");
}

/// A store that panics in one of its methods.
struct BadStore(&'static str);

impl BadStore {
    fn at(&self, method: &str) {
        assert!(self.0 != method, "no {method}");
    }
}

#[async_trait]
impl Spy for BadStore {
    async fn append(&self, records: &[Record]) -> Result<()> {
        self.at("append");
        let is_result = |record: &Record| match record {
            Record::Message { message, .. } => message.as_tool_result().is_some(),
            _ => false,
        };
        if records.iter().any(is_result) {
            self.at("tool");
        }
        Ok(())
    }

    fn loaded(&self, found: Option<StoredSession>) -> Option<StoredSession> {
        self.at("load");
        found
    }

    fn leased(&self, lease: Lease) -> Lease {
        self.at("lease");
        let fails = self.0 == "release";
        Lease::new(lease.session_id().clone(), lease.token(), move || {
            drop(lease);
            assert!(!fails, "no release");
        })
    }
}

#[tokio::test]
async fn store_panic_is_an_error_result() {
    for method in ["load", "append", "lease"] {
        let store = Spied(ThreadStore::new(), BadStore(method));
        let result = result_of(agent(FunctionModel::text(|_| "a".into())).store(store)).await;
        says(&result, &format!("no {method}"));
    }
}

#[tokio::test]
async fn store_panic_after_a_call_keeps_its_result() {
    let store = Spied(ThreadStore::new(), BadStore("tool"));
    let model = ScriptedModel::new().call("echo", json!({"text": "x"}));
    let agent = agent(model).tool(echo()).store(store).build().unwrap();
    let (messages, output) = watch(agent.session("s").run("Go")).await;
    let error = output.unwrap_err();
    assert!(error.to_string().contains("no tool"), "{error}");
    assert_eq!(result_texts(&error.partial().unwrap().messages), ["x"]);
    assert!(messages.last().unwrap().is_result());
}

/// A model that panics in `id`.
struct Nameless;

#[async_trait]
impl Model for Nameless {
    fn id(&self) -> &str {
        panic!("no name")
    }

    fn profile(&self) -> &ModelProfile {
        static PROFILE: std::sync::LazyLock<ModelProfile> =
            std::sync::LazyLock::new(ModelProfile::default);
        &PROFILE
    }

    async fn stream(&self, _request: ModelRequest) -> Result<ModelStream> {
        Err("never asked".into())
    }
}

#[tokio::test]
async fn panic_in_model_id_is_an_error_result() {
    says(&result_of(agent(Nameless)).await, "no name");
}

/// Panics when it is dropped.
struct Fragile;

impl Drop for Fragile {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("dropped");
        }
    }
}

async fn hold<T>(fragile: Fragile) -> T {
    let _fragile = fragile;
    std::future::pending().await
}

#[tokio::test]
async fn panic_in_a_cancelled_hook_does_not_change_the_exit_reason() {
    let model = ScriptedModel::new().calls([
        ("echo", json!({"text": "a"})),
        ("echo", json!({"text": "hang"})),
        ("echo", json!({"text": "hang"})),
    ]);
    let hangs = hook::wrap_tool_call("hangs", |call, next| async move {
        match call.args["text"].as_str() {
            Some("hang") => hold(Fragile).await,
            _ => next.run(call).await,
        }
    });

    let agent = agent(model).tool(echo()).hook(hangs).build().unwrap();
    let mut run = agent.session("s").run("Go");
    while let Poll::Ready(Some(_)) = futures::poll!(run.next()) {}
    run.handle().interrupt();
    let output = run.await.unwrap();
    assert_eq!(output.end, ExitReason::Interrupted);
    let texts = result_texts(&output.messages);
    assert_eq!(texts[0], "a");
    assert!(texts[1].contains("cancelled") && texts[2].contains("cancelled"));
}

#[tokio::test]
async fn panic_in_a_cancelled_stream_does_not_change_the_exit_reason() {
    let model = || {
        FunctionModel::stream(|_| async {
            let text = agentcore::ModelEvent::Text("Hal".into());
            let fragile = Fragile;
            let begun = futures::stream::iter([Ok(text)]);
            let rest = futures::stream::once(async move { hold(fragile).await });
            Ok(begun.chain(rest).boxed())
        })
    };

    let mut run = agent(model()).build().unwrap().run("Go");
    while let Poll::Ready(Some(_)) = futures::poll!(run.next()) {}
    run.handle().interrupt();
    let output = run.await.unwrap();
    assert_eq!(
        (output.end, &*output.text),
        (ExitReason::Interrupted, "Hal")
    );

    let mut run = agent(model()).build().unwrap().run("Go");
    while let Poll::Ready(Some(_)) = futures::poll!(run.next()) {}
    drop(run);
}

/// A hook that panics before its future is polled.
struct Hasty;

impl Hook for Hasty {
    fn name(&self) -> &str {
        "hasty"
    }

    fn after_agent<'a, 'b, 'c>(
        &'a self,
        _cx: &'b RunContext,
        _state: AgentState,
    ) -> BoxFuture<'c, Result<AgentState>>
    where
        'a: 'c,
        'b: 'c,
        Self: 'c,
    {
        panic!("too soon")
    }
}

#[tokio::test]
async fn session_is_saved_when_a_hook_panics_at_the_end() {
    let notes = hook::after_agent("notes", |_cx, mut state| async move {
        state.todos = Arc::new(vec![Todo::new("1", "Wait")]);
        Ok(state)
    });

    let agent = agent(ScriptedModel::new().say("Noted."))
        .hook(notes)
        .hook(Hasty)
        .build()
        .unwrap();
    let (messages, output) = watch(agent.session("s").run("Go")).await;
    assert_eq!(output.unwrap().text, "Noted.");
    assert!(warnings(&messages)[0].contains("too soon"));
    let state = agent.session("s").state().await.unwrap().unwrap();
    assert_eq!(state.todos.len(), 1);
}

/// A tool that panics in `is_idempotent` and `concurrency`.
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

    fn concurrency(&self) -> Concurrency {
        panic!("alone or not")
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
async fn panic_in_a_tool_property_is_an_error_result() {
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
    assert_eq!(result_texts(&output.messages)[1], "x");
    assert!(result_texts(&output.messages)[0].contains("who knows"));
    assert!(matches!(messages.last(), Some(SdkMessage::Result(_))));
}

#[tokio::test]
async fn awaited_run_that_panicked_returns_an_error() {
    let bad = FunctionModel::new(|_| panic!("no model"));
    let error: Error = agent(bad).build().unwrap().run("Go").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Other);
    assert!(error.partial().is_some());
}
