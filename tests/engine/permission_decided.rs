//! Decisions about pending calls that meet faults, stops and repetitions.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agentcore::session::{PendingCall, Record};
use agentcore::testing::{ScriptedModel, Step, StrictModel};
use agentcore::tool::{GateRequest, PermissionGate};
use agentcore::{
    AgentBuilder, AgentState, Decision, Error, ErrorKind, ExitReason, Message, OnUnanswered,
    PermissionMode, Result, StopReason, ThreadStore, ToolCall, ToolDecision, async_trait, hook,
};
use serde_json::{Value, json};

use crate::kit::spied_store::{Spied, Spy};
use crate::kit::{
    Gate, Log, agent, asking, kinds, logged, result_texts, roles, stuck, warnings, watch,
};

/// Stores the session `s`, in which two calls of `act` are pending, and returns the calls.
async fn parked(store: &ThreadStore, log: &Log) -> Vec<PendingCall> {
    let model = ScriptedModel::new().calls([("act", json!({"n": 1})), ("act", json!({"n": 2}))]);
    let agent = parking(model, store, log).build().unwrap();
    agent.session("s").run("Go").await.unwrap();
    let calls = agent.session("s").pending().await.unwrap();
    assert_eq!(calls.len(), 2);
    calls
}

fn parking(model: ScriptedModel, store: &ThreadStore, log: &Log) -> AgentBuilder {
    agent(StrictModel::new(model))
        .tool(logged("act", log))
        .permissions(asking())
        .unanswered(OnUnanswered::Park)
        .store(store.clone())
}

#[tokio::test]
async fn denial_is_stored_before_a_sibling_call_ends() {
    let (store, log) = (ThreadStore::new(), Log::default());
    let calls = parked(&store, &log).await;
    let begun = log.clone();
    let hanging =
        agentcore::FuncTool::new("act", "Hangs", crate::kit::any_object(), move |_, _| {
            begun.add("begun");
            std::future::pending::<String>()
        });
    let dying = agent(ScriptedModel::new())
        .tool(hanging)
        .permissions(asking())
        .store(store.clone())
        .build()
        .unwrap();
    let decisions = [
        Decision::deny(&calls[0], "never"),
        Decision::allow(&calls[1]),
    ];
    let mut run = dying.session("s").resume(decisions);
    while futures::poll!(run.next()).is_ready() {}
    drop(run);
    assert_eq!(log.take(), ["begun"]);

    let agent = parking(ScriptedModel::new().say("done"), &store, &log)
        .build()
        .unwrap();
    assert_eq!(agent.session("s").pending().await.unwrap(), []);
    let late = agent.session("s").resume(Decision::allow(&calls[0]));
    assert_eq!(late.await.unwrap_err().kind(), ErrorKind::Conflict);
    let output = agent.session("s").run("And?").await.unwrap();
    assert_eq!(result_texts(&output.messages)[0], "Error: never");
    assert!(result_texts(&output.messages)[1].contains("may have run"));
    assert_eq!(log.len(), 0);
}

/// Fails one write of a state or an approval, after this number of successful ones.
struct BadSave(AtomicUsize);

impl BadSave {
    fn write(&self) -> Result<()> {
        match self.0.fetch_sub(1, Ordering::SeqCst) {
            0 => Err(Error::new(ErrorKind::Io, "the disk is away")),
            _ => Ok(()),
        }
    }
}

#[async_trait]
impl Spy for BadSave {
    async fn append(&self, records: &[Record]) -> Result<()> {
        match records {
            [Record::Answered { .. }, ..] => self.write(),
            _ => Ok(()),
        }
    }

    async fn save(&self, _: &AgentState) -> Result<()> {
        self.write()
    }
}

#[tokio::test]
async fn approval_that_could_not_be_stored_remains_valid() {
    let (store, log) = (ThreadStore::new(), Log::default());
    let calls = parked(&store, &log).await;
    let failing = parking(ScriptedModel::new(), &store, &log)
        .store(Spied(store.clone(), BadSave(AtomicUsize::new(0))))
        .build()
        .unwrap();
    let all = || calls.iter().map(Decision::allow).collect::<Vec<_>>();
    let error = failing.session("s").resume(all()).await.unwrap_err();
    assert_eq!((error.kind(), log.len()), (ErrorKind::Io, 0));
    let agent = parking(ScriptedModel::new().say("done"), &store, &log)
        .build()
        .unwrap();
    let output = agent.session("s").resume(all()).await.unwrap();
    assert_eq!(result_texts(&output.messages), ["act ran", "act ran"]);
    assert_eq!(log.len(), 2);
}

#[tokio::test]
async fn pending_call_is_stored_before_the_run_ends() {
    let (store, log) = (ThreadStore::new(), Log::default());
    let slow = hook::after_agent("slow", |_, _| std::future::pending());
    let model = ScriptedModel::new().call("act", json!({}));
    let agent = parking(model, &store, &log).hook(slow).build().unwrap();
    let mut run = agent.session("s").run("Go");
    while futures::poll!(run.next()).is_ready() {}
    drop(run);
    let pending = agent.session("s").pending().await.unwrap();
    assert_eq!(pending.len(), 1);
}

#[tokio::test]
async fn pending_call_that_cannot_be_stored_fails_the_run() {
    let (store, log) = (ThreadStore::new(), Log::default());
    let model = ScriptedModel::new().call("act", json!({}));
    let agent = parking(model, &store, &log)
        .store(Spied(store.clone(), BadSave(AtomicUsize::new(0))))
        .build()
        .unwrap();
    let error = agent.session("s").run("Go").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
}

#[tokio::test]
async fn hook_stop_keeps_approved_calls_pending() {
    let (store, log) = (ThreadStore::new(), Log::default());
    let calls = parked(&store, &log).await;
    let stop = hook::before_agent("stop", |cx, state| {
        cx.stop("tenant suspended");
        async { Ok(state) }
    });

    let agent = parking(ScriptedModel::new(), &store, &log)
        .hook(stop)
        .build()
        .unwrap();
    let all = calls.iter().map(Decision::allow).collect::<Vec<_>>();
    let output = agent.session("s").resume(all).await.unwrap();
    assert_eq!((output.end, log.len()), (ExitReason::HookStopped, 0));
    assert_eq!(agent.session("s").pending().await.unwrap(), calls);
}

#[tokio::test(start_paused = true)]
async fn interrupt_keeps_the_approval_of_a_call_that_did_not_start() {
    let store = ThreadStore::new();
    let model = ScriptedModel::new().calls([("stuck", json!({})), ("act", json!({}))]);
    let log = Log::default();
    let build = |model: ScriptedModel| parking(model, &store, &log).tool(stuck()).build().unwrap();
    let agent = build(model);
    agent.session("s").run("Go").await.unwrap();
    let calls = agent.session("s").pending().await.unwrap();
    let all = calls.iter().map(Decision::allow).collect::<Vec<_>>();
    let run = build(ScriptedModel::new()).session("s").resume(all);
    let handle = run.handle();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(1)).await;
        handle.interrupt();
    });

    let output = run.await.unwrap();
    assert_eq!((output.end, log.len()), (ExitReason::Interrupted, 0));
    assert_eq!(output.pending(), &calls[1..]);
    let agent = build(ScriptedModel::new().say("done"));
    let output = agent.session("s").resume(Decision::allow(&calls[1])).await;
    assert_eq!((output.unwrap().end, log.len()), (ExitReason::EndTurn, 1));
}

#[tokio::test]
async fn plan_mode_denies_an_approved_call() {
    let (store, log) = (ThreadStore::new(), Log::default());
    let ask = hook::pre_tool_use("ask", |_, _| async { Ok(ToolDecision::ask("sure?")) });
    let build = |model: ScriptedModel| {
        agent(StrictModel::new(model))
            .tool(logged("act", &log))
            .unanswered(OnUnanswered::Park)
            .store(store.clone())
    };

    let first = build(ScriptedModel::new().call("act", json!({})))
        .hook(ask)
        .build()
        .unwrap();
    first.session("s").run("Go").await.unwrap();
    let calls = first.session("s").pending().await.unwrap();
    let planning = build(ScriptedModel::new().say("Well."))
        .permission_mode(PermissionMode::Plan)
        .build()
        .unwrap();
    let output = planning
        .session("s")
        .resume(Decision::allow(&calls[0]))
        .await
        .unwrap();
    assert!(result_texts(&output.messages)[0].contains("plan mode"));
    assert_eq!(log.len(), 0);
}

#[tokio::test]
async fn gate_interrupt_ends_a_resumed_run() {
    let (store, log) = (ThreadStore::new(), Log::default());
    let calls = parked(&store, &log).await;
    let agent = parking(ScriptedModel::new(), &store, &log)
        .permissions(Gate(|_: &GateRequest| ToolDecision::stop("hands off")))
        .build()
        .unwrap();
    let all = calls.iter().map(Decision::allow).collect::<Vec<_>>();
    let output = agent.session("s").resume(all).await.unwrap();
    assert_eq!((output.end, log.len()), (ExitReason::Interrupted, 0));
    assert_eq!(result_texts(&output.messages), ["Error: hands off"]);
    assert_eq!(output.pending(), &calls[1..]);
}

#[tokio::test]
async fn gate_interrupt_about_arguments_that_a_hook_changed_ends_a_resumed_run() {
    let (store, log) = (ThreadStore::new(), Log::default());
    let calls = parked(&store, &log).await;
    let change = hook::wrap_tool_call("change", |call: ToolCall, next| async move {
        next.run(call.with_args(json!({"changed": true}))).await
    });
    let gate = Gate(|request: &GateRequest| match request.call.args["changed"] {
        Value::Null => ToolDecision::allow(),
        _ => ToolDecision::stop("hands off"),
    });
    let agent = parking(ScriptedModel::new(), &store, &log)
        .hook(change)
        .permissions(gate)
        .build()
        .unwrap();
    let all = calls.iter().map(Decision::allow).collect::<Vec<_>>();
    let output = agent.session("s").resume(all).await.unwrap();
    assert_eq!((output.end, log.len()), (ExitReason::Interrupted, 0));
    assert_eq!(result_texts(&output.messages), ["Error: hands off"]);
    assert_eq!(output.pending(), &calls[1..]);
}

#[tokio::test]
async fn approved_call_with_arguments_changed_by_the_gate_does_not_run() {
    let (store, log) = (ThreadStore::new(), Log::default());
    let calls = parked(&store, &log).await;
    let confine = |request: &GateRequest| {
        let mut args = (*request.call.args).clone();
        args["n"] = json!(1);
        ToolDecision::allow().with_args(args)
    };

    let agent = parking(ScriptedModel::new().say("Well."), &store, &log)
        .permissions(Gate(confine))
        .build()
        .unwrap();
    let all = calls.iter().map(Decision::allow).collect::<Vec<_>>();
    let output = agent.session("s").resume(all).await.unwrap();
    let texts = result_texts(&output.messages);
    assert_eq!(texts[0], "act ran");
    assert!(texts[1].contains("other arguments"), "{}", texts[1]);
    assert_eq!(log.take(), ["act{\"n\":1}"]);
}

#[tokio::test]
async fn resume_without_the_tool_is_a_conflict_and_keeps_the_approval() {
    let (store, log) = (ThreadStore::new(), Log::default());
    let calls = parked(&store, &log).await;
    let other = agent(ScriptedModel::new())
        .tool(logged("look", &log))
        .store(store.clone())
        .build()
        .unwrap();
    let error = other
        .session("s")
        .resume(Decision::allow(&calls[0]))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    let text = error.to_string();
    assert!(
        text.contains("\"act\"") && text.contains("nothing was run"),
        "{text}"
    );
    assert_eq!(other.session("s").pending().await.unwrap(), calls);
}

#[tokio::test]
async fn edited_call_runs_with_the_edited_arguments() {
    let (store, log) = (ThreadStore::new(), Log::default());
    let calls = parked(&store, &log).await;
    let agent = parking(ScriptedModel::new().say("done"), &store, &log)
        .build()
        .unwrap();
    let decisions = [
        Decision::edit(&calls[0], json!({"n": 9})),
        Decision::edit(&calls[1], json!("no object")),
    ];
    let json = serde_json::to_string(&decisions).unwrap();
    let decisions: Vec<Decision> = serde_json::from_str(&json).unwrap();
    let output = agent.session("s").resume(decisions).await.unwrap();
    assert_eq!(log.take(), ["act{\"n\":9}"]);
    let texts = result_texts(&output.messages);
    assert_eq!(texts[0], "act ran");
    assert!(texts[1].starts_with("Error: "), "{}", texts[1]);
    let asked = output.messages.get(1).unwrap().tool_calls().next().unwrap();
    assert_eq!(*asked.args, json!({"n": 1}));
}

#[tokio::test]
async fn approval_for_the_session_covers_a_later_equal_call() {
    let (store, log) = (ThreadStore::new(), Log::default());
    let rules = || agentcore::permission::PermissionRules::new().ask("act");
    let first = parking(ScriptedModel::new().call("act", json!({})), &store, &log)
        .permissions(rules().unwrap())
        .build()
        .unwrap();
    first.session("s").run("Go").await.unwrap();
    let calls = first.session("s").pending().await.unwrap();
    let model = ScriptedModel::new().call("act", json!({})).say("done");
    let second = parking(model, &store, &log)
        .permissions(rules().unwrap())
        .build()
        .unwrap();
    let decision = Decision::allow_for_session(&calls[0]);
    let output = second.session("s").resume(decision).await.unwrap();
    assert_eq!((output.end, log.len()), (ExitReason::EndTurn, 2));
}

/// A gate that asks about each call, and whose grants panic or never end.
struct FaultyGrants {
    panics: bool,
}

#[async_trait]
impl PermissionGate for FaultyGrants {
    async fn check(&self, _request: &GateRequest) -> Result<ToolDecision> {
        Ok(ToolDecision::ask("sure?"))
    }

    async fn grant(&self, _request: &GateRequest) -> Result<()> {
        assert!(!self.panics, "no room");
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn grant_that_does_not_end_is_stopped_and_keeps_the_call_pending() {
    let (store, log) = (ThreadStore::new(), Log::default());
    let calls = parked(&store, &log).await;
    let agent = parking(ScriptedModel::new(), &store, &log)
        .permissions(FaultyGrants { panics: false })
        .max_duration(Duration::from_secs(60))
        .build()
        .unwrap();
    let decision = Decision::allow_for_session(&calls[0]);
    let resumed = agent.session("s").resume(decision).finish();
    let output = tokio::time::timeout(Duration::from_secs(600), resumed).await;
    let output = output.expect("the run ends").unwrap();
    assert_eq!((output.end, log.len()), (ExitReason::MaxDuration, 0));
    assert_eq!(output.pending(), &calls[..]);
}

#[tokio::test]
async fn panic_of_a_grant_is_a_warning_and_the_call_runs() {
    let (store, log) = (ThreadStore::new(), Log::default());
    let calls = parked(&store, &log).await;
    let agent = parking(ScriptedModel::new(), &store, &log)
        .permissions(FaultyGrants { panics: true })
        .build()
        .unwrap();
    let decision = Decision::allow_for_session(&calls[0]);
    let (messages, output) = watch(agent.session("s").resume(decision)).await;
    assert_eq!(log.len(), 1);
    assert_eq!(output.unwrap().pending(), &calls[1..]);
    let warnings = warnings(&messages);
    assert!(
        warnings[0].contains("the gate panicked: no room"),
        "{warnings:?}"
    );
}

#[tokio::test]
async fn float_arguments_of_a_pending_call_round_trip() {
    let log = Log::default();
    let value = 100.0 * 1.15;
    let stored = serde_json::to_string(&json!({ "n": value })).unwrap();
    let read: serde_json::Value = serde_json::from_str(&stored).unwrap();
    assert_eq!(read["n"].as_f64(), Some(value));
    let store = ThreadStore::new();
    let model = ScriptedModel::new().call("act", json!({ "n": value }));
    let agent = parking(model, &store, &log).build().unwrap();
    agent.session("s").run("Go").await.unwrap();
    let json = agent.store().export("s").await.unwrap();
    agent.store().import("t", json.as_bytes()).await.unwrap();
    let pending = agent.session("t").state().await.unwrap().unwrap().pending;
    assert_eq!(*pending[0].call.args, json!({ "n": value }));
}

#[tokio::test]
async fn resume_of_a_deleted_session_is_session_not_found() {
    let (store, log) = (ThreadStore::new(), Log::default());
    let calls = parked(&store, &log).await;
    let agent = parking(ScriptedModel::new().say("Anew.").say("More."), &store, &log)
        .build()
        .unwrap();
    agent.session("s").delete().await.unwrap();
    let resumed = agent.session("s").resume(Decision::allow(&calls[0]));
    assert_eq!(
        resumed.await.unwrap_err().kind(),
        ErrorKind::SessionNotFound
    );
    let run_of_deleted = agent.session("s").must_exist().run("And?");
    assert_eq!(
        run_of_deleted.await.unwrap_err().kind(),
        ErrorKind::SessionNotFound
    );
    assert!(agent.session("s").state().await.unwrap().is_none());
    agent.session("s").run("Anew").await.unwrap();
    let there = agent.session("s").must_exist().run("More");
    assert_eq!(there.await.unwrap().text, "More.");
}

#[tokio::test]
async fn expired_pending_call_can_be_denied() {
    let (store, log) = (ThreadStore::new(), Log::default());
    let agent = parking(
        ScriptedModel::new().call("act", json!({})).say("Well."),
        &store,
        &log,
    )
    .approval_expiry(Duration::ZERO)
    .build()
    .unwrap();
    let parked = agent.session("s").run("Go").await.unwrap();
    std::thread::sleep(Duration::from_millis(2));
    let call = &parked.pending()[0];
    let late = agent.session("s").resume(Decision::allow_for_session(call));
    assert!(late.await.unwrap_err().to_string().contains("expired"));
    let denied = agent.session("s").resume(Decision::deny(call, "too late"));
    assert_eq!(
        result_texts(&denied.await.unwrap().messages),
        ["Error: too late"]
    );
}

/// Fails each append that records the start of a call.
struct NoStarts;

#[async_trait]
impl Spy for NoStarts {
    async fn append(&self, records: &[Record]) -> Result<()> {
        match records {
            [Record::ToolStarted { .. }] => Err(Error::new(ErrorKind::Io, "the disk is away")),
            _ => Ok(()),
        }
    }
}

#[tokio::test]
async fn approved_call_whose_start_cannot_be_stored_stays_pending() {
    let (store, log) = (ThreadStore::new(), Log::default());
    let calls = parked(&store, &log).await;
    let failing = parking(ScriptedModel::new(), &store, &log)
        .store(Spied(store.clone(), NoStarts))
        .build()
        .unwrap();
    let all = calls.iter().map(Decision::allow).collect::<Vec<_>>();
    let (messages, output) = watch(failing.session("s").resume(all)).await;
    assert_eq!(output.unwrap().end, ExitReason::AwaitingApproval);
    assert!(warnings(&messages)[0].contains("the disk is away"));
    assert_eq!(failing.session("s").pending().await.unwrap(), calls);
    assert_eq!(log.len(), 0);
}

#[tokio::test]
async fn result_of_an_approved_call_is_emitted_when_a_later_save_fails() {
    let (store, log) = (ThreadStore::new(), Log::default());
    let calls = parked(&store, &log).await;
    let failing = parking(ScriptedModel::new(), &store, &log)
        .store(Spied(store.clone(), BadSave(AtomicUsize::new(1))))
        .build()
        .unwrap();
    let all = calls.iter().map(Decision::allow).collect::<Vec<_>>();
    let (messages, output) = watch(failing.session("s").resume(all)).await;
    assert_eq!(output.unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(log.take(), ["act{\"n\":1}"]);
    assert!(kinds(&messages).contains(&"user".to_owned()));
    assert_eq!(failing.session("s").pending().await.unwrap(), calls[1..]);
}

#[tokio::test]
async fn hooks_see_the_edited_arguments_of_a_call() {
    let (store, log) = (ThreadStore::new(), Log::default());
    let calls = parked(&store, &log).await;
    let small = hook::pre_tool_use("small", |_, call| {
        let is_small = call.args["n"].as_u64() < Some(5);
        async move {
            Ok(if is_small {
                ToolDecision::proceed()
            } else {
                ToolDecision::deny("too many")
            })
        }
    });

    let agent = parking(ScriptedModel::new().say("done"), &store, &log)
        .hook(small)
        .build()
        .unwrap();
    let decisions = [
        Decision::edit(&calls[0], json!({"n": 4})),
        Decision::edit(&calls[1], json!({"n": 5})),
    ];
    let output = agent.session("s").resume(decisions).await.unwrap();
    assert_eq!(
        result_texts(&output.messages),
        ["act ran", "Error: too many"]
    );
    assert_eq!(log.take(), ["act{\"n\":4}"]);
}

#[tokio::test]
async fn rewind_to_with_decisions_is_an_invalid_request() {
    let (store, log) = (ThreadStore::new(), Log::default());
    let calls = parked(&store, &log).await;
    let agent = parking(ScriptedModel::new(), &store, &log).build().unwrap();
    let decision = Decision::allow(&calls[0]);
    let run = agent.session("s").rewind_to(1).resume(decision);
    assert_eq!(run.await.unwrap_err().kind(), ErrorKind::InvalidRequest);
    assert_eq!(agent.session("s").pending().await.unwrap(), calls);
}

/// A message that the user wrote while calls were pending belongs to the earlier run.
#[tokio::test]
async fn refusal_keeps_user_messages_stored_while_calls_were_pending() {
    let store = ThreadStore::new();
    let log = Log::default();
    parked(&store, &log).await;
    let mut state = store.get("s").unwrap();
    state.messages.push(Message::human("By the way"));
    store.save("s", state);
    let calls = store.get("s").unwrap().pending;
    let refusing = ScriptedModel::new().step(Step::text("No.").stop(StopReason::Refusal));
    let agent = parking(refusing, &store, &log).build().unwrap();
    let all = calls.iter().map(Decision::allow).collect::<Vec<_>>();
    let output = agent.session("s").resume(all).await.unwrap();
    assert_eq!(output.end, ExitReason::Refused);
    assert_eq!(roles(&output.messages), "user assistant tool tool user");
}
