//! The writes of a run to its session.

use std::sync::{Arc, Mutex, OnceLock};

use crate::error::{Error, ErrorKind, Result};
use crate::run::{CLOSING_TIME, RunContext};
use crate::session::{AgentState, Lease, Record, SessionStore, ThreadStore, ToolState};
use crate::util::panic;
use crate::util::sync::lock;

use super::live_runs::Registration;

/// Writes a session to its store under the run's lease.
///
/// The session of [`Agent::run`](crate::Agent::run) in the agent's default store is temporary: it
/// is not leased, and nothing of it is written, until it has pending calls. Its first save with
/// pending calls leases it and writes the whole state; from then on it is written like any other
/// session, and the end of its lease removes it if no call is pending any more.
pub(super) struct SessionWriter {
    store: Arc<dyn SessionStore>,
    /// Empty while a temporary session is not stored.
    leased: OnceLock<LeasedSession>,
    /// The store that leases a temporary session; `None` for other sessions.
    default_store: Option<ThreadStore>,
    /// The entry of the run among the runs in progress, which lasts as long as the writer.
    #[expect(dead_code, reason = "released by its drop")]
    registration: Registration,
}

/// The lease of a session. It remembers the task list and the files that were last written, to
/// append only their changes.
struct LeasedSession {
    lease: Lease,
    tool_state: Mutex<ToolState>,
}

impl LeasedSession {
    fn new(lease: Lease, state: &AgentState) -> Self {
        Self {
            lease,
            tool_state: Mutex::new(ToolState::of(state)),
        }
    }
}

impl SessionWriter {
    pub(super) fn new(
        store: Arc<dyn SessionStore>,
        lease: Lease,
        registration: Registration,
        state: &AgentState,
    ) -> Self {
        Self {
            store,
            leased: LeasedSession::new(lease, state).into(),
            default_store: None,
            registration,
        }
    }

    /// Creates the writer of a temporary session. `default_store` is the same store as `store`.
    pub(super) fn temporary(
        store: Arc<dyn SessionStore>,
        default_store: &ThreadStore,
        registration: Registration,
    ) -> Self {
        Self {
            store,
            leased: OnceLock::new(),
            default_store: Some(default_store.clone()),
            registration,
        }
    }

    /// Returns `true` if the records of the session are stored. If not, none need be made.
    pub(super) fn is_storing(&self) -> bool {
        self.leased.get().is_some()
    }

    /// Appends records while tool calls run. Unlike the other writes it has no time limit after a
    /// stop, because a stop wakes only one of several concurrent calls.
    pub(super) async fn append(&self, cx: &RunContext, new_records: Vec<Record>) -> Result<()> {
        let answers = add_unstored_answers(cx);
        let Some(session) = self.leased.get() else {
            drop_answers(cx, &answers);
            return Ok(());
        };
        let mut records = input_records(&answers);
        records.extend(new_records);
        panic::catch_async(self.store.append(&session.lease, records))
            .await
            .unwrap_or_else(|text| Err(panicked(&text)))?;
        drop_answers(cx, &answers);
        Ok(())
    }

    /// Appends records, and the changes of the task list and the files since the last write.
    pub(super) async fn append_with_state(
        &self,
        cx: &RunContext,
        new_records: Vec<Record>,
    ) -> Result<()> {
        let answers = add_unstored_answers(cx);
        let Some(session) = self.leased.get() else {
            drop_answers(cx, &answers);
            return Ok(());
        };
        let mut records = input_records(&answers);
        records.extend(new_records);
        let now = cx.state(|state| ToolState::of(state));
        lock(&session.tool_state).push_changes(&now, &mut records);
        bounded(cx, self.store.append(&session.lease, records)).await?;
        drop_answers(cx, &answers);
        *lock(&session.tool_state) = now;
        Ok(())
    }

    /// Replaces the stored state by the state of the run. Leases a temporary session with pending
    /// calls.
    pub(super) async fn save(&self, cx: &RunContext) -> Result<()> {
        let answers = add_unstored_answers(cx);
        let state = cx.state(|state| {
            let is_stored = self.is_storing() || !state.pending.is_empty();
            is_stored.then(|| state.stored())
        });
        let Some(state) = state else {
            drop_answers(cx, &answers);
            return Ok(());
        };
        let session = match (self.leased.get(), &self.default_store) {
            (None, Some(store)) => {
                let lease = store.lease_temporary(cx.session_id())?;
                let session = LeasedSession::new(lease, &state);
                self.leased.get_or_init(|| session)
            }
            (Some(session), _) => session,
            (None, None) => return Ok(()),
        };
        bounded(cx, self.store.save(&session.lease, &state)).await?;
        drop_answers(cx, &answers);
        *lock(&session.tool_state) = ToolState::of(&state);
        Ok(())
    }
}

/// Adds the inputs that answered questions, and that no write has stored, to the state. Returns
/// their ids. They are stored with the first effect of the answers: each write has them until one
/// has stored them, so that of two writes at the same time either may fail.
fn add_unstored_answers(cx: &RunContext) -> Vec<Arc<str>> {
    let ids = lock(&cx.shared().control).answer_ids.clone();
    if !ids.is_empty() {
        cx.state(|state| {
            for id in &ids {
                if !state.inputs.contains(id) {
                    state.inputs.add_id(id.clone());
                }
            }
        });
    }
    ids
}

fn input_records(ids: &[Arc<str>]) -> Vec<Record> {
    let ids = ids.iter().cloned();
    ids.map(|id| Record::Input { id }).collect()
}

/// Drops ids that are stored. Those of a session that is not stored are in its state, which its
/// first save writes.
fn drop_answers(cx: &RunContext, ids: &[Arc<str>]) {
    if !ids.is_empty() {
        let mut control = lock(&cx.shared().control);
        control.answer_ids.retain(|id| !ids.contains(id));
    }
}

fn panicked(text: &str) -> Error {
    Error::new(
        ErrorKind::Other,
        format!("the session store panicked: {text}"),
    )
}

/// Awaits a write. Returns an error if the store panics, or if the write takes longer than
/// [`CLOSING_TIME`] after the run was stopped.
async fn bounded(cx: &RunContext, work: impl Future<Output = Result<()>>) -> Result<()> {
    let mut grace = None;
    let work = panic::catch_async(work);
    match cx.shared().within_grace(&mut grace, work).await {
        Some(Ok(result)) => result,
        Some(Err(text)) => Err(panicked(&text)),
        None => Err(Error::new(
            ErrorKind::Timeout,
            format!(
                "the session store did not answer within {CLOSING_TIME:?} after the run was \
                 stopped; the last records may not be stored"
            ),
        )),
    }
}
