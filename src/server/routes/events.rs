//! The event streams of a thread and of the server.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use futures::{Stream, stream};
use tokio::time::sleep;

use crate::agent::Agent;
use crate::error::ErrorKind;
use crate::registry::EventSubscription;

use super::super::api::{Api, Operation, Verb};
use super::super::app::App;
use super::super::error::ApiError;
use super::super::runs::RunKey;
use super::super::stream::{Encoder, EncoderOptions, SseEvent, StreamFormat};
use super::super::stream_reply;
use super::super::users::Caller;
use super::launch::owned_state;
use super::path::{Path, checked_thread_id};
use super::query::StreamRequest;
use super::stream::FORMATS;

/// The interval at which the state of a thread that runs elsewhere is sent.
const POLL: Duration = Duration::from_secs(1);

pub(super) fn routes(api: Api) -> Api {
    let of_thread = Operation::new(
        Verb::Get,
        "/agents/{id}/threads/{thread}/events",
        "threads",
        "Streams the run of a thread, or the last one while its log is kept. 204 without one.",
    );
    let of_thread = of_thread
        .query::<String>("format", FORMATS)
        .header(
            "last-event-id",
            "The id of the last event that was received.",
        )
        .stream();
    let of_server = Operation::new(
        Verb::Get,
        "/agents/events",
        "events",
        "Streams the names of events, such as tools_changed or container_status:USER.",
    );
    api.route(of_thread, thread_events)
        .route(of_server.bytes("text/event-stream"), server_events)
}

async fn thread_events(
    State(app): State<App>,
    caller: Caller,
    path: Path,
    request: StreamRequest,
) -> Result<Response, ApiError> {
    let id = checked_thread_id(&path.thread)?;
    let key = RunKey {
        user: caller.id().clone(),
        agent: path.agent.clone(),
        session: id.clone(),
    };
    if let Some(run) = app.runs.find(&key) {
        let reader = run.reader(request.format, None, request.last_event_id.as_deref())?;
        return Ok(stream_reply::of_run(reader, request.format, app.keep_alive));
    }

    let agent = app.instance(&path.agent, &caller).await?.agent();
    let state = owned_state(&app, &caller, &agent, &id).await?;
    if state.is_none() {
        return Err(ApiError::no_thread(&id));
    }
    if !is_held(&agent, &id).await? {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let elsewhere = Elsewhere {
        app: app.clone(),
        agent,
        id,
        format: request.format,
        is_over: false,
    };
    Ok(stream_reply::response(
        request.format,
        elsewhere.into_stream(),
    ))
}

/// Returns `true` if a run of another process holds the session.
async fn is_held(agent: &Agent, id: &str) -> Result<bool, ApiError> {
    match agent.store().lease(id).await {
        Ok(_lease) => Ok(false),
        Err(error) if error.kind() == ErrorKind::SessionBusy => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// The reader of a thread that runs in another process: it receives the stored state.
struct Elsewhere {
    app: App,
    agent: Agent,
    id: Arc<str>,
    format: StreamFormat,
    is_over: bool,
}

impl Elsewhere {
    fn into_stream(self) -> impl Stream<Item = Bytes> + Send {
        let is_first = true;
        stream::unfold((self, is_first), |(mut reader, is_first)| async move {
            if reader.is_over || *reader.app.is_closing.borrow() {
                return None;
            }
            if !is_first {
                sleep(POLL).await;
            }
            let bytes = reader.next().await;
            Some((bytes, (reader, false)))
        })
    }

    /// Returns the events with the stored state. Sets `is_over` when no run holds the session, or
    /// on an error.
    async fn next(&mut self) -> Bytes {
        // Asked before the state is loaded, so that the last state is that after the run.
        let is_held = is_held(&self.agent, &self.id).await;
        let stored = self.agent.store().load(&self.id).await;
        let mut events = Vec::new();
        let run_id = "elsewhere";
        match (is_held, stored) {
            (Ok(is_held), Ok(Some(stored))) => {
                let options = EncoderOptions::new(run_id).with_state(stored.state);
                Encoder::new(self.format, options).snapshot(&mut events);
                self.is_over = !is_held;
            }
            (Ok(_), Ok(None)) => self.is_over = true,
            (Err(error), _) => self.fail(&error.to_string(), &mut events),
            (_, Err(error)) => self.fail(&error.to_string(), &mut events),
        }
        let mut bytes = Vec::new();
        for event in &events {
            event.write(&mut bytes);
        }
        bytes.into()
    }

    fn fail(&mut self, text: &str, events: &mut Vec<SseEvent>) {
        let options = EncoderOptions::new("elsewhere");
        Encoder::new(self.format, options).fail(text, "store_error", events);
        self.is_over = true;
    }
}

async fn server_events(State(app): State<App>, caller: Caller) -> Result<Response, ApiError> {
    if app.registry.events().clients() >= app.limits.connections {
        return Err(ApiError::too_many(
            "the server has too many event streams; try again later",
        ));
    }
    let subscription = app.registry.events().subscribe(caller.id().clone());
    let events = ServerEvents {
        subscription,
        app: app.clone(),
    };
    Ok(stream_reply::of_events(
        events.into_stream(),
        app.keep_alive,
    ))
}

/// The events of the server, until it shuts down.
struct ServerEvents {
    subscription: EventSubscription,
    app: App,
}

impl ServerEvents {
    fn into_stream(self) -> impl Stream<Item = Bytes> + Send {
        stream::unfold(self, |mut events| async move {
            let mut is_closing = events.app.is_closing.clone();
            let event = tokio::select! {
                event = events.subscription.next() => event?,
                // An error means that the server does not exist any more.
                _ = is_closing.wait_for(|is_closing| *is_closing) => return None,
            };
            let mut bytes = Vec::new();
            SseEvent::new(&*event).write(&mut bytes);
            Some((bytes.into(), events))
        })
    }
}
