//! The event streams of a thread and of the server.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use futures::{FutureExt, Stream, stream};
use tokio::time::sleep;

use crate::message::Role;
use crate::registry::EventSubscription;
use crate::sdk::{Envelope, ResultMessage, ResultSubtype};
use crate::session::{AgentState, SessionStore};

use super::super::api::{Api, Operation, Verb};
use super::super::app::App;
use super::super::error::ApiError;
use super::super::runs::{LoadPermit, ReaderPermit, Space};
use super::super::stream::{Encoder, EncoderOptions, SseEvent, StreamFormat, write_events};
use super::super::stream_reply;
use super::super::users::Caller;
use super::launch::{load_in_time, own_pending, owned_state};
use super::path::{Path, checked_thread_id};
use super::query::StreamRequest;
use super::schemas;
use super::stream::FORMATS;
use super::threads::is_interrupted;

/// The interval at which the state of a thread that another process runs is sent.
const POLL: Duration = Duration::from_secs(1);

pub(super) fn routes(api: Api) -> Api {
    let of_thread = Operation::new(
        Verb::Get,
        "/agents/{id}/threads/{thread}/events",
        "threads",
        "Streams the run of a thread, or the last one while its log is kept. 204 without one; for \
         clients of the AI SDK, which have the last one, also if it has ended.",
    );
    let of_thread = of_thread
        .query::<schemas::StreamFormatName>("format", FORMATS)
        .header(
            "last-event-id",
            "The id of the last event that was received: the stream continues after it. With an id \
             that the log does not have, or that is none, the stream begins with the state of the \
             thread (`state`; snapshots in ag-ui), which replaces all that was received.",
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
    if let Some(run) = app.run(&caller, &path.agent, &id).await {
        // The client requests this at each load of its page, and would add a second copy of the
        // answer.
        let is_known = request.format == StreamFormat::AiSdk && request.last_event_id.is_none();
        if is_known && !run.is_running() {
            return Ok(StatusCode::NO_CONTENT.into_response());
        }
        let reader = run.reader(request.format, None, request.last_event_id.as_deref())?;
        return Ok(stream_reply::of_run(reader, request.format, app.keep_alive));
    }

    let store = app.store(&path.agent).await?;
    let (state, permit) = owned_state(&app, &caller, &*store, &id).await?;
    if state.is_none() {
        return Err(ApiError::no_thread(&id));
    }
    drop((state, permit));
    // Only the lease shows that a run is in progress: a thread may have its answer or pending calls
    // while other calls or background tasks continue.
    if !store.is_leased(&id).await? {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let thread = RemoteThread {
        encoder: Encoder::new(request.format, EncoderOptions::new("remote")),
        permit: app.runs.reader_permit(caller.id())?,
        app: app.clone(),
        store,
        id,
        is_over: false,
    };
    Ok(stream_reply::response(request.format, thread.into_stream()))
}

/// The stored state, and `false` if no run holds the thread; `None` if there is no thread.
type Stored = crate::error::Result<Option<(AgentState, bool)>>;

/// The reader of a thread that another process runs. It receives the stored state.
struct RemoteThread {
    app: App,
    store: Arc<dyn SessionStore>,
    id: Arc<str>,
    /// One encoder for the whole stream, so that it begins and ends only once.
    encoder: Encoder,
    is_over: bool,
    permit: ReaderPermit,
}

impl RemoteThread {
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

    /// Returns the events with the stored state. Sets `is_over` and adds the end of the stream if
    /// no run holds the thread, or on an error.
    async fn next(&mut self) -> Bytes {
        let (stored, permit, space) = self.load_with_space().await;
        let mut guards = (permit, space);
        let (mut bytes, mut events) = (Vec::new(), Vec::new());
        match stored {
            Ok(Some((state, is_leased))) => {
                let len = self.encoder.snapshot_len();
                let snapshot = self.encoder.write(len, guards, Encoder::snapshot).await;
                (bytes, guards) = match snapshot {
                    Ok(snapshot) => snapshot,
                    // The runtime shuts down.
                    Err(_) => {
                        self.is_over = true;
                        return Bytes::new();
                    }
                };
                if !is_leased {
                    self.finish(&state, &mut events);
                }
            }
            Ok(None) => self.fail("the thread was deleted", "deleted", &mut events),
            Err(error) => {
                let text = ApiError::from(error).to_string();
                self.fail(&text, "store_error", &mut events);
            }
        }
        // The permit is for the state, which is not kept until the next load.
        self.drop_state();
        let (permit, space) = guards;
        drop(permit);
        bytes.append(&mut write_events(events));
        space.hold(bytes)
    }

    /// Loads the state, also into the encoder. Returns it with its permit and the space of its
    /// snapshot.
    async fn load_with_space(&mut self) -> (Stored, LoadPermit, Space) {
        // A space that was waited for, and its length.
        let (mut space, mut space_len) = (None, 0);
        loop {
            let mut permit = self.permit.load().await;
            let stored = load_in_time(self.load()).await;
            permit.end_load();
            if let Ok(Some((state, _))) = &stored {
                self.encoder.replace_state(state.clone());
            }
            let len = self.encoder.snapshot_space();
            // The thread may have grown.
            let free_space = match space.take() {
                Some(space) if len <= space_len => Some(space),
                _ => self.permit.space(len).now_or_never(),
            };
            if let Some(space) = free_space {
                return (stored, permit, space);
            }
            self.drop_state();
            drop((stored, permit));
            (space, space_len) = (Some(self.permit.space(len).await), len);
        }
    }

    fn drop_state(&mut self) {
        let empty_state = AgentState::new(self.id.clone());
        self.encoder.replace_state(empty_state);
    }

    async fn load(&self) -> Stored {
        // Checked first, so that everything that the run stored before it ended is loaded.
        let is_leased = self.store.is_leased(&self.id).await?;
        let stored = self.store.load(&self.id).await?;
        Ok(stored.map(|stored| (stored.state, is_leased)))
    }

    /// Adds the end of a run that is known only by the state after it.
    fn finish(&mut self, state: &AgentState, events: &mut Vec<SseEvent>) {
        if is_interrupted(state) {
            self.fail(
                "the run ended before it had answered",
                "interrupted",
                events,
            );
            return;
        }
        let envelope = Envelope::new(state.thread_id.clone(), 0);
        let mut result = ResultMessage::new(envelope, ResultSubtype::Success);
        let last = state.messages.last();
        let answer = last.filter(|message| message.role() == Role::Assistant);
        result.result = answer.map(|message| message.text().into_owned());
        let is_parked = own_pending(state).next().is_some();
        let reason = if is_parked {
            "tool_deferred"
        } else {
            "completed"
        };
        result.terminal_reason = Some(reason.into());
        self.encoder.finish(&result.into(), events);
        self.is_over = true;
    }

    fn fail(&mut self, text: &str, code: &str, events: &mut Vec<SseEvent>) {
        self.encoder.fail(text, code, events);
        self.is_over = true;
    }
}

async fn server_events(State(app): State<App>, caller: Caller) -> Result<Response, ApiError> {
    if app.registry.events().clients() >= app.limits.connections {
        return Err(ApiError::too_many(
            "the server has too many event streams; try again later",
        ));
    }
    let permit = app.runs.reader_permit(caller.id())?;
    let subscription = app.registry.events().subscribe(caller.id().clone());
    let events = ServerEvents {
        subscription,
        _permit: permit,
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
    _permit: ReaderPermit,
}

impl ServerEvents {
    fn into_stream(self) -> impl Stream<Item = Bytes> + Send {
        stream::unfold(self, |mut events| async move {
            let mut is_closing = events.app.is_closing.clone();
            let event = tokio::select! {
                event = events.subscription.next() => event?,
                // An error means that the server no longer exists.
                _ = is_closing.wait_for(|is_closing| *is_closing) => return None,
            };
            let mut bytes = Vec::new();
            SseEvent::new(&*event).write(&mut bytes);
            Some((bytes.into(), events))
        })
    }
}
