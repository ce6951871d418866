//! Answers that change the arguments of a call: from the stream, a confirmer or the parent run.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use agentcore::permission::PermissionRules;
use agentcore::testing::{ScriptedModel, StrictModel};
use agentcore::tool::{Asking, Confirmer, GateRequest, SideEffect};
use agentcore::{
    Agent, AgentBuilder, Answer, BoxError, ExitReason, FnHook, FuncTool, PermissionMode,
    PermissionRequest, RunOutput, SdkMessage, ToolCall, ToolDecision, async_trait, hook,
};
use serde_json::{Value, json};

use crate::kit::{Gate, Log, agent, any_object, asking, progress, result_texts};

/// A tool that logs its arguments, of which `n` must be an integer.
fn act(log: &Log) -> FuncTool {
    let log = log.clone();
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    FuncTool::new("act", "Acts", schema, move |_cx, args| {
        log.add(args.to_string());
        async { "act ran" }
    })
}

/// An agent whose only call is `act` with `n` 1, about which its gate asks.
fn acting(log: &Log) -> AgentBuilder {
    let model = ScriptedModel::new()
        .call("act", json!({"n": 1}))
        .say("done");
    model.allow_unused();
    agent(StrictModel::new(model))
        .tool(act(log))
        .permissions(asking())
}

/// Changes the arguments of every call to the same value, and counts the questions.
#[derive(Clone)]
struct Edits(Value, Arc<AtomicUsize>);

impl Edits {
    fn new(args: Value) -> Self {
        Self(args, Arc::default())
    }

    fn questions(&self) -> usize {
        self.1.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl Confirmer for Edits {
    async fn confirm(&self, _request: &PermissionRequest, _asking: &Asking) -> Answer {
        self.1.fetch_add(1, Ordering::Relaxed);
        Answer::Edit(self.0.clone())
    }
}

/// Runs an agent that asks once, and gives `answer` in the stream.
async fn answered(agent: &Agent, answer: Answer) -> (Vec<SdkMessage>, RunOutput) {
    let mut run = agent.run("Go");
    let (responder, mut answer) = (run.responder(), Some(answer));
    let mut messages = Vec::new();
    while let Some(message) = run.next().await {
        if let SdkMessage::PermissionRequest(request) = &message {
            let answer = answer.take().expect("one question");
            assert!(responder.respond(request, answer));
        }
        messages.push(message);
    }
    (messages, run.into_output().unwrap())
}

/// Runs an agent whose confirmer changes the arguments of the call to `args`.
async fn edited(agent: AgentBuilder, args: Value) -> RunOutput {
    let edits = Edits::new(args);
    let agent = agent.confirmer(edits.clone()).build().unwrap();
    let output = agent.run("Go").await.unwrap();
    assert_eq!(edits.questions(), 1);
    output
}

fn first_call(output: &RunOutput) -> &ToolCall {
    let mut calls = output
        .messages
        .iter()
        .flat_map(|message| message.tool_calls());
    calls.next().unwrap()
}

fn pre(decision: impl Fn(&ToolCall) -> ToolDecision + Send + Sync + 'static) -> FnHook {
    hook::pre_tool_use("pre", move |_, call: ToolCall| {
        let decision = decision(&call);
        async move { Ok(decision) }
    })
}

#[tokio::test]
async fn edit_in_the_stream_runs_the_call_with_the_other_arguments() {
    let log = Log::default();
    let agent = acting(&log).build().unwrap();
    let (messages, output) = answered(&agent, Answer::Edit(json!({"n": 2}))).await;
    assert_eq!(log.take(), [r#"{"n":2}"#]);
    assert_eq!(result_texts(&output.messages), ["act ran"]);
    assert_eq!(*first_call(&output).args, json!({"n": 1}), "the history");
    let started = progress(&messages)[0].data.clone().unwrap();
    assert_eq!(started["args"], json!({"n": 2}));
    assert!(output.permission_denials.is_empty());
}

#[tokio::test]
async fn edit_from_a_confirmer_runs_the_call_with_the_other_arguments() {
    let log = Log::default();
    let output = edited(acting(&log), json!({"n": 2})).await;
    assert_eq!(log.take(), [r#"{"n":2}"#]);
    assert_eq!(result_texts(&output.messages), ["act ran"]);
    assert_eq!(*first_call(&output).args, json!({"n": 1}), "the history");
}

/// An agent that delegates to `child`; the tool `delegate` returns the results of its calls.
fn delegating(child: AgentBuilder) -> AgentBuilder {
    let child = child.build().unwrap();
    let delegate = move |cx: agentcore::ToolContext, _args: Value| {
        let session = child.session(format!("child_{}", cx.call_id()));
        async move {
            let output = session.run_as_child(&cx, "Help").await?;
            Ok::<_, BoxError>(result_texts(&output.messages).join("; "))
        }
    };

    let delegate = FuncTool::new("delegate", "Delegates", any_object(), delegate)
        .side_effect(SideEffect::ReadOnly);
    let model = ScriptedModel::new().call("delegate", json!({})).say("done");
    agent(model).tool(delegate)
}

#[tokio::test]
async fn parent_edit_of_a_child_call_runs_it_with_the_edited_arguments() {
    let log = Log::default();
    let only_small = || {
        Gate(
            |request: &GateRequest| match request.call.args["n"].as_u64() {
                Some(n) if n > 9 => ToolDecision::deny("too many"),
                _ => ToolDecision::allow(),
            },
        )
    };

    for (n, result, ran) in [(2, "act ran", 1), (10, "Error: too many", 0)] {
        let in_stream = delegating(acting(&log)).permissions(only_small());
        let answer = Answer::Edit(json!({ "n": n }));
        let (_, output) = answered(&in_stream.build().unwrap(), answer).await;
        assert_eq!(result_texts(&output.messages), [result]);
        assert_eq!(log.take(), vec![format!("{{\"n\":{n}}}"); ran]);

        let by_confirmer = delegating(acting(&log)).permissions(only_small());
        let output = edited(by_confirmer, json!({ "n": n })).await;
        assert_eq!(result_texts(&output.messages), [result]);
        assert_eq!(log.take(), vec![format!("{{\"n\":{n}}}"); ran]);
    }
}

#[tokio::test]
async fn edit_that_does_not_match_the_schema_is_refused() {
    let log = Log::default();
    let hooks = Log::default();
    for (args, words, seen_by_hooks) in [
        (json!({"n": "x"}), "expected integer", 2),
        (json!("no object"), "expected object", 1),
    ] {
        let seen = hooks.clone();
        let sees = pre(move |call| {
            seen.add(call.args.to_string());
            ToolDecision::proceed()
        });
        let output = edited(acting(&log).hook(sees), args).await;
        let result = result_texts(&output.messages).remove(0);
        assert!(
            result.starts_with("Error: ") && result.contains(words),
            "{result}"
        );
        assert_eq!((log.len(), hooks.take().len()), (0, seen_by_hooks));
        assert_eq!(&*output.text, "done");
    }
}

#[tokio::test]
async fn edit_beyond_the_depth_limit_is_refused() {
    for depth in [100, 101, 1_000_000] {
        let log = Log::default();
        let agent = acting(&log).build().unwrap();
        let nested = (1..depth).fold(json!({}), |inner, _| {
            Value::Object([("a".to_owned(), inner)].into_iter().collect())
        });

        let (_, output) = answered(&agent, Answer::Edit(nested)).await;
        let result = result_texts(&output.messages).remove(0);
        match depth {
            100 => assert_eq!((&*result, log.len()), ("act ran", 1)),
            _ => {
                assert!(result.contains("nested deeper than 100"), "{result}");
                assert_eq!(log.len(), 0);
            }
        }
    }
}

#[tokio::test]
async fn edit_that_a_rule_denies_is_refused() {
    let log = Log::default();
    let rules = || {
        let rules = PermissionRules::new().ask("act").unwrap();
        rules.deny("act(n:666)").unwrap()
    };

    let allowed = edited(acting(&log).permissions(rules()), json!({"n": 2})).await;
    assert_eq!(
        result_texts(&allowed.messages),
        ["act ran"],
        "the rule was answered"
    );
    let denied = edited(acting(&log).permissions(rules()), json!({"n": 666})).await;
    assert!(result_texts(&denied.messages)[0].contains("denied by rule deny:act(n:666)"));
    assert_eq!(log.take(), [r#"{"n":2}"#]);
    let denial = &denied.permission_denials[0];
    assert_eq!(*denial.tool_input, json!({"n": 666}));
}

#[tokio::test]
async fn hooks_see_edited_arguments_and_their_question_is_answered() {
    let log = Log::default();
    let decides = || {
        pre(|call| match call.args["n"].as_u64() {
            Some(n) if n < 5 => ToolDecision::ask("sure?").with_context("Counted."),
            Some(7) => ToolDecision::proceed().with_args(json!({"n": 8})),
            _ => ToolDecision::deny("too many"),
        })
    };

    for (n, result) in [
        (2, "act ran\n\nCounted."),
        (6, "Error: too many"),
        (
            7,
            "Error: a hook would run this call with other arguments than were approved",
        ),
    ] {
        let output = edited(acting(&log).hook(decides()), json!({ "n": n })).await;
        assert_eq!(result_texts(&output.messages), [result]);
    }

    assert_eq!(log.take(), [r#"{"n":2}"#]);
}

#[tokio::test]
async fn gate_may_not_change_edited_arguments() {
    let log = Log::default();
    let confines = Gate(
        |request: &GateRequest| match request.call.args["n"].as_u64() {
            Some(1) => ToolDecision::ask("sure?"),
            _ => ToolDecision::allow().with_args(json!({"n": 2})),
        },
    );
    let agent = acting(&log).permissions(confines);
    let output = edited(agent, json!({"n": 3})).await;
    let result = result_texts(&output.messages).remove(0);
    assert!(
        result.contains("other arguments than were approved"),
        "{result}"
    );
    assert_eq!(log.len(), 0);
}

#[tokio::test]
async fn plan_mode_set_while_a_question_is_open_holds_for_edited_arguments() {
    let log = Log::default();
    let mut run = acting(&log).build().unwrap().run("Go");
    let (handle, responder) = (run.handle(), run.responder());
    while let Some(message) = run.next().await {
        if let SdkMessage::PermissionRequest(request) = &message {
            handle.set_permission_mode(PermissionMode::Plan);
            responder.respond(request, Answer::Edit(json!({"n": 2})));
        }
    }

    let results = result_texts(&run.into_output().unwrap().messages);
    assert!(results[0].contains("plan mode"), "{results:?}");
    assert_eq!(log.len(), 0);
}

#[tokio::test]
async fn hook_and_gate_that_stop_at_edited_arguments_end_the_run() {
    let stops = || {
        pre(|call| match call.args["n"].as_u64() {
            Some(2) => ToolDecision::stop("enough"),
            _ => ToolDecision::proceed(),
        })
    };

    let stopping = Gate(
        |request: &GateRequest| match request.call.args["n"].as_u64() {
            Some(2) => ToolDecision::stop("enough"),
            _ => ToolDecision::ask("sure?"),
        },
    );
    let log = Log::default();
    let calls = || {
        let model = ScriptedModel::new().calls([("act", json!({"n": 1})), ("next", json!({}))]);
        agent(model).tools([
            act(&log).exclusive(),
            crate::kit::logged("next", &log).exclusive(),
        ])
    };

    for (agent, end) in [
        (
            calls().permissions(asking()).hook(stops()),
            ExitReason::HookStopped,
        ),
        (calls().permissions(stopping), ExitReason::Interrupted),
    ] {
        let output = edited(agent, json!({"n": 2})).await;
        assert_eq!((output.end, log.len()), (end, 0));
        let results = result_texts(&output.messages);
        assert_eq!(results[0], "Error: enough");
        assert!(results[1].contains("did not run"), "{results:?}");
    }
}

#[tokio::test]
async fn edit_is_for_one_call_only() {
    let log = Log::default();
    let model = ScriptedModel::new()
        .call("act", json!({"n": 1}))
        .call("act", json!({"n": 2}))
        .say("done");
    let rules = PermissionRules::new().ask("act").unwrap();
    let edits = Edits::new(json!({"n": 2}));
    let agent = agent(model)
        .tool(act(&log))
        .hook(pre(|_| ToolDecision::ask("sure?")))
        .permissions(rules)
        .confirmer(edits.clone())
        .build()
        .unwrap();
    agent.run("Go").await.unwrap();
    assert_eq!((edits.questions(), log.len()), (2, 2));
}

#[tokio::test]
async fn edit_of_a_call_that_a_hook_changed_late_is_checked_once_more() {
    let log = Log::default();
    for (n, result, ran) in [
        (6, "act ran\n\nChecked.", 1),
        (9, "Error: not 9\n\nChecked.", 0),
    ] {
        let changes = hook::wrap_tool_call("changes", |call: ToolCall, next| async move {
            next.run(call.with_args(json!({"n": 5}))).await
        });
        let gate = Gate(|request: &GateRequest| {
            let decision = match request.call.args["n"].as_u64() {
                Some(1) => ToolDecision::allow(),
                Some(9) => ToolDecision::deny("not 9"),
                _ => ToolDecision::ask("sure?"),
            };

            decision.with_context("Checked.")
        });
        let agent = acting(&log).hook(changes).permissions(gate);
        let output = edited(agent, json!({ "n": n })).await;
        assert_eq!(result_texts(&output.messages), [result]);
        assert_eq!(log.take(), vec![format!("{{\"n\":{n}}}"); ran]);
    }
}
