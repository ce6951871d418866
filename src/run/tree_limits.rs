//! The limits that a run shares with its child runs.

use crate::error::{Error, ErrorKind, Result};
use crate::tool::LoadPermits;
use crate::util::byte_pool::BytePool;

use super::parent_call::MAX_DEPTH;

/// The maximum number of hooks that may wrap one call, including the hooks of parent runs. Each
/// hook takes up to 12 KiB of the stack in an unoptimized build; a worker's stack has 2 MiB.
const MAX_WRAPPING_HOOKS: usize = 96;

/// The maximum memory, in bytes, of the events of a run and its child runs that have not arrived
/// whole. The largest event has 16 MiB, and a response that is one document 32 MiB.
const MAX_EVENT_BYTES: usize = 48 * 1024 * 1024;

/// The limits that a run shares with its child runs. Clones share them.
#[derive(Clone)]
pub(crate) struct TreeLimits {
    pub(crate) loads: LoadPermits,
    pub(crate) histories: BytePool,
    /// The memory of the events of models that have not arrived whole.
    pub(crate) event_buffers: BytePool,
    /// The maximum depth of a child run: the lowest of the limits of this run and its parent runs.
    pub(crate) max_depth: u32,
    /// The number of hooks that wrap the innermost call of this run, including the hooks of parent
    /// runs.
    pub(crate) wrapping_hooks: usize,
}

impl TreeLimits {
    /// Creates the limits of a run that has no parent.
    pub(crate) fn new(max_history_bytes: usize, max_depth: u32, wrapping_hooks: usize) -> Self {
        Self {
            loads: LoadPermits::default(),
            histories: BytePool::new(max_history_bytes),
            event_buffers: BytePool::new(MAX_EVENT_BYTES),
            max_depth: max_depth.min(MAX_DEPTH),
            wrapping_hooks,
        }
    }

    /// Returns the limits of a child run at `depth`, below which runs may nest `max_depth` deep.
    /// `wrapping_hooks` is the number of the child's own hooks.
    pub(crate) fn of_child(&self, depth: u32, max_depth: u32, wrapping_hooks: usize) -> Self {
        let max_depth = self.max_depth.min(depth.saturating_add(max_depth));
        Self {
            max_depth,
            wrapping_hooks: self.wrapping_hooks.saturating_add(wrapping_hooks),
            ..self.clone()
        }
    }
}

/// Refuses hooks that, polled one inside the other, could overflow the stack.
pub(crate) fn check_wrapping_hooks(hooks: usize) -> Result<()> {
    if hooks <= MAX_WRAPPING_HOOKS {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Config,
        format!(
            "{hooks} hooks would wrap one call, those of the parent runs included; at most \
             {MAX_WRAPPING_HOOKS} may. Combine hooks, leave phases that they do not use out of \
             `Hook::phases`, or nest subagents less deep"
        ),
    ))
}
