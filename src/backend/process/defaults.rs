//! The limits of a command that sets none.

use std::time::Duration;

/// The time that a command may run, unless the command or the backend sets another.
pub(in super::super) const TIMEOUT: Duration = Duration::from_secs(120);
/// What is retained of each stream of a command, in bytes, unless the backend sets another limit.
pub(in super::super) const MAX_OUTPUT: usize = 256 * 1024;
