//! Agents that hand the conversation over to each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use agentcore::model::{ModelProfile, Prices};
use agentcore::permission::PermissionRules;
use agentcore::session::{Lease, Record, SessionInfo, StoredSession};
use agentcore::subagent::{Handoffs, HandoffsBuilder, SubagentDefinition, SubagentRegistry};
use agentcore::testing::ScriptedModel;
use agentcore::tool::{Asking, Confirmer, GateRequest};
use agentcore::{
    Answer, Decision, Error, ErrorKind, ExitReason, Messages, OnUnanswered, PermissionRequest,
    Result, SdkMessage, SessionStore, ThreadStore, ToolDecision, Usage, async_trait, hook, tools,
};
use futures::StreamExt;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::kit::{Gate, Log, agent, kinds, logged, result_texts, text_of};

fn to(agent: &str) -> Value {
    json!({"agent": agent, "reason": "It is theirs"})
}

/// A model each turn of which uses 100 input and 10 output tokens, and costs 0.02 dollars.
fn model(id: &'static str) -> ScriptedModel {
    let profile = ModelProfile::default().with_prices(Prices::new(100.0, 1000.0));
    ScriptedModel::new()
        .with_id(id)
        .with_profile(profile)
        .with_usage(Usage::new(100, 10))
}

fn group(triage: ScriptedModel, billing: ScriptedModel) -> HandoffsBuilder {
    Handoffs::builder("triage", agent(triage)).agent("billing", "Refunds", agent(billing))
}

#[tokio::test]
async fn conversation_continues_with_the_agent_it_was_handed_to() {
    let triage = model("first").call("handoff", to("billing"));
    let billing = model("second")
        .expect(|request| {
            let result = request.messages.last_content().into_owned();
            assert_eq!(result, text_of("handoff"));
        })
        .say("I refund it.")
        .say("Tomorrow.");
    let support = group(triage.clone(), billing).build().unwrap();
    let mut run = support.run("s", "Twice!");
    let mut messages = Vec::new();
    while let Some(message) = run.next().await {
        messages.push(message);
    }
    let output = run.into_output().unwrap();
    let kinds = kinds(&messages);
    let count = |kind: &str| kinds.iter().filter(|one| one.starts_with(kind)).count();
    assert_eq!((count("system/init"), count("result")), (2, 1), "{kinds:?}");
    let inits = messages
        .iter()
        .map(|message| serde_json::to_value(message).unwrap());
    let models: Vec<_> = inits
        .filter_map(|one| one["model"].as_str().map(str::to_owned))
        .collect();
    assert_eq!(models, ["first", "second"]);
    let numbers: Vec<_> = messages
        .iter()
        .map(|message| message.envelope().seq)
        .collect();
    assert!(numbers.is_sorted(), "{numbers:?}");

    let Some(SdkMessage::Result(result)) = messages.last() else {
        panic!("the last message is no result");
    };
    assert_eq!((result.num_turns, result.usage), (2, Usage::new(200, 20)));
    assert_eq!(result.result.as_deref(), Some("I refund it."));
    assert!((result.total_cost_usd.unwrap() - 0.04).abs() < 1e-9);
    assert_eq!(result.model_usage.len(), 2);
    assert_eq!((output.turns, output.usage), (2, Usage::new(200, 20)));
    assert!((output.cost.unwrap() - 0.04).abs() < 1e-9);
    assert_eq!(output.end, ExitReason::EndTurn);
    assert_eq!(support.active(&output.state).name(), "billing");
    let description = &triage.requests()[0].tools[0].description;
    assert!(
        description.ends_with("Agents:\n- billing: Refunds"),
        "{description}"
    );

    let output = support.run("s", "When?").await.unwrap();
    assert_eq!((output.text.as_str(), output.turns), ("Tomorrow.", 1));
}

#[tokio::test]
async fn process_that_ends_between_two_runs_loses_no_handoff() {
    let store = ThreadStore::new();
    let group = |triage: ScriptedModel| {
        let billing = ScriptedModel::new().say("b1").call("handoff", to("legal"));
        let legal = ScriptedModel::new().say("l1").call("handoff", to("triage"));
        billing.allow_unused();
        legal.allow_unused();
        Handoffs::builder("triage", agent(triage))
            .agent("billing", "Refunds", agent(billing))
            .agent("legal", "Law", agent(legal))
            .store(store.clone())
            .build()
            .unwrap()
    };
    let first = ScriptedModel::new()
        .say("t1")
        .call("handoff", to("billing"));
    let first = group(first);
    assert_eq!(first.run("s", "1").await.unwrap().text, "t1");

    // The process ends after the handoff was stored and before the next run begins.
    let mut run = first.run("s", "2");
    let mut inits = 0;
    while let Some(message) = run.next().await {
        inits += usize::from(crate::kit::kind(&message) == "system/init");
        if matches!(message, SdkMessage::User(_)) {
            break;
        }
    }
    assert_eq!(inits, 1);
    drop(run);

    let second = group(ScriptedModel::new().say("t2"));
    let state = store.get("s").unwrap();
    assert_eq!(second.active(&state).name(), "billing");
    assert_eq!(second.run("s", Messages::new()).await.unwrap().text, "b1");
    assert_eq!(second.run("s", "3").await.unwrap().text, "l1");
    let output = second.run("s", "4").await.unwrap();
    assert_eq!((output.text.as_str(), output.turns), ("t2", 2));
    assert_eq!(second.active(&output.state).name(), "triage");
}

#[tokio::test]
async fn system_messages_of_the_input_reach_the_next_agent() {
    let triage = model("first").call("handoff", to("billing"));
    let billing = model("second").say("b1").say("b2");
    let support = group(triage, billing.clone()).build().unwrap();
    let input = Messages::new().system("Customer 4711.").human("Refund!");
    assert_eq!(support.run("s", input).await.unwrap().text, "b1");
    assert_eq!(support.run("s", "Thanks").await.unwrap().text, "b2");
    let requests = billing.requests();
    let systems = requests.iter().map(|request| request.system.to_string());
    let has_prompt: Vec<_> = systems.map(|text| text.contains("4711")).collect();
    assert_eq!(has_prompt, [true, false]);
}

/// Allows every call for the session, and counts the questions.
#[derive(Clone, Default)]
struct Granting(Arc<AtomicUsize>);

#[async_trait]
impl Confirmer for Granting {
    async fn confirm(&self, _request: &PermissionRequest, _asking: &Asking) -> Answer {
        self.0.fetch_add(1, Ordering::Relaxed);
        Answer::AllowForSession
    }
}

#[tokio::test]
async fn conversation_with_the_id_of_a_deleted_one_has_no_grants_of_any_agent() {
    let (log, granting) = (Log::default(), Granting::default());
    let triage = ScriptedModel::new()
        .call("handoff", to("billing"))
        .call("handoff", to("billing"));
    let refund = |model: ScriptedModel| model.call("refund", json!({})).say("done");
    let billing = agent(refund(refund(refund(ScriptedModel::new()))))
        .tool(logged("refund", &log))
        .permissions(PermissionRules::new().ask("refund").unwrap())
        .confirmer(granting.clone());
    let support = Handoffs::builder("triage", agent(triage))
        .agent("billing", "Refunds", billing)
        .build()
        .unwrap();
    support.run("s", "1").await.unwrap();
    support.run("s", "2").await.unwrap();
    assert_eq!((granting.0.load(Ordering::Relaxed), log.len()), (1, 2));
    let session = support.agent("triage").unwrap().session("s");
    assert!(session.delete().await.unwrap());
    support.run("s", "3").await.unwrap();
    assert_eq!((granting.0.load(Ordering::Relaxed), log.len()), (2, 3));
}

#[tokio::test]
async fn handoff_with_the_smallest_results_hands_the_conversation_over() {
    let long_name = "b".repeat(64);
    let triage = ScriptedModel::new().call("handoff", to(&long_name));
    let billing = agent(ScriptedModel::new().say("b1").say("b2"));
    let support = Handoffs::builder("triage", agent(triage).max_result_bytes(1024))
        .agent(&*long_name, "Refunds", billing)
        .build()
        .unwrap();
    let output = support.run("s", "1").await.unwrap();
    assert_eq!(output.text, "b1");
    assert_eq!(
        result_texts(&output.messages),
        [format!("Handed over to {long_name:?}.")]
    );
    assert_eq!(support.run("s", "2").await.unwrap().text, "b2");
}

#[tokio::test]
async fn handoff_in_a_history_of_three_quarters_of_the_limit_hands_the_conversation_over() {
    let triage = ScriptedModel::new().call("handoff", to("billing"));
    let billing = agent(ScriptedModel::new().say("b1"));
    let support = Handoffs::builder("triage", agent(triage).max_history_bytes(100_000))
        .agent("billing", "Refunds", billing)
        .build()
        .unwrap();
    let output = support.run("s", "x".repeat(80_000)).await.unwrap();
    assert_eq!(output.text, "b1");
    assert_eq!(support.active(&output.state).name(), "billing");
}

/// Three agents, four handoffs over six inputs, and a process that ends between two runs.
#[tokio::test]
async fn conversation_of_six_inputs_and_four_handoffs_has_exact_figures_across_processes() {
    let store = ThreadStore::new();
    let group = |triage: ScriptedModel, billing: ScriptedModel, legal: ScriptedModel| {
        Handoffs::builder("triage", agent(triage))
            .agent("billing", "Refunds", agent(billing))
            .agent("legal", "Law", agent(legal))
            .store(store.clone())
            .build()
            .unwrap()
    };
    let triage = model("triage").say("t1").call("handoff", to("billing"));
    let billing = model("billing").say("b2").call("handoff", to("legal"));
    let first = group(triage.clone(), billing.clone(), model("legal"));
    let output = first.run("s", "1").await.unwrap();
    assert_eq!(
        (output.text.as_str(), output.usage),
        ("t1", Usage::new(100, 10))
    );
    let output = first.run("s", "2").await.unwrap();
    assert_eq!(
        (output.text.as_str(), output.usage),
        ("b2", Usage::new(200, 20))
    );

    // The process ends after the second handoff, before the next run begins.
    let mut run = first.run("s", "3");
    while let Some(message) = run.next().await {
        if matches!(message, SdkMessage::User(_)) {
            break;
        }
    }
    drop(run);
    triage.verify().unwrap();
    billing.verify().unwrap();

    let triage = model("triage").say("t5").call("handoff", to("billing"));
    let legal = model("legal")
        .say("l3")
        .say("l4")
        .call("handoff", to("triage"));
    let billing = model("billing").say("b6");
    let second = group(triage, billing, legal);
    let inputs = [
        (Messages::new(), "l3", 1),
        ("4".into(), "l4", 1),
        ("5".into(), "t5", 2),
        ("6".into(), "b6", 2),
    ];
    for (input, text, turns) in inputs {
        let mut run = second.run("s", input);
        let mut results = 0;
        while let Some(message) = run.next().await {
            results += usize::from(matches!(message, SdkMessage::Result(_)));
        }
        let output = run.into_output().unwrap();
        assert_eq!(
            (output.text.as_str(), output.turns, results),
            (text, turns, 1)
        );
        let turns = u64::from(turns);
        assert_eq!(output.usage, Usage::new(100 * turns, 10 * turns));
        assert!((output.cost.unwrap() - 0.02 * turns as f64).abs() < 1e-9);
    }
    let state = store.get("s").unwrap();
    assert_eq!(second.active(&state).name(), "billing");
    assert_eq!(state.messages.user_messages().count(), 6);
}

#[tokio::test]
async fn handoff_beyond_the_limit_is_refused() {
    let bouncing = |name: &'static str, times: usize| {
        let model = ScriptedModel::new();
        (0..times).fold(model, |model, _| model.call("handoff", to(name)))
    };
    let triage = bouncing("billing", 5).say("enough");
    let support = group(triage, bouncing("triage", 4)).build().unwrap();
    let output = support.run("s", "Go").await.unwrap();
    let texts = result_texts(&output.messages);
    assert_eq!(texts.len(), 9);
    assert_eq!(texts[7], r#"Handed over to "triage"."#);
    assert_eq!(texts[8], text_of("handoff, limit"));
    assert_eq!((output.turns, output.text.as_str()), (10, "enough"));
}

#[tokio::test]
async fn handoff_that_is_not_possible_is_an_error() {
    let triage = ScriptedModel::new()
        .call("handoff", to("x"))
        .call("handoff", to("triage"))
        .say("I stay.");
    let support = group(triage, ScriptedModel::new()).build().unwrap();
    let output = support.run("s", "Go").await.unwrap();
    assert_eq!(
        result_texts(&output.messages),
        [text_of("handoff, unknown"), text_of("handoff, self")]
    );
    assert_eq!(support.active(&output.state).name(), "triage");
}

#[tokio::test]
async fn first_of_two_handoffs_counts() {
    let calls = [("handoff", to("billing")), ("handoff", to("legal"))];
    let triage = ScriptedModel::new().calls(calls);
    let support = group(triage, ScriptedModel::new().say("mine"))
        .agent("legal", "Law", agent(ScriptedModel::new()))
        .build()
        .unwrap();
    let output = support.run("s", "Go").await.unwrap();
    assert_eq!(output.text, "mine");
    let expected = r#"Error: "billing" already has the conversation"#;
    assert_eq!(
        result_texts(&output.messages),
        [text_of("handoff"), expected.to_owned()]
    );
}

#[tokio::test]
async fn handoff_whose_result_a_hook_makes_an_error_can_be_repeated() {
    let has_failed = AtomicBool::new(false);
    let audit = hook::post_tool_use("audit", move |_cx, _call, result| {
        let fails = !has_failed.swap(true, Ordering::Relaxed);
        async move {
            if fails {
                Err("no connection".into())
            } else {
                Ok(result)
            }
        }
    });
    let triage = ScriptedModel::new()
        .call("handoff", to("billing"))
        .call("handoff", to("billing"));
    let billing = agent(ScriptedModel::new().say("mine"));
    let support = Handoffs::builder("triage", agent(triage).hook(audit))
        .agent("billing", "Refunds", billing)
        .build()
        .unwrap();
    let output = support.run("s", "Go").await.unwrap();
    assert_eq!(output.text, "mine");
    let texts = result_texts(&output.messages);
    assert!(texts[0].contains("no connection"), "{texts:?}");
    assert_eq!(texts[1], text_of("handoff"));
}

#[tokio::test]
async fn run_that_a_hook_stops_hands_nothing_over_even_if_the_history_was_replaced() {
    let forget_and_stop = hook::before_agent("forget", |cx, mut state| async move {
        state.messages = Messages::new().human("They talked.");
        cx.stop("closed");
        Ok(state)
    });
    let triage = ScriptedModel::new().call("handoff", to("billing"));
    let billing = agent(ScriptedModel::new()).hook(forget_and_stop);
    let support = Handoffs::builder("triage", agent(triage)).agent("billing", "Refunds", billing);
    let output = support.build().unwrap().run("s", "Go").await.unwrap();
    assert_eq!(output.end, ExitReason::HookStopped);
}

#[tokio::test]
async fn rules_restrict_handoffs() {
    for rule in ["handoff(agent:billing)", "Agent(billing)"] {
        let rules = PermissionRules::new()
            .allow("*")
            .unwrap()
            .deny(rule)
            .unwrap();
        let triage = ScriptedModel::new()
            .call("handoff", to("billing"))
            .say("I stay.");
        let support = Handoffs::builder("triage", agent(triage).permissions(rules))
            .agent("billing", "Refunds", agent(ScriptedModel::new()))
            .build()
            .unwrap();
        let output = support.run("s", "Go").await.unwrap();
        assert_eq!(output.permission_denials.len(), 1, "{rule}");
        assert_eq!(output.text, "I stay.", "{rule}");
    }
}

#[tokio::test]
async fn subagent_cannot_hand_over_the_conversation() {
    let mut registry = SubagentRegistry::new();
    let scout = SubagentDefinition::new("Looks around", "You look around.");
    // The definition lists the tool, since it would be withheld otherwise.
    let scout = scout.with_tools(["handoff"]);
    registry.register("scout", scout).unwrap();
    let scout = ScriptedModel::new()
        .call("handoff", to("billing"))
        .say("I cannot.");
    let triage = ScriptedModel::new()
        .call(
            "delegate_to_agent",
            json!({"agent": "scout", "task": "Look"}),
        )
        .say("I stay.");
    let tools = tools::delegate(registry)
        .model(scout.clone())
        .build()
        .unwrap();
    let support = Handoffs::builder("triage", agent(triage).tools(tools))
        .agent("billing", "Refunds", agent(ScriptedModel::new()))
        .build()
        .unwrap();
    assert_eq!(support.run("s", "Go").await.unwrap().text, "I stay.");
    let answer = scout.requests()[1].messages.last_content().into_owned();
    assert_eq!(answer, text_of("handoff, subagent"));
}

#[tokio::test]
async fn responder_answers_the_questions_of_all_agents() {
    let asking = |reply: &'static str| {
        let question = json!({"question": "Deploy?"});
        let model = ScriptedModel::new().call("request_user_input", question);
        model.expect(move |request| assert_eq!(request.messages.last_content(), reply))
    };
    let triage = asking("one").call("handoff", to("billing"));
    let billing = asking("two").say("done");
    let with_tool = |model| agent(model).tool(tools::request_user_input());
    let support = Handoffs::builder("triage", with_tool(triage))
        .agent("billing", "Refunds", with_tool(billing))
        .build()
        .unwrap();
    let mut run = support.run("s", "Go");
    let responder = run.responder();
    let mut replies = ["one", "two"].into_iter();
    while let Some(message) = run.next().await {
        if let SdkMessage::PermissionRequest(request) = message {
            assert!(responder.respond(&request, Answer::reply(replies.next().unwrap())));
        }
    }
    assert_eq!(run.into_output().unwrap().text, "done");
}

#[tokio::test]
async fn handoff_next_to_a_pending_call_waits_for_the_decision() {
    let gate = Gate(|request: &GateRequest| match &*request.call.name {
        "refund" => ToolDecision::ask("sure?"),
        _ => ToolDecision::allow(),
    });
    let log = Log::default();
    let triage = ScriptedModel::new()
        .calls([("refund", json!({})), ("handoff", to("billing"))])
        .say("It is refunded.");
    let triage = agent(triage)
        .tool(logged("refund", &log))
        .permissions(gate)
        .unanswered(OnUnanswered::Park);
    let support = Handoffs::builder("triage", triage)
        .agent(
            "billing",
            "Refunds",
            agent(ScriptedModel::new().say("mine")),
        )
        .build()
        .unwrap();
    let mut run = support.run("s", "Twice!");
    let mut messages = Vec::new();
    while let Some(message) = run.next().await {
        messages.push(message);
    }
    let Some(SdkMessage::Result(result)) = messages.last() else {
        panic!("the last message is no result");
    };
    assert_eq!(result.terminal_reason.as_deref(), Some("tool_deferred"));
    let output = run.into_output().unwrap();
    assert_eq!(output.end, ExitReason::AwaitingApproval);
    let [call] = output.pending() else {
        panic!("{:?}", output.pending());
    };

    let asking = support.agent(call.agent.as_deref().unwrap()).unwrap();
    let resumed = asking.session("s").resume(Decision::allow(call));
    assert_eq!(resumed.await.unwrap().text, "It is refunded.");
    assert_eq!(log.len(), 1);
    assert_eq!(support.run("s", "And now?").await.unwrap().text, "mine");
}

#[tokio::test]
async fn input_that_is_sent_twice_is_answered_once() {
    let triage = ScriptedModel::new().call("handoff", to("billing"));
    let billing = ScriptedModel::new().say("I refund it.");
    let support = group(triage, billing).build().unwrap();
    for turns in [2, 0] {
        let run = support.run("s", "Twice!").input_id("m1").user_id("ann");
        let output = run.await.unwrap();
        assert_eq!(
            (output.text.as_str(), output.turns),
            ("I refund it.", turns)
        );
        assert_eq!(output.state.user_id.as_deref(), Some("ann"));
        assert_eq!(output.messages.user_messages().count(), 1);
    }
}

#[tokio::test]
async fn interrupted_run_begins_no_other() {
    let triage = ScriptedModel::new().call("handoff", to("billing"));
    let support = group(triage, ScriptedModel::new()).build().unwrap();
    let mut run = support.run("s", "Go");
    run.interrupt();
    assert_eq!(run.await.unwrap().end, ExitReason::Interrupted);
}

/// Faults of a store that cannot be read.
enum Unreadable {
    Fails,
    Hangs,
    Panics,
}

#[async_trait]
impl SessionStore for Unreadable {
    async fn load(&self, _id: &str) -> Result<Option<StoredSession>> {
        match self {
            Self::Fails => Err(Error::new(ErrorKind::Other, "the disk is gone")),
            Self::Hangs => std::future::pending().await,
            Self::Panics => panic!("the disk is on fire"),
        }
    }

    async fn append(&self, _lease: &Lease, _records: Vec<Record>) -> Result<()> {
        Ok(())
    }

    async fn list(&self) -> Result<Vec<SessionInfo>> {
        Ok(Vec::new())
    }

    async fn delete(&self, _id: &str) -> Result<bool> {
        Ok(false)
    }

    async fn lease(&self, id: &str) -> Result<Lease> {
        Ok(Lease::new(id, 1, || {}))
    }
}

#[tokio::test]
async fn session_that_cannot_be_loaded_is_one_result_and_an_error() {
    let support = group(ScriptedModel::new(), ScriptedModel::new()).store(Unreadable::Fails);
    let mut run = support.build().unwrap().run("s", "Go");
    let messages: Vec<_> = (&mut run).collect().await;
    assert_eq!(kinds(&messages), ["result/error_during_execution"]);
    assert_eq!(run.into_output().unwrap_err().kind(), ErrorKind::Other);
}

#[tokio::test(start_paused = true)]
async fn interrupt_ends_a_run_whose_session_does_not_load() {
    let support = group(ScriptedModel::new(), ScriptedModel::new()).store(Unreadable::Hangs);
    let mut run = support.build().unwrap().run("s", "Go");
    let hour = std::time::Duration::from_secs(3_600);
    assert!(tokio::time::timeout(hour, run.next()).await.is_err());
    run.interrupt();
    let output = tokio::time::timeout(hour, run.finish()).await;
    assert_eq!(output.unwrap().unwrap().end, ExitReason::Interrupted);
}

#[tokio::test(start_paused = true)]
async fn run_whose_session_does_not_load_ends_at_the_time_limit() {
    let triage = agent(ScriptedModel::new()).max_duration(Duration::from_secs(20));
    let support = Handoffs::builder("triage", triage).store(Unreadable::Hangs);
    let mut run = support.build().unwrap().run("s", "Go");
    let start = Instant::now();
    let messages: Vec<_> = (&mut run).collect().await;
    assert_eq!(kinds(&messages), ["result/error_during_execution"]);
    assert_eq!(start.elapsed(), Duration::from_secs(20));
    let error = run.into_output().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(error.to_string().contains("\"s\""), "{error}");
}

#[tokio::test]
async fn store_that_panics_ends_the_run_with_an_error() {
    let support = group(ScriptedModel::new(), ScriptedModel::new()).store(Unreadable::Panics);
    let mut run = support.build().unwrap().run("s", "Go");
    let messages: Vec<_> = (&mut run).collect().await;
    assert_eq!(kinds(&messages), ["result/error_during_execution"]);
    let error = run.into_output().unwrap_err().to_string();
    assert!(error.contains("panicked: the disk is on fire"), "{error}");
}

#[tokio::test]
async fn group_has_agents_with_different_names() {
    for name in ["triage", "a b", ""] {
        let builder = group(ScriptedModel::new(), ScriptedModel::new());
        let error = builder.agent(name, "", agent(ScriptedModel::new())).build();
        assert_eq!(error.unwrap_err().kind(), ErrorKind::Config, "{name}");
    }
}

#[tokio::test]
async fn default_store_of_a_group_is_bounded_like_that_of_an_agent() {
    let model = agentcore::testing::FunctionModel::text(|_| "ok".to_owned());
    let support = Handoffs::builder("triage", agent(model)).build().unwrap();
    for number in 0..1_001 {
        support.run(format!("s{number}"), "Hi").await.unwrap();
    }
    let sessions = support.agent("triage").unwrap().sessions().await.unwrap();
    assert_eq!(sessions.len(), 1_000);
}
