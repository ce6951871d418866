//! The tools `request_user_input` and `request_user_approval`.

use serde_json::{Value, json};

use crate::error::BoxError;
use crate::tool::{Answer, FuncTool, SideEffect, ToolContext, ToolError};

/// Creates the tool `request_user_input`, which asks the user a question and returns the reply.
///
/// The question belongs to the run: its [`Confirmer`](crate::tool::Confirmer), or else a
/// [`Responder`](crate::Responder), answers it with [`Answer::Reply`]. The first answer counts.
/// Questions of subagents go to the top-level run. The result of [`Answer::Allow`] is `yes`, and of
/// [`Answer::Edit`] its value as JSON; [`Answer::Deny`] is an error with its reason. Without an
/// answer the call fails, unless the agent [parks](crate::OnUnanswered::Park) questions: then the
/// call waits, and [`Decision::reply`](crate::Decision::reply) is its result. The tool is
/// read-only, so plan mode allows it.
///
/// ```
/// use agentcore::testing::ScriptedModel;
/// use agentcore::{AgentBuilder, Answer, SdkMessage, tools};
/// use serde_json::json;
///
/// # async fn example() -> agentcore::Result<()> {
/// let model = ScriptedModel::new()
///     .call("request_user_input", json!({"question": "Which city?"}))
///     .expect(|request| assert_eq!(request.messages.last_content(), "Oslo"))
///     .say("Sunny.");
/// let agent = AgentBuilder::new(model).tool(tools::request_user_input()).build()?;
/// let mut run = agent.run("The weather, please");
/// let responder = run.responder();
/// while let Some(message) = run.next().await {
///     if let SdkMessage::PermissionRequest(request) = message {
///         responder.respond(&request, Answer::reply("Oslo"));
///     }
/// }
/// assert_eq!(run.into_output()?.text, "Sunny.");
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
pub fn request_user_input() -> FuncTool {
    let description = "Asks the user a question and returns the reply. Ask for what cannot be found \
        out otherwise.";
    let run = |cx: ToolContext, args: Value| async move {
        let question = question_of(&args);
        match cx.ask_for_text(question.as_str()).await {
            Answer::Reply { text, .. } => Ok(text),
            Answer::Allow | Answer::AllowForSession => Ok("yes".to_owned()),
            Answer::Edit(value) => Ok(value.to_string()),
            Answer::Deny(reason) => Err(ToolError::new(reason).into()),
            Answer::Unanswered => Err(unanswered().with_text_question(question).into()),
        }
    };
    tool("request_user_input", description, run)
}

/// Creates the tool `request_user_approval`, which asks the user to approve what the question
/// describes, and returns `approved`, or the reply.
///
/// A denial is an error with its reason. The question is answered like a question of
/// [`request_user_input`]; the question of a pending call is answered by
/// [`Decision::allow`](crate::Decision::allow), [`deny`](crate::Decision::deny) or
/// [`reply`](crate::Decision::reply).
pub fn request_user_approval() -> FuncTool {
    let description = "Asks the user to approve what the question describes. Ask before steps that \
        cannot be undone.";
    let run = |cx: ToolContext, args: Value| async move {
        let question = question_of(&args);
        match cx.ask(question.as_str()).await {
            Answer::Allow | Answer::AllowForSession => Ok("approved".to_owned()),
            Answer::Edit(value) => Ok(format!("approved with changes: {value}")),
            Answer::Reply { text, .. } => Ok(text),
            Answer::Deny(reason) => Err(ToolError::new(reason).into()),
            Answer::Unanswered => Err(unanswered().with_question(question).into()),
        }
    };
    tool("request_user_approval", description, run)
}

fn tool<F, T>(name: &str, description: &str, run: F) -> FuncTool
where
    F: Fn(ToolContext, Value) -> T + Send + Sync + 'static,
    T: Future<Output = Result<String, BoxError>> + Send + 'static,
{
    let parameters = json!({
        "type": "object",
        "properties": {
            "question": {"type": "string", "minLength": 1, "description": "The whole question"}
        },
        "required": ["question"]
    });
    FuncTool::new(name, description, parameters, run).side_effect(SideEffect::ReadOnly)
}

fn question_of(args: &Value) -> String {
    args["question"].as_str().unwrap_or_default().to_owned()
}

fn unanswered() -> ToolError {
    let text = "the question was not answered; decide yourself, or report what you need to know";
    ToolError::new(text)
}
