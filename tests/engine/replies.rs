//! Replies in a person's own words, and questions of tools that wait for one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use agentcore::testing::ScriptedModel;
use agentcore::{
    Agent, AgentBuilder, Answer, BoxError, Decision, ExitReason, FuncTool, OnUnanswered,
    SdkMessage, ToolContext, ToolError,
};
use serde_json::{Value, json};

use crate::kit::{Log, agent, any_object, asking, logged, results, texts, warnings, watch};

#[tokio::test]
async fn reply_to_a_permission_question_is_the_result_of_the_call() {
    let log = Log::default();
    let model = ScriptedModel::new().call("act", json!({})).say("done");
    let agent = agent(model)
        .tool(logged("act", &log))
        .permissions(asking())
        .build()
        .unwrap();
    let mut run = agent.run("Go");
    let responder = run.responder();
    while let Some(message) = run.next().await {
        if let SdkMessage::PermissionRequest(request) = &message {
            assert!(!request.expects_text);
            let (text, picked) = ("Done by hand.".to_owned(), vec![1]);
            responder.respond(request, Answer::Reply { text, picked });
        }
    }
    let output = run.into_output().unwrap();
    let result = &results(&output.messages)[0];
    assert_eq!(result.content.text(), "Done by hand.");
    assert!(!result.is_error);
    let details = json!({"reply": "Done by hand.", "picked": [1]});
    assert_eq!(result.details.as_ref(), Some(&details));
    assert!(output.permission_denials.is_empty());
    assert_eq!(log.len(), 0);
}

#[tokio::test]
async fn reply_to_a_parked_call_is_its_result() {
    let log = Log::default();
    let model = ScriptedModel::new().call("act", json!({})).say("done");
    let builder = agent(model).permissions(asking());
    let agent = builder.clone().tool(logged("act", &log));
    let agent = agent.unanswered(OnUnanswered::Park).build().unwrap();
    let output = agent.session("s").run("Go").await.unwrap();
    let decision = Decision::reply(&output.pending()[0], "Done by hand.");
    let text = serde_json::to_string(&decision).unwrap();
    assert!(
        text.starts_with(r#"{"decision":"reply","id":"pending_"#),
        "{text}"
    );
    assert!(text.ends_with(r#""text":"Done by hand."}"#), "{text}");
    let decision: Decision = serde_json::from_str(&text).unwrap();

    let output = agent.session("s").resume(decision).await.unwrap();
    assert_eq!(output.text, "done");
    assert_eq!(texts(&output.messages), ["Done by hand."]);
    assert_eq!(log.len(), 0);
}

/// A tool that asks for a name, and says whether it got one.
fn ask_name(is_asked: &Arc<AtomicBool>) -> FuncTool {
    let is_asked = is_asked.clone();
    let run = move |cx: ToolContext, _args: Value| {
        is_asked.store(true, Ordering::SeqCst);
        async move {
            match cx.ask_for_text("Your name?").await {
                Answer::Reply { text, .. } => Ok::<_, BoxError>(format!("hello {text}")),
                _ => Err(ToolError::new("no name").with_question("Your name?").into()),
            }
        }
    };
    FuncTool::new("ask_name", "Asks for a name", any_object(), run)
}

fn naming(is_asked: &Arc<AtomicBool>) -> AgentBuilder {
    let model = ScriptedModel::new().call("ask_name", json!({})).say("done");
    agent(model).tool(ask_name(is_asked))
}

#[tokio::test]
async fn question_for_a_text_is_marked_and_answered_in_the_stream() {
    let agent = naming(&Arc::default()).build().unwrap();
    let mut run = agent.run("Go");
    let responder = run.responder();
    while let Some(message) = run.next().await {
        if let SdkMessage::PermissionRequest(request) = &message {
            let wire = serde_json::to_value(&message).unwrap();
            assert_eq!(wire["expects_text"], true);
            responder.respond(request, Answer::reply("Ada"));
        }
    }
    let output = run.into_output().unwrap();
    assert_eq!(texts(&output.messages), ["hello Ada"]);
}

#[tokio::test]
async fn question_of_a_tool_without_an_answer_is_parked() {
    let agent = naming(&Arc::default()).unanswered(OnUnanswered::Park);
    let agent = agent.build().unwrap();
    let output = agent.session("s").run("Go").await.unwrap();
    assert_eq!(output.end, ExitReason::AwaitingApproval);
    let pending = &output.pending()[0];
    assert_eq!(pending.question, "Your name?");
    assert!(texts(&output.messages).is_empty());

    let reply = Decision::reply(pending, "Ada");
    let output = agent.session("s").resume(reply).await.unwrap();
    assert_eq!(texts(&output.messages), ["Ada"]);
    assert_eq!(output.text, "done");
}

#[tokio::test]
async fn question_of_a_tool_without_an_answer_fails_unless_parked() {
    let agent = naming(&Arc::default()).build().unwrap();
    let output = agent.run("Go").await.unwrap();
    assert_eq!(texts(&output.messages), ["Error: no name"]);
    assert!(output.pending().is_empty());
}

#[tokio::test]
async fn allowed_call_asks_again_and_stays_pending_without_an_answer() {
    let is_asked = Arc::<AtomicBool>::default();
    let agent = naming(&is_asked).unanswered(OnUnanswered::Park);
    let agent: Agent = agent.build().unwrap();
    let output = agent.session("s").run("Go").await.unwrap();
    is_asked.store(false, Ordering::SeqCst);
    let allowed = Decision::allow(&output.pending()[0]);
    let (messages, output) = watch(agent.session("s").resume(allowed.clone())).await;
    let output = output.unwrap();
    assert!(is_asked.load(Ordering::SeqCst));
    assert_eq!(output.end, ExitReason::AwaitingApproval);
    assert_eq!(output.pending().len(), 1);
    assert!(
        warnings(&messages)[0].contains("Your name?"),
        "{messages:?}"
    );

    let mut run = agent.session("s").resume(allowed);
    let responder = run.responder();
    while let Some(message) = run.next().await {
        if let SdkMessage::PermissionRequest(request) = &message {
            responder.respond(request, Answer::reply("Ada"));
        }
    }
    let output = run.into_output().unwrap();
    assert_eq!(texts(&output.messages), ["hello Ada"]);
}

#[cfg(feature = "tools")]
#[tokio::test]
async fn user_question_without_a_person_is_parked() {
    use agentcore::testing::ScriptedInteractor;
    use agentcore::tools::ask::ask_user_question;

    let question = json!({
        "question": "Which format?",
        "header": "Format",
        "options": [{"label": "JSON"}, {"label": "YAML"}],
    });
    let model = ScriptedModel::new()
        .call("AskUserQuestion", json!({"questions": [question]}))
        .say("done");
    let nobody = ScriptedInteractor::new().gone("it is night");
    let agent = agent(model)
        .tool(ask_user_question(nobody.clone()))
        .unanswered(OnUnanswered::Park)
        .build()
        .unwrap();
    let output = agent.session("s").run("Go").await.unwrap();
    let pending = &output.pending()[0];
    assert_eq!(pending.question, "Which format?");
    assert_eq!(&*nobody.origins()[0].session_id, "s");
    let reply = Decision::reply(pending, "TOML");
    let output = agent.session("s").resume(reply).await.unwrap();
    assert_eq!(texts(&output.messages), ["TOML"]);
}
