//! `request_user_input` and `request_user_approval`.

use agentcore::session::PendingCall;
use agentcore::subagent::{SubagentDefinition, SubagentRegistry};
use agentcore::testing::ScriptedModel;
use agentcore::{
    AgentBuilder, Answer, Decision, ExitReason, OnUnanswered, Responder, Run, RunOutput,
    SdkMessage, ThreadStore, tools,
};
use serde_json::json;

use crate::kit::{agent, result_texts};

fn asking(tool: &str) -> AgentBuilder {
    let model = ScriptedModel::new()
        .call(tool, json!({"question": "Deploy?"}))
        .say("done");
    agent(model)
        .tool(tools::request_user_input())
        .tool(tools::request_user_approval())
}

/// Runs to the end, and passes each question to `answer`.
async fn answered(mut run: Run, answer: impl Fn(&Responder, &str)) -> RunOutput {
    let responder = run.responder();
    while let Some(message) = run.next().await {
        if let SdkMessage::PermissionRequest(request) = message {
            assert_eq!(request.question, "Deploy?");
            answer(&responder, &request.id);
        }
    }
    run.into_output().unwrap()
}

#[tokio::test]
async fn answer_is_the_result_of_the_call() {
    let deny = || Answer::Deny("not on a Friday".to_owned());
    for (tool, answer, expected) in [
        (
            "request_user_input",
            Answer::reply("to staging"),
            "to staging",
        ),
        ("request_user_input", Answer::Allow, "yes"),
        ("request_user_input", deny(), "Error: not on a Friday"),
        ("request_user_approval", Answer::Allow, "approved"),
        ("request_user_approval", Answer::AllowForSession, "approved"),
        ("request_user_approval", Answer::reply("later"), "later"),
        ("request_user_approval", deny(), "Error: not on a Friday"),
    ] {
        let run = asking(tool).build().unwrap().run("Go");
        let output = answered(run, |responder, id| {
            assert!(responder.respond(id, answer.clone()));
            // Only the first answer counts.
            assert!(!responder.respond(id, Answer::Deny("no".to_owned())));
        });
        assert_eq!(
            result_texts(&output.await.messages),
            [expected],
            "{tool} {answer:?}"
        );
    }
}

#[tokio::test]
async fn question_without_an_answer_is_an_error_for_the_model() {
    for tool in ["request_user_input", "request_user_approval"] {
        let output = asking(tool).build().unwrap().run("Go").await.unwrap();
        let expected = "Error: the question was not answered; decide yourself, or report what you \
                        need to know";
        assert_eq!(result_texts(&output.messages), [expected]);
    }
}

#[tokio::test]
async fn pending_question_is_answered_by_a_decision() {
    type Decide = fn(&PendingCall) -> Decision;
    let reply: Decide = |call| Decision::reply(call, "to staging");
    let allow: Decide = Decision::allow;
    let deny: Decide = |call| Decision::deny(call, "not on a Friday");
    for (tool, decide, expected) in [
        ("request_user_input", reply, "to staging"),
        ("request_user_approval", allow, "approved"),
        ("request_user_approval", reply, "to staging"),
        ("request_user_approval", deny, "Error: not on a Friday"),
    ] {
        let agent = asking(tool)
            .store(ThreadStore::new())
            .unanswered(OnUnanswered::Park)
            .build()
            .unwrap();
        let output = agent.session("s").run("Go").await.unwrap();
        assert_eq!(output.end, ExitReason::AwaitingApproval, "{tool}");
        let pending = output.pending();
        assert_eq!(pending[0].question, "Deploy?");

        let output = agent
            .session("s")
            .resume(decide(&pending[0]))
            .await
            .unwrap();
        assert_eq!(output.end, ExitReason::EndTurn, "{tool}");
        assert_eq!(result_texts(&output.messages), [expected], "{tool}");
    }
}

#[tokio::test]
async fn question_of_a_subagent_reaches_the_responder_of_the_run_at_the_top() {
    let mut registry = SubagentRegistry::new();
    let scout = SubagentDefinition::new("Looks around", "You look around.");
    registry.register("scout", scout).unwrap();
    let question = json!({"question": "Deploy?"});
    let scout = ScriptedModel::new()
        .call("request_user_input", question)
        .say("All quiet.");
    let call = json!({"agent": "scout", "task": "Look"});
    let model = ScriptedModel::new()
        .call("delegate_to_agent", call)
        .say("done");
    let lead = agent(model)
        .tools(
            tools::delegate(registry)
                .model(scout.clone())
                .build()
                .unwrap(),
        )
        .tool(tools::request_user_input());
    let count = std::sync::atomic::AtomicUsize::new(0);
    let output = answered(lead.build().unwrap().run("Go"), |responder, id| {
        count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        responder.respond(id, Answer::reply("yes, please"));
    });
    assert_eq!(result_texts(&output.await.messages), ["All quiet."]);
    assert_eq!(count.into_inner(), 1);
    assert_eq!(scout.requests()[1].messages.last_content(), "yes, please");
}
