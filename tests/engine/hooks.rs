//! Hooks: their order, the changes they may make, and their failures.

use std::time::Duration;

use agentcore::hook::{self, FnHook};
use agentcore::model::{Stability, SystemPrompt};
use agentcore::testing::ScriptedModel;
use agentcore::{
    AgentState, Error, ErrorKind, ExitReason, Message, ModelResponse, StopDecision, Todo,
    ToolDecision, ToolResult,
};
use serde_json::json;

use crate::kit::{
    Gate, Log, agent, any_object, echo, logged, result_texts, roles, sleep, stored, warnings, watch,
};

fn onions(name: &'static str, log: &Log) -> [FnHook; 2] {
    let model =
        hook::wrap_model_call_with(name, log.clone(), move |log, request, next| async move {
            log.add(format!("{name}-in"));
            let response = next.run(request).await;
            log.add(format!("{name}-out"));
            response
        });
    let tool = hook::wrap_tool_call_with(name, log.clone(), move |log, call, next| async move {
        log.add(format!("{name}-tool-in"));
        let result = next.run(call).await;
        log.add(format!("{name}-tool-out"));
        result
    });

    [model, tool]
}

#[tokio::test]
async fn first_hook_is_outermost_for_model_and_tool_calls() {
    let log = Log::default();
    let model = ScriptedModel::new().call("act", json!({})).say("done");
    let agent = agent(model)
        .tool(logged("act", &log))
        .hooks(
            ["A", "B", "C"]
                .into_iter()
                .flat_map(|name| onions(name, &log)),
        )
        .build()
        .unwrap();
    agent.run("Go").await.unwrap();
    let model = ["A-in", "B-in", "C-in", "C-out", "B-out", "A-out"];
    let tool = [
        "A-tool-in",
        "B-tool-in",
        "C-tool-in",
        "act{}",
        "C-tool-out",
        "B-tool-out",
        "A-tool-out",
    ];
    let expected: Vec<_> = model.iter().chain(&tool).chain(&model).copied().collect();
    assert_eq!(log.take(), expected);
}

fn every_phase(log: &Log) -> [FnHook; 8] {
    let log = || log.clone();
    [
        hook::before_agent_with("h", log(), |log, _cx, state| async move {
            log.add("before_agent");
            Ok(state)
        }),
        hook::modify_request_with("h", log(), |log, _cx, messages| async move {
            log.add("modify_request");
            Ok(messages)
        }),
        hook::wrap_model_call_with("h", log(), |log, request, next| async move {
            log.add("wrap_model_call");
            next.run(request).await
        }),
        hook::pre_tool_use_with("h", log(), |log, _cx, call| async move {
            log.add(format!("pre_tool_use {}", call.name));
            Ok(ToolDecision::proceed())
        }),
        hook::wrap_tool_call_with("h", log(), |log, call, next| async move {
            log.add("wrap_tool_call");
            next.run(call).await
        }),
        hook::post_tool_use_with(
            "h",
            log(),
            |log, _cx, _call, mut result: ToolResult| async move {
                log.add(format!("post_tool_use {}", result.content.text()));
                result.content = "changed".into();
                Ok(result)
            },
        ),
        hook::before_stop_with("h", log(), |log, _cx, response| async move {
            log.add(format!("before_stop {}", response.text()));
            Ok(StopDecision::Stop)
        }),
        hook::after_agent_with("h", log(), |log, _cx, state| async move {
            let text = state.response.as_ref().unwrap().text().into_owned();
            let added = state.output_messages.len();
            log.add(format!("after_agent {text} {added}"));
            Ok(state)
        }),
    ]
}

#[tokio::test]
async fn closures_can_implement_every_phase() {
    let log = Log::default();
    let model = ScriptedModel::new()
        .call("echo", json!({"text": "x"}))
        .say("done");
    let agent = agent(model)
        .tool(echo())
        .hooks(every_phase(&log))
        .build()
        .unwrap();
    let output = agent.run("Go").await.unwrap();
    assert_eq!(result_texts(&output.messages), ["changed"]);
    assert_eq!(
        log.take(),
        [
            "before_agent",
            "modify_request",
            "wrap_model_call",
            "pre_tool_use echo",
            "wrap_tool_call",
            "post_tool_use x",
            "modify_request",
            "wrap_model_call",
            "before_stop done",
            "after_agent done 4",
        ]
    );
}

#[tokio::test]
async fn modify_request_never_changes_the_stored_history() {
    let inject = hook::modify_request("inject", |_cx, mut messages: agentcore::Messages| async {
        messages.insert(0, Message::human("injected"));
        Ok(messages)
    });

    let once = |request: &agentcore::ModelRequest| {
        let times = request
            .messages
            .iter()
            .filter(|message| message.text() == "injected")
            .count();
        assert_eq!(times, 1);
    };

    let model = ScriptedModel::new()
        .expect(once)
        .call("echo", json!({"text": "x"}))
        .expect(once)
        .say("done");
    let agent = agent(model).tool(echo()).hook(inject).build().unwrap();
    let output = agent.session("s").run("Go").await.unwrap();
    assert_eq!(roles(&output.messages), "user assistant tool assistant");
    assert_eq!(stored(&agent, "s").await, output.messages);
}

#[tokio::test]
async fn invalid_messages_from_modify_request_are_a_hook_error() {
    let spoil = hook::modify_request("spoil", |_cx, messages: agentcore::Messages| async move {
        Ok(messages.tool("nobody", "asked", "this"))
    });
    let model = ScriptedModel::new();
    let agent = agent(model).hook(spoil).build().unwrap();
    let error = agent.session("s").run("Go").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Hook);
    assert!(error.to_string().contains("`spoil`"), "{error}");
    assert_eq!(roles(&stored(&agent, "s").await), "user");
}

/// A hook around the model call that adds a result without a call.
fn orphan_result(name: &'static str) -> FnHook {
    hook::wrap_model_call(name, |mut request, next| async move {
        request.messages = request.messages.tool("nobody", "asked", "this");
        next.run(request).await
    })
}

fn passing(name: &'static str) -> FnHook {
    hook::wrap_model_call(name, |request, next| async move { next.run(request).await })
}

#[tokio::test]
async fn invalid_messages_from_wrap_model_call_are_an_error_that_names_the_hook() {
    for hooks in [
        vec![orphan_result("spoil")],
        vec![passing("outer"), orphan_result("spoil")],
        vec![orphan_result("spoil"), passing("inner")],
    ] {
        let model = ScriptedModel::new().say("unseen");
        let agent = agent(model.clone()).hooks(hooks).build().unwrap();
        let error = agent.session("s").run("Go").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Hook);
        let text = error.to_string();
        let names_others = text.contains("`outer`") || text.contains("`inner`");
        assert!(text.contains("`spoil`") && !names_others, "{text}");
        assert!(text.contains("message[1]: result for \"nobody\""), "{text}");
        assert!(model.requests().is_empty(), "the model was called");
        assert_eq!(roles(&stored(&agent, "s").await), "user");
    }
}

#[tokio::test]
async fn hook_may_run_the_unchanged_request_after_its_messages_were_refused() {
    let careful = hook::wrap_model_call("careful", |request, next| async move {
        let mut changed = request.clone();
        changed.messages = changed.messages.tool("nobody", "asked", "this");
        match next.run(changed).await {
            Ok(_) => Err("the messages were accepted".into()),
            Err(_) => next.run(request).await,
        }
    });

    let model = ScriptedModel::new().say("done");
    let agent = agent(model.clone()).hook(careful).build().unwrap();
    assert_eq!(agent.run("Go").await.unwrap().text, "done");
    assert_eq!(model.requests().len(), 1);
}

#[tokio::test]
async fn valid_messages_from_wrap_model_call_pass_the_inner_hooks() {
    let add = hook::wrap_model_call("add", |mut request, next| async move {
        request.messages.push(Message::human("Be brief."));
        next.run(request).await
    });

    let model = ScriptedModel::new()
        .call("echo", json!({"text": "x"}))
        .say("done");
    let agent = agent(model.clone())
        .tool(echo())
        .hooks([add, passing("inner")])
        .build()
        .unwrap();
    assert_eq!(agent.run("Go").await.unwrap().text, "done");
    let texts: Vec<_> = model
        .requests()
        .iter()
        .map(|request| roles(&request.messages))
        .collect();
    assert_eq!(texts, ["user user", "user assistant tool user"]);
}

#[tokio::test(start_paused = true)]
async fn inner_time_of_model_and_tool_does_not_count_as_hook_time() {
    let slow = agentcore::FuncTool::new("slow", "Slow", any_object(), |_cx, _args| async {
        sleep(100).await;
        "done"
    });

    let log = Log::default();
    let model = ScriptedModel::new()
        .call("slow", json!({}))
        .delayed(Duration::from_secs(100))
        .say("done");
    let agent = agent(model)
        .tool(slow)
        .hooks(onions("A", &log))
        .hook_timeout(Duration::from_secs(5))
        .build()
        .unwrap();
    let output = agent.run("Go").await.unwrap();
    assert_eq!(
        (result_texts(&output.messages), &*output.text),
        (vec!["done".into()], "done")
    );
}

#[tokio::test(start_paused = true)]
async fn hook_time_starts_over_after_a_call_that_has_waited() {
    for (seconds_after, is_in_time) in [(4, true), (6, false)] {
        let hook = hook::wrap_model_call("retry", move |request, next| async move {
            sleep(4).await;
            let response = next.run(request).await;
            sleep(seconds_after).await;
            response
        });

        let model = ScriptedModel::new()
            .say("done")
            .delayed(Duration::from_secs(100));
        let agent = agent(model)
            .hook(hook)
            .hook_timeout(Duration::from_secs(5))
            .build()
            .unwrap();
        let outcome = agent.run("Go").await;
        if is_in_time {
            assert_eq!(outcome.unwrap().text, "done");
        } else {
            let error = outcome.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Hook);
            assert!(error.text().contains("took longer than 5s"), "{error}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn hook_time_continues_after_a_call_that_ends_in_another_task() {
    let hook = hook::wrap_model_call("audit", |request, next| async move {
        let task = tokio::spawn(async move {
            let response = next.run(request).await;
            std::future::pending::<()>().await;
            response
        });
        task.await.unwrap()
    });

    let model = ScriptedModel::new()
        .say("done")
        .delayed(Duration::from_secs(100));
    let agent = agent(model)
        .hook(hook)
        .hook_timeout(Duration::from_secs(5))
        .build()
        .unwrap();
    let run = async { agent.run("Go").await };
    let outcome = tokio::time::timeout(Duration::from_secs(1_000), run).await;
    let error = outcome.expect("the run ends").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Hook);
    assert!(error.text().contains("took longer than 5s"), "{error}");
}

#[tokio::test]
async fn hook_may_return_a_result_without_calling_next() {
    let log = Log::default();
    let hooks = [
        hook::wrap_tool_call("fake", |call, _next| async move {
            Ok(ToolResult::ok(&call, "fake"))
        }),
        hook::wrap_model_call("memory", |request, next| async move {
            match request.messages.last_content().as_ref() {
                "fake" => Ok(ModelResponse::new("from memory")),
                _ => next.run(request).await,
            }
        }),
    ];
    let model = ScriptedModel::new().call("act", json!({}));
    let agent = agent(model)
        .tool(logged("act", &log))
        .hooks(hooks)
        .build()
        .unwrap();
    let output = agent.run("Go").await.unwrap();
    assert_eq!((&*output.text, log.len()), ("from memory", 0));
}

#[tokio::test]
async fn hook_may_repeat_a_call_only_of_an_idempotent_tool() {
    for idempotent in [false, true] {
        let log = Log::default();
        let tool = logged("act", &log);
        let tool = if idempotent { tool.idempotent() } else { tool };
        let twice = hook::wrap_tool_call("twice", |call, next| async move {
            next.run(call.clone()).await?;
            next.run(call).await
        });

        let model = ScriptedModel::new().call("act", json!({})).say("done");
        let agent = agent(model).tool(tool).hook(twice).build().unwrap();
        let output = agent.run("Go").await.unwrap();
        let text = result_texts(&output.messages).remove(0);
        if idempotent {
            assert_eq!((log.len(), &*text), (2, "act ran"));
        } else {
            assert_eq!(log.len(), 1);
            assert!(
                text.contains("`twice`") && text.contains("idempotent"),
                "{text}"
            );
        }
    }
}

#[tokio::test]
async fn usage_of_model_calls_repeated_by_a_hook_is_summed() {
    let again = hook::wrap_model_call("again", |request, next| async move {
        next.run(request.clone()).await?;
        next.run(request).await
    });

    let model = ScriptedModel::new()
        .with_usage(agentcore::Usage::new(10, 1))
        .say("first")
        .say("second");
    let output = agent(model)
        .hook(again)
        .build()
        .unwrap()
        .run("Go")
        .await
        .unwrap();
    assert_eq!((&*output.text, output.turns), ("second", 1));
    assert_eq!(output.usage.input_tokens, 20);
}

#[tokio::test]
async fn error_names_the_hook_that_failed_and_not_the_outer_one() {
    let outer = hook::wrap_model_call(
        "outer",
        |request, next| async move { next.run(request).await },
    );
    let inner = hook::wrap_model_call(
        "inner",
        |_request, _next| async move { Err("broken".into()) },
    );
    let both = agent(ScriptedModel::new())
        .hooks([outer, inner])
        .build()
        .unwrap();
    let error = both.run("Go").await.unwrap_err().to_string();
    assert!(
        error.contains("`inner`") && !error.contains("`outer`"),
        "{error}"
    );

    let outer = hook::wrap_model_call(
        "outer",
        |request, next| async move { next.run(request).await },
    );
    let model = ScriptedModel::new().fail(Error::new(ErrorKind::Auth, "no key"));
    let error = agent(model)
        .hook(outer)
        .build()
        .unwrap()
        .run("Go")
        .await
        .unwrap_err();
    assert_eq!((error.kind(), error.text()), (ErrorKind::Auth, "no key"));
}

#[tokio::test]
async fn strongest_decision_wins_in_any_hook_order() {
    let deny = || hook::pre_tool_use("deny", |_, _| async { Ok(ToolDecision::deny("no")) });
    let ask = || hook::pre_tool_use("ask", |_, _| async { Ok(ToolDecision::ask("sure?")) });
    let allow = || hook::pre_tool_use("allow", |_, _| async { Ok(ToolDecision::allow()) });
    for (hooks, expected) in [
        (vec![allow(), ask(), deny()], "Error: no"),
        (vec![deny(), ask(), allow()], "Error: no"),
        (vec![ask(), allow()], "sure?"),
        (vec![allow()], "x"),
    ] {
        let model = ScriptedModel::new()
            .call("echo", json!({"text": "x"}))
            .say("done");
        let agent = agent(model)
            .tool(echo())
            .hooks(hooks)
            .permissions(Gate(|_: &_| ToolDecision::ask("the mode asks")))
            .build()
            .unwrap();
        let text = result_texts(&agent.run("Go").await.unwrap().messages).remove(0);
        assert!(text.contains(expected), "{text} / {expected}");
    }
}

#[tokio::test]
async fn pre_tool_use_hooks_change_arguments_and_add_context() {
    let hooks = [
        hook::pre_tool_use("args", |_, _| async {
            Ok(ToolDecision::proceed().with_args(json!({"text": "other"})))
        }),
        hook::pre_tool_use("context", |_, call: agentcore::ToolCall| async move {
            assert_eq!(call.args["text"], "other", "the next hook sees the change");
            Ok(ToolDecision::proceed().with_context("It is noon."))
        }),
    ];
    let model = ScriptedModel::new()
        .call("echo", json!({"text": "x"}))
        .say("done");
    let agent = agent(model).tool(echo()).hooks(hooks).build().unwrap();
    let output = agent.run("Go").await.unwrap();
    let text = result_texts(&output.messages).remove(0);
    assert_eq!(text, "other\n\nIt is noon.");
    let asked = output.messages.assistant_messages().next().unwrap();
    let call = asked.tool_calls().next().unwrap();
    assert_eq!(
        call.args["text"], "x",
        "the history keeps the answer of the model"
    );
}

#[tokio::test]
async fn hook_stop_ends_the_run_and_skips_calls_not_yet_started() {
    let log = Log::default();
    let stop = hook::pre_tool_use("stop", |_, call: agentcore::ToolCall| async move {
        Ok(match &*call.name {
            "one" => ToolDecision::stop("enough"),
            _ => ToolDecision::proceed(),
        })
    });

    let model = ScriptedModel::new().calls([("one", json!({})), ("two", json!({}))]);
    let agent = agent(model)
        .tools([logged("one", &log), logged("two", &log).exclusive()])
        .hook(stop)
        .build()
        .unwrap();
    let output = agent.run("Go").await.unwrap();
    assert_eq!(output.end, ExitReason::HookStopped);
    assert_eq!(log.take(), [""; 0]);
    let texts = result_texts(&output.messages);
    assert_eq!(texts[0], "Error: enough");
    assert!(texts[1].contains("did not run"), "{texts:?}");
}

#[tokio::test]
async fn hook_tool_replaces_an_agent_tool_with_a_warning_and_sees_run_values() {
    let hook = hook::before_agent("tools", |cx, mut state: AgentState| async move {
        cx.set_value("from the context".to_owned());
        cx.with_state(|mut view| view.todos_mut().push(Todo::new("1", "from the context")));
        state.values.insert(7_u32);
        state.register_tool(agentcore::FuncTool::new(
            "echo",
            "Another",
            any_object(),
            |cx, _args| async move {
                let number = cx.value::<u32>().unwrap();
                let caller = cx.value::<u8>().unwrap();
                format!("{number} {caller} {}", cx.value::<String>().unwrap())
            },
        ));
        Ok(state)
    });

    let model = ScriptedModel::new()
        .call("echo", json!({}))
        .say("done")
        .say("again");
    let agent = agent(model).tool(echo()).hook(hook).build().unwrap();
    let (messages, output) = watch(agent.session("s").with(1_u8).run("Go")).await;
    let output = output.unwrap();
    assert_eq!(result_texts(&output.messages), ["7 1 from the context"]);
    assert!(warnings(&messages)[0].contains("hides"));
    assert_eq!(output.state.todos.len(), 1);
    let next = agent.session("s").run("More").await;
    assert_eq!(next.unwrap().text, "again");
}

#[tokio::test]
async fn hooks_add_stable_and_volatile_system_prompt_sections() {
    let hooks = [
        hook::before_agent("rules", |cx, state| async move {
            cx.system().set("rules", "Be kind.", Stability::Stable);
            Ok(state)
        }),
        hook::modify_request("clock", |cx, messages| async move {
            let text = format!("Turn {}.", cx.turn());
            cx.system().set("clock", text, Stability::Volatile);
            Ok(messages)
        }),
    ];
    let check = |turn: u32| {
        move |request: &agentcore::ModelRequest| {
            assert_eq!(
                request.system.text_of(Stability::Stable),
                "Be brief.\n\nBe kind.\n\nFrom the input."
            );
            assert_eq!(
                request.system.text_of(Stability::Volatile),
                format!("Turn {turn}.")
            );
        }
    };

    let model = ScriptedModel::new()
        .expect(check(1))
        .call("echo", json!({"text": "x"}))
        .expect(check(2))
        .say("done");
    let agent = agent(model)
        .system_prompt("Be brief.")
        .tool(echo())
        .hooks(hooks)
        .build()
        .unwrap();
    let input = agentcore::Messages::new()
        .system("From the input.")
        .human("Go");
    let output = agent.run(input).await.unwrap();
    assert_eq!(roles(&output.messages), "user assistant tool assistant");
}

#[tokio::test]
async fn prompt_stays_if_before_agent_returns_a_loaded_state() {
    let load = hook::before_agent("load", |_cx, state| async move {
        let text = serde_json::to_string(&state).unwrap();
        let mut loaded: AgentState = serde_json::from_str(&text).unwrap();
        let note = "It is Ada.";
        loaded.system_prompt.set("memory", note, Stability::Stable);
        Ok(loaded)
    });

    let model = ScriptedModel::new().say("done");
    let agent = agent(model.clone())
        .system_prompt("Be brief.")
        .hook(load)
        .build()
        .unwrap();
    agent.run("Go").await.unwrap();
    let system = model.requests()[0].system.to_string();
    assert_eq!(system, "Be brief.\n\nIt is Ada.");
}

#[tokio::test]
async fn sections_of_the_prompt_that_before_agent_removes_or_changes_stay_so() {
    let mut prompt = SystemPrompt::new();
    for id in ["identity", "rules", "style", "place"] {
        prompt.set(id, format!("The {id}."), Stability::Stable);
    }
    let hooks = [
        hook::before_agent("context", |cx, state| async move {
            cx.system().set("style", "Be brief.", Stability::Stable);
            cx.system().remove("place");
            Ok(state)
        }),
        hook::before_agent("state", |_cx, mut state| async move {
            let prompt = &mut state.system_prompt;
            prompt.remove("identity");
            prompt.set("rules", "Be kind.", Stability::Stable);
            Ok(state)
        }),
    ];

    let model = ScriptedModel::new().say("done");
    let agent = agent(model.clone())
        .system_prompt(prompt)
        .hooks(hooks)
        .build()
        .unwrap();
    agent.run("Go").await.unwrap();
    let system = model.requests()[0].system.to_string();
    assert_eq!(system, "Be kind.\n\nBe brief.");
}
