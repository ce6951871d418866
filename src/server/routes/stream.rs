//! Runs whose messages are streamed.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use schemars::JsonSchema;

use super::super::api::{Api, Operation, Verb};
use super::super::app::App;
use super::super::error::ApiError;
use super::super::json::RawBody;
use super::super::runs::StreamPermit;
use super::super::stream::StreamFormat;
use super::super::stream::ag_ui::AgUiInput;
use super::super::stream::ai_sdk::AiSdkInput;
use super::super::stream_reply;
use super::super::users::Caller;
use super::clients;
use super::input::RunBody;
use super::launch::{LaunchInput, LaunchOptions, launch};
use super::opened_thread::{OpenedThread, open};
use super::path::Path;
use super::query::StreamRequest;
use super::schemas;

pub(super) fn routes(api: Api) -> Api {
    let operation = |path, summary| {
        Operation::new(Verb::Post, path, "runs", summary)
            .body::<StreamBody>()
            .query::<schemas::StreamFormatName>("format", FORMATS)
            .stream()
            .fails(409, "the thread has a run already")
    };
    api.route(
        operation(
            "/agents/stream",
            "Runs the agent `default` and streams its messages.",
        ),
        stream,
    )
    .route(
        operation(
            "/agents/{id}/stream",
            "Runs an agent and streams its messages.",
        ),
        stream,
    )
}

/// The body of a request for a stream: one for the server's own formats, one for AG-UI, and one for
/// the AI SDK.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[allow(dead_code, reason = "the schema of the bodies of all formats")]
enum StreamBody {
    Own(RunBody),
    AgUi(AgUiInput),
    AiSdk(AiSdkInput),
}

/// The description of the parameter `format`.
pub(super) const FORMATS: &str = "The format of the stream: events (default), sdk, ndjson, ag-ui \
                                  or ai-sdk. The body is that of the format's clients.";

async fn stream(
    State(app): State<App>,
    caller: Caller,
    path: Path,
    request: StreamRequest,
    body: RawBody,
) -> Result<Response, ApiError> {
    let call = StreamCall {
        app: &app,
        caller: &caller,
        agent: &path.agent,
        format: request.format,
    };
    match call.format {
        StreamFormat::AgUi => {
            let (body, _space) = body.parse(&app)?;
            return clients::ag_ui(call, body).await;
        }
        StreamFormat::AiSdk => {
            let (body, _space) = body.parse(&app)?;
            return clients::ai_sdk(call, body).await;
        }
        StreamFormat::Events | StreamFormat::Sdk | StreamFormat::Ndjson => {}
    }
    let (body, _space) = body.parse::<RunBody>(&app)?;
    let messages = body.messages()?;
    let input_id = body.checked_input_id()?.map(Arc::from);
    let opened = call.open(body.thread_id.as_deref()).await?;
    let options = LaunchOptions {
        is_traced: body.is_traced(),
        ..LaunchOptions::default()
    };
    let launch_input = LaunchInput::Input(messages, input_id);
    call.launch_and_follow(opened, launch_input, options).await
}

/// A call of an agent whose run is streamed.
#[derive(Clone, Copy)]
pub(super) struct StreamCall<'a> {
    pub(super) app: &'a App,
    pub(super) caller: &'a Caller,
    /// The id of the agent.
    pub(super) agent: &'a Arc<str>,
    pub(super) format: StreamFormat,
}

impl StreamCall<'_> {
    /// Opens a thread of the caller, as [`open`] does.
    pub(super) async fn open(&self, thread: Option<&str>) -> Result<OpenedThread, ApiError> {
        open(self.app, self.caller, self.agent, thread).await
    }

    /// Begins a run, and returns the response with its stream from the beginning.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`launch`], 429 if the user has too many open streams, and 409 if
    /// another process holds the session. A run that has not opened its session within 1 second
    /// reports the latter in its stream.
    pub(super) async fn launch_and_follow(
        &self,
        opened: OpenedThread,
        launch_input: LaunchInput,
        options: LaunchOptions,
    ) -> Result<Response, ApiError> {
        let Self { app, caller, .. } = *self;
        // Taken first, because a refused request must not have begun a run.
        let permit = StreamPermit::take(app.runs.quota_of(caller.id()))?;
        let client_run_id = options.client_run_id.clone();
        let run = launch(app, caller, opened, launch_input, options)?;
        let reader = run.reader_with(permit, self.format, client_run_id, None);
        run.opened().await;
        if let Some(error) = run.busy_error() {
            app.runs.remove_log(&run);
            return Err(ApiError::of_run(error));
        }
        Ok(stream_reply::of_run(reader, self.format, app.keep_alive))
    }
}
