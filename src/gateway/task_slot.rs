//! The limit of the tasks of a session.

use std::sync::Arc;

use crate::util::sync::lock;

use super::chat_turn::ChatTurn;
use super::shared::GatewayShared;

/// The maximum number of tasks of `spawn` of a session that have not ended.
pub(super) const MAX_TASKS: usize = 16;

/// A permit for one of the tasks of `spawn` that a session may have. Dropping it frees the slot.
pub(super) struct TaskSlot {
    shared: Arc<GatewayShared>,
    session_key: Arc<str>,
}

impl TaskSlot {
    /// Takes a slot of a session. `None` if the session has [`MAX_TASKS`].
    pub(super) fn take(shared: &Arc<GatewayShared>, session_key: &Arc<str>) -> Option<Self> {
        let mut open_tasks = lock(&shared.open_tasks);
        let own_count = open_tasks.get(session_key).copied().unwrap_or_default();
        if own_count >= MAX_TASKS {
            return None;
        }
        open_tasks.insert(session_key.clone(), own_count + 1);
        Some(Self {
            shared: shared.clone(),
            session_key: session_key.clone(),
        })
    }

    /// Takes a slot of the session of a turn without history. The session is not removed while the
    /// slot is held: a task that waits for an answer has no lease. Returns `None` for a turn with
    /// history. These slots have no limit of their own.
    pub(super) fn of_once_session(turn: &ChatTurn) -> Option<Self> {
        let once_id = turn.once_id()?;
        let mut open_tasks = lock(&turn.shared.open_tasks);
        *open_tasks.entry(once_id.clone()).or_default() += 1;
        Some(Self {
            shared: turn.shared.clone(),
            session_key: once_id.clone(),
        })
    }
}

impl Drop for TaskSlot {
    fn drop(&mut self) {
        let mut open_tasks = lock(&self.shared.open_tasks);
        if let Some(count) = open_tasks.get_mut(&self.session_key) {
            *count -= 1;
            if *count == 0 {
                open_tasks.remove(&self.session_key);
            }
        }
    }
}
