//! Hooks that fail, panic or hang, in each phase.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agentcore::hook;
use agentcore::sdk::SystemKind;
use agentcore::testing::{ScriptedModel, StrictModel};
use agentcore::{
    AgentState, ErrorKind, ExitReason, FuncTool, RunContext, SdkMessage, Todo, ToolDecision,
};
use serde_json::json;

use crate::kit::{agent, any_object, echo, result_texts, roles, sleep, stored, warnings, watch};

/// The fault of a hook.
#[derive(Clone, Copy)]
enum Fault {
    Error,
    Panic,
    Hang,
}

const FAULTS: [(Fault, &str); 3] = [
    (Fault::Error, "hook `bad` failed in"),
    (Fault::Panic, "hook `bad` panicked in"),
    (Fault::Hang, "hook `bad` took longer than 60s in"),
];

impl Fault {
    async fn strike<T>(self) -> agentcore::Result<T> {
        match self {
            Self::Error => Err("broken".into()),
            Self::Panic => panic!("broken"),
            Self::Hang => std::future::pending().await,
        }
    }
}

/// Changes all state that a hook can change through its context.
fn change_state(cx: &RunContext) {
    cx.set_value(1_u8);
    cx.with_state(|mut view| {
        view.todos_mut().push(Todo::new("1", "lost"));
        view.files_mut().insert("lost".into(), "text".into());
    });
}

#[track_caller]
fn assert_unchanged(state: &AgentState) {
    assert!(state.todos.is_empty() && state.files.is_empty() && state.values.is_empty());
}

#[tokio::test(start_paused = true)]
async fn hook_fault_before_the_model_call_ends_the_run_and_keeps_the_history() {
    for (fault, words) in FAULTS {
        for (phase, bad, history) in [
            (
                "before_agent",
                hook::before_agent("bad", move |cx, _state| {
                    change_state(&cx);
                    fault.strike()
                }),
                "user assistant",
            ),
            (
                "modify_request",
                hook::modify_request("bad", move |cx, _messages| {
                    change_state(&cx);
                    fault.strike()
                }),
                "user assistant user",
            ),
            (
                "wrap_model_call",
                hook::wrap_model_call("bad", move |_request, next| {
                    change_state(next.context());
                    fault.strike()
                }),
                "user assistant user",
            ),
        ] {
            let store = agentcore::ThreadStore::new();
            let first = agent(ScriptedModel::new().say("Hello."))
                .store(store.clone())
                .build()
                .unwrap();
            first.session("s").run("Hi").await.unwrap();
            let agent = agent(ScriptedModel::new())
                .store(store)
                .hook(bad)
                .build()
                .unwrap();
            let error = agent.session("s").run("Go").await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Hook);
            assert!(error.to_string().starts_with(words), "{error}");
            assert!(error.to_string().contains(phase), "{error}");
            let partial = error.partial().unwrap();
            assert_eq!(roles(&partial.messages), history);
            assert_unchanged(&partial.state);
            assert_eq!(roles(&stored(&agent, "s").await), history);
        }
    }
}

#[tokio::test]
async fn failed_model_call_discards_the_changes_of_all_its_hooks() {
    let keeps = hook::before_agent("keeps", |cx, state| async move {
        cx.with_state(|mut view| view.todos_mut().push(Todo::new("1", "kept")));
        cx.set_value(1_u16);
        Ok(state)
    });
    let changes = hook::modify_request("changes", |cx, messages| async move {
        change_state(&cx);
        Ok(messages)
    });
    let bad = hook::wrap_model_call("bad", |request, next| async move {
        next.run(request).await?;
        Err("broken".into())
    });
    let agent = agent(ScriptedModel::new().say("unused"))
        .hooks([keeps, changes, bad])
        .build()
        .unwrap();
    let (messages, output) = watch(agent.session("s").run("Go")).await;
    let error = output.unwrap_err();
    let state = &error.partial().unwrap().state;
    assert_eq!((state.todos.len(), &*state.todos[0].title), (1, "kept"));
    assert!(state.files.is_empty() && state.values.len() == 1);

    // The stream reports the undone change as well.
    let last = messages.iter().rev().find_map(|message| match message {
        SdkMessage::System(event) => match &event.kind {
            SystemKind::StateChanged { todos, files } => Some((todos.clone(), files.clone())),
            _ => None,
        },
        _ => None,
    });
    let (todos, files) = last.unwrap();
    assert_eq!(todos.unwrap().len(), 1);
    assert_eq!(files.unwrap(), ["lost"]);
}

#[tokio::test]
async fn interrupt_before_the_model_call_leaves_the_history_unchanged() {
    let changes = hook::before_agent("changes", |_cx, mut state| async move {
        state.messages = state.messages.human("forged").ai("Aye.");
        Ok(state)
    });

    let hangs = hook::before_agent("hangs", |cx, _state| async move {
        cx.with_state(|mut view| view.todos_mut().push(Todo::new("1", "Wait")));
        std::future::pending().await
    });

    let agent = agent(ScriptedModel::new())
        .hook(changes)
        .hook(hangs)
        .build()
        .unwrap();
    let mut run = agent.session("s").run("Go");
    assert!(futures::poll!(run.next()).is_pending());
    run.handle().interrupt();
    let output = run.await.unwrap();
    assert_eq!(output.end, ExitReason::Interrupted);
    assert_eq!(roles(&output.messages), "");
    assert!(output.state.todos.is_empty());
    assert!(agent.session("s").state().await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn hook_fault_around_a_tool_call_is_its_error_result() {
    for (fault, words) in FAULTS {
        for (phase, bad) in [
            (
                "pre_tool_use",
                hook::pre_tool_use("bad", move |_cx, call| async move {
                    match &*call.id {
                        "call_1" => fault.strike().await,
                        _ => Ok(ToolDecision::proceed()),
                    }
                }),
            ),
            (
                "wrap_tool_call",
                hook::wrap_tool_call("bad", move |call, next| async move {
                    match &*call.id {
                        "call_1" => fault.strike().await,
                        _ => next.run(call).await,
                    }
                }),
            ),
            (
                "post_tool_use",
                hook::post_tool_use("bad", move |_cx, call, result| async move {
                    match &*call.id {
                        "call_1" => fault.strike().await,
                        _ => Ok(result),
                    }
                }),
            ),
        ] {
            let model = ScriptedModel::new()
                .calls([
                    ("echo", json!({"text": "a"})),
                    ("echo", json!({"text": "b"})),
                ])
                .say("done");
            let agent = agent(StrictModel::new(model))
                .tool(echo())
                .hook(bad)
                .build()
                .unwrap();
            let output = agent.run("Go").await.unwrap();
            let texts = result_texts(&output.messages);
            assert!(
                texts[0].starts_with(&format!("Error: {words}")),
                "{texts:?}"
            );
            assert!(texts[0].contains(phase), "{texts:?}");
            assert_eq!((&*texts[1], &*output.text), ("b", "done"));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn hook_fault_at_the_end_of_a_run_is_a_warning() {
    for (fault, words) in FAULTS {
        let hooks = [
            hook::before_stop("bad", move |cx, _response| {
                change_state(&cx);
                fault.strike()
            }),
            hook::after_agent("bad", move |cx, _state| {
                change_state(&cx);
                fault.strike()
            }),
        ];
        let agent = agent(ScriptedModel::new().say("done"))
            .hooks(hooks)
            .build()
            .unwrap();
        let (messages, output) = watch(agent.session("s").run("Go")).await;
        let output = output.unwrap();
        assert_eq!(output.text, "done");
        assert_unchanged(&output.state);
        let warnings = warnings(&messages);
        assert_eq!(warnings.len(), 2, "{warnings:?}");
        assert!(
            warnings.iter().all(|text| text.starts_with(words)),
            "{warnings:?}"
        );
        assert_eq!(roles(&stored(&agent, "s").await), "user assistant");
    }
}

#[tokio::test(start_paused = true)]
async fn call_repeated_by_a_hook_has_the_full_tool_timeout_again() {
    let hangs = Arc::new(AtomicBool::new(true));
    let slow = FuncTool::new("slow", "Hangs at first", any_object(), move |_cx, _args| {
        let hangs = hangs.swap(false, Ordering::Relaxed);
        async move {
            if hangs {
                std::future::pending::<()>().await;
            }

            sleep(5).await;
            "done"
        }
    })
    .idempotent();
    let again = hook::wrap_tool_call("again", |call, next| async move {
        let result = next.run(call.clone()).await?;
        if result.is_error {
            next.run(call).await
        } else {
            Ok(result)
        }
    });

    let model = ScriptedModel::new().call("slow", json!({})).say("done");
    let agent = agent(model)
        .tool(slow)
        .hook(again)
        .tool_timeout(Duration::from_secs(10))
        .build()
        .unwrap();
    let output = agent.run("Go").await.unwrap();
    assert_eq!(result_texts(&output.messages), ["done"]);
}

#[tokio::test(start_paused = true)]
async fn wait_of_a_hook_before_a_call_does_not_reduce_the_tool_timeout() {
    let slow = FuncTool::new("slow", "Sleeps", any_object(), |_cx, _args| async {
        sleep(5).await;
        "done"
    });

    let waits = hook::wrap_tool_call("waits", |call, next| async move {
        sleep(30).await;
        next.run(call).await
    });

    let model = ScriptedModel::new().call("slow", json!({})).say("done");
    let agent = agent(model)
        .tool(slow)
        .hook(waits)
        .tool_timeout(Duration::from_secs(10))
        .build()
        .unwrap();
    let output = agent.run("Go").await.unwrap();
    assert_eq!(result_texts(&output.messages), ["done"]);
}
