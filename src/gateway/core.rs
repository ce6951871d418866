//! The parts of a gateway, which its handles share.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout};

use crate::error::{ErrorKind, Result};
use crate::prompt::ContextBuilder;
use crate::util::time::now_us;

use super::heartbeat::Heartbeat;
use super::lanes::Lanes;
use super::options::{DeliveryPolicy, WhenBusy};
use super::process::Processed;
use super::process_options::ProcessOptions;
use super::registered_tools::RegisteredTools;
use super::served::Served;
use super::shared::{GatewayShared, stopped};
use super::state_manager::StateManager;
use super::summaries::Summaries;

/// The number of sessions that are loaded at the same time to find the use of an input, in addition
/// to those of the turns in progress.
pub(super) const PARALLEL_LOADS: usize = 16;
/// The delay after which a turn is tried again when another process has its session.
pub(super) const BUSY_RETRY: Duration = Duration::from_millis(250);
/// The time that turns in progress have after the gateway was stopped.
const STOP_GRACE: Duration = Duration::from_secs(10);
/// The time that interrupted turns have to store their results.
const CLOSE_LIMIT: Duration = Duration::from_secs(15);
/// The maximum time that a caller waits for a session of another process.
const BUSY_LIMIT: Duration = Duration::from_secs(10);

/// The parts of a gateway, which its handles share.
pub(super) struct Core {
    pub(super) served: Served,
    pub(super) shared: Arc<GatewayShared>,
    pub(super) registered_tools: RegisteredTools,
    pub(super) context: Option<ContextBuilder>,
    pub(super) summaries: Option<Summaries>,
    pub(super) state: Option<StateManager>,
    pub(super) heartbeat: Option<Heartbeat>,
    pub(super) delivery: DeliveryPolicy,
    pub(super) when_busy: WhenBusy,
    pub(super) replies_after_message_elsewhere: bool,
    pub(super) lanes: Lanes,
    /// The turns that may be in progress.
    pub(super) turns: Semaphore,
    /// The sessions that may be loaded at the same time to find the use of an input.
    pub(super) loads: Semaphore,
    pub(super) is_running: AtomicBool,
}

impl Core {
    /// Runs a turn after the earlier turns of its session. Waits for up to ten seconds while
    /// another process has the session.
    pub(super) async fn process_in_lane(&self, options: &ProcessOptions) -> Result<Processed> {
        let options = ProcessOptions {
            written_at_us: options.written_at_us.or_else(|| Some(now_us())),
            ..options.clone()
        };
        let processed = self.until_closed(self.process_after_others(&options)).await;
        let mut processed = processed.unwrap_or_else(|| Err(stopped()))?;
        if let Some(summary) = processed.summary.take() {
            if self.is_running.load(Ordering::Acquire) {
                self.summarize_later(summary);
            } else {
                // Nothing else would drive it.
                tokio::select! {
                    biased;
                    () = self.shared.stop.cancelled() => {}
                    _ = summary.make_logged() => {}
                }
            }
        }
        Ok(processed)
    }

    /// Drives work on turns. Ten seconds after the gateway was stopped, turns are interrupted; 15
    /// seconds later, the work is dropped, and `None` is returned.
    pub(super) async fn until_closed<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        let grace = async {
            self.shared.stop.cancelled().await;
            sleep(STOP_GRACE).await;
        };
        tokio::select! {
            biased;
            output = &mut work => return Some(output),
            () = grace => self.shared.interrupt.cancel(),
        }
        let output = timeout(CLOSE_LIMIT, work).await;
        if output.is_err() {
            tracing::warn!("turns that did not end were dropped");
        }
        output.ok()
    }

    async fn process_after_others(&self, options: &ProcessOptions) -> Result<Processed> {
        let _place = loop {
            let place = self.lanes.enter(&options.session_key);
            let is_first = tokio::select! {
                biased;
                () = self.shared.stop.cancelled() => return Err(stopped()),
                is_first = place.wait_until_first() => is_first,
            };
            // The place is cleared if a message of the bus before it is given back. A direct caller
            // takes another place then.
            if is_first {
                break place;
            }
        };
        let _permit = self.turns.acquire().await.map_err(|_| stopped())?;
        let deadline = Instant::now() + BUSY_LIMIT;
        loop {
            match self.process(options).await {
                Err(error)
                    if error.kind() == ErrorKind::SessionBusy && Instant::now() < deadline =>
                {
                    sleep(BUSY_RETRY).await;
                }
                outcome => return outcome,
            }
        }
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        // The tasks own a reference to the shared data, which would otherwise never be dropped.
        self.shared.tasks.close();
        self.shared.summaries.close();
        self.shared.waiting_tasks.clear();
    }
}
