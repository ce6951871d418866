//! Decisions of gates: arguments, contexts and questions, and their order among those of hooks.

use std::sync::{Arc, Mutex};

use agentcore::testing::{ScriptedModel, StrictModel};
use agentcore::tool::{Asking, Confirmer, GateRequest, PermissionGate};
use agentcore::{
    AgentBuilder, Answer, Decision, FnHook, OnUnanswered, PermissionRequest, RunContext,
    ThreadStore, ToolDecision, async_trait, hook,
};
use serde_json::{Value, json};

use crate::kit::{Gate, Log, agent, logged, result_texts};

fn acting(log: &Log) -> AgentBuilder {
    let model = ScriptedModel::new()
        .call("act", json!({"n": 1}))
        .say("done");
    model.allow_unused();
    agent(StrictModel::new(model)).tool(logged("act", log))
}

fn deciding(decision: ToolDecision) -> impl PermissionGate {
    Gate(move |_: &GateRequest| decision.clone())
}

fn pre(decision: ToolDecision) -> FnHook {
    hook::pre_tool_use("pre", move |_, _| {
        let decision = decision.clone();
        async move { Ok(decision) }
    })
}

/// Runs an agent and returns the text of its first result.
async fn result(agent: AgentBuilder) -> String {
    let output = agent.build().unwrap().run("Go").await.unwrap();
    result_texts(&output.messages).remove(0)
}

/// Gives one answer to every question, and records the questions and the arguments shown with them.
#[derive(Clone)]
struct RecordingConfirmer(Answer, Arc<Mutex<Vec<(String, Value)>>>);

impl RecordingConfirmer {
    fn new(answer: Answer) -> Self {
        Self(answer, Arc::default())
    }

    fn take(&self) -> Vec<(String, Value)> {
        std::mem::take(&mut *self.1.lock().unwrap())
    }
}

#[async_trait]
impl Confirmer for RecordingConfirmer {
    async fn confirm(&self, request: &PermissionRequest, _asking: &Asking) -> Answer {
        let shown = (request.question.clone(), (*request.input).clone());
        self.1.lock().unwrap().push(shown);
        self.0.clone()
    }
}

#[tokio::test]
async fn context_of_a_gate_is_added_to_the_result() {
    let log = Log::default();
    for (decision, expected) in [
        (
            ToolDecision::proceed(),
            "act ran\n\nFrom the hook.\n\nNote.",
        ),
        (ToolDecision::allow(), "act ran\n\nFrom the hook.\n\nNote."),
        (
            ToolDecision::deny("no"),
            "Error: no\n\nFrom the hook.\n\nNote.",
        ),
        (
            ToolDecision::stop("no"),
            "Error: no\n\nFrom the hook.\n\nNote.",
        ),
    ] {
        let agent = acting(&log)
            .hook(pre(ToolDecision::proceed().with_context("From the hook.")))
            .permissions(deciding(decision.with_context("Note.")));
        assert_eq!(result(agent).await, expected);
    }
}

#[tokio::test]
async fn contexts_of_several_gates_are_added_once_each() {
    let log = Log::default();
    let confines = Gate(|request: &GateRequest| {
        let is_confined = request.call.args["n"] == 2;
        let decision = ToolDecision::proceed().with_context("Confined to 2.");
        if is_confined {
            decision
        } else {
            decision.with_args(json!({"n": 2}))
        }
    });

    let notes =
        |cx: &RunContext| cx.add_gate(deciding(ToolDecision::allow().with_context("Logged.")));
    let adds = hook::before_agent("gates", move |cx, state| async move {
        notes(&cx);
        Ok(state)
    });

    let agent = acting(&log).permissions(confines).hook(adds);
    assert_eq!(result(agent).await, "act ran\n\nConfined to 2.\n\nLogged.");
    assert_eq!(log.take(), ["act{\"n\":2}"]);
}

#[tokio::test]
async fn question_of_a_gate_is_about_the_arguments_it_sets() {
    let log = Log::default();
    let person = RecordingConfirmer::new(Answer::Allow);
    let asks = ToolDecision::ask("two?").with_args(json!({"n": 2}));
    let agent = acting(&log)
        .permissions(deciding(asks))
        .confirmer(person.clone());
    assert_eq!(result(agent).await, "act ran");
    assert_eq!(person.take(), [("two?".to_owned(), json!({"n": 2}))]);
    assert_eq!(log.take(), ["act{\"n\":2}"]);
}

#[tokio::test]
async fn questions_prefer_rules_to_hooks_and_hooks_to_the_mode() {
    let log = Log::default();
    let person = RecordingConfirmer::new(Answer::Allow);
    let (mode, rule) = (
        ToolDecision::ask("mode?"),
        ToolDecision::ask_by_rule("rule?"),
    );
    let hook = || pre(ToolDecision::ask("hook?"));
    for (gate, hooks, question) in [
        (mode.clone(), vec![], "mode?"),
        (mode, vec![hook()], "hook?"),
        (rule.clone(), vec![hook()], "rule?"),
        (rule, vec![], "rule?"),
        (ToolDecision::allow(), vec![hook()], "hook?"),
        (
            ToolDecision::allow(),
            vec![hook(), pre(ToolDecision::ask_by_rule("rule of a hook?"))],
            "rule of a hook?",
        ),
    ] {
        let agent = acting(&log)
            .hooks(hooks)
            .permissions(deciding(gate))
            .confirmer(person.clone());
        assert_eq!(result(agent).await, "act ran");
        let questions: Vec<_> = person.take().into_iter().map(|shown| shown.0).collect();
        assert_eq!(questions, [question], "one answer is enough");
    }
}

#[tokio::test]
async fn context_of_a_gate_is_added_once_to_a_call_that_was_approved_later() {
    let (store, log) = (ThreadStore::new(), Log::default());
    let build = |model: ScriptedModel, note: &str| {
        agent(StrictModel::new(model))
            .tool(logged("act", &log))
            .permissions(deciding(ToolDecision::ask("sure?").with_context(note)))
            .unanswered(OnUnanswered::Park)
            .store(store.clone())
            .build()
            .unwrap()
    };

    for (note, expected) in [
        ("It is Friday.", "act ran\n\nIt is Friday."),
        ("It is Monday.", "act ran\n\nIt is Friday.\n\nIt is Monday."),
    ] {
        let first = build(ScriptedModel::new().call("act", json!({})), "It is Friday.");
        first.session(note).run("Go").await.unwrap();
        let calls = first.session(note).pending().await.unwrap();
        assert_eq!(calls[0].context, ["It is Friday."]);
        let second = build(ScriptedModel::new().say("done"), note);
        let resumed = second.session(note).resume(Decision::allow(&calls[0]));
        assert_eq!(result_texts(&resumed.await.unwrap().messages), [expected]);
    }
}
