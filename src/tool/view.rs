//! The view of the run's state for tools.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::message::{Messages, Todo};
use crate::util::Values;

/// The state as a tool may touch it: the history is read-only, so that no call can lose its
/// result; the rest may be changed.
#[derive(Debug)]
#[non_exhaustive]
pub struct StateView<'a> {
    /// The history so far.
    pub messages: &'a Messages,
    /// The task list.
    pub todos: &'a mut Vec<Todo>,
    /// Files the agent wrote: path to content.
    pub files: &'a mut BTreeMap<Arc<str>, Arc<str>>,
    /// Values of this run.
    pub values: &'a mut Values,
}

impl<'a> StateView<'a> {
    pub(crate) fn new(
        messages: &'a Messages,
        todos: &'a mut Vec<Todo>,
        files: &'a mut BTreeMap<Arc<str>, Arc<str>>,
        values: &'a mut Values,
    ) -> Self {
        Self {
            messages,
            todos,
            files,
            values,
        }
    }
}
