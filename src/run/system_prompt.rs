//! The sections of a run's system prompt.

use std::fmt;
use std::sync::Arc;

use crate::model::{Stability, SystemPrompt};
use crate::util::sync::lock;

use super::context::RunContext;

/// The sections of the system prompt, as hooks set them.
///
/// A section stays until it is removed or the run ends, also one that was set in `modify_request`.
/// A hook that sets a section in each turn uses the same id, which replaces the previous section. A
/// section that is set to the same text keeps the provider's prompt cache warm.
#[derive(Clone)]
pub struct SystemPromptHandle(RunContext);

impl SystemPromptHandle {
    pub(super) fn new(context: RunContext) -> Self {
        Self(context)
    }

    /// Sets the section `id`. Volatile sections come after all stable ones, and after the
    /// prompt-cache breakpoint. An empty text removes the section.
    pub fn set(&self, id: impl Into<Arc<str>>, text: impl Into<Arc<str>>, stability: Stability) {
        lock(self.0.system_slot()).set(id, text, stability);
    }

    /// Removes the section `id`. Returns `false` if there was none.
    pub fn remove(&self, id: &str) -> bool {
        lock(self.0.system_slot()).remove(id)
    }

    /// Returns the present prompt.
    pub fn prompt(&self) -> SystemPrompt {
        lock(self.0.system_slot()).clone()
    }
}

impl fmt::Debug for SystemPromptHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SystemPromptHandle")
            .field(&self.prompt())
            .finish()
    }
}
