//! The event streams of a thread and of the server.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use futures::{FutureExt, Stream, stream};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::error::Result;
use crate::message::Role;
use crate::registry::EventSubscription;
use crate::sdk::{Envelope, ResultMessage, ResultSubtype};
use crate::session::{AgentState, SessionStore};

use super::super::api::{Api, Operation, Verb};
use super::super::app::App;
use super::super::error::ApiError;
use super::super::runs::{ServerRun, Space, StorePermit, StreamPermit};
use super::super::stream::{Encoder, EncoderOptions, SseEvent, StreamFormat, write_events};
use super::super::stream_reply;
use super::super::users::Caller;
use super::opened_thread::{load_in_time, own_pending, owned_state};
use super::path::{Path, checked_thread_id};
use super::query::StreamRequest;
use super::schemas;
use super::stream::FORMATS;
use super::threads::is_interrupted;

/// The minimum interval at which the state of a thread that another process runs is sent.
const POLL: Duration = Duration::from_secs(1);

/// The maximum interval, for a thread whose load takes long.
const MAX_POLL: Duration = Duration::from_secs(30);

/// The time between two loads of a thread for a stream, as a multiple of the time of a load.
const PAUSE_FACTOR: u32 = 10;

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
) -> std::result::Result<Response, ApiError> {
    let id = checked_thread_id(&path.thread)?;
    let run = app.run(&caller, &path.agent, &id).await;
    if let Some(run) = run.filter(|run| run.is_running()) {
        return events_of_run(&app, &request, &run);
    }

    let store = app.store(&path.agent).await?;
    let stored = owned_state(&app, &caller, &*store, &id).await;
    // Not kept during the load: an ended run holds its log, and another run may have begun.
    let run = app.run(&caller, &path.agent, &id).await;
    if let Some(run) = run.as_ref().filter(|run| run.is_running()) {
        return events_of_run(&app, &request, run);
    }
    let (state, permit) = match (stored, &run) {
        // The log is here although the store does not answer.
        (Err(error), Some(run)) if error.status() != StatusCode::NOT_FOUND => {
            warn_of_store(&id, &error);
            return events_of_run(&app, &request, run);
        }
        (stored, _) => stored?,
    };
    // Another process may have run the thread or removed it since the run here.
    let last_run = run.filter(|run| !run.is_superseded(state.as_ref()));
    let has_thread = state.is_some();
    drop((state, permit));
    // Only the lease shows that a run is in progress: a thread may have its answer or pending calls
    // while other calls or background tasks continue.
    let is_leased = has_thread
        && match store.is_leased(&id).await {
            Err(error) if last_run.is_some() => {
                warn_of_store(&id, &error);
                false
            }
            outcome => outcome?,
        };
    if !is_leased {
        return match last_run {
            Some(run) => events_of_run(&app, &request, &run),
            None if has_thread => Ok(StatusCode::NO_CONTENT.into_response()),
            None => Err(ApiError::no_thread(&id)),
        };
    }
    let thread = RemoteThread {
        encoder: Encoder::new(request.format, EncoderOptions::new("remote")),
        permit: StreamPermit::take(app.runs.quota_of(caller.id()))?,
        is_closing: app.is_closing.clone(),
        store,
        id,
        revision: None,
        pause: Duration::ZERO,
        is_over: false,
    };
    let pieces = thread.into_stream();
    Ok(stream_reply::of_pieces(
        pieces,
        request.format,
        app.keep_alive,
    ))
}

/// Logs an error of the store of a thread whose last run has its log here.
fn warn_of_store(id: &str, error: &dyn std::fmt::Display) {
    tracing::warn!(thread = id, %error, "the store does not answer; the log of the last run is sent");
}

/// Returns the stream of a run of this process.
fn events_of_run(
    app: &App,
    request: &StreamRequest,
    run: &Arc<ServerRun>,
) -> std::result::Result<Response, ApiError> {
    // The client requests this at each load of its page, and would add a second copy of the answer.
    let is_known = request.format == StreamFormat::AiSdk && request.last_event_id.is_none();
    if is_known && !run.is_running() {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let reader = run.reader(request.format, None, request.last_event_id.as_deref())?;
    Ok(stream_reply::of_run(reader, request.format, app.keep_alive))
}

/// The outcome of a load.
enum Stored {
    /// The state is the one that was sent, and a run holds the thread.
    Unchanged,
    /// There is no thread.
    Deleted,
    State(Box<StoredState>),
}

struct StoredState {
    state: AgentState,
    /// False if no run holds the thread.
    is_leased: bool,
    revision: Option<u64>,
}

/// The reader of a thread that another process runs. It receives the stored state.
struct RemoteThread {
    is_closing: watch::Receiver<bool>,
    store: Arc<dyn SessionStore>,
    id: Arc<str>,
    /// The revision of the state that was sent, if the store has revisions.
    revision: Option<u64>,
    /// The time until the next load.
    pause: Duration,
    /// One encoder for the whole stream, so that it begins and ends only once.
    encoder: Encoder,
    is_over: bool,
    permit: StreamPermit,
}

impl RemoteThread {
    fn into_stream(self) -> impl Stream<Item = Bytes> + Send {
        stream::unfold(self, |mut reader| async move {
            while !reader.is_over && !*reader.is_closing.borrow() {
                if !reader.pause.is_zero() {
                    tokio::select! {
                        () = sleep(reader.pause) => {}
                        // An error means that the server no longer exists.
                        _ = reader.is_closing.wait_for(|is_closing| *is_closing) => return None,
                    }
                }
                if let Some(bytes) = reader.next().await {
                    return Some((bytes, reader));
                }
            }
            None
        })
    }

    /// Returns the events with the stored state, or `None` if it has not changed. Sets `is_over`
    /// and adds the end of the stream if no run holds the thread, or on an error.
    async fn next(&mut self) -> Option<Bytes> {
        let (stored, permit, space) = self.load_with_space().await?;
        let mut guards = (permit, space);
        let (mut bytes, mut events) = (Vec::new(), Vec::new());
        match stored {
            Ok(Stored::State(stored)) => {
                let len = self.encoder.snapshot_len();
                let snapshot = self.encoder.write(len, guards, Encoder::snapshot).await;
                (bytes, guards) = match snapshot {
                    Ok(snapshot) => snapshot,
                    // The runtime shuts down.
                    Err(_) => {
                        self.is_over = true;
                        return None;
                    }
                };
                self.revision = stored.revision;
                if !stored.is_leased {
                    self.finish(&stored.state, &mut events);
                }
            }
            Ok(Stored::Unchanged) => return None,
            Ok(Stored::Deleted) => self.fail("the thread was deleted", "deleted", &mut events),
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
        Some(space.hold(bytes))
    }

    /// Loads the state, also into the encoder. Returns it with its permit and the space of its
    /// snapshot, or `None` if it has not changed.
    async fn load_with_space(&mut self) -> Option<(Result<Stored>, StorePermit, Space)> {
        // A space that was waited for, and its length.
        let (mut space, mut space_len) = (None, 0);
        loop {
            let mut permit = self.permit.acquire_load().await;
            let start = Instant::now();
            let stored = load_in_time(self.load()).await;
            permit.release_shared_permit();
            self.pause = (start.elapsed() * PAUSE_FACTOR).clamp(POLL, MAX_POLL);
            match &stored {
                Ok(Stored::Unchanged) => return None,
                Ok(Stored::State(stored)) => self.encoder.replace_state(stored.state.clone()),
                _ => {}
            }
            let len = self.encoder.snapshot_space();
            // The thread may have grown.
            let free_space = match space.take() {
                Some(space) if len <= space_len => Some(space),
                _ => self.permit.acquire_space(len).now_or_never(),
            };
            if let Some(space) = free_space {
                return Some((stored, permit, space));
            }
            self.drop_state();
            drop((stored, permit));
            (space, space_len) = (Some(self.permit.acquire_space(len).await), len);
        }
    }

    fn drop_state(&mut self) {
        let empty_state = AgentState::new(self.id.clone());
        self.encoder.replace_state(empty_state);
    }

    async fn load(&self) -> Result<Stored> {
        // Checked first, so that everything that the run stored before it ended is loaded. The
        // revision as well, so that what is written meanwhile is loaded the next time.
        let is_leased = self.store.is_leased(&self.id).await?;
        let revision = self.store.revision(&self.id).await?;
        if is_leased && revision.is_some() && revision == self.revision {
            return Ok(Stored::Unchanged);
        }
        let stored = self.store.load(&self.id).await?;
        Ok(stored.map_or(Stored::Deleted, |stored| {
            Stored::State(Box::new(StoredState {
                state: stored.state,
                is_leased,
                revision,
            }))
        }))
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
        let response = last.filter(|message| message.role() == Role::Assistant);
        result.result = response.map(|message| message.text().into_owned());
        let has_pending = own_pending(state).next().is_some();
        let reason = if has_pending {
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

async fn server_events(
    State(app): State<App>,
    caller: Caller,
) -> std::result::Result<Response, ApiError> {
    if app.registry.events().clients() >= app.limits.connections {
        return Err(ApiError::too_many(
            "the server has too many event streams; try again later",
        ));
    }
    let permit = StreamPermit::take(app.runs.quota_of(caller.id()))?;
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
    _permit: StreamPermit,
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use async_trait::async_trait;
    use futures::StreamExt;
    use tokio::time::timeout;

    use super::super::super::runs::{OnDisconnect, RunLimits, RunTable};
    use super::*;
    use crate::message::Message;
    use crate::session::{Lease, Record, SessionInfo, StoredSession, ThreadStore};

    /// A store that counts its loads, each of which takes `load_time`.
    struct CountingStore {
        inner: ThreadStore,
        loads: AtomicUsize,
        load_time: Duration,
        has_revisions: bool,
    }

    #[async_trait]
    impl SessionStore for CountingStore {
        async fn load(&self, id: &str) -> Result<Option<StoredSession>> {
            self.loads.fetch_add(1, Ordering::Relaxed);
            sleep(self.load_time).await;
            self.inner.load(id).await
        }

        async fn append(&self, lease: &Lease, records: Vec<Record>) -> Result<()> {
            self.inner.append(lease, records).await
        }

        async fn list(&self) -> Result<Vec<SessionInfo>> {
            self.inner.list().await
        }

        async fn delete(&self, id: &str) -> Result<bool> {
            SessionStore::delete(&self.inner, id).await
        }

        async fn lease(&self, id: &str) -> Result<Lease> {
            self.inner.lease(id).await
        }

        async fn is_leased(&self, id: &str) -> Result<bool> {
            self.inner.is_leased(id).await
        }

        async fn revision(&self, id: &str) -> Result<Option<u64>> {
            if self.has_revisions {
                self.inner.revision(id).await
            } else {
                Ok(None)
            }
        }
    }

    fn text_record(text: &str) -> Vec<Record> {
        let message = Message::human(text).into();
        vec![Record::Message {
            message,
            input_id: None,
        }]
    }

    /// Returns a store with a thread that a run holds, a reader of it, and the sender of the
    /// shutdown.
    async fn remote_thread(
        load_time: Duration,
        has_revisions: bool,
    ) -> (Arc<CountingStore>, Lease, RemoteThread, watch::Sender<bool>) {
        let store = Arc::new(CountingStore {
            inner: ThreadStore::new(),
            loads: AtomicUsize::new(0),
            load_time,
            has_revisions,
        });
        let lease = store.lease("th").await.unwrap();
        store.append(&lease, text_record("first")).await.unwrap();
        let (shutdown, is_closing) = watch::channel(false);
        let runs = RunTable::new(RunLimits::default(), OnDisconnect::default());
        let reader = RemoteThread {
            is_closing,
            store: store.clone(),
            id: "th".into(),
            revision: None,
            pause: Duration::ZERO,
            encoder: Encoder::new(StreamFormat::Events, EncoderOptions::new("remote")),
            is_over: false,
            permit: StreamPermit::take(runs.quota_of(&"ann".into())).unwrap(),
        };
        (store, lease, reader, shutdown)
    }

    #[tokio::test(start_paused = true)]
    async fn thread_of_another_process_is_loaded_only_if_it_has_changed() {
        let (store, lease, reader, _shutdown) = remote_thread(Duration::ZERO, true).await;
        let mut pieces = Box::pin(reader.into_stream());
        let text = |bytes: Bytes| String::from_utf8(bytes.to_vec()).unwrap();
        assert!(text(pieces.next().await.unwrap()).contains("first"));
        let outcome = timeout(Duration::from_secs(100), pieces.next()).await;
        assert!(outcome.is_err());
        assert_eq!(store.loads.load(Ordering::Relaxed), 1);

        store.append(&lease, text_record("second")).await.unwrap();
        assert!(text(pieces.next().await.unwrap()).contains("second"));
        drop(lease);
        assert!(text(pieces.next().await.unwrap()).contains("interrupted"));
        assert_eq!(store.loads.load(Ordering::Relaxed), 3);
        assert!(pieces.next().await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn slow_loads_of_a_thread_of_another_process_pause_ten_times_as_long() {
        for (load_time, loads) in [(2, 5), (10, 3)] {
            let load_time = Duration::from_secs(load_time);
            let (store, _lease, reader, shutdown) = remote_thread(load_time, false).await;
            let mut pieces = Box::pin(reader.into_stream().for_each(async |_| {}));
            let time = Duration::from_secs(100);
            assert!(timeout(time, &mut pieces).await.is_err());
            assert_eq!(store.loads.load(Ordering::Relaxed), loads);
            shutdown.send_replace(true);
            pieces.await;
        }
    }
}
