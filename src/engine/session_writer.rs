//! The writes of a run to its session.

use std::sync::{Arc, Mutex};

use crate::error::{Error, ErrorKind, Result};
use crate::message::Todo;
use crate::run::{CLOSING_TIME, RunContext};
use crate::session::{AgentState, Files, Lease, Record, SessionStore, changed_files};
use crate::util::panic;
use crate::util::sync::lock;

/// Writes a session to its store under the run's lease. It remembers the task list and the files
/// that were last written, to append only their changes.
pub(super) struct SessionWriter {
    store: Arc<dyn SessionStore>,
    lease: Lease,
    /// The stored state other than the history.
    side: Mutex<SideState>,
}

/// The state other than the history that tools change.
#[derive(Clone)]
struct SideState {
    todos: Arc<Vec<Todo>>,
    files: Arc<Files>,
}

impl SideState {
    fn of(state: &AgentState) -> Self {
        Self {
            todos: state.todos.clone(),
            files: state.files.clone(),
        }
    }

    /// Appends the records that turn this state into `now`.
    fn push_changes(&self, now: &Self, records: &mut Vec<Record>) {
        if !Arc::ptr_eq(&self.todos, &now.todos) && self.todos != now.todos {
            let todos = now.todos.clone();
            records.push(Record::Todos { todos });
        }
        if !Arc::ptr_eq(&self.files, &now.files) {
            let files = changed_files(&self.files, &now.files);
            records.extend(files.map(|(path, content)| Record::File {
                path: path.clone(),
                content: content.cloned(),
            }));
        }
    }
}

impl SessionWriter {
    pub(super) fn new(store: Arc<dyn SessionStore>, lease: Lease, state: &AgentState) -> Self {
        Self {
            store,
            lease,
            side: Mutex::new(SideState::of(state)),
        }
    }

    /// Appends records while tool calls run. Unlike the other writes it has no time limit after a
    /// stop, because a stop wakes only one of several concurrent calls.
    pub(super) async fn append(&self, cx: &RunContext, new_records: Vec<Record>) -> Result<()> {
        let mut records = take_answer_records(cx);
        records.extend(new_records);
        panic::catch_async(self.store.append(&self.lease, records))
            .await
            .unwrap_or_else(|text| Err(panicked(&text)))
    }

    /// Appends records, and the changes of the task list and the files since the last write.
    pub(super) async fn append_with_state(
        &self,
        cx: &RunContext,
        new_records: Vec<Record>,
    ) -> Result<()> {
        let mut records = take_answer_records(cx);
        records.extend(new_records);
        let now = cx.state(|state| SideState::of(state));
        lock(&self.side).push_changes(&now, &mut records);
        bounded(cx, self.store.append(&self.lease, records)).await?;
        *lock(&self.side) = now;
        Ok(())
    }

    /// Replaces the stored state.
    pub(super) async fn save(&self, cx: &RunContext, state: &AgentState) -> Result<()> {
        bounded(cx, self.store.save(&self.lease, &state.stored())).await?;
        *lock(&self.side) = SideState::of(state);
        Ok(())
    }
}

/// Takes the records of the inputs that answered questions since the last write, and adds the
/// inputs to the state. They are stored with the first effect of the answers.
fn take_answer_records(cx: &RunContext) -> Vec<Record> {
    let ids = std::mem::take(&mut lock(&cx.shared().control).answer_ids);
    if ids.is_empty() {
        return Vec::new();
    }
    cx.state(|state| {
        for id in &ids {
            state.inputs.note(id.clone());
        }
    });
    ids.into_iter().map(|id| Record::Input { id }).collect()
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
