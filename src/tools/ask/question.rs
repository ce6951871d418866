//! The tool `AskUserQuestion`, with an interactor or with questions of the run.

use std::iter;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::error::BoxError;
use crate::tool::{Answer, Asking, FuncTool, SideEffect, ToolContext, ToolError, ToolOutput};

use super::interactor::{Choice, ChoiceOption, Chosen, Interactor};

/// The time limit of a call, which waits for a person. The limits of the run still apply.
const MAX_WAIT: Duration = Duration::from_secs(7 * 24 * 60 * 60);

#[derive(Deserialize)]
struct Arguments {
    questions: Vec<Question>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Question {
    question: String,
    header: String,
    options: Vec<OptionArgument>,
    #[serde(default)]
    multi_select: bool,
}

#[derive(Deserialize)]
struct OptionArgument {
    label: String,
    #[serde(default)]
    description: String,
}

/// Creates the tool `AskUserQuestion`, which asks one to four questions, one after another. Each
/// has two to four options to pick from; the user may also answer in their own words.
///
/// The model reads each question with its answer. The result's details are
/// `{"answers": [{"question", "picked": [label], "text"}]}`. If there is no person to ask, the call
/// fails with the interactor's reason, unless the agent [parks](crate::OnUnanswered::Park)
/// questions. Then the call waits, and its result is the text of
/// [`Decision::reply`](crate::Decision::reply), together with the earlier answers and the questions
/// that were not asked. An answer that is not valid fails the call; the error has the earlier
/// answers and the questions that were not asked. The tool is read-only, so plan mode allows it.
///
/// A call waits for the interactor for up to seven days. The run's limits end it, but neither
/// [`tool_timeout`](crate::AgentBuilder::tool_timeout) nor
/// [`ask_timeout`](crate::AgentBuilder::ask_timeout) does: an interactor whose person may be away
/// needs a limit of its own.
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
    let interactor: Arc<dyn Interactor> = Arc::new(interactor);
    tool(move |_cx, asking, choice| {
        let interactor = interactor.clone();
        async move {
            let chosen = interactor.choose(&asking, &choice).await;
            chosen.map_err(|error| {
                unanswered(&choice, &format!("the user could not be asked: {error}")).into()
            })
        }
    })
}

/// Creates the tool `AskUserQuestion`, like [`ask_user_question`], but with questions of the run.
///
/// The run's [`Confirmer`](crate::tool::Confirmer), or else a [`Responder`](crate::Responder),
/// answers them with an [`Answer::Reply`](crate::Answer::Reply) that has the indexes of the picked
/// options or a text.
///
/// The `permission_request` in the stream has [`choices`](crate::PermissionRequest::choices).
/// [`Answer::Allow`](crate::Answer::Allow) is the text `yes`, [`Answer::Edit`](crate::Answer::Edit)
/// its value as JSON, and [`Answer::Deny`](crate::Answer::Deny) is an error with its reason.
/// [`Answer::Unanswered`](crate::Answer::Unanswered) is an error that asks the model to decide
/// itself.
///
/// ```
/// use agentcore::testing::ScriptedModel;
/// use agentcore::tools::ask::ask_user_question_in_stream;
/// use agentcore::{Agent, Answer, SdkMessage};
/// use serde_json::json;
///
/// # async fn example() -> Result<(), agentcore::Error> {
/// let question = json!({
///     "question": "Which format?",
///     "header": "Format",
///     "options": [{"label": "JSON"}, {"label": "YAML"}],
/// });
/// let model = ScriptedModel::new()
///     .call("AskUserQuestion", json!({"questions": [question]}))
///     .expect(|request| assert_eq!(request.messages.last_content(), "Which format?\n> YAML"))
///     .say("YAML it is.");
/// let agent = Agent::builder(model).tool(ask_user_question_in_stream()).build()?;
/// let mut run = agent.run("Convert it");
/// let responder = run.responder();
/// while let Some(message) = run.next().await {
///     if let SdkMessage::PermissionRequest(request) = message {
///         let choices = request.choices.as_ref().expect("it has options to pick from");
///         assert_eq!(choices.options[1].label, "YAML");
///         responder.respond(&request, Answer::Reply { text: String::new(), picked: vec![1] });
///     }
/// }
/// assert_eq!(run.into_output()?.text, "YAML it is.");
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
pub fn ask_user_question_in_stream() -> FuncTool {
    tool(|cx: ToolContext, _asking, choice| async move {
        let question = choice.question.as_str();
        match cx.ask_for_choice(question, choice.choices()).await {
            Answer::Reply { text, picked } => Ok(to_chosen(&choice, text, picked)),
            Answer::Allow | Answer::AllowForSession => Ok(Chosen::text("yes")),
            Answer::Edit(value) => Ok(Chosen::text(value.to_string())),
            Answer::Deny(reason) => Err(ToolError::new(reason).into()),
            Answer::Unanswered => Err(unanswered(&choice, "the question was not answered").into()),
        }
    })
}

/// Converts a reply to the answer to a choice. Some peers send the labels of the picked options as
/// the text.
fn to_chosen(choice: &Choice, text: String, picked: Vec<usize>) -> Chosen {
    let mut chosen = Chosen::picked(picked);
    // Only valid picks are looked at: repeated ones could make a text of any length.
    let has_labels = choice.check(&chosen).is_ok()
        && text == labels(choice, &chosen).collect::<Vec<_>>().join(", ");
    if !text.is_empty() && !has_labels {
        chosen.text = Some(text);
    }
    chosen
}

fn unanswered(choice: &Choice, problem: &str) -> ToolError {
    let text = format!("{problem}; decide yourself, or report what you need to know");
    ToolError::new(text).with_text_question(choice.question.clone())
}

/// Returns the tool, whose questions `choose` asks.
fn tool<F, T>(choose: F) -> FuncTool
where
    F: Fn(ToolContext, Asking, Arc<Choice>) -> T + Send + Sync + 'static,
    T: Future<Output = Result<Chosen, BoxError>> + Send + 'static,
{
    let description = "Asks the user one to four questions with two to four options each, and \
        waits. The user picks an option or writes another answer, so do not offer one named other. \
        Ask when a decision is the user's and the task does not settle it.";
    let choose = Arc::new(choose);
    let run = move |cx: ToolContext, args: Value| ask(choose.clone(), cx, args);
    FuncTool::new("AskUserQuestion", description, parameters(), run)
        .side_effect(SideEffect::ReadOnly)
        .exclusive()
        .timeout(MAX_WAIT)
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

async fn ask<F, T>(choose: Arc<F>, cx: ToolContext, args: Value) -> Result<ToolOutput, BoxError>
where
    F: Fn(ToolContext, Asking, Arc<Choice>) -> T + Send + Sync + 'static,
    T: Future<Output = Result<Chosen, BoxError>> + Send + 'static,
{
    let arguments: Arguments = serde_json::from_value(args)?;
    let mut lines = Vec::new();
    let mut answers = Vec::new();
    let mut questions = arguments.questions.into_iter();
    while let Some(question) = questions.next() {
        let choice = Arc::new(to_choice(question));
        let chosen = match choose(cx.clone(), cx.asking(), choice.clone()).await {
            Ok(chosen) => chosen,
            Err(error) => return Err(with_other_questions(error, lines, questions.as_slice())),
        };

        if let Err(error) = choice.check(&chosen) {
            let others = other_questions(lines, questions.as_slice());
            let texts: Vec<_> = iter::once(error.to_string()).chain(others).collect();
            return Err(ToolError::new(texts.join("\n\n")).into());
        }

        let picked_labels: Vec<&str> = labels(&choice, &chosen).collect();
        lines.push(line(&choice, &chosen));
        answers.push(
            json!({"question": choice.question, "picked": picked_labels, "text": chosen.text}),
        );
    }

    Ok(ToolOutput::new(lines.join("\n\n")).with_details(json!({"answers": answers})))
}

/// Adds the answers so far, and the questions that were not asked, to the late answer to a question
/// that has none in time.
fn with_other_questions(error: BoxError, lines: Vec<String>, unasked: &[Question]) -> BoxError {
    let error = match error.downcast::<ToolError>() {
        Ok(error) => *error,
        Err(error) => return error,
    };
    let texts = other_questions(lines, unasked);
    texts.fold(error, ToolError::with_question_context).into()
}

/// Returns the answers so far and a text for each question that was not asked.
fn other_questions(lines: Vec<String>, unasked: &[Question]) -> impl Iterator<Item = String> {
    let unasked = unasked
        .iter()
        .map(|question| format!("This question was not asked: {}", question.question));
    lines.into_iter().chain(unasked)
}

/// Returns a question with its answer, as the model reads it.
fn line(choice: &Choice, chosen: &Chosen) -> String {
    format!("{}\n> {}", choice.question, answer_text(choice, chosen))
}

fn answer_text(choice: &Choice, chosen: &Chosen) -> String {
    let texts = labels(choice, chosen).chain(chosen.text.as_deref());
    texts.collect::<Vec<_>>().join(", ")
}

/// Returns the result of a call of `AskUserQuestion` whose question `question` got a late answer:
/// the answer, below its question if the call has others. `select` reads the answer. `None` if the
/// call has no such question.
#[cfg(feature = "gateway")]
pub(crate) fn late_result(
    args: &Value,
    question: &str,
    select: impl FnOnce(&Choice) -> Chosen,
) -> Option<String> {
    let arguments: Arguments = serde_json::from_value(args.clone()).ok()?;
    let is_only = arguments.questions.len() == 1;
    let mut questions = arguments.questions.into_iter();
    let choice = to_choice(questions.find(|asked| asked.question == question)?);
    let chosen = select(&choice);
    Some(if is_only {
        answer_text(&choice, &chosen)
    } else {
        line(&choice, &chosen)
    })
}

fn to_choice(question: Question) -> Choice {
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
    chosen
        .picked
        .iter()
        .filter_map(|index| Some(choice.options.get(*index)?.label.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_repeated_picks_are_not_joined() {
        let choice = Choice::new("Which?")
            .option(ChoiceOption::new("A"))
            .option(ChoiceOption::new("B"))
            .multiple(true)
            .or_text("another");
        let chosen = to_chosen(&choice, "A, B".to_owned(), vec![0, 1]);
        assert_eq!((choice.check(&chosen).is_ok(), chosen.text), (true, None));

        let chosen = to_chosen(&choice, "A, A".to_owned(), vec![0, 0]);
        let error = choice.check(&chosen).unwrap_err().to_string();
        assert!(
            error.ends_with("an answer was picked more than once"),
            "{error}"
        );
        assert_eq!(chosen.text.as_deref(), Some("A, A"));
    }
}
