//! Messages with an id that are sent to a run in progress.

use agentcore::testing::{ScriptedModel, StrictModel};
use agentcore::{Agent, ExitReason, RunOutput, SdkMessage, Session};

use crate::kit::{agent, asking, echo, roles, stored, watch};
use serde_json::json;

fn strict(model: ScriptedModel) -> Agent {
    let agent = agent(StrictModel::new(model)).tool(echo());
    agent.build().unwrap()
}

/// Runs the session, and sends an input with this `id` `times` times after each answer.
async fn run_and_steer(session: Session, id: &str, times: usize) -> RunOutput {
    let mut run = session.run("Go");
    let handle = run.handle();
    while let Some(message) = run.next().await {
        if matches!(message, SdkMessage::Assistant(_)) {
            for _ in 0..times {
                handle.steer_input(id, "Faster");
            }
        }
    }
    run.into_output().unwrap()
}

#[tokio::test]
async fn steered_input_that_is_sent_again_is_added_once() {
    let model = ScriptedModel::new()
        .call("echo", json!({"text": "1"}))
        .call("echo", json!({"text": "2"}))
        .say("done");
    let agent = strict(model.clone());
    let output = run_and_steer(agent.session("s"), "m1", 3).await;
    assert_eq!(output.text, "done");
    model.assert_finished();
    assert_eq!(
        roles(&stored(&agent, "s").await),
        "user assistant tool user assistant tool assistant"
    );
}

#[tokio::test]
async fn steered_input_is_an_input_of_the_session() {
    let model = ScriptedModel::new()
        .call("echo", json!({"text": "1"}))
        .say("done");
    let agent = strict(model);
    run_and_steer(agent.session("s"), "m1", 1).await;
    let again = agent.session("s").input_id("m1").run("Faster").await;
    let again = again.unwrap();
    assert_eq!((&*again.text, again.turns), ("done", 0));
}

#[tokio::test]
async fn input_of_an_earlier_run_is_not_steered_again() {
    let model = ScriptedModel::new().say("first").say("second");
    let agent = strict(model.clone());
    agent.session("s").input_id("m1").run("Hi").await.unwrap();
    let output = run_and_steer(agent.session("s"), "m1", 1).await;
    assert_eq!(output.text, "second");
    assert_eq!(roles(&output.messages), "user assistant user assistant");
    model.assert_finished();
}

#[tokio::test]
async fn input_of_the_run_itself_is_not_steered_again() {
    let agent = strict(ScriptedModel::new().say("done"));
    let output = run_and_steer(agent.session("s").input_id("m1"), "m1", 2).await;
    assert_eq!((output.text.as_str(), output.turns), ("done", 1));
    assert_eq!(roles(&output.messages), "user assistant");
}

/// An agent whose model makes a call that waits for approval.
fn parking() -> Agent {
    let model = ScriptedModel::new()
        .call("echo", json!({"text": "1"}))
        .say("faster");
    agent(StrictModel::new(model))
        .tool(echo())
        .permissions(asking())
        .unanswered(agentcore::OnUnanswered::Park)
        .build()
        .unwrap()
}

#[tokio::test]
async fn steered_input_after_the_last_turn_waits_for_the_next_run() {
    let agent = parking();
    let output = run_and_steer(agent.session("s"), "m1", 1).await;
    assert_eq!(output.end, ExitReason::AwaitingApproval);
    assert_eq!(roles(&stored(&agent, "s").await), "user assistant user");
    let calls = output.pending();
    let decision = agentcore::Decision::allow(&calls[0]);
    let (_, output) = watch(agent.session("s").resume(decision)).await;
    assert_eq!(output.unwrap().text, "faster");
    let again = agent.session("s").input_id("m1").run("Faster").await;
    assert_eq!(again.unwrap().turns, 0);
}

#[tokio::test]
async fn steered_inputs_move_with_their_messages_when_a_pending_call_gets_its_result() {
    for is_approved in [true, false] {
        let agent = parking();
        let mut run = agent.session("s").run("Go");
        let handle = run.handle();
        while let Some(message) = run.next().await {
            if matches!(message, SdkMessage::Assistant(_)) {
                assert!(handle.steer_input("m6", "Faster"));
                assert!(handle.steer_input("m7", "Shorter"));
            }
        }
        let output = run.into_output().unwrap();
        let history = stored(&agent, "s").await;
        assert_eq!(roles(&history), "user assistant user user");

        let session = agent.session("s");
        let run = if is_approved {
            session.resume(agentcore::Decision::allow(&output.pending()[0]))
        } else {
            session.run("Never mind")
        };
        let state = serde_json::to_value(run.await.unwrap().state).unwrap();
        let starts: Vec<_> = state["inputs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|input| (input["id"].clone(), input["from"].clone()))
            .collect();
        let expected = [("m6", 3), ("m7", 4)].map(|(id, start)| (json!(id), json!(start)));
        assert_eq!(starts, expected, "approved: {is_approved}");
        assert_eq!(state["messages"][3]["content"], "Faster");
    }
}
