//! Questions with a list of answers, in the stream of a run.
#![cfg(feature = "tools")]

use agentcore::testing::{ScriptedInteractor, ScriptedModel};
use agentcore::tools::ask::{Chosen, InteractorConfirmer, ask_user_question_in_stream};
use agentcore::{
    AgentBuilder, Answer, Decision, ExitReason, OnUnanswered, PermissionRequest, SdkMessage,
};
use serde_json::{Value, json};

use crate::kit::{agent, result_texts};

fn question(name: &str, multiple: bool) -> Value {
    json!({
        "question": name, "header": "Format", "multiSelect": multiple,
        "options": [{"label": "JSON"}, {"label": "YAML", "description": "with comments"}],
    })
}

fn asking(questions: &[Value]) -> AgentBuilder {
    let model = ScriptedModel::new()
        .call("AskUserQuestion", json!({"questions": questions}))
        .say("done");
    agent(model).tool(ask_user_question_in_stream())
}

/// Returns the results of a call that asks `questions`, each answered by `answer`.
async fn result(questions: &[Value], answer: impl Fn(&PermissionRequest) -> Answer) -> Vec<String> {
    let mut run = asking(questions).build().unwrap().run("Go");
    let responder = run.responder();
    while let Some(message) = run.next().await {
        if let SdkMessage::PermissionRequest(request) = message {
            assert!(responder.respond(&request, answer(&request)));
        }
    }
    result_texts(&run.into_output().unwrap().messages)
}

fn pick(text: &str, picked: &[usize]) -> Answer {
    Answer::Reply {
        text: text.to_owned(),
        picked: picked.to_vec(),
    }
}

#[tokio::test]
async fn request_has_the_choices_and_survives_json() {
    let expected = json!({
        "header": "Format", "multiple": true,
        "options": [{"label": "JSON"}, {"label": "YAML", "description": "with comments"}]
    });
    result(&[question("Which?", true)], |request| {
        assert!(request.expects_text);
        let message = SdkMessage::PermissionRequest(Box::new(request.clone()));
        let wire = serde_json::to_value(&message).unwrap();
        assert_eq!(wire["choices"], expected);
        assert_eq!(serde_json::from_value::<SdkMessage>(wire).unwrap(), message);
        pick("", &[0])
    })
    .await;
}

#[tokio::test]
async fn picked_answers_and_texts_are_the_result() {
    for (multiple, answer, expected) in [
        (false, pick("", &[1]), "Which?\n> YAML"),
        (false, pick("YAML", &[1]), "Which?\n> YAML"),
        (false, pick("TOML", &[]), "Which?\n> TOML"),
        (true, pick("", &[0, 1]), "Which?\n> JSON, YAML"),
        (true, pick("TOML", &[0]), "Which?\n> JSON, TOML"),
        (false, Answer::Allow, "Which?\n> yes"),
        (false, Answer::Deny("not now".to_owned()), "Error: not now"),
    ] {
        let result = result(&[question("Which?", multiple)], |_| answer.clone()).await;
        assert_eq!(result, [expected], "{answer:?}");
    }
}

#[tokio::test]
async fn position_without_an_answer_fails_the_call() {
    let result = result(&[question("Which?", false)], |_| pick("", &[7])).await;
    assert!(
        result[0].contains("there is no answer at position 7"),
        "{result:?}"
    );
}

#[tokio::test]
async fn invalid_answer_keeps_the_answers_to_other_questions() {
    let questions = ["First?", "Second?", "Third?"].map(|name| question(name, false));
    let result = result(&questions, |request| {
        let index = if request.question == "Second?" { 7 } else { 0 };
        pick("", &[index])
    });
    let expected = "Error: the answer to \"Second?\" is not valid: there is no answer at \
        position 7\n\nFirst?\n> JSON\n\nThis question was not asked: Third?";
    assert_eq!(result.await, [expected]);
}

#[tokio::test]
async fn questions_of_a_call_are_asked_one_after_the_other() {
    let questions = [question("First?", false), question("Second?", false)];
    let result = result(&questions, |request| {
        pick("", &[usize::from(request.question == "Second?")])
    });
    assert_eq!(result.await, ["First?\n> JSON\n\nSecond?\n> YAML"]);
}

#[tokio::test]
async fn confirmer_with_an_interactor_picks_from_the_choices() {
    let user = ScriptedInteractor::new().choose(Chosen::picked([1]));
    let agent = asking(&[question("Which?", false)]).confirmer(InteractorConfirmer::new(user));
    let output = agent.build().unwrap().run("Go").await.unwrap();
    assert_eq!(result_texts(&output.messages), ["Which?\n> YAML"]);
}

#[tokio::test]
async fn unanswered_question_leaves_the_call_pending_and_its_decision_is_the_result() {
    let agent = asking(&[question("Which?", false)]).unanswered(OnUnanswered::Park);
    let agent = agent.build().unwrap();
    let session = agent.session("th_1");
    let output = session.clone().run("Go").await.unwrap();
    assert_eq!(output.end, ExitReason::AwaitingApproval);

    let pending = session.pending().await.unwrap();
    assert!(pending[0].expects_text);
    let decision = Decision::reply(&pending[0], "YAML");
    let output = session.resume(decision).await.unwrap();
    assert_eq!(result_texts(&output.messages), ["YAML"]);
}
