//! The run's state.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::session::AgentState;
use crate::tool::StateView;
use crate::util::Guarded;

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
    pub(super) fn view(&self, live: bool, f: &mut dyn FnMut(StateView<'_>)) -> Changed {
        if !live {
            let mut copy = self.0.with(|state| state.clone());
            f(copy.view());
            return Changed::default();
        }

        self.0.lend(|state| {
            let todos = state.todos.clone();
            let files = state.files.clone();
            f(state.view());
            let mut changes = Changed::default();

            // Equal content keeps the existing allocation.
            if !Arc::ptr_eq(&todos, &state.todos) {
                changes.todos = *todos != *state.todos;
                if !changes.todos {
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

#[derive(Debug, Default)]
pub(super) struct Changed {
    pub(super) todos: bool,
    /// The paths that were written, changed or removed, sorted.
    pub(super) files: Vec<String>,
}

type Files = BTreeMap<Arc<str>, Arc<str>>;

fn changed_paths(before: &Files, after: &Files) -> Vec<String> {
    let written_entries = after
        .iter()
        .filter(|(path, content)| before.get(*path) != Some(*content));
    let removed = before.keys().filter(|path| !after.contains_key(*path));
    let paths: BTreeSet<_> = written_entries
        .map(|(path, _)| path)
        .chain(removed)
        .collect();
    paths.into_iter().map(|path| path.to_string()).collect()
}
