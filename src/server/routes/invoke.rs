//! Runs that reply with their output.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::pin::pin;
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use futures::FutureExt;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::message::{Message, Todo, ToolCall};
use crate::run::RunOutput;
use crate::session::PendingCall;
use crate::usage::Usage;

use super::super::api::{Api, Operation, Verb};
use super::super::app::App;
use super::super::error::ApiError;
use super::super::json::RawBody;
use super::super::large_reply::{ReplySpace, measured};
use super::super::runs::ServerRun;
use super::super::users::Caller;
use super::input::RunBody;
use super::launch::{LaunchInput, LaunchOptions, launch};
use super::opened_thread::open;
use super::path::Path;
use super::schemas;

pub(super) fn routes(api: Api) -> Api {
    let operation = |path, summary| {
        Operation::new(Verb::Post, path, "runs", summary)
            .body::<RunBody>()
            .reply::<RunReply>()
            .fails(
                409,
                "the thread has a run already, here or in another process",
            )
            .fails(502, "the provider of the model failed")
    };
    api.route(
        operation(
            "/agents/invoke",
            "Runs the agent `default` and returns its output.",
        ),
        invoke,
    )
    .route(
        operation(
            "/agents/{id}/invoke",
            "Runs an agent and returns its output.",
        ),
        invoke,
    )
}

/// The output of a run.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct RunReply {
    /// The id of the run and its trace.
    trace_id: Arc<str>,
    /// The thread, to continue it.
    thread_id: Arc<str>,
    /// The text of the last response. Empty if that has no text.
    response: String,
    /// The calls of the run.
    #[schemars(with = "Vec<schemas::ToolCall>")]
    tool_calls: Vec<ToolCall>,
    /// The task list.
    #[schemars(with = "Vec<schemas::Todo>")]
    todos: Arc<Vec<Todo>>,
    /// The files that the agent wrote: path to content.
    files: Arc<BTreeMap<Arc<str>, Arc<str>>>,
    /// The value of a structured output.
    structured_response: Option<Value>,
    /// True if the run ended because calls are pending, which are in `pending`. (The `interrupted`
    /// of a thread has another meaning: its last run ended without a response, or with a partial
    /// one.)
    interrupted: bool,
    /// The tool of the first such call.
    interrupted_tool: Option<String>,
    /// Its arguments.
    interrupted_args: Option<Value>,
    /// The pending calls, for `/resume`.
    #[schemars(with = "Vec<schemas::PendingCall>")]
    pending: Vec<PendingCall>,
    /// The reason the run ended, such as `end_turn` or `max_turns`.
    end: &'static str,
    #[schemars(with = "schemas::Usage")]
    usage: Usage,
    /// The cost in USD; `null` if a price is unknown.
    cost_usd: Option<f64>,
}

async fn invoke(
    State(app): State<App>,
    caller: Caller,
    path: Path,
    body: RawBody,
) -> Result<Response, ApiError> {
    let (body, space) = body.parse::<RunBody>(&app)?;
    let messages = body.messages()?;
    let input_id = body.checked_input_id()?.map(Arc::from);
    let opened = open(&app, &caller, &path.agent, body.thread_id.as_deref()).await?;
    let options = LaunchOptions {
        is_traced: body.is_traced(),
        ..LaunchOptions::default()
    };
    let run = launch(
        &app,
        &caller,
        opened,
        LaunchInput::Input(messages, input_id),
        options,
    )?;
    drop(space);
    reply(&app, run).await
}

/// Waits for the end of a run, and replies with its output.
pub(super) async fn reply(app: &App, run: Arc<ServerRun>) -> Result<Response, ApiError> {
    // A request that waits for the output counts as a reader of the run.
    let presence = run.presence();
    let end = run.finished().await.ok_or_else(ApiError::closing)?;
    drop(presence);
    match &*end {
        Ok(output) => {
            let (reply, len) = measured(RunReply::new(run.id(), output)).await?;
            drop(end);
            send(app, run, reply, len).await
        }
        Err(error) => {
            if run.busy_error().is_some() {
                app.runs.remove_log(&run);
            }
            let error = ApiError::of_run(error);
            if error.status().is_server_error() {
                tracing::warn!(run = &**run.id(), %error, "a run failed");
            }
            Err(error)
        }
    }
}

/// Makes the response to an ended run, in the space of the large replies of its user.
async fn send(
    app: &App,
    run: Arc<ServerRun>,
    reply: RunReply,
    len: usize,
) -> Result<Response, ApiError> {
    let key = run.key().clone();
    let refusal = |text: &dyn Display| {
        // Without a time to wait: another request would begin another run.
        let thread = &key.thread;
        let text = format!("the run has ended, and its output is in the thread {thread:?}: {text}");
        ApiError::new(StatusCode::TOO_MANY_REQUESTS, text)
    };
    let mut space = pin!(ReplySpace::acquire_for(app, &key.user, len));
    if let Some(space) = space.as_mut().now_or_never() {
        return space.map_err(|error| refusal(&error))?.json(reply).await;
    }

    // A request that waits must not keep the output in memory: the server may drop it meanwhile.
    drop(reply);
    let run_ref = Arc::downgrade(&run);
    drop(run);
    let space = space.await.map_err(|error| refusal(&error))?;
    let run = run_ref.upgrade();
    let end = run.as_ref().and_then(|run| run.end()).map(|end| &**end);
    match (&run, end) {
        (Some(run), Some(Ok(output))) => space.json(RunReply::new(run.id(), output)).await,
        _ => Err(refusal(&"it is no longer in memory")),
    }
}

impl RunReply {
    fn new(run_id: &Arc<str>, output: &RunOutput) -> Self {
        let new_messages = output.state.output_messages.as_slice().iter();
        let tool_calls = new_messages
            .filter_map(|message| match &**message {
                Message::Assistant(message) => Some(message.tool_calls().cloned()),
                _ => None,
            })
            .flatten();
        let pending: Vec<_> = output
            .pending()
            .iter()
            .filter(|call| call.session_id == output.session_id)
            .map(PendingCall::without_prompt)
            .collect();
        let first = pending.first().map(|pending| &pending.call);
        Self {
            trace_id: run_id.clone(),
            thread_id: output.session_id.clone(),
            response: output.text.clone(),
            tool_calls: tool_calls.collect(),
            todos: output.state.todos.clone(),
            files: output.state.files.clone(),
            structured_response: output.structured.clone(),
            interrupted: !pending.is_empty(),
            interrupted_tool: first.map(|call| call.name.to_string()),
            interrupted_args: first.map(|call| (*call.args).clone()),
            pending,
            end: output.end.as_str(),
            usage: output.usage,
            cost_usd: output.cost,
        }
    }
}
