//! Calls that wait for an approval of a later process.

use agentcore::sdk::SystemKind;
use agentcore::session::PendingCall;
use agentcore::testing::{ScriptedModel, StrictModel};
use agentcore::tool::GateRequest;
use agentcore::{
    Agent, Answer, Decision, ErrorKind, ExitReason, FuncTool, OnUnanswered, SdkMessage,
    ThreadStore, ToolDecision, hook,
};
use serde_json::json;

use crate::kit::{
    Gate, Log, agent, any_object, asking, kinds, logged, result_texts, roles, stored, watch,
};

fn parking(model: ScriptedModel, store: &ThreadStore, log: &Log) -> Agent {
    let gate = Gate(|request: &GateRequest| match &*request.call.name {
        "free" => ToolDecision::allow(),
        _ => ToolDecision::ask("sure?"),
    });
    agent(StrictModel::new(model))
        .tools([logged("act", log), logged("free", log)])
        .permissions(gate)
        .unanswered(OnUnanswered::Park)
        .store(store.clone())
        .build()
        .unwrap()
}

async fn pending(agent: &Agent, id: &str) -> Vec<PendingCall> {
    agent.session(id).state().await.unwrap().unwrap().pending
}

/// Runs a session until two calls of `act` are pending; a call of `free` between them has run.
async fn parked(store: &ThreadStore, log: &Log) -> Vec<PendingCall> {
    let model = ScriptedModel::new().calls([
        ("act", json!({"n": 1})),
        ("free", json!({})),
        ("act", json!({"n": 2})),
    ]);
    let agent = parking(model, store, log);
    let output = agent.session("s").run("Go").await.unwrap();
    assert_eq!(output.end, ExitReason::AwaitingApproval);
    assert!(output.end.is_success());
    assert_eq!(log.take(), ["free{}"]);
    pending(&agent, "s").await
}

#[tokio::test]
async fn pending_calls_are_decided_after_serialization() {
    let (store, log) = (ThreadStore::new(), Log::default());
    let calls = parked(&store, &log).await;
    assert_eq!(calls.len(), 2);
    let json = serde_json::to_string(&calls).unwrap();
    let calls: Vec<PendingCall> = serde_json::from_str(&json).unwrap();

    let agent = parking(ScriptedModel::new().say("done"), &store, &log);
    let decisions = [
        Decision::deny(&calls[0], "not that"),
        Decision::allow(&calls[1]),
    ];
    let output = agent.session("s").resume(decisions).await.unwrap();
    assert_eq!((output.end, &*output.text), (ExitReason::EndTurn, "done"));
    assert_eq!(log.take(), ["act{\"n\":2}"]);
    assert_eq!(
        result_texts(&output.messages),
        ["Error: not that", "free ran", "act ran"]
    );
    assert_eq!(stored(&agent, "s").await, output.messages);
    assert!(pending(&agent, "s").await.is_empty());
}

#[tokio::test]
async fn undecided_call_stays_pending() {
    let (store, log) = (ThreadStore::new(), Log::default());
    let calls = parked(&store, &log).await;
    let agent = parking(ScriptedModel::new().say("done"), &store, &log);
    let output = agent
        .session("s")
        .resume(Decision::allow(&calls[1]))
        .await
        .unwrap();
    assert_eq!(output.end, ExitReason::AwaitingApproval);
    assert_eq!(pending(&agent, "s").await, calls[..1]);
    let output = agent
        .session("s")
        .resume(Decision::allow(&calls[0]))
        .await
        .unwrap();
    assert_eq!(
        result_texts(&output.messages),
        ["act ran", "free ran", "act ran"]
    );
    assert_eq!(log.len(), 2);
}

#[tokio::test]
async fn mismatched_decisions_are_rejected_and_run_nothing() {
    let (store, log) = (ThreadStore::new(), Log::default());
    let calls = parked(&store, &log).await;
    let agent = parking(ScriptedModel::new().say("done"), &store, &log);
    let mut unknown = calls[0].clone();
    unknown.id = "pending_forged".into();
    let mut other_args = calls[0].clone();
    other_args.args_hash = "0123456789abcdef".into();
    let with = |args_hash: Option<&str>, answer: Answer| {
        let mut decision = Decision::allow(&calls[0]);
        (decision.args_hash, decision.answer) = (args_hash.map(Into::into), answer);
        decision
    };

    let hash = Some(&*calls[0].args_hash);
    for (decisions, words) in [
        (vec![Decision::allow(&unknown)], "no such call"),
        (vec![Decision::allow(&other_args)], "other arguments"),
        (vec![with(None, Answer::Allow)], "`args_hash` is missing"),
        (vec![with(hash, Answer::Unanswered)], "it has no answer"),
        (
            vec![with(Some("0123"), Answer::Deny("no".into()))],
            "other arguments",
        ),
        (
            vec![Decision::allow(&calls[0]), Decision::deny(&calls[0], "")],
            "two decisions",
        ),
        (
            vec![Decision::allow(&calls[1]), Decision::allow(&unknown)],
            "no such call",
        ),
    ] {
        let error = agent.session("s").resume(decisions).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert!(error.to_string().contains(words), "{error}");
        assert_eq!(pending(&agent, "s").await, calls);
    }

    assert_eq!(log.len(), 0);
    let all = calls.iter().map(Decision::allow).collect::<Vec<_>>();
    agent.session("s").resume(all.clone()).await.unwrap();
    assert_eq!(log.take().len(), 2);
    let again = agent.session("s").resume(all).await.unwrap_err();
    assert_eq!((again.kind(), log.len()), (ErrorKind::Conflict, 0));
}

#[tokio::test]
async fn expired_and_tampered_pending_calls_are_rejected() {
    let (store, log) = (ThreadStore::new(), Log::default());
    let calls = parked(&store, &log).await;
    let agent = parking(ScriptedModel::new(), &store, &log);
    let mut state = store.get("s").unwrap();
    state.pending[0].expires_at_ms = Some(1);
    state.pending[1].call = state.pending[1].call.clone().with_args(json!({"n": 666}));
    store.save("s", state);
    for (call, words) in [(&calls[0], "expired"), (&calls[1], "was changed")] {
        let error = agent
            .session("s")
            .resume(Decision::allow(call))
            .await
            .unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    }

    assert_eq!(log.len(), 0);
}

#[tokio::test]
async fn tampered_and_expired_pending_calls_may_be_denied() {
    let (store, log) = (ThreadStore::new(), Log::default());
    let calls = parked(&store, &log).await;
    let agent = parking(ScriptedModel::new().say("done"), &store, &log);
    let mut state = store.get("s").unwrap();
    state.pending[0].expires_at_ms = Some(1);
    state.pending[1].call = state.pending[1].call.clone().with_args(json!({"n": 666}));
    store.save("s", state);
    let decisions: Vec<_> = calls
        .iter()
        .map(|call| Decision::deny(call, "no"))
        .collect();
    let output = agent.session("s").resume(decisions).await.unwrap();
    assert_eq!((output.text.as_str(), log.len()), ("done", 0));
}

#[tokio::test]
async fn deny_rule_applies_to_approved_calls() {
    let (store, log) = (ThreadStore::new(), Log::default());
    let calls = parked(&store, &log).await;
    let agent = agent(ScriptedModel::new().say("done"))
        .tool(logged("act", &log))
        .permissions(Gate(|_: &_| ToolDecision::deny("forbidden since")))
        .store(store)
        .build()
        .unwrap();
    let decisions = calls.iter().map(Decision::allow).collect::<Vec<_>>();
    let output = agent.session("s").resume(decisions).await.unwrap();
    assert_eq!(result_texts(&output.messages)[0], "Error: forbidden since");
    assert_eq!(log.len(), 0);
}

#[tokio::test]
async fn new_input_closes_pending_calls_permanently() {
    let (store, log) = (ThreadStore::new(), Log::default());
    let calls = parked(&store, &log).await;
    let model = ScriptedModel::new().hang();
    let agent = parking(model, &store, &log);
    let mut run = agent.session("s").run("Never mind");
    let mut shown = Vec::new();
    while let std::task::Poll::Ready(message) = futures::poll!(run.next()) {
        shown.push(message.unwrap());
    }

    drop(run);
    assert_eq!(
        kinds(&shown),
        ["system/init", "user"],
        "the calls are closed"
    );
    let history = stored(&agent, "s").await;
    assert!(
        result_texts(&history)[0].contains("not approved"),
        "{:?}",
        result_texts(&history)
    );
    let error = agent
        .session("s")
        .resume(Decision::allow(&calls[0]))
        .await
        .unwrap_err();
    assert_eq!((error.kind(), log.len()), (ErrorKind::Conflict, 0));
}

#[tokio::test]
async fn fork_cannot_resume_pending_calls_of_its_parent() {
    let (store, log) = (ThreadStore::new(), Log::default());
    let calls = parked(&store, &log).await;
    let agent = parking(ScriptedModel::new().say("a"), &store, &log);
    let fork = agent.session("s").fork("f").await.unwrap();
    for _ in 0..2 {
        let error = fork.clone().resume(Decision::allow(&calls[0])).await;
        let error = error.unwrap_err();
        assert_eq!((error.kind(), log.len()), (ErrorKind::Conflict, 0));
        assert!(
            error.to_string().contains("waits in session \"s\""),
            "{error}"
        );
    }

    let all = calls.iter().map(Decision::allow).collect::<Vec<_>>();
    agent.session("s").resume(all).await.unwrap();
    assert_eq!(log.len(), 2);
}

#[tokio::test]
async fn approved_call_with_an_empty_result_is_filled_without_a_repair() {
    let store = ThreadStore::new();
    let quiet = || FuncTool::new("quiet", "Says nothing", any_object(), |_, _| async { "" });
    let build = |model: ScriptedModel| {
        agent(StrictModel::new(model))
            .tool(quiet())
            .permissions(asking())
            .unanswered(OnUnanswered::Park)
            .store(store.clone())
            .hook(hook::post_tool_use("see", |_, _, result| async {
                Ok(result)
            }))
            .build()
            .unwrap()
    };

    let first = build(ScriptedModel::new().call("quiet", json!({})));
    first.session("s").run("Go").await.unwrap();
    let calls = pending(&first, "s").await;
    let second = build(ScriptedModel::new().say("done"));
    let run = second.session("s").resume(Decision::allow(&calls[0]));
    let (messages, output) = watch(run).await;
    assert_eq!(result_texts(&output.unwrap().messages), ["(no output)"]);
    let repaired = messages.iter().any(|message| {
        matches!(message, SdkMessage::System(event)
            if matches!(event.kind, SystemKind::Informational { .. }))
    });

    assert!(!repaired, "nothing had to be repaired");
}

#[tokio::test]
async fn approved_call_of_a_dropped_run_does_not_run_again() {
    let (store, log) = (ThreadStore::new(), Log::default());
    let begun = log.clone();
    let build = |model: ScriptedModel| {
        let begun = begun.clone();
        let act = FuncTool::new("act", "Hangs", any_object(), move |_, _| {
            begun.add("begun");
            std::future::pending::<String>()
        });

        agent(StrictModel::new(model))
            .tool(act)
            .permissions(asking())
            .unanswered(OnUnanswered::Park)
            .store(store.clone())
            .build()
            .unwrap()
    };

    let agent = build(ScriptedModel::new().call("act", json!({})).say("done"));
    agent.session("s").run("Go").await.unwrap();
    let calls = pending(&agent, "s").await;
    let mut run = agent.session("s").resume(Decision::allow(&calls[0]));
    while futures::poll!(run.next()).is_ready() {}
    drop(run);
    assert_eq!(log.take(), ["begun"]);
    let error = agent
        .session("s")
        .resume(Decision::allow(&calls[0]))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    let history = stored(&agent, "s").await;
    assert!(
        result_texts(&history)[0].contains("may have run"),
        "{:?}",
        result_texts(&history)
    );
    assert_eq!(log.len(), 0);
    let output = agent.session("s").run("And?").await.unwrap();
    assert_eq!(
        roles(&output.messages),
        "user assistant tool user assistant"
    );
}

/// An approval is for one start of a call. A call that may run again needs a new one.
#[tokio::test]
async fn approved_idempotent_call_of_a_dropped_run_needs_a_new_approval() {
    for (allowed, says) in [(false, "may have run"), (true, "put")] {
        let (store, log) = (ThreadStore::new(), Log::default());
        let build = |model: ScriptedModel, hangs: bool, allowed: bool| {
            let begun = log.clone();
            let put = FuncTool::new("put", "Puts", any_object(), move |_, _| {
                begun.add("begun");
                async move {
                    if hangs {
                        std::future::pending::<()>().await;
                    }

                    "put"
                }
            });

            let gate = Gate(move |_: &GateRequest| {
                if allowed {
                    ToolDecision::allow()
                } else {
                    ToolDecision::ask("sure?")
                }
            });

            agent(StrictModel::new(model))
                .tool(put.idempotent())
                .permissions(gate)
                .unanswered(OnUnanswered::Park)
                .store(store.clone())
                .build()
                .unwrap()
        };

        let first = build(ScriptedModel::new().call("put", json!({})), true, false);
        first.session("s").run("Go").await.unwrap();
        let calls = pending(&first, "s").await;
        let mut run = first.session("s").resume(Decision::allow(&calls[0]));
        while futures::poll!(run.next()).is_ready() {}
        drop(run);
        assert_eq!(log.take(), ["begun"]);

        let second = build(ScriptedModel::new().say("done"), false, allowed);
        let output = second.session("s").run("And?").await.unwrap();
        assert!(result_texts(&output.messages)[0].contains(says));
        assert_eq!(log.len(), usize::from(allowed));
    }
}

#[tokio::test]
async fn pending_call_expires_after_approval_expiry() {
    let ask = |expiry: Option<std::time::Duration>| {
        let builder = agent(ScriptedModel::new().call("act", json!({})))
            .tool(logged("act", &Log::default()))
            .permissions(Gate(|_: &GateRequest| ToolDecision::ask("sure?")))
            .unanswered(OnUnanswered::Park);
        match expiry {
            Some(expiry) => builder.approval_expiry(expiry),
            None => builder,
        }
    };

    let for_ever = ask(None).build().unwrap().run("Go").await.unwrap();
    assert_eq!(for_ever.state.pending[0].expires_at_ms, None);
    let agent = ask(Some(std::time::Duration::ZERO)).build().unwrap();
    let output = agent.session("s").run("Go").await.unwrap();
    std::thread::sleep(std::time::Duration::from_millis(2));
    let late = Decision::allow(&output.state.pending[0]);
    let error = agent.session("s").resume(late).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.to_string().contains("expired"), "{error}");
}

#[tokio::test]
async fn decision_with_arguments_beyond_the_depth_limit_is_rejected() {
    for depth in [100, 101, 124, 1_000] {
        let (store, log) = (ThreadStore::new(), Log::default());
        let calls = parked(&store, &log).await;
        let agent = parking(ScriptedModel::new().say("done"), &store, &log);
        let nested = (1..depth).fold(json!({}), |inner, _| json!({"n": inner}));
        let decisions = [
            Decision::edit(&calls[0], nested),
            Decision::deny(&calls[1], "no"),
        ];
        let resumed = agent.session("s").resume(decisions).await;
        if depth <= 100 {
            assert_eq!(resumed.unwrap().text, "done");
            assert_eq!(log.len(), 1);
            continue;
        }

        let error = resumed.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert!(
            error.to_string().contains("nested deeper than 100"),
            "{error:.200}"
        );
        assert_eq!((log.len(), pending(&agent, "s").await.len()), (0, 2));
    }
}

#[cfg(feature = "jsonl")]
#[tokio::test]
async fn deciding_calls_one_by_one_does_not_rewrite_all_pending_calls() {
    use agentcore::session::JsonlStore;

    const CALLS: usize = 60;
    let folder = tempfile::tempdir().unwrap();
    let log = Log::default();
    let build = |model: ScriptedModel| {
        agent(StrictModel::new(model))
            .tool(logged("act", &log))
            .permissions(asking())
            .unanswered(OnUnanswered::Park)
            .store(JsonlStore::open(folder.path()).unwrap())
            .build()
            .unwrap()
    };

    let size = || {
        let files = std::fs::read_dir(folder.path()).unwrap();
        let sizes = files.map(|file| file.unwrap().metadata().unwrap().len());
        sizes.sum::<u64>()
    };

    let args = || json!({"text": "x".repeat(2_000)});
    let calls: Vec<_> = (0..CALLS).map(|_| ("act", args())).collect();
    let first = build(ScriptedModel::new().calls(calls));
    first.session("s").run("Go").await.unwrap();
    let calls = pending(&first, "s").await;
    drop(first);
    let before = size();
    for call in &calls[..CALLS - 1] {
        let agent = build(ScriptedModel::new());
        agent
            .session("s")
            .resume(Decision::allow(call))
            .await
            .unwrap();
    }

    let again = build(ScriptedModel::new().say("done"));
    assert_eq!(pending(&again, "s").await, calls[CALLS - 1..]);
    let output = again
        .session("s")
        .resume(Decision::allow(&calls[CALLS - 1]))
        .await;
    assert_eq!(output.unwrap().text, "done");
    assert!(pending(&again, "s").await.is_empty());

    // Writing all calls again with each decision would take about thirty times as much.
    assert!(size() < before * 4, "{before} became {}", size());
}
