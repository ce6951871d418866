//! The run's state.

use std::sync::Arc;

use crate::session::{AgentState, Files, changed_files};
use crate::tool::StateView;
use crate::util::Guarded;

/// The state of a run behind a lock.
pub(super) struct StateCell(Guarded<AgentState>);

impl StateCell {
    pub(super) fn new(state: AgentState) -> Self {
        Self(Guarded::new(state))
    }

    /// Runs `f` on the state. For the engine's own short steps, which call nothing foreign.
    pub(super) fn with<R>(&self, f: impl FnOnce(&mut AgentState) -> R) -> R {
        self.0.with(f)
    }

    /// Runs foreign code on the state, or on a copy that is discarded. The copy shares its lists
    /// with the state until they are changed.
    ///
    /// Returns the changes of the task list and the files.
    pub(super) fn view(&self, live: bool, f: &mut dyn FnMut(StateView<'_>)) -> StateChange {
        if !live {
            let mut copy = self.0.with(|state| state.clone());
            f(copy.view());
            return StateChange::default();
        }

        self.0.lend(|state| {
            let todos = state.todos.clone();
            let files = state.files.clone();
            f(state.view());
            let mut changes = StateChange::default();

            // Equal content keeps the existing allocation.
            if !Arc::ptr_eq(&todos, &state.todos) {
                changes.has_new_todos = *todos != *state.todos;
                if !changes.has_new_todos {
                    state.todos = todos;
                }
            }

            if !Arc::ptr_eq(&files, &state.files) {
                changes.files = changed_paths(&files, &state.files);
                if changes.files.is_empty() {
                    state.files = files;
                }
            }

            changes
        })
    }
}

/// The changes that [`StateCell::view`] has made.
#[derive(Debug, Default)]
pub(super) struct StateChange {
    pub(super) has_new_todos: bool,
    /// The paths that were written, changed or removed, sorted.
    pub(super) files: Vec<String>,
}

fn changed_paths(before: &Files, after: &Files) -> Vec<String> {
    let mut paths: Vec<_> = changed_files(before, after)
        .map(|(path, _)| path.to_string())
        .collect();
    paths.sort_unstable();
    paths
}
