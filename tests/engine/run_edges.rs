//! Runs that combine two features.

use std::sync::Arc;
use std::time::Duration;

use agentcore::message::Messages;
use agentcore::message::TokenCounter;
use agentcore::model::{Compaction, CompactionRequest, Compactor, ModelProfile, StopReason};
use agentcore::session::Record;
use agentcore::testing::{FunctionModel, ScriptedModel, Step};
use agentcore::tool::{GateRequest, SideEffect};
use agentcore::{
    ErrorKind, ExitReason, FuncTool, Message, OnUnanswered, Result, SessionStore, StopDecision,
    ThreadStore, ToolDecision, Usage, async_trait, hook,
};
use serde_json::json;

use crate::kit::spied_store::{Spied, Spy};
use crate::kit::{
    Gate, Log, agent, any_object, echo, logged, nap, result_texts, sleep, stored, warnings, watch,
};

/// A store with one connection, which each append holds for a second.
#[derive(Default)]
struct OneConnection(tokio::sync::Mutex<()>);

#[async_trait]
impl Spy for OneConnection {
    async fn append(&self, _: &[Record]) -> Result<()> {
        let _held = self.0.lock().await;
        sleep(1).await;
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn parallel_calls_with_a_single_store_connection_do_not_deadlock() {
    let log = Log::default();
    let calls = (0..4).map(|n| ("act", json!({"n": n})));
    let model = ScriptedModel::new().calls(calls).say("done");
    let agent = agent(model)
        .tool(logged("act", &log))
        .store(Spied(ThreadStore::new(), OneConnection::default()))
        .build()
        .unwrap();
    let run = tokio::time::timeout(Duration::from_secs(60), agent.run("Go").finish());
    assert_eq!(run.await.expect("no deadlock").unwrap().text, "done");
    assert_eq!(log.len(), 4);
}

struct CannotCountResults;

impl TokenCounter for CannotCountResults {
    fn count_text(&self, text: &str) -> u64 {
        assert!(!text.contains("act ran"), "cannot count");
        1
    }
}

#[tokio::test]
async fn stored_result_is_kept_when_the_token_counter_panics() {
    let model = ScriptedModel::new().call("act", json!({}));
    let agent = agent(model)
        .tool(logged("act", &Log::default()))
        .token_counter(CannotCountResults)
        .max_total_tokens(100_000)
        .build()
        .unwrap();
    assert!(agent.session("s").run("Go").await.is_err());
    let state = agent.session("s").state().await.unwrap().unwrap();
    assert_eq!(result_texts(&state.messages), ["act ran"]);
}

#[tokio::test]
async fn maximum_durations_act_as_no_limit() {
    let model = ScriptedModel::new()
        .call("echo", json!({"text": "x"}))
        .say("done");
    let agent = agent(model)
        .tool(echo())
        .tool_timeout(Duration::MAX)
        .max_duration(Duration::MAX)
        .parallel_model_calls(usize::MAX)
        .build()
        .unwrap();
    let output = agent.run("Go").await.unwrap();
    assert_eq!(result_texts(&output.messages), ["x"]);
    assert_eq!(output.text, "done");
}

#[tokio::test]
async fn answer_continued_by_before_stop_is_not_the_structured_output() {
    let model = FunctionModel::text(|_| "7".into());
    let more = hook::before_stop("more", |_, _| async {
        Ok(StopDecision::continue_with("Test it."))
    });
    let agent = agent(model).hook(more).max_turns(2).build().unwrap();
    let run = agent
        .run("Go")
        .output_schema("number", json!({"type": "integer"}));
    let output = run.await.unwrap();
    assert_eq!(output.end, ExitReason::MaxTurns);
    assert_eq!(output.structured, None);
}

#[tokio::test(start_paused = true)]
async fn steering_message_to_a_run_that_ends_with_a_pending_call_is_stored() {
    let gate = Gate(|request: &GateRequest| match &*request.call.name {
        "nap" => ToolDecision::allow(),
        _ => ToolDecision::ask("sure?"),
    });

    let model = ScriptedModel::new().calls([("echo", json!({})), ("nap", json!({"n": 5}))]);
    let agent = agent(model)
        .tools([echo(), nap(&Log::default())])
        .permissions(gate)
        .unanswered(OnUnanswered::Park)
        .build()
        .unwrap();
    let run = agent.session("s").run("Go");
    let handle = run.handle();
    let steering = async {
        sleep(1).await;
        assert!(handle.steer("Hurry up."));
    };

    let ((messages, output), ()) = futures::join!(watch(run), steering);
    assert_eq!(output.unwrap().end, ExitReason::AwaitingApproval);
    assert_eq!(warnings(&messages), Vec::<String>::new());
    let history = stored(&agent, "s").await;
    assert_eq!(history.last_content(), "Hurry up.");
}

#[tokio::test(start_paused = true)]
async fn slow_reader_does_not_time_out_a_tool() {
    let tool = FuncTool::new("work", "Works", any_object(), |cx, _| async move {
        cx.progress("half").await;
        sleep(5).await;
        "done"
    });

    let model = ScriptedModel::new().call("work", json!({})).say("ok");
    let agent = agent(model)
        .tool(tool)
        .tool_timeout(Duration::from_secs(10))
        .build()
        .unwrap();
    let mut run = agent.run("Go");
    while let Some(message) = run.next().await {
        if matches!(message, agentcore::SdkMessage::ToolProgress(_)) {
            sleep(60).await;
        }
    }

    assert_eq!(result_texts(&run.into_output().unwrap().messages), ["done"]);
}

#[tokio::test]
async fn run_values_are_not_stored_in_the_session() {
    let value = Arc::new(());
    let agent = agent(ScriptedModel::new().say("ok")).build().unwrap();
    let session = agent.session("s").with(value.clone());
    drop(session.run("Go").await.unwrap());
    assert_eq!(Arc::strong_count(&value), 1);
    let state = agent.session("s").state().await.unwrap().unwrap();
    assert!(state.response.is_none() && state.usage.is_none());
    assert!(state.output_messages.is_empty());
}

#[tokio::test]
async fn session_deleted_during_a_run_is_not_created_again() {
    let store = ThreadStore::new();
    let store_of_hook = store.clone();
    let tool = FuncTool::new("forget", "Deletes", any_object(), move |_, _| {
        let store_of_hook = store_of_hook.clone();
        async move { store_of_hook.delete("s").to_string() }
    })
    .side_effect(SideEffect::ReadOnly);
    let model = ScriptedModel::new().call("forget", json!({}));
    let agent = agent(model)
        .tool(tool)
        .store(store.clone())
        .build()
        .unwrap();
    let error = agent.session("s").run("Go").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(store.get("s").is_none());
    assert!(store.lease("s").await.is_ok());
}

#[tokio::test]
async fn fork_at_a_message_forgets_later_input_ids() {
    let model = ScriptedModel::new().say("one").say("two").say("other two");
    let agent = agent(model).build().unwrap();
    let send = |id: &'static str, key: &'static str, text: &'static str| {
        agent.session(id).input_id(key).run(Message::human(text))
    };
    send("s", "a", "First").await.unwrap();
    send("s", "b", "Second").await.unwrap();
    let _ = agent.session("s").fork_at("t", 2).await.unwrap();
    let output = send("t", "b", "Second, edited").await.unwrap();
    assert_eq!(output.text, "other two");
    assert_eq!(output.messages.len(), 4);
}

/// Summarizes everything but the last message.
struct Shorten;

#[async_trait]
impl Compactor for Shorten {
    fn should_compact(&self, _: &Messages, tokens: u64, _: &ModelProfile) -> bool {
        tokens > 900
    }

    async fn compact(&self, request: CompactionRequest) -> Result<Option<Compaction>> {
        let through = request.messages.len() - 1;
        Ok(Some(Compaction::new("They talked.", through)))
    }
}

#[tokio::test]
async fn answer_cut_in_the_last_turn_is_requested_again() {
    let model = ScriptedModel::new()
        .say("Hello.")
        .step(
            Step::text("Once upon a")
                .stop(StopReason::MaxTokens)
                .usage(Usage::new(1000, 10)),
        )
        .say("The whole tale.");
    let agent = agent(model)
        .compactor(Shorten)
        .max_turns(1)
        .build()
        .unwrap();
    agent.session("s").run("Hi").await.unwrap();
    let output = agent.session("s").run("A tale").await.unwrap();
    assert_eq!(output.end, ExitReason::EndTurn);
    assert_eq!(output.text, "The whole tale.");
}
