//! The task list and the files at a requested message.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::message::Todo;
use crate::session::{AgentState, Files, Record};

/// A task list and files.
pub(super) type TasksAndFiles = (Arc<Vec<Todo>>, Arc<Files>);

/// The state at the time when a requested message was added.
///
/// A copy of the files would be made again each time that the message is replaced. So only the
/// contents that change later are kept.
#[derive(Clone, Debug)]
pub(super) struct Capture {
    /// The position of the message.
    message: usize,
    /// The task list; `None` until the message is added.
    todos: Option<Arc<Vec<Todo>>>,
    /// The files that have changed since then, and their contents before; `None` for new files.
    old_files: BTreeMap<Arc<str>, Option<Arc<str>>>,
}

impl Capture {
    pub(super) fn at(message: usize) -> Self {
        Self {
            message,
            todos: None,
            old_files: BTreeMap::new(),
        }
    }

    /// Adds a record that is about to be applied to a session with this state.
    pub(super) fn add(&mut self, record: &Record, state: &AgentState) {
        match record {
            Record::Message { .. } if self.message == state.messages.len() => {
                self.todos = Some(state.todos.clone());
                self.old_files.clear();
            }
            Record::File { path, content } if self.todos.is_some() => {
                let old_content = self
                    .old_files
                    .entry(path.clone())
                    .or_insert_with(|| state.files.get(path).cloned());
                if old_content.is_none() && content.is_none() {
                    self.old_files.remove(path);
                }
            }
            _ => {}
        }
    }

    /// Returns the task list and the files, given the files after the last record. Both are empty
    /// if the message was never added.
    pub(super) fn restore(self, mut files: Arc<Files>) -> TasksAndFiles {
        let Some(todos) = self.todos else {
            return TasksAndFiles::default();
        };
        for (path, content) in self.old_files {
            let files = Arc::make_mut(&mut files);
            match content {
                Some(content) => drop(files.insert(path, content)),
                None => drop(files.remove(&path)),
            }
        }
        (todos, files)
    }
}
