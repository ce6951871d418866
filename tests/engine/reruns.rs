//! Calls that had started when their run was dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;

use agentcore::session::Record;
use agentcore::testing::{ScriptedModel, StrictModel};
use agentcore::tool::{GateRequest, SideEffect};
use agentcore::{
    Agent, AgentState, Answer, ExitReason, FuncTool, Messages, Result, Run, SdkMessage,
    ThreadStore, ToolCall, ToolDecision, async_trait, hook,
};
use serde_json::{Value, json};

use crate::kit::spied_store::{Spied, Spy};
use crate::kit::{Gate, Log, agent, any_object, kinds, logged, result_texts, roles, stored, watch};

/// A tool whose first call never returns, and whose later calls do.
fn halting(name: &'static str, log: &Log) -> FuncTool {
    let (log, times) = (log.clone(), Arc::<AtomicUsize>::default());
    FuncTool::new(name, "Hangs at first", any_object(), move |_cx, args| {
        log.add(format!("{name}{args}"));
        let first = times.fetch_add(1, Ordering::Relaxed) == 0;
        async move {
            if first {
                std::future::pending::<()>().await;
            }
            format!("{name} ran")
        }
    })
}

fn scripted() -> ScriptedModel {
    ScriptedModel::new()
        .calls([
            ("act", json!({"n": 0})),
            ("again", json!({"n": 1})),
            ("once", json!({"n": 2})),
            ("act", json!({"n": 3})),
        ])
        .say("done")
}

/// Starts a run and drops it after `calls` calls have begun.
async fn dropped(agent: &Agent, log: &Log, calls: usize) {
    begin(agent.session("s").run("Go"), log, calls).await;
}

/// Polls a run until `calls` calls have begun, and drops it.
async fn begin(mut run: Run, log: &Log, calls: usize) {
    while log.len() < calls {
        assert!(run.next().await.is_some(), "{:?}", log.take());
        while let Poll::Ready(Some(_)) = futures::poll!(run.next()) {}
    }
}

#[tokio::test]
async fn idempotent_calls_of_a_dropped_run_run_again_and_others_do_not() {
    let log = Log::default();
    let model = scripted();
    let agent = agent(StrictModel::new(model.clone()))
        .tool(halting("again", &log).idempotent())
        .tool(halting("once", &log))
        .tool(logged("act", &log).exclusive())
        .build()
        .unwrap();
    dropped(&agent, &log, 3).await;
    assert_eq!(
        log.take(),
        ["act{\"n\":0}", "again{\"n\":1}", "once{\"n\":2}"]
    );
    let (messages, output) = watch(agent.session("s").run("And?")).await;
    let output = output.unwrap();
    assert_eq!(log.take(), ["again{\"n\":1}"]);
    let texts = result_texts(&output.messages);
    assert_eq!(texts[0], "act ran");
    assert_eq!(texts[1], "again ran");
    assert!(texts[2].contains("may have run"), "{texts:?}");
    assert!(texts[3].contains("did not run"), "{texts:?}");
    assert_eq!(
        roles(&output.messages),
        "user assistant tool tool tool tool user assistant"
    );
    assert_eq!(stored(&agent, "s").await, output.messages);
    let kinds = kinds(&messages);
    assert_eq!(kinds[0], "system/init");
    assert!(kinds.contains(&"tool_progress".to_owned()), "{kinds:?}");
    model.assert_finished();
}

#[tokio::test]
async fn finished_call_of_a_dropped_run_keeps_its_result() {
    let log = Log::default();
    let model = ScriptedModel::new()
        .calls([
            ("once", json!({"n": 0})),
            ("act", json!({"n": 1})),
            ("act", json!({"n": 2})),
        ])
        .say("done");
    let agent = agent(StrictModel::new(model.clone()))
        .tool(halting("once", &log))
        .tool(logged("act", &log))
        .build()
        .unwrap();
    dropped(&agent, &log, 3).await;
    let stored = agent.store().load("s").await.unwrap().unwrap();
    assert_eq!(roles(&stored.state.messages), "user assistant");
    assert_eq!((stored.started.len(), stored.ended.len()), (1, 2));

    let output = agent.session("s").run("And?").await.unwrap();
    let texts = result_texts(&output.messages);
    assert!(texts[0].contains("may have run"), "{texts:?}");
    assert_eq!(texts[1..], ["act ran", "act ran"]);
    assert_eq!(log.take().len(), 3);
    let stored = agent.store().load("s").await.unwrap().unwrap();
    assert!(stored.started.is_empty() && stored.ended.is_empty());
    model.assert_finished();
}

#[tokio::test]
async fn idempotent_read_only_calls_run_again_without_a_stored_start() {
    for effect in [SideEffect::None, SideEffect::ReadOnly] {
        let log = Log::default();
        let model = scripted();
        let agent = agent(StrictModel::new(model.clone()))
            .tool(halting("again", &log).side_effect(effect).idempotent())
            .tool(halting("once", &log).side_effect(effect))
            .tool(logged("act", &log).side_effect(effect).exclusive())
            .build()
            .unwrap();
        dropped(&agent, &log, 3).await;
        log.take();
        let output = agent.session("s").run("And?").await.unwrap();
        assert_eq!(log.take(), ["again{\"n\":1}"], "{effect:?}");
        let texts = result_texts(&output.messages);
        assert_eq!(texts[1], "again ran");
        for other in [0, 2, 3] {
            assert!(texts[other].contains("may have run"), "{texts:?}");
        }

        assert_eq!(stored(&agent, "s").await, output.messages);
        model.assert_finished();
    }
}

#[tokio::test]
async fn read_only_call_that_had_not_started_runs_in_the_next_run() {
    let log = Log::default();
    let model = ScriptedModel::new()
        .calls([("act", json!({})), ("look", json!({}))])
        .say("done");
    let act = halting("act", &log).exclusive();
    let look = logged("look", &log).side_effect(SideEffect::ReadOnly);
    let agent = agent(StrictModel::new(model.clone()))
        .tools([act, look.idempotent()])
        .build()
        .unwrap();
    dropped(&agent, &log, 1).await;
    assert_eq!(log.take(), ["act{}"]);
    let output = agent.session("s").run("And?").await.unwrap();
    assert_eq!(log.take(), ["look{}"]);
    let texts = result_texts(&output.messages);
    assert!(texts[0].contains("may have run"), "{texts:?}");
    assert_eq!(texts[1], "look ran");
    model.assert_finished();
}

#[tokio::test]
async fn idempotent_call_is_repeated_until_it_has_a_result() {
    let log = Log::default();
    let times = Arc::<AtomicUsize>::default();
    let tool = FuncTool::new("again", "Hangs twice", any_object(), {
        let log = log.clone();
        move |_cx, _args| {
            log.add("again");
            let hangs = times.fetch_add(1, Ordering::Relaxed) < 2;
            async move {
                if hangs {
                    std::future::pending::<()>().await;
                }

                "at last"
            }
        }
    });

    let model = ScriptedModel::new().call("again", json!({})).say("done");
    let agent = agent(StrictModel::new(model.clone()))
        .tool(tool.idempotent())
        .build()
        .unwrap();
    dropped(&agent, &log, 1).await;
    begin(agent.session("s").run(Messages::new()), &log, 2).await;
    let output = agent.session("s").run(Messages::new()).await;
    let output = output.unwrap();
    assert_eq!(result_texts(&output.messages), ["at last"]);
    assert_eq!(log.take().len(), 3);
    model.assert_finished();
}

#[tokio::test]
async fn idempotent_call_that_is_denied_now_does_not_run_again() {
    let (log, store) = (Log::default(), ThreadStore::new());
    let build = |model: &ScriptedModel, denies: bool| {
        let gate = Gate(move |_: &GateRequest| {
            if denies {
                ToolDecision::deny("not now")
            } else {
                ToolDecision::allow()
            }
        });

        agent(StrictModel::new(model.clone()))
            .tool(halting("again", &log).idempotent())
            .permissions(gate)
            .store(store.clone())
            .build()
            .unwrap()
    };

    let model = ScriptedModel::new().call("again", json!({})).say("done");
    dropped(&build(&model, false), &log, 1).await;
    let output = build(&model, true).session("s").run("And?").await.unwrap();
    assert_eq!(log.len(), 1);
    let texts = result_texts(&output.messages);
    assert!(texts[0].contains("may have run"), "{texts:?}");
    model.assert_finished();
}

#[tokio::test]
async fn idempotent_tool_registered_by_a_hook_runs_again() {
    let log = Log::default();
    let tool = Arc::new(halting("again", &log).idempotent());
    let bring = hook::before_agent_with("bring", tool, |tool, _cx, mut state| async move {
        if !state.messages.is_empty() {
            state.messages.validate_for_model().unwrap();
        }

        state.register_tool(tool);
        Ok(state)
    });

    let model = ScriptedModel::new().call("again", json!({})).say("done");
    let agent = agent(StrictModel::new(model.clone()))
        .hook(bring)
        .build()
        .unwrap();
    dropped(&agent, &log, 1).await;
    let output = agent.session("s").run("And?").await.unwrap();
    assert_eq!(result_texts(&output.messages), ["again ran"]);
    model.assert_finished();
}

#[tokio::test]
async fn reply_to_the_question_about_an_interrupted_call_is_its_result() {
    let log = Log::default();
    let is_asked = Arc::<AtomicBool>::default();
    let has_begun = is_asked.clone();
    let gate = Gate(move |_: &GateRequest| {
        if has_begun.load(Ordering::SeqCst) {
            ToolDecision::ask("again?")
        } else {
            ToolDecision::allow()
        }
    });
    let model = ScriptedModel::new().call("again", json!({})).say("done");
    let agent = agent(StrictModel::new(model.clone()))
        .tool(halting("again", &log).idempotent())
        .permissions(gate)
        .build()
        .unwrap();
    dropped(&agent, &log, 1).await;
    is_asked.store(true, Ordering::SeqCst);
    let mut run = agent.session("s").run("And?");
    let responder = run.responder();
    while let Some(message) = run.next().await {
        if let SdkMessage::PermissionRequest(request) = &message {
            responder.respond(request, Answer::reply("Done by hand."));
        }
    }
    let output = run.into_output().unwrap();
    assert_eq!(result_texts(&output.messages), ["Done by hand."]);
    assert_eq!(log.len(), 1, "it ran once");
    model.assert_finished();
}

/// A store that yields once before each write.
struct Slow;

#[async_trait]
impl Spy for Slow {
    async fn append(&self, _records: &[Record]) -> Result<()> {
        tokio::task::yield_now().await;
        Ok(())
    }

    async fn save(&self, _state: &AgentState) -> Result<()> {
        tokio::task::yield_now().await;
        Ok(())
    }
}

#[tokio::test]
async fn stop_of_a_gate_about_changed_arguments_keeps_the_result_of_an_interrupted_call() {
    let (log, store) = (Log::default(), ThreadStore::new());
    let build = |model: &ScriptedModel, changes: bool| {
        let change = hook::wrap_tool_call("change", move |mut call: ToolCall, next| async move {
            if changes {
                call = call.with_args(json!({"changed": true}));
            }
            next.run(call).await
        });
        let gate = Gate(|request: &GateRequest| match request.call.args["changed"] {
            Value::Null => ToolDecision::allow(),
            _ => ToolDecision::stop("hands off"),
        });

        agent(StrictModel::new(model.clone()))
            .tool(halting("again", &log).idempotent())
            .hook(change)
            .permissions(gate)
            .store(Spied(store.clone(), Slow))
            .build()
            .unwrap()
    };

    let model = ScriptedModel::new().call("again", json!({})).say("done");
    dropped(&build(&model, false), &log, 1).await;
    let output = build(&model, true).session("s").run("And?").await.unwrap();
    assert_eq!(output.end, ExitReason::Interrupted);
    assert_eq!(result_texts(&output.messages), ["Error: hands off"]);
    assert_eq!(stored(&build(&model, false), "s").await, output.messages);

    let output = build(&model, true)
        .session("s")
        .run("And now?")
        .await
        .unwrap();
    assert_eq!(output.end, ExitReason::EndTurn);
    assert_eq!(log.len(), 1);
    model.assert_finished();
}

#[tokio::test]
async fn stop_of_a_gate_about_an_interrupted_call_ends_the_run_of_a_repeated_input() {
    let (log, store) = (Log::default(), ThreadStore::new());
    let model = ScriptedModel::new().call("again", json!({})).say("done");
    let send = |stops: bool| {
        let gate = Gate(move |_: &GateRequest| {
            if stops {
                ToolDecision::stop("hands off")
            } else {
                ToolDecision::allow()
            }
        });

        let agent = agent(StrictModel::new(model.clone()))
            .tool(halting("again", &log).idempotent())
            .permissions(gate)
            .store(store.clone())
            .build()
            .unwrap();
        agent.session("s").input_id("x").run("Go")
    };

    begin(send(false), &log, 1).await;
    let output = send(true).await.unwrap();
    assert_eq!(output.end, ExitReason::Interrupted);
    let texts = result_texts(&output.messages);
    assert!(texts[0].contains("may have run"), "{texts:?}");

    let output = send(false).await.unwrap();
    assert_eq!(output.end, ExitReason::EndTurn);
    assert_eq!(log.len(), 1);
    model.assert_finished();
}
