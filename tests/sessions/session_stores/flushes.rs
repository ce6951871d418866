//! The number of writes per turn, and the records of each.

use std::sync::Arc;
use std::time::Duration;

use agentcore::hook;
use agentcore::session::Record;
use agentcore::testing::ScriptedModel;
use agentcore::tool::{GateRequest, SideEffect};
use agentcore::{
    AgentBuilder, Error, ErrorKind, FuncTool, ModelEvent, PermissionMode, Result, SdkMessage,
    StopReason, ThreadStore, ToolDecision, async_trait,
};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::kit::spied_store::{Spied, Spy};
use crate::kit::{Gate, Log, agent, logged, result_texts, results};

/// Logs the records of each write, and can refuse writes that have only start records.
struct Counting {
    log: Log,
    refuses_starts: bool,
}

fn name(record: &Record) -> Option<String> {
    match record {
        Record::Message { message, .. } => Some(match message.as_tool_result() {
            Some(result) => format!("result {}", result.tool_call_id),
            None => message.role().to_string(),
        }),
        Record::ToolStarted { call_id } => Some(format!("start {call_id}")),
        Record::ToolEnded { .. } => Some("ended".into()),
        _ => None,
    }
}

#[async_trait]
impl Spy for Counting {
    async fn append(&self, records: &[Record]) -> Result<()> {
        let is_start = |record: &Record| matches!(record, Record::ToolStarted { .. });
        if self.refuses_starts && records.iter().all(is_start) {
            return Err(Error::new(ErrorKind::Io, "the disk is full"));
        }
        let names: Vec<_> = records.iter().filter_map(name).collect();
        self.log.add(names.join(", "));
        Ok(())
    }
}

fn counting(writes: &Log) -> Spied<Counting> {
    let counting = Counting {
        log: writes.clone(),
        refuses_starts: false,
    };
    Spied(ThreadStore::new(), counting)
}

/// A model whose first answer has this number of calls of `act`, and whose second answer has none.
fn model(calls: usize) -> ScriptedModel {
    let calls = (0..calls).map(|number| ("act", json!({"n": number})));
    ScriptedModel::new()
        .calls(calls.collect::<Vec<_>>())
        .say("Done.")
}

/// An agent with a model whose first answer has four calls.
fn four_calls(writes: &Log, acts: &Log) -> AgentBuilder {
    agent(model(4))
        .tool(logged("act", acts))
        .store(counting(writes))
}

const STARTS: &str = "start call_1, start call_2, start call_3, start call_4";
const RESULTS: &str = "result call_1, result call_2, result call_3, result call_4";

#[tokio::test]
async fn turn_that_nothing_can_stop_is_flushed_twice() {
    let (writes, acts) = (Log::default(), Log::default());
    let agent = four_calls(&writes, &acts).build().unwrap();
    agent.session("s").run("Go").await.unwrap();
    let with_answer = format!("assistant, {STARTS}");
    assert_eq!(writes.take(), ["user", &with_answer, RESULTS, "assistant"]);
    assert_eq!(acts.len(), 4);
}

#[tokio::test]
async fn calls_that_a_hook_permits_share_one_flush() {
    let (writes, acts) = (Log::default(), Log::default());
    let order = writes.clone();
    let hook = hook::pre_tool_use("h", move |_cx, call| {
        let order = order.clone();
        let id = call.id.clone();
        async move {
            order.add(format!("hook {id}"));
            Ok(ToolDecision::proceed())
        }
    });
    let agent = four_calls(&writes, &acts).hook(hook).build().unwrap();
    agent.session("s").run("Go").await.unwrap();
    assert_eq!(
        writes.take(),
        [
            "user",
            "assistant",
            "hook call_1",
            "hook call_2",
            "hook call_3",
            "hook call_4",
            STARTS,
            RESULTS,
            "assistant"
        ]
    );
}

#[tokio::test]
async fn call_that_a_gate_denies_is_never_recorded_as_started() {
    let (writes, acts) = (Log::default(), Log::default());
    let deny_even = Gate(|request: &GateRequest| {
        let number = request.call.args["n"].as_u64().unwrap();
        match number % 2 {
            0 => ToolDecision::deny("even"),
            _ => ToolDecision::allow(),
        }
    });
    let agent = four_calls(&writes, &acts).permissions(deny_even);
    let agent = agent.build().unwrap();
    agent.session("s").run("Go").await.unwrap();
    let starts = "start call_2, start call_4";
    assert_eq!(
        writes.take(),
        ["user", "assistant", starts, RESULTS, "assistant"]
    );
    assert_eq!(acts.len(), 2);
}

#[tokio::test]
async fn call_that_plan_mode_denies_is_never_recorded_as_started() {
    let (writes, acts) = (Log::default(), Log::default());
    let agent = four_calls(&writes, &acts).permission_mode(PermissionMode::Plan);
    let agent = agent.build().unwrap();
    agent.session("s").run("Go").await.unwrap();
    assert_eq!(writes.take(), ["user", "assistant", RESULTS, "assistant"]);
    assert_eq!(acts.len(), 0);
}

#[tokio::test]
async fn call_with_invalid_arguments_is_never_recorded_as_started() {
    let (writes, acts) = (Log::default(), Log::default());
    let schema = json!({
        "type": "object",
        "properties": {"n": {"type": "integer", "minimum": 2}},
        "required": ["n"],
    });
    let log = acts.clone();
    let tool = FuncTool::new("act", "Acts", schema, move |_cx, args: Value| {
        log.add(args.to_string());
        async move { "done" }
    });
    let agent = agent(model(4)).tool(tool).store(counting(&writes));
    agent.build().unwrap().session("s").run("Go").await.unwrap();
    let with_answer = "assistant, start call_3, start call_4";
    assert_eq!(writes.take(), ["user", with_answer, RESULTS, "assistant"]);
    assert_eq!(acts.len(), 2);
}

#[tokio::test]
async fn call_that_waits_for_others_is_recorded_when_it_begins() {
    let (writes, acts) = (Log::default(), Log::default());
    let agent = agent(model(3))
        .tool(logged("act", &acts).exclusive())
        .store(counting(&writes))
        .build()
        .unwrap();
    agent.session("s").run("Go").await.unwrap();
    assert_eq!(
        writes.take(),
        [
            "user",
            "assistant, start call_1",
            "ended",
            "start call_2",
            "ended",
            "start call_3",
            "result call_1, result call_2, result call_3",
            "assistant"
        ]
    );

    let agent = four_calls(&writes, &acts).parallel_tools(3);
    agent.build().unwrap().session("s").run("Go").await.unwrap();
    let writes = writes.take();
    assert_eq!(
        writes[1],
        "assistant, start call_1, start call_2, start call_3"
    );
    assert!(
        writes[2..].iter().any(|write| write == "start call_4"),
        "{writes:?}"
    );
}

#[tokio::test]
async fn call_that_only_reads_is_not_recorded() {
    let (writes, acts) = (Log::default(), Log::default());
    let agent = agent(model(2))
        .tool(logged("act", &acts).side_effect(SideEffect::ReadOnly))
        .store(counting(&writes))
        .build()
        .unwrap();
    agent.session("s").run("Go").await.unwrap();
    let results = "result call_1, result call_2";
    assert_eq!(writes.take(), ["user", "assistant", results, "assistant"]);
}

#[tokio::test]
async fn calls_whose_shared_start_is_not_stored_do_not_run() {
    let (writes, acts) = (Log::default(), Log::default());
    let counting = Counting {
        log: writes.clone(),
        refuses_starts: true,
    };
    let hook = hook::pre_tool_use("h", |_cx, _call| async { Ok(ToolDecision::proceed()) });
    let agent = agent(model(3))
        .tool(logged("act", &acts))
        .hook(hook)
        .store(Spied(ThreadStore::new(), counting))
        .build()
        .unwrap();
    let output = agent.session("s").run("Go").await.unwrap();
    assert_eq!(acts.len(), 0);
    let texts = result_texts(&output.messages);
    assert_eq!(texts.len(), 3);
    for text in texts {
        assert!(text.contains("start could not be stored"), "{text}");
        assert!(text.contains("the disk is full"), "{text}");
    }
}

#[tokio::test]
async fn mode_set_by_the_reader_of_the_answer_denies_its_calls() {
    let (writes, acts) = (Log::default(), Log::default());
    let agent = four_calls(&writes, &acts).build().unwrap();
    let mut run = agent.session("s").run("Go");
    let handle = run.handle();
    while let Some(message) = run.next().await {
        if let SdkMessage::Assistant(_) = message {
            handle.set_permission_mode(PermissionMode::Plan);
        }
    }
    let output = run.into_output().unwrap();
    assert_eq!(acts.len(), 0);
    assert!(
        results(&output.messages)
            .iter()
            .all(|result| result.is_error)
    );
}

#[tokio::test]
async fn calls_of_an_answer_that_continues_a_paused_one_are_recorded_before_they_run() {
    let (writes, acts) = (Log::default(), Log::default());
    let pause = vec![
        Ok(ModelEvent::Text("Wait.".into())),
        Ok(ModelEvent::stop(StopReason::PauseTurn)),
    ];
    let model = ScriptedModel::new()
        .events(pause)
        .calls([("act", json!({"n": 0})), ("act", json!({"n": 1}))])
        .say("Done.");
    let agent = agent(model)
        .tool(logged("act", &acts))
        .store(counting(&writes))
        .build()
        .unwrap();
    agent.session("s").run("Go").await.unwrap();
    let (starts, results) = ("start call_1, start call_2", "result call_1, result call_2");
    assert_eq!(
        writes.take(),
        ["user", "assistant", starts, results, "assistant"]
    );
    assert_eq!(acts.len(), 2);
}

#[tokio::test]
async fn permitted_call_does_not_begin_after_another_has_stopped_the_run() {
    let (writes, acts) = (Log::default(), Log::default());
    let hook = hook::pre_tool_use("h", |_cx, call| {
        let is_second = *call.id == *"call_2";
        async move {
            Ok(if is_second {
                ToolDecision::stop("enough")
            } else {
                ToolDecision::proceed()
            })
        }
    });
    let calls = (0..4).map(|number| ("act", json!({"n": number})));
    let agent = agent(ScriptedModel::new().calls(calls))
        .tool(logged("act", &acts))
        .store(counting(&writes))
        .hook(hook)
        .build()
        .unwrap();
    let output = agent.session("s").run("Go").await.unwrap();
    assert_eq!(acts.len(), 0);
    let writes = writes.take();
    assert!(
        !writes.iter().any(|write| write.contains("start")),
        "{writes:?}"
    );
    assert!(result_texts(&output.messages)[0].contains("did not run"));
}

/// Notifies when a write of start records begins, and delays it by a second.
struct SlowStarts(Arc<Notify>);

#[async_trait]
impl Spy for SlowStarts {
    async fn append(&self, records: &[Record]) -> Result<()> {
        let is_start = |record: &Record| matches!(record, Record::ToolStarted { .. });
        if records.iter().all(is_start) {
            self.0.notify_one();
            sleep(Duration::from_secs(1)).await;
        }
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn call_does_not_begin_if_another_stops_the_run_while_its_start_is_stored() {
    let (begun, acts) = (Arc::new(Notify::new()), Log::default());
    let start = begun.clone();
    let hook = hook::pre_tool_use("h", move |_cx, call| {
        let is_second = *call.id == *"call_2";
        let start = start.clone();
        async move {
            if !is_second {
                return Ok(ToolDecision::proceed());
            }
            start.notified().await;
            Ok(ToolDecision::stop("enough"))
        }
    });
    let calls = (0..2).map(|number| ("act", json!({"n": number})));
    let agent = agent(ScriptedModel::new().calls(calls))
        .tool(logged("act", &acts))
        .store(Spied(ThreadStore::new(), SlowStarts(begun)))
        .hook(hook)
        .build()
        .unwrap();
    let output = agent.session("s").run("Go").await.unwrap();
    assert_eq!(acts.len(), 0);
    let texts = result_texts(&output.messages);
    assert_eq!(texts.len(), 2);
    assert!(texts[0].contains("did not run"), "{texts:?}");
}

#[tokio::test]
async fn run_dropped_after_its_answer_leaves_calls_that_may_have_run() {
    let (writes, acts) = (Log::default(), Log::default());
    let agent = four_calls(&writes, &acts).build().unwrap();
    let mut run = agent.session("s").run("Go");
    while let Some(message) = run.next().await {
        if let SdkMessage::Assistant(_) = message {
            break;
        }
    }
    drop(run);
    assert_eq!(acts.len(), 0);
    let output = agent.session("s").run("Again").await.unwrap();
    let texts = result_texts(&output.messages);
    assert_eq!(texts.len(), 4);
    for text in texts {
        assert!(text.contains("may have"), "{text}");
    }
}

#[cfg(all(feature = "sqlite", unix))]
#[tokio::test]
async fn runs_side_by_side_on_a_database_store_all_of_their_turns() {
    use agentcore::SessionStore;

    let folder = tempfile::tempdir().unwrap();
    let store = agentcore::session::SqliteStore::open(folder.path().join("s.db")).unwrap();
    let acts = Log::default();
    let runs = (0..20).map(|number| {
        let agent = agent(model(number % 4 + 1)).tool(logged("act", &acts));
        let agent = agent.store(store.clone()).build().unwrap();
        async move {
            let id = number.to_string();
            agent.session(&*id).run("Go").await.unwrap().messages
        }
    });
    let histories = futures::future::join_all(runs).await;
    assert_eq!(acts.len(), 50);
    for (number, messages) in histories.into_iter().enumerate() {
        let session = store.load(&number.to_string()).await.unwrap().unwrap();
        assert_eq!(session.state.messages, messages);
        assert!(session.started.is_empty() && session.ended.is_empty());
    }
}
