//! Permission decisions about a call: the gate, the hooks before it, and the answers to questions.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentcore::hook;
use agentcore::hooks::PermissionHook;
use agentcore::permission::PermissionRules;
use agentcore::sdk::SystemKind;
use agentcore::testing::ScriptedModel;
use agentcore::tool::{Access, Asking, Confirmer, GateRequest, PermissionGate, Verdict};
use agentcore::{
    Answer, ExitReason, FuncTool, PermissionRequest, Result, SdkMessage, ToolDecision, async_trait,
};
use serde_json::json;

use crate::kit::{
    Gate, Log, agent, any_object, asking, kinds, logged, progress, result_texts, sleep, warnings,
    watch,
};

fn calls_act() -> ScriptedModel {
    ScriptedModel::new()
        .call("act", json!({"n": 1}))
        .say("done")
}

#[tokio::test]
async fn gate_decision_sets_arguments_and_result_of_the_call() {
    let strict = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    for (decision, ran, text) in [
        (ToolDecision::allow(), "act{\"n\":1}", "act ran"),
        (ToolDecision::deny("no"), "", "Error: no"),
        (ToolDecision::deny(" "), "", "Error: denied"),
        (
            ToolDecision::allow().with_args(json!({"n": 2})),
            "act{\"n\":2}",
            "act ran",
        ),
        (
            ToolDecision::allow().with_args(json!({"n": "x"})),
            "",
            "Error: invalid arguments for tool \"act\"",
        ),
    ] {
        let log = Log::default();
        let seen = log.clone();
        let act = FuncTool::new("act", "Acts", strict.clone(), move |_cx, args| {
            seen.add(format!("act{args}"));
            async { "act ran" }
        });
        let agent = agent(calls_act())
            .tool(act)
            .permissions(Gate(move |_: &_| decision.clone()))
            .build()
            .unwrap();
        let output = agent.run("Go").await.unwrap();
        assert_eq!(log.take().join(" "), ran);
        assert!(result_texts(&output.messages)[0].starts_with(text));
    }
}

/// Denies every call. The explanation is the thread that runs `explain`.
struct ExplainsThread;

#[async_trait]
impl PermissionGate for ExplainsThread {
    async fn check(&self, _request: &GateRequest) -> Result<ToolDecision> {
        Ok(ToolDecision::deny("no"))
    }

    fn explain(&self, _request: &GateRequest) -> Option<String> {
        Some(format!("{:?}", std::thread::current().id()))
    }
}

/// Returns the explanations of the denials in a stream.
fn explanations(messages: &[SdkMessage]) -> Vec<String> {
    let denials = messages.iter().filter_map(|message| match message {
        SdkMessage::System(system) => match &system.kind {
            SystemKind::PermissionDenied(denial) => denial.decision_reason.clone(),
            _ => None,
        },
        _ => None,
    });
    denials.collect()
}

#[tokio::test]
async fn denial_of_a_large_call_is_explained_off_the_executor() {
    let own_thread = format!("{:?}", std::thread::current().id());
    let texts = |count: usize| json!({"texts": vec!["x".repeat(100); count]});
    for (args, is_large) in [(texts(2), false), (texts(200), true)] {
        let model = ScriptedModel::new().call("act", args).say("done");
        let agent = agent(model)
            .tool(logged("act", &Log::default()))
            .permissions(ExplainsThread)
            .build()
            .unwrap();
        let (messages, _) = watch(agent.run("Go")).await;
        let threads = explanations(&messages);
        assert_eq!(threads.len(), 1);
        assert_eq!(threads[0] != own_thread, is_large);
    }
}

#[tokio::test]
async fn denial_by_rules_is_explained_without_a_second_decision() {
    let decisions = Arc::<AtomicUsize>::default();
    let count = decisions.clone();
    let shell = FuncTool::new("Bash", "Runs", any_object(), |_cx, _args| async { "ran" }).accesses(
        move |_args| {
            count.fetch_add(1, Ordering::Relaxed);
            vec![Access::Command("rm x".into())]
        },
    );
    let rules = || PermissionRules::new().allow("Bash").unwrap();
    let agent = agent(ScriptedModel::new().call("Bash", json!({})).say("done"))
        .tool(shell)
        .permissions(rules())
        .hook(PermissionHook::with(rules().deny("Bash(rm:*)").unwrap()))
        .build()
        .unwrap();
    let (messages, _) = watch(agent.run("Go")).await;
    let expected = "deny: denied by rule deny:Bash(rm:*)";
    assert_eq!(explanations(&messages), [expected]);
    // Each of the two gates decides once.
    assert_eq!(decisions.load(Ordering::Relaxed), 2);
}

/// Denies the calls that the rules ask about.
struct DeniesQuestions(PermissionRules);

#[async_trait]
impl PermissionGate for DeniesQuestions {
    async fn check(&self, request: &GateRequest) -> Result<ToolDecision> {
        let mut decision = self.0.check(request).await?;
        if let Verdict::Ask { .. } = decision.verdict {
            decision.verdict = Verdict::Deny("not here".into());
        }
        Ok(decision)
    }

    fn explain(&self, _request: &GateRequest) -> Option<String> {
        Some("questions are denied".into())
    }
}

#[tokio::test]
async fn explanation_of_rules_is_not_that_of_a_gate_that_decides_otherwise() {
    let rules = PermissionRules::new().ask("act").unwrap();
    let agent = agent(calls_act())
        .tool(logged("act", &Log::default()))
        .permissions(DeniesQuestions(rules))
        .build()
        .unwrap();
    let (messages, _) = watch(agent.run("Go")).await;
    assert_eq!(explanations(&messages), ["questions are denied"]);
}

#[tokio::test]
async fn gate_interrupt_ends_the_run_and_skips_other_calls() {
    let log = Log::default();
    let gate = Gate(|request: &GateRequest| match &*request.call.name {
        "one" => ToolDecision::stop("stop it"),
        _ => ToolDecision::allow(),
    });

    let model =
        ScriptedModel::new().calls([("one", json!({})), ("two", json!({})), ("three", json!({}))]);
    let agent = agent(model)
        .tools([
            logged("one", &log),
            logged("two", &log),
            logged("three", &log).exclusive(),
        ])
        .permissions(gate)
        .build()
        .unwrap();
    let output = agent.run("Go").await.unwrap();
    assert_eq!(output.end, ExitReason::Interrupted);
    assert_eq!(log.take(), [""; 0]);
    let texts = result_texts(&output.messages);
    assert_eq!(texts[0], "Error: stop it");
    assert!(texts[1].contains("did not run") && texts[2].contains("did not run"));
    output.messages.validate_for_model().unwrap();
}

struct Broken(bool);

#[async_trait]
impl PermissionGate for Broken {
    async fn check(&self, _request: &GateRequest) -> Result<ToolDecision> {
        if self.0 {
            panic!("boom");
        }
        Err("the rules cannot be read".into())
    }
}

#[tokio::test]
async fn failing_gate_denies_the_call() {
    for panics in [false, true] {
        let log = Log::default();
        let agent = agent(calls_act())
            .tool(logged("act", &log))
            .permissions(Broken(panics))
            .build()
            .unwrap();
        let output = agent.run("Go").await.unwrap();
        assert!(result_texts(&output.messages)[0].contains("permission check failed"));
        assert_eq!((log.len(), &*output.text), (0, "done"));
    }
}

#[tokio::test]
async fn hook_allow_answers_a_mode_question_but_not_a_rule() {
    for (ask, ran) in [
        (ToolDecision::ask("sure?"), 1),
        (ToolDecision::ask_by_rule("sure?"), 0),
    ] {
        let log = Log::default();
        let allow = hook::pre_tool_use("allow", |_, _| async { Ok(ToolDecision::allow()) });
        let agent = agent(calls_act())
            .tool(logged("act", &log))
            .hook(allow)
            .permissions(Gate(move |_: &_| ask.clone()))
            .build()
            .unwrap();
        agent.run("Go").await.unwrap();
        assert_eq!(log.len(), ran);
    }

    let log = Log::default();
    let allow = hook::pre_tool_use("allow", |_, _| async { Ok(ToolDecision::allow()) });
    let agent = agent(calls_act())
        .tool(logged("act", &log))
        .hook(allow)
        .permissions(Gate(|_: &_| ToolDecision::deny("no")))
        .build()
        .unwrap();
    agent.run("Go").await.unwrap();
    assert_eq!(log.len(), 0);
}

#[tokio::test]
async fn arguments_changed_after_the_gate_are_checked_again() {
    let log = Log::default();
    let sneak = hook::wrap_tool_call("sneak", |call: agentcore::ToolCall, next| async move {
        next.run(call.with_args(json!({"n": 666}))).await
    });

    let gate = Gate(
        |request: &GateRequest| match request.call.args["n"].as_u64() {
            Some(1) => ToolDecision::allow(),
            _ => ToolDecision::deny("only 1"),
        },
    );
    let agent = agent(calls_act())
        .tool(logged("act", &log))
        .hook(sneak)
        .permissions(gate)
        .build()
        .unwrap();
    let output = agent.run("Go").await.unwrap();
    assert_eq!(
        (log.len(), &*result_texts(&output.messages)[0]),
        (0, "Error: only 1")
    );

    let rename = hook::wrap_tool_call("rename", |mut call: agentcore::ToolCall, next| async move {
        call.name = "other".into();
        next.run(call).await
    });

    let agent = crate::kit::agent(calls_act())
        .tools([logged("act", &log), logged("other", &log)])
        .hook(rename)
        .build()
        .unwrap();
    agent.run("Go").await.unwrap();
    assert_eq!(log.len(), 0);
}

struct Says(Answer, Arc<Mutex<Vec<PermissionRequest>>>);

#[async_trait]
impl Confirmer for Says {
    async fn confirm(&self, request: &PermissionRequest, _asking: &Asking) -> Answer {
        self.1.lock().unwrap().push(request.clone());
        if self.0 == Answer::Deny("panic".into()) {
            panic!("boom");
        }
        self.0.clone()
    }
}

#[tokio::test]
async fn answer_of_the_confirmer_decides_the_call() {
    for (answer, ran, text) in [
        (Answer::Allow, 1, "act ran"),
        (Answer::AllowForSession, 1, "act ran"),
        (Answer::Deny("too risky".into()), 0, "Error: too risky"),
        (Answer::Deny(String::new()), 0, "Error: denied"),
        (
            Answer::Deny("panic".into()),
            0,
            "Error: the confirmer panicked",
        ),
        (
            Answer::Unanswered,
            0,
            "Error: permission denied (the question cannot be answered): run act?",
        ),
    ] {
        let log = Log::default();
        let asked = Arc::<Mutex<Vec<_>>>::default();
        let agent = agent(calls_act())
            .tool(logged("act", &log))
            .permissions(asking())
            .confirmer(Says(answer, asked.clone()))
            .build()
            .unwrap();
        let output = agent.run("Go").await.unwrap();
        assert_eq!(log.len(), ran);
        let result = result_texts(&output.messages).remove(0);
        assert!(result.starts_with(text), "{result}");
        let asked = asked.lock().unwrap();
        assert_eq!((asked.len(), &*asked[0].question), (1, "run act?"));
        assert_eq!(asked[0].input["n"], 1);
    }
}

/// Asks about each call until it has granted the same arguments.
#[derive(Default)]
struct Granting(Mutex<Vec<String>>);

#[async_trait]
impl PermissionGate for Granting {
    async fn check(&self, request: &GateRequest) -> Result<ToolDecision> {
        let is_granted = self
            .0
            .lock()
            .unwrap()
            .contains(&request.call.args.to_string());
        Ok(if is_granted {
            ToolDecision::allow()
        } else {
            ToolDecision::ask("sure?")
        })
    }

    async fn grant(&self, request: &GateRequest) -> Result<()> {
        self.0.lock().unwrap().push(request.call.args.to_string());
        Ok(())
    }
}

#[tokio::test]
async fn session_grant_is_passed_to_the_gate() {
    let log = Log::default();
    let model = ScriptedModel::new()
        .call("act", json!({"n": 1}))
        .call("act", json!({"n": 1}))
        .call("act", json!({"n": 2}))
        .say("done");
    let asked = Arc::<Mutex<Vec<_>>>::default();
    let agent = agent(model)
        .tool(logged("act", &log))
        .permissions(Granting::default())
        .confirmer(Says(Answer::AllowForSession, asked.clone()))
        .build()
        .unwrap();
    agent.run("Go").await.unwrap();
    assert_eq!((log.len(), asked.lock().unwrap().len()), (3, 2));
}

#[tokio::test]
async fn responder_in_the_same_task_answers_once() {
    let log = Log::default();
    let agent = agent(calls_act())
        .tool(logged("act", &log))
        .permissions(asking())
        .build()
        .unwrap();
    let mut run = agent.run("Go");
    let responder = run.responder();
    let mut order = Vec::new();
    while let Some(message) = run.next().await {
        if let SdkMessage::PermissionRequest(request) = &message {
            assert!(!responder.respond("forged", Answer::Allow));
            assert!(responder.respond(&**request, Answer::Allow));
            assert!(!responder.respond(&**request, Answer::Deny("no".into())));
        }

        order.push(message);
    }

    assert_eq!(log.len(), 1);
    assert_eq!(
        kinds(&order)[..5],
        [
            "system/init",
            "assistant",
            "permission_request",
            "tool_progress",
            "tool_progress"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn dropped_or_late_responder_leaves_the_question_unanswered() {
    for (drops, words) in [(true, "cannot be answered"), (false, "cannot be answered")] {
        let log = Log::default();
        let agent = agent(calls_act())
            .tool(logged("act", &log))
            .permissions(asking())
            .ask_timeout(Duration::from_secs(30))
            .build()
            .unwrap();
        let mut run = agent.run("Go");
        let mut responder = Some(run.responder());
        while let Some(message) = run.next().await {
            if matches!(message, SdkMessage::PermissionRequest(_)) && drops {
                responder = None;
            }
        }

        drop(responder);
        let output = run.into_output().unwrap();
        assert!(result_texts(&output.messages)[0].contains(words));
        assert_eq!(log.len(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_for_an_answer_counts_toward_no_timeout() {
    let ask = FuncTool::new("ask", "Asks", any_object(), |cx, _args| async move {
        let answer = cx.ask("Which one?").await;
        sleep(50).await;
        format!("{answer:?}")
    });

    let model = ScriptedModel::new().call("ask", json!({})).say("done");
    let agent = agent(model)
        .tool(ask)
        .tool_timeout(Duration::from_secs(60))
        .hook(hook::wrap_tool_call("around", |call, next| async move {
            next.run(call).await
        }))
        .hook_timeout(Duration::from_secs(1))
        .build()
        .unwrap();
    let mut run = agent.run("Go");
    let responder = run.responder();
    let mut seen = Vec::new();
    while let Some(message) = run.next().await {
        if let SdkMessage::PermissionRequest(request) = &message {
            let (id, responder) = (request.id.clone(), responder.clone());
            tokio::spawn(async move {
                sleep(10_000).await;
                responder.respond(id, Answer::Allow);
            });
        }

        seen.push(message);
    }

    assert_eq!(
        result_texts(&run.into_output().unwrap().messages),
        ["Allow"]
    );
    assert!(progress(&seen).iter().any(|progress| progress.heartbeat));
    assert_eq!(warnings(&seen), [""; 0]);
}

#[tokio::test]
async fn interrupt_during_a_question_ends_the_run_and_closes_the_question() {
    let log = Log::default();
    let agent = agent(ScriptedModel::new().call("act", json!({})))
        .tool(logged("act", &log))
        .permissions(asking())
        .build()
        .unwrap();
    let mut run = agent.run("Go");
    let (handle, responder) = (run.handle(), run.responder());
    let mut id = None;
    while let Some(message) = run.next().await {
        if let SdkMessage::PermissionRequest(request) = message {
            handle.interrupt();
            id = Some(request.id.clone());
        }
    }

    let output = run.into_output().unwrap();
    assert_eq!((output.end, log.len()), (ExitReason::Interrupted, 0));
    assert!(result_texts(&output.messages)[0].contains("did not run"));
    assert!(!responder.respond(id.unwrap(), Answer::Allow), "too late");
}
