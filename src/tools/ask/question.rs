//! `AskUserQuestion`.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::error::BoxError;
use crate::tool::{Asking, FuncTool, SideEffect, ToolError, ToolOutput};

use super::interactor::{Choice, ChoiceOption, Chosen, Interactor};

/// People take their time. The limits of the run still apply.
const PATIENCE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

#[derive(Deserialize)]
struct Arguments {
    questions: Vec<Question>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Question {
    question: String,
    header: String,
    options: Vec<Answer>,
    #[serde(default)]
    multi_select: bool,
}

#[derive(Deserialize)]
struct Answer {
    label: String,
    #[serde(default)]
    description: String,
}

/// `AskUserQuestion`: asks one to four questions, one after the other, each with two to four
/// answers to pick from or an answer in the user's own words.
///
/// The model reads each question with its answer; the result's details are `{"answers":
/// [{"question", "picked": [label], "text"}]}`. When there is no person to ask, the call fails with
/// the interactor's reason; an agent that [parks](crate::OnUnanswered::Park) questions waits for
/// the answer, and [`Decision::reply`](crate::Decision::reply) is then the result. The tool changes
/// nothing, so plan mode allows it.
///
/// ```
/// use agentcore::testing::ScriptedInteractor;
/// use agentcore::tools::ask::{self, Chosen};
/// use agentcore::{Tool, ToolContext};
/// use serde_json::json;
///
/// # async fn example() -> Result<(), agentcore::BoxError> {
/// let user = ScriptedInteractor::new().choose(Chosen::picked([1]));
/// let tool = ask::ask_user_question(user);
/// let question = json!({
///     "question": "Which format?",
///     "header": "Format",
///     "options": [{"label": "JSON"}, {"label": "YAML", "description": "with comments"}],
/// });
/// let output = tool.execute(ToolContext::detached(), json!({"questions": [question]})).await?;
/// assert_eq!(output.content.text(), "Which format?\n> YAML");
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(example()).unwrap();
/// ```
pub fn ask_user_question(interactor: impl Interactor) -> FuncTool {
    let description = "Asks the user one to four questions with two to four answers each, and \
        waits. The user picks an answer or writes another one, so do not offer one named other. \
        Ask when a decision is the user's and the task does not settle it.";
    let interactor: Arc<dyn Interactor> = Arc::new(interactor);
    FuncTool::new(
        "AskUserQuestion",
        description,
        parameters(),
        move |cx, args| ask(interactor.clone(), cx.asking(), args),
    )
    .side_effect(SideEffect::ReadOnly)
    .exclusive()
    .timeout(PATIENCE)
}

fn parameters() -> Value {
    let option = json!({
        "type": "object",
        "properties": {
            "label": {"type": "string", "minLength": 1, "description": "The answer, in one to five words"},
            "description": {"type": "string", "description": "What it means or leads to"}
        },
        "required": ["label"]
    });

    let question = json!({
        "type": "object",
        "properties": {
            "question": {"type": "string", "minLength": 1, "description": "The whole question"},
            "header": {"type": "string", "maxLength": 12, "description": "Its subject, in at most 12 characters"},
            "options": {"type": "array", "minItems": 2, "maxItems": 4, "items": option},
            "multiSelect": {"type": "boolean", "description": "Let the user pick several"}
        },
        "required": ["question", "header", "options"]
    });

    json!({
        "type": "object",
        "properties": {
            "questions": {"type": "array", "minItems": 1, "maxItems": 4, "items": question}
        },
        "required": ["questions"]
    })
}

async fn ask(
    interactor: Arc<dyn Interactor>,
    asking: Asking,
    args: Value,
) -> Result<ToolOutput, BoxError> {
    let arguments: Arguments = serde_json::from_value(args)?;
    let mut lines = Vec::new();
    let mut answers = Vec::new();
    for question in arguments.questions {
        let choice = choice(question);
        let selection = interactor.choose(&asking, &choice).await.map_err(|error| {
            let text = format!(
                "the user could not be asked: {error}; decide yourself, or report what you need \
                 to know"
            );
            ToolError::new(text).with_text_question(choice.question.clone())
        })?;

        choice.check(&selection)?;
        let picked_labels: Vec<&str> = labels(&choice, &selection).collect();
        let answer_texts = picked_labels
            .iter()
            .copied()
            .chain(selection.text.as_deref());
        let answer_texts = answer_texts.collect::<Vec<_>>().join(", ");
        lines.push(format!("{}\n> {answer_texts}", choice.question));
        answers.push(
            json!({"question": choice.question, "picked": picked_labels, "text": selection.text}),
        );
    }

    Ok(ToolOutput::new(lines.join("\n\n")).with_details(json!({"answers": answers})))
}

fn choice(question: Question) -> Choice {
    let options = question.options.into_iter();
    let options =
        options.map(|option| ChoiceOption::new(option.label).with_description(option.description));
    let choice = Choice::new(question.question)
        .with_header(question.header)
        .multiple(question.multi_select)
        .or_text("another answer");
    options.fold(choice, Choice::option)
}

fn labels<'a>(choice: &'a Choice, chosen: &'a Chosen) -> impl Iterator<Item = &'a str> {
    let indices = chosen.picked.iter();
    indices.filter_map(|at| Some(choice.options.get(*at)?.label.as_str()))
}
