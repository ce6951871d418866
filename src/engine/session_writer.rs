//! The writes of a run to its session.

use std::sync::{Arc, Mutex};

use crate::error::{Error, ErrorKind, Result};
use crate::run::{CLOSING_TIME, RunContext};
use crate::session::{AgentState, Lease, Record, SessionStore, ToolState};
use crate::util::panic;
use crate::util::sync::lock;

use super::live_runs::Registration;

/// Writes a session to its store under the run's lease. It remembers the task list and the files
/// that were last written, to append only their changes.
pub(super) struct SessionWriter {
    store: Arc<dyn SessionStore>,
    lease: Lease,
    tool_state: Mutex<ToolState>,
    /// The entry of the run among the runs in progress, which lasts as long as the lease.
    #[expect(dead_code, reason = "released by its drop")]
    registration: Registration,
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
            lease,
            tool_state: Mutex::new(ToolState::of(state)),
            registration,
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
        let now = cx.state(|state| ToolState::of(state));
        lock(&self.tool_state).push_changes(&now, &mut records);
        bounded(cx, self.store.append(&self.lease, records)).await?;
        *lock(&self.tool_state) = now;
        Ok(())
    }

    /// Replaces the stored state.
    pub(super) async fn save(&self, cx: &RunContext, state: &AgentState) -> Result<()> {
        bounded(cx, self.store.save(&self.lease, &state.stored())).await?;
        *lock(&self.tool_state) = ToolState::of(state);
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
            state.inputs.add_id(id.clone());
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
