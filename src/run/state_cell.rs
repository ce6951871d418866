//! The run's state.

use crate::state::AgentState;
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

    /// Runs foreign code on the state, or on a copy that is thrown away.
    ///
    /// Returns whether todos or files changed.
    pub(super) fn view(&self, live: bool, f: &mut dyn FnMut(StateView<'_>)) -> Changed {
        if !live {
            let mut copy = self.0.with(|state| state.clone());
            f(copy.view());
            return Changed::default();
        }
        self.0.lend(|state| {
            let (todos, files) = (state.todos.clone(), state.files.clone());
            f(state.view());
            let changed = Changed {
                todos: *todos != *state.todos,
                files: *files != *state.files,
            };
            // An untouched list keeps the memory it had.
            if !changed.todos {
                state.todos = todos;
            }
            if !changed.files {
                state.files = files;
            }
            changed
        })
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Changed {
    pub(super) todos: bool,
    pub(super) files: bool,
}
