//! Answers to the questions of runs that wait.

use axum::Json;
use axum::extract::State;
use schemars::JsonSchema;
use serde::Serialize;

use super::super::api::{Api, Operation, Verb};
use super::super::app::App;
use super::super::error::ApiError;
use super::super::json::JsonBody;
use super::super::runs::AnswerOutcome;
use super::super::users::Caller;
use super::decisions::AnswerBody;
use super::path::Path;

pub(super) fn routes(api: Api) -> Api {
    let operation = Operation::new(
        Verb::Post,
        "/agents/hitl/{name}",
        "runs",
        "Answers a question while its run waits. The first answer counts.",
    )
    .body::<AnswerBody>()
    .reply::<AnswerReply>()
    .fails(404, "there is no such question")
    .fails(
        409,
        "it was answered before, or its call waits for a decision by now",
    );
    api.route(operation, answer)
}

#[derive(Debug, Serialize, JsonSchema)]
struct AnswerReply {
    /// `answered`.
    status: &'static str,
    /// The id of the question.
    id: String,
}

async fn answer(
    State(app): State<App>,
    caller: Caller,
    path: Path,
    JsonBody(body): JsonBody<AnswerBody>,
) -> Result<Json<AnswerReply>, ApiError> {
    let id = path.name;
    match app.runs.answer(caller.id(), &id, body.answer()?) {
        AnswerOutcome::Answered => Ok(Json(AnswerReply {
            status: "answered",
            id,
        })),
        AnswerOutcome::Closed => Err(ApiError::conflict(format!(
            "the question {id:?} was answered before, or its call waits for a decision by now; \
             such a decision goes to /resume"
        ))),
        AnswerOutcome::Unknown => Err(ApiError::not_found(format!(
            "there is no open question {id:?}; the pending calls of its thread go to /resume"
        ))),
    }
}
