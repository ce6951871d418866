//! The parts of a gateway, which its handles share.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};

use crate::error::{ErrorKind, Result};
use crate::prompt::ContextBuilder;

use super::heartbeat::Heartbeat;
use super::lanes::Lanes;
use super::options::{DeliveryPolicy, WhenBusy};
use super::process::{Processed, stopped};
use super::process_options::ProcessOptions;
use super::registered_tools::RegisteredTools;
use super::served::Served;
use super::shared::GatewayShared;
use super::state_manager::StateManager;
use super::summaries::Summaries;

/// The delay after which a turn is tried again when another process has its session.
pub(super) const BUSY_RETRY: Duration = Duration::from_millis(250);
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
    pub(super) is_running: AtomicBool,
}

impl Core {
    /// Runs a turn after the earlier turns of its session. Waits for up to ten seconds while
    /// another process has the session.
    pub(super) async fn process_in_lane(&self, options: &ProcessOptions) -> Result<Processed> {
        let _place = loop {
            let place = self.lanes.enter(&options.session_key);
            let has_turn = tokio::select! {
                biased;
                () = self.shared.stop.cancelled() => return Err(stopped()),
                has_turn = place.turn() => has_turn,
            };
            // A lane that was cleared for messages of the bus is entered again.
            if has_turn {
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
