//! The yielding of a busy loop to other tasks.

use tokio::task::{consume_budget, yield_now};

/// The steps after which a loop yields.
const STEPS: u32 = 64;

/// The steps for which one unit of tokio's budget is used: most steps are short.
const STEPS_A_UNIT: u32 = 8;

/// The bytes after which a loop yields.
const BYTES: usize = 256 * 1024;

/// The pace of a loop whose awaits may all be ready at once: without a pause it could not be
/// stopped, and no other task of its thread would run.
///
/// Tokio's budget alone would not do: it is not counted outside a task of tokio's, and a step may
/// be large.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    steps: u32,
    bytes: usize,
}

impl Pace {
    /// Ends a step that handled `bytes`, with a pause when it is time for one.
    pub(crate) async fn step(&mut self, bytes: usize) {
        self.steps += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        if self.steps >= STEPS || self.bytes >= BYTES {
            *self = Self::default();
            yield_now().await;
        } else if self.steps.is_multiple_of(STEPS_A_UNIT) {
            consume_budget().await;
        }
    }
}
