//! Many pending calls that are decided in one run: the work is proportional to their number, and
//! not to its square.

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

use agentcore::model::ResponseLimits;
use agentcore::permission::PermissionRules;
use agentcore::session::Record;
use agentcore::testing::{ScriptedModel, StrictModel};
use agentcore::tool::GateRequest;
use agentcore::{
    Agent, AgentState, Decision, ExitReason, FuncTool, OnUnanswered, Result, ThreadStore,
    ToolDecision, async_trait,
};
use futures::poll;
use serde_json::{Value, json};
use tokio::runtime::Builder;
use tokio::task::yield_now;

use crate::kit::spied_store::{Spied, Spy};
use crate::kit::{Gate, Log, agent, any_object, logged, result_texts};

/// The number of pending calls. As many calls that need no decision are between them.
const CALLS: usize = 1000;

/// Counts writes: the messages and pending calls of saved states, and the records.
#[derive(Clone, Default)]
struct Written(Arc<AtomicUsize>);

impl Written {
    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Spy for Written {
    async fn append(&self, records: &[Record]) -> Result<()> {
        self.0.fetch_add(records.len(), Ordering::SeqCst);
        Ok(())
    }

    async fn save(&self, state: &AgentState) -> Result<()> {
        let items = state.messages.len() + state.pending.len();
        self.0.fetch_add(items, Ordering::SeqCst);
        Ok(())
    }
}

fn parking(model: ScriptedModel, store: &ThreadStore, log: &Log, written: &Written) -> Agent {
    let gate = Gate(|request: &GateRequest| match &*request.call.name {
        "free" => ToolDecision::allow(),
        _ => ToolDecision::ask("sure?"),
    });
    let mut limits = ResponseLimits::default();
    (limits.max_calls, limits.max_values) = (4 * CALLS, 100 * CALLS);
    agent(StrictModel::new(model))
        .tools([logged("act", log), logged("free", log)])
        .permissions(gate)
        .unanswered(OnUnanswered::Park)
        .loop_detection(false)
        .response_limits(limits)
        .store(Spied(store.clone(), written.clone()))
        .build()
        .unwrap()
}

#[tokio::test]
async fn deciding_many_calls_writes_each_a_bounded_number_of_times() {
    let (store, log, written) = (ThreadStore::new(), Log::default(), Written::default());
    let pairs = (0..CALLS).map(|n| [("act", json!({"n": n})), ("free", json!({"n": n}))]);
    let model = ScriptedModel::new().calls(pairs.flatten());
    let first = parking(model, &store, &log, &written);
    first.session("s").run("Go").await.unwrap();
    assert_eq!(log.take().len(), CALLS);
    let calls = first.session("s").pending().await.unwrap();
    assert_eq!(calls.len(), CALLS);

    let before = written.count();
    let decisions: Vec<_> = calls
        .iter()
        .enumerate()
        .map(|(n, call)| match n % 4 {
            0 => Decision::deny(call, "no"),
            _ => Decision::allow(call),
        })
        .collect();
    let model = ScriptedModel::new().say("done");
    let agent = parking(model, &store, &log, &written);
    let output = agent.session("s").resume(decisions).await.unwrap();
    assert_eq!(output.end, ExitReason::EndTurn);
    assert_eq!(log.take().len(), CALLS / 4 * 3);
    let results = result_texts(&output.messages);
    assert_eq!(results.len(), 2 * CALLS);
    for (n, pair) in results.chunks(2).enumerate() {
        let first = if n % 4 == 0 { "Error: no" } else { "act ran" };
        assert_eq!(pair, [first, "free ran"]);
    }

    // Each call writes four records, and the whole state is written twice.
    let written = written.count() - before;
    assert!(written < 12 * CALLS, "{written}");
    assert!(agent.session("s").pending().await.unwrap().is_empty());
}

/// Texts that people write have no limit of their own.
#[tokio::test]
async fn texts_of_denials_are_cut() {
    let (store, log, written) = (ThreadStore::new(), Log::default(), Written::default());
    let model = ScriptedModel::new().calls((0..50).map(|n| ("act", json!({"n": n}))));
    let first = parking(model, &store, &log, &written);
    first.session("s").run("Go").await.unwrap();
    let calls = first.session("s").pending().await.unwrap();
    let text = "é".repeat(100_000);
    let decisions: Vec<_> = calls
        .iter()
        .map(|call| Decision::deny(call, text.as_str()))
        .collect();
    let agent = parking(ScriptedModel::new().say("done"), &store, &log, &written);
    let output = agent.session("s").resume(decisions).await.unwrap();
    for text in result_texts(&output.messages) {
        let (start, note) = text.split_once('\n').unwrap();
        assert_eq!(start.chars().count(), "Error: ".len() + 10_000);
        let expected = "... (cut: 100000 characters are more than the limit of 10000)";
        assert_eq!(note, expected);
    }
}

/// Each denial is within its own limit, and together they would exceed that of the history.
#[tokio::test]
async fn denials_leave_room_in_the_history() {
    const LIMIT: usize = 300_000;
    let (store, log, written) = (ThreadStore::new(), Log::default(), Written::default());
    let model = ScriptedModel::new().calls((0..50).map(|n| ("act", json!({"n": n}))));
    let first = parking(model, &store, &log, &written);
    first.session("s").run("Go").await.unwrap();
    let calls = first.session("s").pending().await.unwrap();
    let decisions: Vec<_> = calls
        .iter()
        .map(|call| Decision::deny(call, "x".repeat(9_000)))
        .collect();
    let agent = agent(ScriptedModel::new().say("done"))
        .tools([logged("act", &log)])
        .store(store)
        .max_history_bytes(LIMIT)
        .build()
        .unwrap();
    let output = agent.session("s").resume(decisions).await.unwrap();
    assert_eq!(output.text, "done");
}

/// Rules parse a command many times. A long one waits while no thread for blocking work is free,
/// and other tasks of the runtime's thread run meanwhile.
#[test]
fn long_commands_are_decided_about_outside_the_runtime() {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(1)
        .build()
        .unwrap();
    runtime.block_on(async {
        let (release, released) = mpsc::channel::<()>();
        let blocker = tokio::task::spawn_blocking(move || released.recv());

        let (short, log) = listing(100);
        assert_eq!(short.run("Go").await.unwrap().text, "done");
        assert_eq!(log.take(), ["ran"]);

        let (long, log) = listing(8_000);
        let mut run = pin!(long.run("Go").into_future());
        for _ in 0..1_000 {
            assert!(poll!(run.as_mut()).is_pending());
            yield_now().await;
        }
        assert!(log.take().is_empty());

        drop(release);
        blocker.await.unwrap().unwrap_err();
        assert_eq!(run.await.unwrap().text, "done");
        assert_eq!(log.take(), ["ran"]);
    });
}

/// An agent whose model lists files with a command of about `len` bytes, and the log of its tool.
fn listing(len: usize) -> (Agent, Log) {
    let log = Log::default();
    let runs = log.clone();
    let shell = FuncTool::new("Bash", "Runs", any_object(), move |_cx, _: Value| {
        runs.add("ran");
        async { "ran" }
    });
    let command = "ls a; ".repeat(len / 6);
    let calls = [("Bash", json!({"command": format!("{command}ls b")}))];
    let rules = PermissionRules::new().allow("Bash(ls:*)").unwrap();
    let agent = agent(ScriptedModel::new().calls(calls).say("done"))
        .tool(shell)
        .permissions(rules.deny("Read(*x*y*)").unwrap())
        .build()
        .unwrap();
    (agent, log)
}
