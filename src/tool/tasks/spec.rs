//! The description of a task.

use std::borrow::Cow;
use std::sync::Arc;

use crate::util::secret::{redact_text, redacted};
use crate::util::text::truncate;

/// The maximum length of a label or a description that a task keeps, in characters.
const MAX_CHARS: usize = 1_000;

/// The description of a background task, for the reader of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskSpec {
    /// The task's id. With `None`, or with the id of a task of the run that is in progress or among
    /// the 64 that ended last, the run assigns one, such as `task_1`.
    pub id: Option<Arc<str>>,
    /// A short name of the work, for people and for the model. Cut to 1,000 characters.
    pub label: Arc<str>,
    /// The description of the work; empty if the label is enough. Cut to 1,000 characters.
    pub description: String,
    /// The id of the call that began the task, if a call did.
    pub tool_use_id: Option<Arc<str>>,
    /// The type of the subagent that does the work, if there is one.
    pub subagent_type: Option<Arc<str>>,
}

impl TaskSpec {
    /// Creates a description with this label.
    pub fn new(label: impl Into<Arc<str>>) -> Self {
        Self {
            label: label.into(),
            ..Self::default()
        }
    }

    /// Sets the id.
    #[must_use]
    pub fn with_id(mut self, id: impl Into<Arc<str>>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Sets the description.
    #[must_use]
    pub fn with_description(mut self, description: impl Into<String>) -> Self {
        self.description = description.into();
        self
    }

    /// Sets the id of the call that began the task.
    #[must_use]
    pub fn with_tool_use_id(mut self, id: impl Into<Arc<str>>) -> Self {
        self.tool_use_id = Some(id.into());
        self
    }

    /// Sets the type of the subagent that does the work.
    #[must_use]
    pub fn with_subagent_type(mut self, name: impl Into<Arc<str>>) -> Self {
        self.subagent_type = Some(name.into());
        self
    }

    /// Redacts the texts, and cuts them to their limits.
    pub(super) fn cleaned(mut self) -> Self {
        let label = redacted(&self.label);
        let short_label = truncate(&label, MAX_CHARS);
        if *short_label != *self.label {
            self.label = short_label.into();
        }
        redact_text(&mut self.description);
        if let Cow::Owned(description) = truncate(&self.description, MAX_CHARS) {
            self.description = description;
        }
        self
    }

    /// Returns the description, or else the label.
    pub(crate) fn text(&self) -> String {
        if self.description.is_empty() {
            self.label.to_string()
        } else {
            self.description.clone()
        }
    }
}
