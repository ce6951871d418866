//! Inputs that would exceed the limit of a history, and results of many parts.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use agentcore::model::{Compaction, CompactionRequest, Compactor, ModelProfile};
use agentcore::testing::{FunctionModel, ScriptedModel};
use agentcore::{
    Agent, AgentBuilder, ErrorKind, ExitReason, FuncTool, Message, Messages, ModelEvent, Part,
    Result, RunHandle, RunOutput, SdkMessage, StopDecision, StopReason, ToolCall, ToolOutput,
    async_trait, hook,
};
use serde_json::json;

use crate::kit::{agent, any_object, roles, stored, warnings, watch};

/// The limit of a history in these tests.
const LIMIT: usize = 100_000;

/// A model that answers `ok`.
fn answering() -> FunctionModel {
    FunctionModel::new(|_| {
        vec![
            Ok(ModelEvent::Text("ok".into())),
            Ok(ModelEvent::stop(StopReason::EndTurn)),
        ]
    })
}

/// A model that calls `act` for the input `Go`, and answers `ok` otherwise.
fn acting() -> FunctionModel {
    FunctionModel::new(|request| {
        let (event, reason) = match &*request.messages.last().unwrap().text() {
            "Go" => {
                let call = ToolCall::new("c", "act", json!({}));
                (ModelEvent::ToolCall(call), StopReason::ToolUse)
            }
            _ => (ModelEvent::Text("ok".into()), StopReason::EndTurn),
        };
        vec![Ok(event), Ok(ModelEvent::stop(reason))]
    })
}

/// The handle of the run that the tool `act` steers.
type Slot = Arc<OnceLock<RunHandle>>;

/// Runs the session `s` with `input`, and stores the handle of the run in `slot`.
async fn watch_with(
    agent: &Agent,
    slot: &Slot,
    input: &str,
) -> (Vec<SdkMessage>, Result<RunOutput>) {
    let run = agent.session("s").run(input);
    slot.set(run.handle()).unwrap();
    watch(run).await
}

/// A tool `act` that sends these messages to its run.
fn steering(slot: &Slot, messages: Vec<Message>) -> FuncTool {
    let slot = slot.clone();
    FuncTool::new("act", "Acts", any_object(), move |_cx, _args| {
        for message in &messages {
            assert!(slot.get().unwrap().steer(message.clone()));
        }
        async { "done" }
    })
}

fn limited() -> Agent {
    let agent = agent(answering()).max_history_bytes(LIMIT);
    agent.build().unwrap()
}

fn input(bytes: usize) -> Message {
    Message::human("x".repeat(bytes))
}

#[tokio::test]
async fn input_over_the_limit_is_refused_before_it_is_stored() {
    let agent = limited();
    let error = agent.session("s").run(input(LIMIT)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::RequestTooLarge, "{error}");
    for words in ["the input has 10", "max_history_bytes", "send less"] {
        assert!(error.text().contains(words), "{words}: {error}");
    }

    let output = agent.session("s").run("Hi").await.unwrap();
    assert_eq!(output.messages.len(), 2, "the refused input is not stored");
}

#[tokio::test]
async fn inputs_count_together_and_the_one_over_the_limit_is_removed() {
    let agent = limited();
    for _ in 0..2 {
        agent.session("s").run(input(40_000)).await.unwrap();
    }

    let error = agent.session("s").run(input(40_000)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResponseTooLarge, "{error}");
    for words in ["has 12", "rewind_to", "the input was removed"] {
        assert!(error.text().contains(words), "{words}: {error}");
    }

    assert_eq!(stored(&agent, "s").await.len(), 4);
    let output = agent.session("s").run(input(1_000)).await.unwrap();
    assert_eq!(output.text, "ok");
}

#[tokio::test]
async fn message_to_a_run_over_the_limit_is_reported_and_only_the_next_is_stored() {
    let slot = Arc::new(OnceLock::<RunHandle>::new());
    let handle = slot.clone();
    let tool = FuncTool::new("act", "Acts", any_object(), move |_cx, _args| {
        let handle = handle.get().unwrap();
        handle.steer(input(LIMIT));
        handle.steer("And this one");
        async { "done" }
    });
    let model = ScriptedModel::new().call("act", json!({})).say("ok");
    let agent = agent(model).tool(tool).max_history_bytes(LIMIT);
    let agent = agent.build().unwrap();
    let (messages, output) = watch_with(&agent, &slot, "Go").await;
    assert_eq!(output.unwrap().text, "ok");
    let is_report = |text: &String| text.contains("not stored: the message has");
    assert!(warnings(&messages).iter().any(is_report));
    let history = stored(&agent, "s").await;
    assert_eq!(roles(&history), "user assistant tool user assistant");
    assert_eq!(history.as_slice()[3].text(), "And this one");
    history.validate_for_model().unwrap();
}

/// Checks that messages to a session of 35,000 bytes are dropped if they do not fit.
async fn check_steering(builder: AgentBuilder) {
    let slot = Slot::default();
    let messages = vec![input(40_000), input(40_000), Message::human("And this one")];
    let agent = builder.tool(steering(&slot, messages));
    let agent = agent.max_history_bytes(LIMIT).build().unwrap();
    agent.session("s").run(input(35_000)).await.unwrap();

    let (messages, output) = watch_with(&agent, &slot, "Go").await;
    assert_eq!(output.unwrap().text, "ok");
    let warnings = warnings(&messages);
    for words in [
        "the message has 40",
        "bytes in the history of the session",
        "it was not stored",
        "SummarizationHook",
        "max_history_bytes",
    ] {
        let has_words = |text: &String| text.contains(words);
        assert!(warnings.iter().any(has_words), "{words}: {warnings:?}");
    }

    let history = stored(&agent, "s").await;
    let expected = "user assistant user assistant tool user user assistant";
    assert_eq!(roles(&history), expected);
    let output = agent.session("s").run("Hi").await.unwrap();
    assert_eq!(output.text, "ok");
}

#[tokio::test]
async fn messages_to_a_run_leave_the_history_within_its_limit() {
    check_steering(agent(acting())).await;
}

#[cfg(feature = "jsonl")]
#[tokio::test]
async fn messages_to_a_run_leave_a_stored_history_within_its_limit() {
    let folder = tempfile::tempdir().unwrap();
    let store = agentcore::session::JsonlStore::open(folder.path()).unwrap();
    check_steering(agent(acting()).store(store)).await;
}

#[tokio::test]
async fn message_after_the_last_turn_that_does_not_fit_is_reported() {
    let slot = Slot::default();
    let handle = slot.clone();
    let tool = FuncTool::new("act", "Acts", any_object(), move |_cx, _args| {
        let handle = handle.get().unwrap();
        handle.steer(input(60_000));
        handle.interrupt();
        async { "done" }
    });
    let agent = agent(acting()).tool(tool).max_history_bytes(LIMIT);
    let agent = agent.build().unwrap();
    agent.session("s").run(input(60_000)).await.unwrap();

    let (messages, output) = watch_with(&agent, &slot, "Go").await;
    assert_eq!(output.unwrap().end, ExitReason::Interrupted);
    let warnings = warnings(&messages);
    let is_report =
        |text: &String| text.contains("not stored (1)") && text.contains("the message has 60");
    assert!(warnings.iter().any(is_report), "{warnings:?}");
    assert_eq!(agent.session("s").run("Hi").await.unwrap().text, "ok");
}

#[tokio::test]
async fn message_that_does_not_fit_leaves_a_complete_response() {
    let slot = Slot::default();
    let handle = slot.clone();
    let model = FunctionModel::text(move |_| {
        if let Some(handle) = handle.get() {
            handle.steer(input(60_000));
        }
        "ok".into()
    });
    let agent = agent(model).max_history_bytes(LIMIT).build().unwrap();
    agent.session("s").run(input(60_000)).await.unwrap();
    let (messages, output) = watch_with(&agent, &slot, "Hi").await;
    assert_eq!(output.unwrap().text, "ok");
    let is_report = |text: &String| text.contains("not stored: the message has 60");
    assert!(warnings(&messages).iter().any(is_report));
    assert_eq!(stored(&agent, "s").await.len(), 4);
}

#[tokio::test]
async fn compactor_makes_room_for_the_first_of_two_messages() {
    let slot = Slot::default();
    let tool = steering(&slot, vec![input(60_000), input(60_000)]);
    let agent = agent(acting()).tool(tool).compactor(FirstTwo);
    let agent = agent.max_history_bytes(LIMIT).build().unwrap();
    agent.session("s").run(input(60_000)).await.unwrap();

    let (messages, output) = watch_with(&agent, &slot, "Go").await;
    assert!(output.unwrap().state.compaction.is_some());
    let is_report = |text: &&String| text.contains("not stored: the message has 60");
    assert_eq!(warnings(&messages).iter().filter(is_report).count(), 1);
    let history = stored(&agent, "s").await;
    assert_eq!(
        roles(&history),
        "user assistant user assistant tool user assistant"
    );
}

#[tokio::test]
async fn message_of_before_stop_that_does_not_fit_ends_the_run() {
    let count = AtomicUsize::new(0);
    let more = hook::before_stop("more", move |_cx, _response| {
        let decision = match count.fetch_add(1, Ordering::Relaxed) {
            1 => StopDecision::continue_with(input(60_000)),
            _ => StopDecision::Stop,
        };
        async move { Ok(decision) }
    });
    let agent = agent(answering()).hook(more).max_history_bytes(LIMIT);
    let agent = agent.build().unwrap();
    agent.session("s").run(input(60_000)).await.unwrap();

    let error = agent.session("s").run("Hi").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::RequestTooLarge, "{error}");
    assert!(error.text().contains("the message has 60"), "{error}");
    assert_eq!(stored(&agent, "s").await.len(), 4);
    assert_eq!(agent.session("s").run("Hi").await.unwrap().text, "ok");
}

/// Summarizes the first two messages, only if a compaction is requested.
struct FirstTwo;

#[async_trait]
impl Compactor for FirstTwo {
    fn should_compact(&self, _: &Messages, _: u64, _: &ModelProfile) -> bool {
        false
    }

    async fn compact(&self, _: CompactionRequest) -> Result<Option<Compaction>> {
        Ok(Some(Compaction::new("They spoke.", 2)))
    }
}

#[tokio::test]
async fn compactor_makes_room_for_a_message_to_a_run() {
    let slot = Slot::default();
    let tool = steering(&slot, vec![input(60_000)]);
    let agent = agent(acting()).tool(tool).compactor(FirstTwo);
    let agent = agent.max_history_bytes(LIMIT).build().unwrap();
    let first = agent.session("s").run(input(60_000)).await.unwrap();
    assert!(first.state.compaction.is_none());

    let run = agent.session("s").run("Go");
    slot.set(run.handle()).unwrap();
    let output = run.await.unwrap();
    assert_eq!(output.text, "ok");
    assert!(output.state.compaction.is_some());
    assert_eq!(output.messages.len(), 7, "nothing is removed");
}

#[tokio::test]
async fn input_with_answers_of_its_own_over_the_limit_is_removed() {
    let agent = limited();
    agent.session("s").run(input(60_000)).await.unwrap();
    let messages = Messages::from(input(30_000)).ai("So far.");
    let messages = messages.human("x".repeat(30_000));
    let error = agent.session("s").run(messages).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResponseTooLarge, "{error}");
    let removed = "the input was removed (3 messages)";
    assert!(error.text().contains(removed), "{error}");
    assert_eq!(stored(&agent, "s").await.len(), 2);
    assert_eq!(agent.session("s").run("Hi").await.unwrap().text, "ok");
}

/// In memory, a part takes a hundred times the bytes of its short text.
#[tokio::test]
async fn results_of_many_parts_leave_the_history_within_its_limit() {
    const CALLS: usize = 16;
    let tool = FuncTool::new("act", "Acts", any_object(), |_cx, _args| async {
        let parts = vec![Part::text("x"); LIMIT / 20];
        ToolOutput::new(parts)
    });
    let model = FunctionModel::new(|request| {
        let is_first = request.messages.len() == 1;
        let calls = (0..if is_first { CALLS } else { 0 })
            .map(|number| ToolCall::new(format!("c{number}"), "act", json!({})));
        let calls = calls.map(ModelEvent::ToolCall);
        let reason = if is_first {
            StopReason::ToolUse
        } else {
            StopReason::EndTurn
        };
        let text = ModelEvent::Text("ok".into());
        [text]
            .into_iter()
            .chain(calls)
            .chain([ModelEvent::stop(reason)])
            .map(Ok)
            .collect()
    });
    let agent = agent(model).tool(tool).max_history_bytes(LIMIT);
    let agent = agent.build().unwrap();
    for _ in 0..2 {
        let output = agent.session("s").run("Go").await.unwrap();
        assert_eq!(output.text, "ok");
    }
    let history = stored(&agent, "s").await;
    let first = history.tool_messages().next().unwrap();
    assert!(first.content().parts().len() < LIMIT / CALLS / 80);
    assert!(first.text().contains("more than the limit of"));
}
