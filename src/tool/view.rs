//! The view of the run's state for tools.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::message::{Messages, Todo};
use crate::util::Values;

/// The state of a run as tools and hooks can access it. The history is read-only, so that no call
/// can lose its result; the task list, the files and the values can be changed.
///
/// Reading copies nothing. The first change of the task list or of the files copies that list once.
/// A run emits such changes as [`StateChanged`](crate::sdk::SystemKind::StateChanged).
#[derive(Debug)]
#[non_exhaustive]
pub struct StateView<'a> {
    /// The history so far.
    pub messages: &'a Messages,
    /// The values of this run.
    pub values: &'a mut Values,
    todos: &'a mut Arc<Vec<Todo>>,
    files: &'a mut Arc<BTreeMap<Arc<str>, Arc<str>>>,
}

/// Calls `f` through `lend`, which accepts only closures that can be called several times but calls
/// its closure once.
pub(crate) fn view_once<R>(
    f: impl FnOnce(StateView<'_>) -> R,
    lend: impl FnOnce(&mut dyn FnMut(StateView<'_>)),
) -> R {
    let mut f = Some(f);
    let mut output = None;
    lend(&mut |view| {
        if let Some(f) = f.take() {
            output = Some(f(view));
        }
    });
    output.expect("the closure is called once")
}

impl<'a> StateView<'a> {
    pub(crate) fn new(
        messages: &'a Messages,
        todos: &'a mut Arc<Vec<Todo>>,
        files: &'a mut Arc<BTreeMap<Arc<str>, Arc<str>>>,
        values: &'a mut Values,
    ) -> Self {
        Self {
            messages,
            values,
            todos,
            files,
        }
    }

    /// Returns the task list.
    pub fn todos(&self) -> &Vec<Todo> {
        self.todos
    }

    /// Returns the task list, mutably.
    pub fn todos_mut(&mut self) -> &mut Vec<Todo> {
        Arc::make_mut(self.todos)
    }

    /// Returns the files that the agent wrote: paths with their contents.
    pub fn files(&self) -> &BTreeMap<Arc<str>, Arc<str>> {
        self.files
    }

    /// Returns the files that the agent wrote, mutably.
    pub fn files_mut(&mut self) -> &mut BTreeMap<Arc<str>, Arc<str>> {
        Arc::make_mut(self.files)
    }
}
