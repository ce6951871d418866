//! Tools in a run: parallel and exclusive calls, timeouts, panics, and access to the run's state.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use agentcore::sdk::SystemKind;
use agentcore::testing::{ScriptedModel, StrictModel};
use agentcore::tool::SideEffect;
use agentcore::{ExitReason, FuncTool, SdkMessage, Todo, ToolContext, ToolError, ToolOutput, hook};
use serde_json::{Value, json};

use crate::kit::{
    Bomb, Log, agent, any_object, echo, nap, progress, result_texts, results, sleep, stored, watch,
};

#[tokio::test(start_paused = true)]
async fn parallel_calls_run_concurrently_and_results_keep_call_order() {
    let log = Log::default();
    let model = ScriptedModel::new()
        .calls([3, 1, 2].map(|n| ("nap", json!({"n": n}))))
        .say("done");
    let agent = agent(StrictModel::new(model))
        .tool(nap(&log))
        .build()
        .unwrap();
    let (messages, output) = watch(agent.run("Go")).await;
    assert_eq!(result_texts(&output.unwrap().messages), ["3", "1", "2"]);
    assert_eq!(
        log.take(),
        [
            "3 begins", "1 begins", "2 begins", "1 ends", "2 ends", "3 ends"
        ]
    );
    let done: Vec<_> = progress(&messages)
        .iter()
        .filter_map(|progress| progress.data.as_ref())
        .filter(|data| data["state"] == "done")
        .map(|data| data["output"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(done, ["1", "2", "3"], "events come as things finish");
}

#[tokio::test(start_paused = true)]
async fn exclusive_call_runs_alone_in_call_order() {
    let log = Log::default();
    let alone = FuncTool::new("alone", "Alone", any_object(), {
        let log = log.clone();
        move |_cx, _args| {
            let log = log.clone();
            async move {
                log.add("alone begins");
                sleep(1).await;
                log.add("alone ends");
            }
        }
    });

    let model = ScriptedModel::new()
        .calls([
            ("nap", json!({"n": 1})),
            ("alone", json!({})),
            ("nap", json!({"n": 2})),
            ("nap", json!({"n": 3})),
        ])
        .say("done");
    let agent = agent(model)
        .tools([nap(&log), alone.exclusive()])
        .build()
        .unwrap();
    agent.run("Go").await.unwrap();
    assert_eq!(
        log.take(),
        [
            "1 begins",
            "1 ends",
            "alone begins",
            "alone ends",
            "2 begins",
            "3 begins",
            "2 ends",
            "3 ends"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn parallel_tools_limits_concurrent_calls() {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counted = FuncTool::new("counted", "Counts", any_object(), {
        let (now, most) = (now.clone(), most.clone());
        move |_cx, _args| {
            let (now, most) = (now.clone(), most.clone());
            async move {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                sleep(1).await;
                now.fetch_sub(1, Ordering::SeqCst);
            }
        }
    });

    let model = ScriptedModel::new()
        .calls((0..20).map(|_| ("counted", json!({}))))
        .say("done");
    let agent = agent(model)
        .tool(counted)
        .parallel_tools(3)
        .build()
        .unwrap();
    agent.run("Go").await.unwrap();
    assert_eq!(most.load(Ordering::SeqCst), 3);
}

#[tokio::test(start_paused = true)]
async fn tool_panic_is_an_error_result() {
    let sync = FuncTool::new("sync", "Panics", any_object(), |_cx, _args| {
        if true {
            panic!("boom at once");
        }

        async {}
    });

    let later = FuncTool::new("later", "Panics", any_object(), |_cx, _args| async {
        sleep(1).await;
        if true {
            panic!("boom later");
        }
    });

    let dropped = FuncTool::new("dropped", "Panics", any_object(), |_cx, _args| async {
        let _bomb = Bomb;
        std::future::pending::<()>().await;
    });

    let model = ScriptedModel::new()
        .calls(["sync", "later", "dropped", "echo"].map(|name| (name, json!({"text": "fine"}))))
        .say("done");
    let agent = agent(StrictModel::new(model))
        .tools([sync, later, dropped, echo()])
        .build()
        .unwrap();
    let output = agent.run("Go").await.unwrap();
    let texts = result_texts(&output.messages);
    assert_eq!(texts[0], "Error: tool \"sync\" panicked: boom at once");
    assert_eq!(texts[1], "Error: tool \"later\" panicked: boom later");
    assert!(texts[2].contains("timed out"), "{}", texts[2]);
    assert_eq!((&*texts[3], &*output.text), ("fine", "done"));
}

#[tokio::test(start_paused = true)]
async fn tool_without_progress_times_out() {
    let steady = FuncTool::new(
        "steady",
        "Progresses",
        any_object(),
        |cx, _args| async move {
            for n in 0..4 {
                sleep(90).await;
                cx.progress(json!({"step": n})).await;
            }

            "steady"
        },
    );
    let own = crate::kit::stuck().timeout(Duration::from_secs(7));
    let model = ScriptedModel::new()
        .calls([("steady", json!({})), ("stuck", json!({}))])
        .say("done");
    let agent = agent(model).tools([steady, own]).build().unwrap();
    let (messages, output) = watch(agent.run("Go")).await;
    let output = output.unwrap();
    let texts = result_texts(&output.messages);
    assert_eq!(texts[0], "steady");
    assert!(texts[1].contains("no progress for 7s"), "{}", texts[1]);
    let of_steady: Vec<_> = progress(&messages)
        .into_iter()
        .filter(|progress| &*progress.tool_name == "steady")
        .collect();
    let steps = of_steady
        .iter()
        .filter_map(|progress| progress.data.as_ref()?["step"].as_u64())
        .collect::<Vec<_>>();
    assert_eq!(steps, [0, 1, 2, 3]);
    let beats = of_steady.iter().filter(|progress| progress.heartbeat);
    assert!(
        beats.clone().count() >= 60,
        "a sign of life every few seconds"
    );
    assert!(beats.map(|beat| beat.elapsed_time_seconds).is_sorted());
}

#[tokio::test]
async fn call_with_arguments_that_violate_the_schema_does_not_run() {
    let log = Log::default();
    let seen = log.clone();
    let schema = json!({
        "type": "object",
        "properties": {"n": {"type": "integer"}},
        "required": ["n"],
    });

    let strict = FuncTool::new("strict", "Strict", schema, move |_cx, args| {
        seen.add(args.to_string());
        async { "ran" }
    });

    let model = ScriptedModel::new()
        .calls([
            ("strict", json!({})),
            ("strict", json!({"n": "x"})),
            ("strict", json!({"n": 1})),
        ])
        .say("done");
    let agent = agent(model).tool(strict).build().unwrap();
    let (messages, output) = watch(agent.run("Go")).await;
    let texts = result_texts(&output.unwrap().messages);
    assert!(
        texts[0].contains("\"n\"") && texts[1].contains("/n"),
        "{texts:?}"
    );
    assert_eq!(texts[2], "ran");
    assert_eq!(log.take(), ["{\"n\":1}"]);
    assert_eq!(
        progress(&messages).len(),
        2,
        "only calls that ran have progress"
    );
}

#[tokio::test]
async fn result_details_and_display_are_passed_in_tool_use_result() {
    let rich = FuncTool::new(
        "rich",
        "Rich",
        any_object(),
        |_cx, args: Value| async move {
            match args["fail"].as_bool() {
                Some(true) => Err(ToolError::new("Error: no such city")
                    .with_details(json!({"code": 4}))
                    .into()),
                _ => Ok::<_, agentcore::BoxError>(
                    ToolOutput::new("")
                        .with_details(json!({"n": 1}))
                        .with_display("One")
                        .silent(),
                ),
            }
        },
    );
    let model = ScriptedModel::new()
        .calls([("rich", json!({})), ("rich", json!({"fail": true}))])
        .say("done");
    let agent = agent(StrictModel::new(model)).tool(rich).build().unwrap();
    let (messages, output) = watch(agent.run("Go")).await;
    let results = results(&output.unwrap().messages);
    assert_eq!(results[0].content.text(), "(no output)");
    assert_eq!(
        results[1].content.text(),
        "Error: no such city",
        "the prefix stands once"
    );
    assert_eq!(
        for_programs(&messages).unwrap(),
        json!([
            {"tool_use_id": "call_1", "details": {"n": 1}, "display": "One", "silent": true},
            {"tool_use_id": "call_2", "details": {"code": 4}},
        ])
    );
}

fn for_programs(messages: &[SdkMessage]) -> Option<Value> {
    messages.iter().find_map(|message| match message {
        SdkMessage::User(user) => user.tool_use_result.clone(),
        _ => None,
    })
}

#[tokio::test]
async fn tool_use_result_is_an_object_for_one_result_and_a_list_for_several() {
    let rich = || {
        FuncTool::new("rich", "Rich", any_object(), |_cx, _args| async {
            ToolOutput::new("text").with_details(json!([1]))
        })
    };

    let entry = json!({"tool_use_id": "call_1", "details": [1]});
    let none = json!({"text": "plain"});
    for (calls, expected) in [
        (vec![("rich", json!({}))], Some(entry.clone())),
        (
            vec![("rich", json!({})), ("echo", none.clone())],
            Some(json!([entry])),
        ),
        (vec![("echo", none.clone()), ("echo", none)], None),
    ] {
        let model = ScriptedModel::new().calls(calls).say("done");
        let agent = agent(model).tool(rich()).tool(echo()).build().unwrap();
        let (messages, _) = watch(agent.run("Go")).await;
        assert_eq!(for_programs(&messages), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn state_is_shared_by_parallel_tools_and_read_only_after_the_call() {
    let contexts = Arc::new(std::sync::Mutex::new(Vec::<ToolContext>::new()));
    let write = FuncTool::new("write", "Writes", any_object(), {
        let contexts = contexts.clone();
        move |cx, args: Value| {
            contexts.lock().unwrap().push(cx.clone());
            async move {
                let id = args["id"].as_str().unwrap().to_owned();
                sleep(1).await;
                cx.with_state(|mut view| {
                    assert_eq!(view.messages.len(), 2, "the history can be read");
                    view.todos_mut().push(Todo::new(&*id, "Look"));
                    view.files_mut().insert(id.as_str().into(), "text".into());
                });

                "ok"
            }
        }
    });

    let model = ScriptedModel::new()
        .calls(["a", "b", "c"].map(|id| ("write", json!({"id": id}))))
        .say("done");
    let late = hook::before_stop_with(
        "late",
        contexts.clone(),
        |contexts, _cx, _response| async move {
            let contexts = contexts.lock().unwrap().clone();
            for cx in &contexts {
                cx.with_state(|mut view| view.todos_mut().clear());
                assert!(cx.cancellation().is_cancelled());
                cx.progress("too late").await;
            }

            Ok(agentcore::StopDecision::Stop)
        },
    );

    let agent = agent(model).tool(write).hook(late).build().unwrap();
    let (messages, output) = watch(agent.session("s").run("Go")).await;
    let output = output.unwrap();
    assert_eq!((output.state.todos.len(), output.state.files.len()), (3, 3));
    let changes = messages.iter().filter_map(|message| match message {
        SdkMessage::System(event) => match &event.kind {
            SystemKind::StateChanged { todos, files } => Some((todos, files)),
            _ => None,
        },
        _ => None,
    });

    let changes: Vec<_> = changes
        .map(|(todos, files)| (todos.as_ref().unwrap().len(), files.clone().unwrap()))
        .collect();

    // Each change has all tasks, but only the changed files.
    let expected = [(1, "a"), (2, "b"), (3, "c")].map(|(n, path)| (n, vec![path.to_owned()]));
    assert_eq!(changes, expected);
    assert_eq!(progress(&messages).len(), 6);
    let state = agent.session("s").state().await.unwrap().unwrap();
    assert_eq!(state.todos.len(), 3);
}

#[tokio::test]
async fn state_inside_state_is_an_error_result_not_a_deadlock() {
    let nested = FuncTool::new("nested", "Nests", any_object(), |cx, _args| async move {
        let inner = cx.clone();
        cx.with_state(|_| inner.with_state(|_| ()));
    });

    let model = ScriptedModel::new()
        .call("nested", json!({}))
        .call("echo", json!({"text": "x"}))
        .say("done");
    let agent = agent(model).tools([nested, echo()]).build().unwrap();
    let output = agent.run("Go").await.unwrap();
    let texts = result_texts(&output.messages);
    assert!(
        texts[0].contains("with_state was called inside with_state"),
        "{texts:?}"
    );
    assert_eq!(texts[1], "x");
}

#[tokio::test(start_paused = true)]
async fn cancellation_token_of_a_call_is_cancelled_when_it_ends() {
    for interrupt in [false, true] {
        let is_cancelled = Arc::new(AtomicBool::new(false));
        let side = FuncTool::new("side", "Spawns", any_object(), {
            let is_cancelled = is_cancelled.clone();
            move |cx, _args| {
                let (token, is_cancelled) = (cx.cancellation().clone(), is_cancelled.clone());
                tokio::spawn(async move {
                    token.cancelled().await;
                    is_cancelled.store(true, Ordering::SeqCst);
                });

                std::future::pending::<()>()
            }
        });

        let agent = agent(ScriptedModel::new().call("side", json!({})))
            .tool(side)
            .build()
            .unwrap();
        let mut run = agent.session("s").run("Go");
        while futures::poll!(run.next()).is_ready() {}
        if interrupt {
            run.handle().interrupt();
            assert_eq!(run.await.unwrap().end, ExitReason::Interrupted);
        } else {
            drop(run);
        }

        tokio::time::timeout(Duration::from_secs(1), async {
            while !is_cancelled.load(Ordering::SeqCst) {
                tokio::task::yield_now().await;
            }
        })
        .await
        .unwrap();
        assert!(!stored(&agent, "s").await.is_empty());
    }
}

#[tokio::test]
async fn start_is_stored_only_for_calls_with_side_effects() {
    for (effect, expected) in [
        (SideEffect::None, 0),
        (SideEffect::ReadOnly, 0),
        (SideEffect::Mutating, 1),
        (SideEffect::Network, 1),
    ] {
        let tool = crate::kit::stuck().side_effect(effect);
        let model = ScriptedModel::new().call("stuck", json!({})).say("done");
        let agent = agent(model).tool(tool).build().unwrap();
        let mut run = agent.session("s").run("Go");
        while futures::poll!(run.next()).is_ready() {}
        drop(run);
        let stored_session = agent.store().load("s").await.unwrap().unwrap();
        assert_eq!(stored_session.started.len(), expected, "{effect:?}");
        // The call had begun, so its result must not claim that it did not run.
        let output = agent.session("s").run("And?").await.unwrap();
        let text = &result_texts(&output.messages)[0];
        assert!(text.contains("may have run"), "{effect:?}: {text}");
    }
}
