//! Decisions about a call: permission modes that change during the run, stops, grants, contexts
//! and errors of hooks.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use agentcore::hooks::PermissionHook;
use agentcore::model::{Compaction, CompactionRequest, Compactor, ModelProfile};
use agentcore::permission::{PermissionConfig, PermissionRules};
use agentcore::session::PendingCall;
use agentcore::testing::{ScriptedModel, Step, StrictModel};
use agentcore::tool::{Asking, Confirmer};
use agentcore::{
    Answer, Decision, Error, ErrorKind, ExitReason, FnHook, FuncTool, Messages, Model,
    ModelRequest, OnUnanswered, PermissionMode, PermissionRequest, Result, SdkMessage, ThreadStore,
    ToolCall, ToolDecision, async_trait, hook,
};
use serde_json::json;

use crate::kit::{Log, agent, asking, echo, logged, result_texts};

fn pre(name: &'static str, decision: ToolDecision) -> FnHook {
    hook::pre_tool_use(name, move |_, _| {
        let decision = decision.clone();
        async move { Ok(decision) }
    })
}

#[tokio::test]
async fn plan_mode_set_while_an_answer_streams_denies_its_calls() {
    let log = Log::default();
    let model = ScriptedModel::new()
        .step(Step::text("Let me act").and_call("act", json!({})))
        .say("Planned.");
    let agent = agent(model)
        .tool(logged("act", &log))
        .include_partial_messages(true)
        .build()
        .unwrap();
    let mut run = agent.run("Go");
    let handle = run.handle();
    while let Some(message) = run.next().await {
        if message.text_delta().is_some() {
            handle.set_permission_mode(PermissionMode::Plan);
        }
    }

    let results = result_texts(&run.into_output().unwrap().messages);
    assert!(results[0].contains("plan mode"), "{results:?}");
    assert_eq!(log.len(), 0);
}

#[tokio::test]
async fn hook_sees_the_mode_set_before_the_call() {
    let modes = Log::default();
    let seen = modes.clone();
    let see = hook::pre_tool_use("see", move |cx, _| {
        seen.add(cx.permission_mode().as_str());
        async { Ok(ToolDecision::proceed()) }
    });

    let model = ScriptedModel::new()
        .call("echo", json!({"text": "x"}))
        .say("done");
    let agent = agent(model).tool(echo()).hook(see).build().unwrap();
    let mut run = agent.run("Go");
    let handle = run.handle();
    while let Some(message) = run.next().await {
        if matches!(message, SdkMessage::Assistant(_)) {
            handle.set_permission_mode(PermissionMode::AcceptEdits);
        }
    }

    assert_eq!(modes.take(), ["acceptEdits"]);
}

#[tokio::test]
async fn plan_mode_set_while_a_question_is_open_denies_the_call() {
    let log = Log::default();
    let model = ScriptedModel::new().call("act", json!({})).say("Planned.");
    let agent = agent(model)
        .tool(logged("act", &log))
        .permissions(asking())
        .build()
        .unwrap();
    let mut run = agent.run("Go");
    let (handle, responder) = (run.handle(), run.responder());
    while let Some(message) = run.next().await {
        if let SdkMessage::PermissionRequest(request) = &message {
            handle.set_permission_mode(PermissionMode::Plan);
            responder.respond(&request.id, Answer::Allow);
        }
    }

    let results = result_texts(&run.into_output().unwrap().messages);
    assert!(results[0].contains("plan mode"), "{results:?}");
    assert_eq!(log.len(), 0);
}

#[tokio::test]
async fn hook_stop_ends_the_run_when_schema_or_mode_denies_the_call() {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    for (mode, args) in [
        (PermissionMode::Default, json!({"n": "x"})),
        (PermissionMode::Plan, json!({"n": 1})),
    ] {
        let act = FuncTool::new("act", "Acts", schema.clone(), |_cx, _args| async {
            "acted"
        });
        let model = ScriptedModel::new().call("act", args).say("went on");
        model.allow_unused();
        let agent = agent(model)
            .tool(act)
            .hook(pre("stop", ToolDecision::stop("enough")))
            .permission_mode(mode)
            .build()
            .unwrap();
        let output = agent.run("Go").await.unwrap();
        assert_eq!(output.end, ExitReason::HookStopped, "{mode}");
        assert_eq!(result_texts(&output.messages), ["Error: enough"]);
    }
}

#[tokio::test]
async fn hook_stop_ends_the_run_when_a_later_hook_fails() {
    let fails = hook::pre_tool_use("fails", |_, _| async { Err("broken".into()) });
    let model = ScriptedModel::new()
        .call("echo", json!({"text": "x"}))
        .say("went on");
    model.allow_unused();
    let agent = agent(model)
        .tool(echo())
        .hook(pre("stop", ToolDecision::stop("enough")))
        .hook(fails)
        .build()
        .unwrap();
    let output = agent.run("Go").await.unwrap();
    assert_eq!(output.end, ExitReason::HookStopped);
    assert_eq!(result_texts(&output.messages), ["Error: enough"]);
}

#[tokio::test]
async fn hook_stop_ends_the_run_when_a_sibling_call_becomes_pending() {
    let log = Log::default();
    let decides = hook::pre_tool_use("decides", |_, call: ToolCall| async move {
        Ok(match &*call.name {
            "bad" => ToolDecision::stop("enough"),
            _ => ToolDecision::ask("sure?"),
        })
    });

    let model = ScriptedModel::new().calls([("act", json!({})), ("bad", json!({}))]);
    let agent = agent(model)
        .tools([logged("act", &log), logged("bad", &log)])
        .hook(decides)
        .unanswered(OnUnanswered::Park)
        .build()
        .unwrap();
    let output = agent.session("s").run("Go").await.unwrap();
    assert_eq!(output.end, ExitReason::HookStopped);
    assert_eq!(result_texts(&output.messages), ["Error: enough"]);
    let pending = agent.session("s").pending().await.unwrap();
    assert_eq!(
        (pending.len(), log.len()),
        (1, 0),
        "the sibling still waits"
    );
}

/// A compactor that counts its calls and returns no summary.
struct CountCompactions(Arc<AtomicUsize>);

#[async_trait]
impl Compactor for CountCompactions {
    fn should_compact(&self, _: &Messages, _: u64, _: &ModelProfile) -> bool {
        false
    }

    async fn compact(&self, _: CompactionRequest) -> Result<Option<Compaction>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(None)
    }
}

fn too_long() -> ScriptedModel {
    ScriptedModel::new().fail(Error::new(ErrorKind::ContextTooLong, "prompt is too long"))
}

async fn check_blame(phase: &str, judge: FnHook) {
    let compactions = Arc::<AtomicUsize>::default();
    let agent = agent(ScriptedModel::new())
        .hook(judge)
        .compactor(CountCompactions(compactions.clone()))
        .build()
        .unwrap();
    let error = agent.run("Go").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Hook);
    let blamed = format!("hook `judge` failed in {phase}: ");
    assert!(error.text().starts_with(&blamed), "{error}");
    assert_eq!(compactions.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn model_call_error_inside_a_hook_names_the_hook_and_compacts_nothing() {
    let model: Arc<dyn Model> = Arc::new(too_long());
    let before = hook::modify_request_with("judge", model, |model, cx, messages| async move {
        cx.call_model(&model, ModelRequest::new("Is it safe?"))
            .await?;
        Ok(messages)
    });

    check_blame("modify_request", before).await;
    let model: Arc<dyn Model> = Arc::new(too_long());
    let around = hook::wrap_model_call_with("judge", model, |model, request, next| async move {
        let cx = next.context().clone();
        cx.call_model(&model, ModelRequest::new("Is it safe?"))
            .await?;
        next.run(request).await
    });

    check_blame("wrap_model_call", around).await;
}

#[tokio::test]
async fn run_error_inside_a_hook_names_the_hook() {
    let passes = hook::wrap_model_call(
        "passes",
        |request, next| async move { next.run(request).await },
    );
    let child = agent(too_long()).hook(passes).build().unwrap();
    let around = hook::wrap_model_call_with("judge", child, |child, request, next| async move {
        child.run("Is it safe?").await?;
        next.run(request).await
    });
    check_blame("wrap_model_call", around).await;
}
/// Allows every call for the session, and records the questions.
#[derive(Clone, Default)]
struct Always(Arc<Mutex<Vec<String>>>);

#[async_trait]
impl Confirmer for Always {
    async fn confirm(&self, request: &PermissionRequest, _asking: &Asking) -> Answer {
        self.0.lock().unwrap().push(request.question.clone());
        Answer::AllowForSession
    }
}

#[tokio::test]
async fn allow_for_session_for_a_hook_question_covers_equal_calls() {
    let (log, always) = (Log::default(), Always::default());
    let call = |model: ScriptedModel, n: u32| model.call("act", json!({ "n": n }));
    let model = call(call(call(ScriptedModel::new(), 1), 1), 2).say("done");
    let model = call(model, 1)
        .say("done")
        .call("act", json!({"n": 1}))
        .say("done");
    let agent = agent(model)
        .tool(logged("act", &log))
        .hook(pre("ask", ToolDecision::ask("sure?")))
        .confirmer(always.clone())
        .build()
        .unwrap();
    for (session, asked) in [("s", 2), ("s", 2), ("t", 3)] {
        agent.session(session).run("Go").await.unwrap();
        assert_eq!(always.0.lock().unwrap().len(), asked, "{session}");
    }

    assert_eq!(log.len(), 5);
}

#[tokio::test]
async fn session_with_the_id_of_a_deleted_one_has_none_of_its_grants() {
    let rules = PermissionRules::new().ask("act").unwrap();
    let config = PermissionConfig::from_json(r#"{"ask": ["act"]}"#).unwrap();
    let hook = PermissionHook::new(config).unwrap();
    let ask = pre("ask", ToolDecision::ask("sure?"));
    let model = || {
        let model = ScriptedModel::new();
        (0..3).fold(model, |model, _| model.call("act", json!({})).say("done"))
    };
    let builders = [
        agent(model()).hook(ask),
        agent(model()).permissions(rules),
        agent(model()).hook(hook),
    ];
    for (number, builder) in builders.into_iter().enumerate() {
        let (log, always) = (Log::default(), Always::default());
        let builder = builder.tool(logged("act", &log)).confirmer(always.clone());
        let agent = builder.build().unwrap();
        let session = agent.session("s");
        let questions = || always.0.lock().unwrap().len();
        session.clone().run("Go").await.unwrap();
        session.clone().run("Go").await.unwrap();
        assert_eq!(questions(), 1, "{number}");

        assert!(session.delete().await.unwrap());
        session.clone().run("Go").await.unwrap();
        assert_eq!(questions(), 2, "{number}");

        assert_eq!(log.len(), 3, "{number}");
    }
}

#[tokio::test]
async fn fork_with_the_id_of_a_deleted_session_has_none_of_its_grants() {
    let (log, always) = (Log::default(), Always::default());
    let model = ScriptedModel::new();
    let model = (0..3).fold(model, |model, _| model.call("act", json!({})).say("done"));
    let agent = agent(model)
        .tool(logged("act", &log))
        .permissions(PermissionRules::new().ask("act").unwrap())
        .confirmer(always.clone())
        .build()
        .unwrap();
    agent.session("s").run("Go").await.unwrap();
    assert!(agent.session("s").delete().await.unwrap());
    agent.session("t").run("Hello").await.unwrap();
    let copy = agent.session("t").fork("s").await.unwrap();
    copy.run("Go").await.unwrap();
    assert_eq!((always.0.lock().unwrap().len(), log.len()), (3, 3));
}

#[tokio::test]
async fn allow_for_session_for_a_pending_hook_question_covers_equal_calls() {
    let log = Log::default();
    let model = ScriptedModel::new()
        .call("act", json!({}))
        .call("act", json!({}))
        .say("done");
    let agent = agent(model)
        .tool(logged("act", &log))
        .hook(pre("ask", ToolDecision::ask("sure?")))
        .unanswered(OnUnanswered::Park)
        .build()
        .unwrap();
    agent.session("s").run("Go").await.unwrap();
    let calls = agent.session("s").pending().await.unwrap();
    let decision = Decision::allow_for_session(&calls[0]);
    let output = agent.session("s").resume(decision).await.unwrap();
    assert_eq!((output.end, log.len()), (ExitReason::EndTurn, 2));
}

#[tokio::test]
async fn system_messages_of_the_input_apply_until_it_is_answered() {
    let model = ScriptedModel::new()
        .call("act", json!({"n": 1}))
        .calls([("act", json!({"n": 2})), ("act", json!({"n": 3}))])
        .say("Fertig.")
        .say("Done.");
    let agent = agent(model.clone())
        .tool(logged("act", &Log::default()))
        .permissions(asking())
        .unanswered(OnUnanswered::Park)
        .build()
        .unwrap();
    let session = agent.session("s");
    let input = Messages::new().system("In German.").human("Go");
    let output = session.clone().run(input).await.unwrap();
    let stored_call = &output.pending()[0];
    let text = serde_json::to_string(stored_call).unwrap();
    assert!(text.contains("In German."));
    let read_call: PendingCall = serde_json::from_str(&text).unwrap();
    assert_eq!(read_call, *stored_call);
    // Each call is decided in a run of its own.
    for _ in 0..3 {
        let calls = session.pending().await.unwrap();
        let text = serde_json::to_string(&calls).unwrap();
        assert!(!text.contains("In German."));
        let decision = Decision::allow(&calls[0]);
        session.clone().resume(decision).await.unwrap();
    }
    session.run("And now?").await.unwrap();
    let requests = model.requests();
    let systems = requests.iter().map(|request| request.system.to_string());
    let has_prompt: Vec<_> = systems.map(|text| text.contains("In German.")).collect();
    assert_eq!(has_prompt, [true, true, true, false]);
}

#[tokio::test]
async fn context_of_a_pending_call_is_added_to_its_result() {
    let (store, log) = (ThreadStore::new(), Log::default());
    let build = |model: ScriptedModel| {
        let ask = ToolDecision::ask("sure?").with_context("It is Friday.");
        agent(StrictModel::new(model))
            .tool(logged("act", &log))
            .hook(pre("ask", ask))
            .unanswered(OnUnanswered::Park)
            .store(store.clone())
            .build()
            .unwrap()
    };

    let calls = [1, 2, 3].map(|n| ("act", json!({ "n": n })));
    let first = build(ScriptedModel::new().calls(calls));
    first.session("s").run("Go").await.unwrap();
    let calls = serde_json::to_string(&first.session("s").pending().await.unwrap()).unwrap();
    let calls: Vec<PendingCall> = serde_json::from_str(&calls).unwrap();
    let decisions = [
        Decision::allow(&calls[0]),
        Decision::deny(&calls[1], "no"),
        Decision::edit(&calls[2], json!({"n": 9})),
    ];
    let second = build(ScriptedModel::new().say("done"));
    let output = second.session("s").resume(decisions).await.unwrap();
    let expected =
        ["act ran", "Error: no", "act ran"].map(|text| format!("{text}\n\nIt is Friday."));
    assert_eq!(result_texts(&output.messages), expected);
}

#[tokio::test]
async fn context_of_a_pending_call_is_added_when_a_new_input_closes_it() {
    let log = Log::default();
    let ask = ToolDecision::ask("sure?").with_context("It is Friday.");
    let model = ScriptedModel::new()
        .call("act", json!({}))
        .say("Later, then.");
    let agent = agent(StrictModel::new(model))
        .tool(logged("act", &log))
        .hook(pre("ask", ask))
        .unanswered(OnUnanswered::Park)
        .build()
        .unwrap();
    agent.session("s").run("Go").await.unwrap();
    let output = agent.session("s").run("Never mind").await.unwrap();
    let results = result_texts(&output.messages);
    assert!(results[0].contains("not approved"), "{results:?}");
    assert!(results[0].ends_with("\n\nIt is Friday."), "{results:?}");
}
