//! The run's state.

use std::sync::Arc;

use crate::message::Todo;
use crate::session::{AgentState, Files, changed_files};
use crate::tool::StateView;
use crate::util::{Guarded, Values};

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

    /// Runs foreign code on the state, or, if `live` is false, on a copy that is discarded. The
    /// copy shares its lists with the state until they are changed.
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

    /// Replaces the state. Returns the changes of the task list and the files.
    pub(super) fn replace(&self, state: AgentState) -> StateChange {
        let (old, changes) = self.0.with(|live| {
            let changes = StateChange::between(live, &state);
            (std::mem::replace(live, state), changes)
        });

        // Dropped after the lock is released: a value's `Drop` may use the state.
        drop(old);
        changes
    }

    /// Replaces the state by `returned`, which a hook has made from `given`, with the changes that
    /// were made through the context meanwhile. Returns the other changes of the task list and the
    /// files.
    pub(super) fn adopt(&self, given: &AgentState, returned: &mut AgentState) -> StateChange {
        let (old, changes) = self.0.with(|live| {
            returned.adopt(given, live);
            let changes = StateChange::between(live, returned);
            (std::mem::replace(live, returned.clone()), changes)
        });
        drop(old);
        changes
    }

    /// Returns the parts of the state that hooks change through the context. They share their
    /// contents with the state.
    pub(super) fn hook_state(&self) -> HookState {
        self.0.with(|state| HookState {
            todos: state.todos.clone(),
            files: state.files.clone(),
            values: state.values.clone(),
        })
    }

    /// Replaces the parts of the state that hooks change by `old`. Returns the changes of the task
    /// list and the files.
    pub(super) fn restore(&self, mut old: HookState) -> StateChange {
        let changes = self.0.with(|state| {
            let mut changes = StateChange::default();
            if !Arc::ptr_eq(&old.todos, &state.todos) {
                changes.has_new_todos = *old.todos != *state.todos;
            }

            if !Arc::ptr_eq(&old.files, &state.files) {
                changes.files = changed_paths(&state.files, &old.files);
            }

            std::mem::swap(&mut state.todos, &mut old.todos);
            std::mem::swap(&mut state.files, &mut old.files);
            std::mem::swap(&mut state.values, &mut old.values);
            changes
        });

        // Dropped after the lock is released: a value's `Drop` may use the state.
        drop(old);
        changes
    }
}

/// The parts of the state that hooks change through the context.
pub(crate) struct HookState {
    todos: Arc<Vec<Todo>>,
    files: Arc<Files>,
    values: Values,
}

/// The changes of the task list and the files.
#[derive(Debug, Default)]
pub(super) struct StateChange {
    pub(super) has_new_todos: bool,
    /// The paths that were written, changed or removed, sorted.
    pub(super) files: Vec<String>,
}

impl StateChange {
    fn between(before: &AgentState, after: &AgentState) -> Self {
        let mut changes = Self::default();
        if !Arc::ptr_eq(&before.todos, &after.todos) {
            changes.has_new_todos = *before.todos != *after.todos;
        }

        if !Arc::ptr_eq(&before.files, &after.files) {
            changes.files = changed_paths(&before.files, &after.files);
        }
        changes
    }
}

fn changed_paths(before: &Files, after: &Files) -> Vec<String> {
    let mut paths: Vec<_> = changed_files(before, after)
        .map(|(path, _)| path.to_string())
        .collect();
    paths.sort_unstable();
    paths
}
