//! The threads of a user.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use crate::message::{Role, message_size};
use crate::session::{
    AgentState, ChildSearch, ListQuery, OwnedSession, PendingCall, SessionInfo, SessionStore,
};

use super::super::api::{Api, Operation, Verb};
use super::super::app::App;
use super::super::error::ApiError;
use super::super::json::{JsonBody, OptionalBody};
use super::super::large_reply::ReplySpace;
use super::super::random::new_thread_id;
use super::super::runs::{MAX_WAIT, RunKey, ServerRun, StoreId, StorePermit};
use super::super::users::Caller;
use super::opened_thread::{own_pending, owned_state};
use super::path::{Path, checked_thread_id};
use super::query::QueryOf;
use super::schemas;

/// The default number of threads of a page.
const PAGE: usize = 50;

/// The maximum number of threads of a page.
const MAX_PAGE: usize = 200;

/// The maximum length of a title, in bytes.
const MAX_TITLE: usize = 4_096;

pub(super) fn routes(api: Api) -> Api {
    let group = "threads";
    let list_operation = Operation::new(
        Verb::Get,
        "/agents/{id}/threads",
        group,
        "Lists the user's threads, the most recently written first: those of all agents that \
         share the store of this one.",
    )
    .query::<String>("after", "The value of `next` of the page before.")
    .query::<usize>(
        "limit",
        "The number of threads, at most 200. 50 by default.",
    )
    .query::<String>("user", "Another user, for admins.")
    .reply::<ThreadList>();
    let api = api.route(list_operation, list);

    let path = "/agents/{id}/threads/{thread}";
    let busy = "a run holds the thread";
    let get_operation = Operation::new(Verb::Get, path, group, "Returns a thread.");
    let api = api.route(get_operation.reply::<ThreadReply>(), get);

    let delete_operation = Operation::new(
        Verb::Delete,
        path,
        group,
        "Removes a thread with its log and its traces, and the threads of its subagents. A durable \
         store finds those whose ids begin with `ID:sub:`.",
    )
    .status(204)
    .fails(409, busy);
    let api = api.route(delete_operation, delete);

    let fork_operation = Operation::new(
        Verb::Post,
        "/agents/{id}/threads/{thread}/fork",
        group,
        "Copies a thread, or its beginning.",
    )
    .optional_body::<ForkBody>()
    .reply::<ForkReply>()
    .status(201);
    let api = api.route(fork_operation, fork);

    let title_operation = Operation::new(
        Verb::Post,
        "/agents/{id}/threads/{thread}/title",
        group,
        "Sets the title of a thread.",
    )
    .body::<TitleBody>()
    .status(204)
    .fails(409, busy);
    api.route(title_operation, set_title)
}

#[derive(Debug, Deserialize)]
struct ListParams {
    after: Option<String>,
    limit: Option<usize>,
    user: Option<String>,
}

/// A page of threads.
#[derive(Debug, Serialize, JsonSchema)]
struct ThreadList {
    threads: Vec<ThreadInfo>,
    /// The value of `after` for the next page; `null` at the end.
    next: Option<Arc<str>>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ThreadInfo {
    id: Arc<str>,
    /// The title, or the beginning of the first input.
    title: Option<Arc<str>>,
    /// The number of messages.
    messages: usize,
    /// In milliseconds since the Unix epoch.
    created_at: Option<u64>,
    /// In milliseconds since the Unix epoch.
    updated_at: Option<u64>,
    /// True if a run of this server is in progress.
    running: bool,
    /// The number of pending calls; while a run is in progress, 1 if it waits for an answer.
    pending: usize,
}

/// The stored state of a thread.
#[derive(Debug, Serialize)]
struct ThreadReply {
    #[serde(flatten)]
    state: AgentState,
    running: bool,
    interrupted: bool,
    /// The permit of the state.
    #[serde(skip)]
    _permit: StorePermit,
}

impl JsonSchema for ThreadReply {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ThreadReply".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        ThreadReplyFields::json_schema(generator)
    }
}

/// The fields of a [`ThreadReply`].
#[derive(JsonSchema)]
#[schemars(rename = "ThreadReply")]
#[allow(dead_code, reason = "the schema of another type")]
struct ThreadReplyFields {
    thread_id: String,
    user_id: Option<String>,
    title: Option<String>,
    /// The working directory of the agent that began it, for admins.
    cwd: Option<String>,
    /// The whole history.
    messages: Vec<schemas::Message>,
    #[serde(default)]
    todos: Vec<schemas::Todo>,
    /// The files that the agent wrote: path to content.
    #[serde(default)]
    files: std::collections::BTreeMap<String, String>,
    /// The pending calls, for `/resume`.
    #[serde(default)]
    pending: Vec<schemas::PendingCall>,
    /// True if a run of this server is in progress.
    running: bool,
    /// True if the last run ended without a response, or with a partial one: it was stopped, its
    /// process ended, it failed, or it reached a limit. False if calls are pending. (The
    /// `interrupted` of a run's reply has another meaning: `pending` has calls.)
    interrupted: bool,
}

async fn list(
    State(app): State<App>,
    caller: Caller,
    path: Path,
    QueryOf(params): QueryOf<ListParams>,
) -> Result<Json<ThreadList>, ApiError> {
    let user: Arc<str> = match params.user {
        Some(user) if user != **caller.id() => {
            caller.require_admin()?;
            user.into()
        }
        _ => caller.id().clone(),
    };
    let limit = params.limit.unwrap_or(PAGE);
    if !(1..=MAX_PAGE).contains(&limit) {
        let text = format!("limit is {limit}; use 1 to {MAX_PAGE}");
        return Err(ApiError::bad_request(text));
    }

    let store = app.store(&path.agent).await?;
    let mut query = ListQuery::new()
        .with_limit(limit)
        .with_user_id(user.clone());
    if let Some(after) = params.after {
        query = query.after(after);
    }
    let permit = list_permit(&app, &caller, &store).await?;
    let page = permit.hold_during(store.list_page(query)).await?;
    let store_id = StoreId::of(&store);
    let running = app.runs.running(&user);
    let runs_by_thread: HashMap<_, _> = running
        .iter()
        .filter(|run| run.key().store == store_id)
        .map(|run| (&run.key().thread, run))
        .collect();
    let threads = page.sessions.into_iter().map(|info| {
        let run = runs_by_thread.get(&info.id).copied();
        ThreadInfo::new(info, run)
    });
    Ok(Json(ThreadList {
        threads: threads.collect(),
        next: page.next,
    }))
}

/// Waits for the permit to list the threads of a store.
///
/// # Errors
///
/// Returns a 429 if other requests list threads for 30 seconds.
async fn list_permit(
    app: &App,
    caller: &Caller,
    store: &Arc<dyn SessionStore>,
) -> Result<StorePermit, ApiError> {
    let store = StoreId::of(store);
    let quota = app.runs.quota_of(caller.id());
    let permit = timeout(MAX_WAIT, quota.acquire_thread_list(&store)).await;
    permit.map_err(|_| {
        ApiError::too_many(
            "other requests list the threads of the store, which it takes to list and to delete \
             threads; try again later",
        )
    })
}

impl ThreadInfo {
    fn new(info: SessionInfo, run: Option<&Arc<ServerRun>>) -> Self {
        Self {
            pending: match run {
                Some(run) => usize::from(run.has_question()),
                None => info.pending,
            },
            id: info.id,
            title: info.title,
            messages: info.messages,
            created_at: info.created_at.map(milliseconds),
            updated_at: info.updated_at.map(milliseconds),
            running: run.is_some(),
        }
    }
}

/// Returns the time in milliseconds since the Unix epoch.
pub(super) fn milliseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// A stored thread of the user.
struct OwnedThread {
    store: Arc<dyn SessionStore>,
    key: RunKey,
}

impl OwnedThread {
    fn session(&self) -> OwnedSession<'_> {
        OwnedSession {
            store: &*self.store,
            id: &self.key.thread,
            owner: Some(&self.key.user),
        }
    }
}

/// Returns the thread of the path, which belongs to the user, with its state and the permit of the
/// state. Needs only the store of the agent.
async fn owned_thread(
    app: &App,
    caller: &Caller,
    path: &Path,
) -> Result<(OwnedThread, AgentState, StorePermit), ApiError> {
    let (store, key) = store_and_key(app, caller, path).await?;
    let (state, permit) = owned_state(app, caller, &*store, &key.thread).await?;
    let state = state.ok_or_else(|| ApiError::no_thread(&key.thread))?;
    Ok((OwnedThread { store, key }, state, permit))
}

/// Returns the store of the agent of the path, and the key of the thread, which need not exist.
async fn store_and_key(
    app: &App,
    caller: &Caller,
    path: &Path,
) -> Result<(Arc<dyn SessionStore>, RunKey), ApiError> {
    let store = app.store(&path.agent).await?;
    let key = RunKey {
        user: caller.id().clone(),
        store: StoreId::of(&store),
        thread: checked_thread_id(&path.thread)?,
    };
    Ok((store, key))
}

/// Returns the thread of the path, as [`owned_thread`], for an operation that loads it again under
/// the same permit.
async fn thread_to_change(
    app: &App,
    caller: &Caller,
    path: &Path,
) -> Result<(OwnedThread, StorePermit), ApiError> {
    let (thread, state, permit) = owned_thread(app, caller, path).await?;
    drop(state);
    Ok((thread, permit))
}

async fn get(State(app): State<App>, caller: Caller, path: Path) -> Result<Response, ApiError> {
    // Before the load: what a client reads slowly must not keep others from loading.
    let space = ReplySpace::acquire(&app, &caller).await?;
    let (store, key) = store_and_key(&app, &caller, &path).await?;
    let is_running = || app.runs.find(&key).is_some_and(|run| run.is_running());
    let last_run_id = || app.runs.find(&key).map(|run| run.id().clone());
    let earlier_id = last_run_id();
    // Checked before the load, so that everything that a run stored before it ended is loaded. A
    // run of another process may still receive the response.
    let was_running = is_running();
    let was_held = was_running || store.is_leased(&key.thread).await?;
    let (state, mut permit) = owned_state(&app, &caller, &*store, &key.thread).await?;
    permit.release_shared_permit();
    let mut state = state.ok_or_else(|| ApiError::no_thread(&key.thread))?;
    // Only admins may see the folders of the server.
    state.cwd = state.cwd.filter(|_| caller.0.is_admin);
    // And after it: a run that has begun meanwhile may have stored its input.
    let running = was_running || is_running();
    // A run that both began and ended meanwhile may have stored its response after the load.
    let is_last_run = last_run_id() == earlier_id;
    let is_incomplete = !was_held && !running && is_last_run && is_interrupted(&state);
    // A copy of a thread has copies of calls, which wait in the original alone.
    state.pending = own_pending(&state)
        .map(PendingCall::without_prompt)
        .collect();
    let reply = ThreadReply {
        running,
        interrupted: is_incomplete && !store.is_leased(&key.thread).await?,
        state,
        _permit: permit,
    };
    space.json(reply).await
}

/// Returns `true` if no call is pending and the history does not end with a whole response.
pub(super) fn is_interrupted(state: &AgentState) -> bool {
    if !state.pending.is_empty() {
        return false;
    }
    match state.messages.last() {
        None => false,
        Some(message) if message.role() == Role::Assistant => {
            let last = state.messages.len() - 1;
            let has_calls = message.tool_calls().next().is_some();
            has_calls
                || state
                    .message_info(last)
                    .is_some_and(|info| info.is_incomplete())
        }
        Some(message) => message.role() != Role::System,
    }
}

async fn delete(
    State(app): State<App>,
    caller: Caller,
    path: Path,
) -> Result<StatusCode, ApiError> {
    let (thread, load_permit) = thread_to_change(&app, &caller, &path).await?;
    // The search for the threads of subagents must not stop loads of others.
    drop(load_permit);
    let permit = list_permit(&app, &caller, &thread.store).await?;
    // A task of its own, which a client that leaves does not stop between two threads.
    let removal = tokio::spawn(async move {
        let mut removed_ids = Vec::new();
        let session = thread.session();
        let removal = session.delete(ChildSearch::ById, &mut removed_ids);
        let outcome = permit.hold_during(removal).await;
        if outcome.is_ok() {
            // The thread itself also if another request has removed it meanwhile.
            removed_ids.push(thread.key.thread.clone());
        }
        let mut key = thread.key;
        for id in removed_ids {
            key.thread = id;
            app.runs.remove_thread_log(&key);
            app.traces.remove_thread(&key);
        }
        outcome?;
        Ok(StatusCode::NO_CONTENT)
    });
    removal.await.map_err(|_| ApiError::internal())?
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ForkBody {
    /// The number of messages to copy. Defaults to all.
    at: Option<usize>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ForkReply {
    /// The new thread.
    thread_id: Arc<str>,
}

async fn fork(
    State(app): State<App>,
    caller: Caller,
    path: Path,
    OptionalBody(body): OptionalBody<ForkBody>,
) -> Result<(StatusCode, Json<ForkReply>), ApiError> {
    let (thread, state, permit) = owned_thread(&app, &caller, &path).await?;
    // A copy of more messages than there are fails, and does not count.
    if body.at.is_none_or(|at| at <= state.messages.len()) {
        app.uploads.count_copy(&caller, copy_len(&state, body.at))?;
    }
    drop(state);
    let new_id: Arc<str> = new_thread_id().into();
    let session = thread.session();
    match body.at {
        Some(messages) => {
            let fork = session.fork_at(&new_id, messages);
            permit.hold_during(fork).await?;
        }
        None => permit.hold_during(session.fork(&new_id)).await?,
    }
    let reply = ForkReply { thread_id: new_id };
    Ok((StatusCode::CREATED, Json(reply)))
}

/// Estimates the size of a copy of a thread with its first `messages` messages or all, in bytes.
fn copy_len(state: &AgentState, messages: Option<usize>) -> usize {
    let history = state.messages.as_slice().iter();
    let copied_messages = history.take(messages.unwrap_or(usize::MAX));
    let messages_len: usize = copied_messages.map(|message| message_size(message)).sum();
    let files = state.files.iter();
    let files_len: usize = files
        .map(|(path, content)| path.len() + content.len())
        .sum();
    messages_len.saturating_add(files_len)
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TitleBody {
    /// The title. An empty title restores the title made from the first input.
    title: String,
}

async fn set_title(
    State(app): State<App>,
    caller: Caller,
    path: Path,
    JsonBody(body): JsonBody<TitleBody>,
) -> Result<StatusCode, ApiError> {
    if body.title.len() > MAX_TITLE {
        let text = format!(
            "the title has {} bytes, and at most {MAX_TITLE} are kept; use a shorter one",
            body.title.len()
        );
        return Err(ApiError::bad_request(text));
    }
    let (thread, permit) = thread_to_change(&app, &caller, &path).await?;
    let session = thread.session();
    permit
        .hold_during(session.set_title(body.title.into()))
        .await?;
    Ok(StatusCode::NO_CONTENT)
}
