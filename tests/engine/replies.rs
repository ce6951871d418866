//! Replies in a person's own words, and questions of tools that wait for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use agentcore::testing::ScriptedModel;
use agentcore::{
    Agent, AgentBuilder, Answer, BoxError, Decision, ErrorKind, ExitReason, FuncTool, OnUnanswered,
    SdkMessage, ToolContext, ToolError, hook,
};
use serde_json::{Value, json};

use crate::kit::{Log, agent, any_object, asking, logged, progress, result_texts, results, watch};

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
    let details = json!({"picked": [1]});
    assert_eq!(result.details.as_ref(), Some(&details));
    assert!(output.permission_denials.is_empty());
    assert_eq!(log.len(), 0);
}

#[tokio::test]
async fn reply_to_a_pending_call_is_its_result() {
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
    let result = &results(&output.messages)[0];
    assert_eq!(result.content.text(), "Done by hand.");
    assert_eq!(result.details, None);
    assert_eq!(log.len(), 0);
}

/// A tool that asks for a name and greets it. It sets `is_asked` when it runs.
fn ask_name(is_asked: &Arc<AtomicBool>) -> FuncTool {
    let is_asked = is_asked.clone();
    let run = move |cx: ToolContext, _args: Value| {
        is_asked.store(true, Ordering::SeqCst);
        async move {
            match cx.ask_for_text("Your name?").await {
                Answer::Reply { text, .. } => Ok::<_, BoxError>(format!("hello {text}")),
                _ => Err(ToolError::new("no name")
                    .with_text_question("Your name?")
                    .into()),
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
    assert_eq!(result_texts(&output.messages), ["hello Ada"]);
}

#[tokio::test]
async fn question_of_a_tool_without_an_answer_leaves_the_call_pending() {
    let agent = naming(&Arc::default()).unanswered(OnUnanswered::Park);
    let agent = agent.build().unwrap();
    let output = agent.session("s").run("Go").await.unwrap();
    assert_eq!(output.end, ExitReason::AwaitingApproval);
    let pending = &output.pending()[0];
    assert_eq!(pending.question, "Your name?");
    assert!(pending.expects_text);
    assert!(result_texts(&output.messages).is_empty());

    let reply = Decision::reply(pending, "Ada");
    let output = agent.session("s").resume(reply).await.unwrap();
    assert_eq!(result_texts(&output.messages), ["Ada"]);
    assert_eq!(output.text, "done");
}

#[tokio::test]
async fn question_of_a_tool_without_an_answer_fails_unless_its_call_stays_pending() {
    let agent = naming(&Arc::default()).build().unwrap();
    let output = agent.run("Go").await.unwrap();
    assert_eq!(result_texts(&output.messages), ["Error: no name"]);
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
    let output = agent.session("s").resume(allowed.clone()).await.unwrap();
    assert!(is_asked.load(Ordering::SeqCst));
    assert_eq!(output.end, ExitReason::AwaitingApproval);
    assert_eq!(output.pending().len(), 1);
    let repeated = agent.session("s").resume(allowed).await.unwrap_err();
    assert_eq!(repeated.kind(), ErrorKind::Conflict);

    let allowed = Decision::allow(&output.pending()[0]);
    let mut run = agent.session("s").resume(allowed);
    let responder = run.responder();
    while let Some(message) = run.next().await {
        if let SdkMessage::PermissionRequest(request) = &message {
            responder.respond(request, Answer::reply("Ada"));
        }
    }
    let output = run.into_output().unwrap();
    assert_eq!(result_texts(&output.messages), ["hello Ada"]);
}

#[tokio::test]
async fn allowed_call_waits_for_the_question_of_its_tool() {
    let agent = naming(&Arc::default())
        .permissions(asking())
        .unanswered(OnUnanswered::Park)
        .build()
        .unwrap();
    let output = agent.session("s").run("Go").await.unwrap();
    let permission = output.pending()[0].clone();
    assert_eq!(permission.question, "run ask_name?");

    let allowed = Decision::allow(&permission);
    let output = agent.session("s").resume(allowed).await.unwrap();
    assert_eq!(output.end, ExitReason::AwaitingApproval);
    let [pending] = output.pending() else {
        panic!("{:?}", output.pending());
    };
    assert_eq!(pending.question, "Your name?");
    assert_ne!(pending.id, permission.id);
    let state = agent.session("s").state().await.unwrap();
    assert_eq!(state.unwrap().pending, output.pending());

    let reply = Decision::reply(pending, "Ada");
    let output = agent.session("s").resume(reply).await.unwrap();
    assert_eq!(result_texts(&output.messages), ["Ada"]);
    assert_eq!(output.text, "done");
}

/// Returns the states of the calls of a run, in the order of their progress messages.
fn states(messages: &[SdkMessage]) -> Vec<String> {
    let states = progress(messages).into_iter().filter_map(|progress| {
        let data = progress.data.as_ref()?;
        data["state"].as_str().map(str::to_owned)
    });
    states.collect()
}

#[tokio::test]
async fn pending_call_is_waiting_and_has_no_result_for_hooks() {
    let log = Log::default();
    let seen = log.clone();
    let post = hook::post_tool_use("post", move |_cx, _call, result| {
        seen.add(result.content.text());
        async move { Ok(result) }
    });
    let agent = naming(&Arc::default())
        .hook(post)
        .unanswered(OnUnanswered::Park)
        .build()
        .unwrap();
    let (messages, output) = watch(agent.session("s").run("Go")).await;
    assert_eq!(states(&messages), ["started", "waiting"]);
    let progress = progress(&messages);
    assert!(progress.iter().any(|progress| progress.is_waiting()));
    assert_eq!(log.len(), 0);

    let allowed = Decision::allow(&output.unwrap().pending()[0]);
    let mut run = agent.session("s").resume(allowed);
    let responder = run.responder();
    let mut messages = Vec::new();
    while let Some(message) = run.next().await {
        if let SdkMessage::PermissionRequest(request) = &message {
            responder.respond(request, Answer::reply("Ada"));
        }
        messages.push(message);
    }
    assert_eq!(states(&messages), ["started", "done"]);
    assert_eq!(log.take(), ["hello Ada"]);
}

#[tokio::test]
async fn question_of_a_tool_is_cut_to_the_limit_of_results() {
    let run = |_cx, _args: Value| async {
        let error = ToolError::new("no name").with_question("x".repeat(100_000));
        Err::<String, BoxError>(error.into())
    };
    let model = ScriptedModel::new().call("long", json!({}));
    let agent = agent(model)
        .tool(FuncTool::new("long", "Asks", any_object(), run))
        .max_result_bytes(2_000)
        .unanswered(OnUnanswered::Park)
        .build()
        .unwrap();
    let output = agent.run("Go").await.unwrap();
    let question = &output.pending()[0].question;
    let note = "... (cut: 100000 bytes are more than the limit of 2000)";
    assert!(question.len() < 2_000, "{}", question.len());
    assert!(question.ends_with(note), "{question}");
}

#[cfg(feature = "tools")]
#[tokio::test]
async fn user_question_without_a_person_leaves_the_call_pending() {
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
    let interactor = ScriptedInteractor::new().gone("it is night");
    let agent = agent(model)
        .tool(ask_user_question(interactor.clone()))
        .unanswered(OnUnanswered::Park)
        .build()
        .unwrap();
    let output = agent.session("s").run("Go").await.unwrap();
    let pending = &output.pending()[0];
    assert_eq!(pending.question, "Which format?");
    assert_eq!(&*interactor.origins()[0].session_id, "s");
    let reply = Decision::reply(pending, "TOML");
    let output = agent.session("s").resume(reply).await.unwrap();
    assert_eq!(result_texts(&output.messages), ["TOML"]);
}
