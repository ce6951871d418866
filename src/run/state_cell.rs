//! The run's state behind a lock that notices when it would wait for itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::state::AgentState;
use crate::tool::StateView;
use crate::util::sync::lock;

thread_local! {
    /// Its address tells threads apart.
    static MARK: u8 = const { 0 };
}

fn this_thread() -> usize {
    MARK.with(|mark| std::ptr::from_ref(mark) as usize)
}

pub(super) struct StateCell {
    state: Mutex<AgentState>,
    /// The thread inside `view`, or 0.
    owner: AtomicUsize,
}

struct Owned<'a>(&'a AtomicUsize);

impl Drop for Owned<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

impl StateCell {
    pub(super) fn new(state: AgentState) -> Self {
        Self {
            state: Mutex::new(state),
            owner: AtomicUsize::new(0),
        }
    }

    /// Runs `f` on the state. For the engine's own short steps, which call nothing foreign.
    pub(super) fn with<R>(&self, f: impl FnOnce(&mut AgentState) -> R) -> R {
        self.refuse_nesting();
        f(&mut lock(&self.state))
    }

    /// Runs foreign code on the state, or on a copy that is thrown away.
    ///
    /// Returns what of todos and files changed.
    pub(super) fn view(&self, live: bool, f: &mut dyn FnMut(StateView<'_>)) -> Changed {
        self.refuse_nesting();
        let mut state = lock(&self.state);
        if !live {
            let mut copy = state.clone();
            drop(state);
            f(copy.view());
            return Changed::default();
        }
        self.owner.store(this_thread(), Ordering::Relaxed);
        let _owned = Owned(&self.owner);
        let (todos, files) = (state.todos.clone(), state.files.clone());
        f(state.view());
        let changed = Changed {
            todos: *todos != *state.todos,
            files: changed_paths(&files, &state.files),
        };
        // An untouched list keeps the memory it had.
        if !changed.todos {
            state.todos = todos;
        }
        if changed.files.is_empty() {
            state.files = files;
        }
        changed
    }

    fn refuse_nesting(&self) {
        assert!(
            self.owner.load(Ordering::Relaxed) != this_thread(),
            "with_state was called inside with_state on the same thread, which would wait for itself"
        );
    }
}

#[derive(Debug, Default)]
pub(super) struct Changed {
    pub(super) todos: bool,
    /// The paths that were written, changed or taken out, sorted.
    pub(super) files: Vec<String>,
}

type Files = BTreeMap<Arc<str>, Arc<str>>;

fn changed_paths(before: &Files, after: &Files) -> Vec<String> {
    let written = after
        .iter()
        .filter(|(path, content)| before.get(*path) != Some(*content));
    let removed = before.keys().filter(|path| !after.contains_key(*path));
    let changed: BTreeSet<_> = written.map(|(path, _)| path).chain(removed).collect();
    changed.into_iter().map(|path| path.to_string()).collect()
}
