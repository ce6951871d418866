//! The state that tools change.

use std::sync::Arc;

use crate::message::Todo;

use super::agent_state::{AgentState, Files, changed_files};
use super::record::Record;

/// The state other than the history that tools change.
#[derive(Clone)]
pub(crate) struct ToolState {
    todos: Arc<Vec<Todo>>,
    files: Arc<Files>,
}

impl ToolState {
    pub(crate) fn of(state: &AgentState) -> Self {
        Self {
            todos: state.todos.clone(),
            files: state.files.clone(),
        }
    }

    /// Appends the records that turn this state into `new`.
    pub(crate) fn push_changes(&self, new: &Self, records: &mut Vec<Record>) {
        if !Arc::ptr_eq(&self.todos, &new.todos) && self.todos != new.todos {
            let todos = new.todos.clone();
            records.push(Record::Todos { todos });
        }
        if !Arc::ptr_eq(&self.files, &new.files) {
            let files = changed_files(&self.files, &new.files);
            records.extend(files.map(|(path, content)| Record::File {
                path: path.clone(),
                content: content.cloned(),
            }));
        }
    }
}
