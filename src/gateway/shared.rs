//! The data that the turns of a gateway share.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use crate::error::{Error, ErrorKind, Result};
use crate::sdk::SdkMessage;
use crate::tool::BackgroundTasks;
use crate::util::Cancellation;
use crate::util::sync::lock;

use super::bus::MessageBus;
use super::channels::KnownChannels;
use super::message::{InboundMessage, OutboundMessage};
use super::questions::Questions;
use super::waiting_tasks::WaitingTasks;

/// The maximum time for publishing a message in a turn.
const MAX_PUBLISH_TIME: Duration = Duration::from_secs(5 * 60);

/// The time that the bus has to take a message after the turns were interrupted.
const PUBLISH_AFTER_INTERRUPT: Duration = Duration::from_secs(2);

/// A function that is called with the messages of all runs.
pub(super) type Observer = Arc<dyn Fn(&SdkMessage) + Send + Sync>;

/// The data that the turns of a gateway share.
pub(super) struct GatewayShared {
    pub(super) bus: Arc<dyn MessageBus>,
    /// The channels that the tool `message` may write to.
    pub(super) channels: KnownChannels,
    pub(super) questions: Questions,
    /// The tasks that `spawn` started.
    pub(super) tasks: BackgroundTasks,
    /// The permits of tasks in progress.
    pub(super) task_permits: Arc<Semaphore>,
    /// The number of these permits.
    pub(super) max_tasks: usize,
    /// The tasks that wait for an answer.
    pub(super) waiting_tasks: WaitingTasks,
    /// The summaries that are being made.
    pub(super) summaries: BackgroundTasks,
    pub(super) observer: Option<Observer>,
    pub(super) has_observer_panicked: AtomicBool,
    /// The time in which a person answers a question of an interactor, and in which a channel takes
    /// a message of a turn.
    pub(super) ask_timeout: Duration,
    /// Cancelled when the gateway is to stop.
    pub(super) stop: Cancellation,
    /// Cancelled when the turns in progress are to end at once.
    pub(super) interrupt: Cancellation,
    /// The number of tasks that `spawn` has started.
    spawned: AtomicU64,
    /// The tasks of `spawn` that have not ended, by session; and those of turns without history
    /// that have not ended or wait for an answer, by the session of the turn.
    pub(super) open_tasks: Mutex<HashMap<Arc<str>, usize>>,
}

impl GatewayShared {
    pub(super) fn new(
        bus: Arc<dyn MessageBus>,
        channels: KnownChannels,
        max_tasks: usize,
        observer: Option<Observer>,
        ask_timeout: Duration,
    ) -> Arc<Self> {
        Arc::new(Self {
            bus,
            channels,
            task_permits: Arc::new(Semaphore::new(max_tasks)),
            max_tasks,
            waiting_tasks: WaitingTasks::default(),
            questions: Questions::default(),
            tasks: BackgroundTasks::default(),
            summaries: BackgroundTasks::default(),
            observer,
            has_observer_panicked: AtomicBool::new(false),
            ask_timeout,
            stop: Cancellation::default(),
            interrupt: Cancellation::default(),
            spawned: AtomicU64::new(0),
            open_tasks: Mutex::default(),
        })
    }

    /// Publishes a message to a channel. The end of the gateway does not wait for a queue that
    /// stays full.
    pub(super) async fn publish_outbound(&self, message: OutboundMessage) -> Result<()> {
        self.until_interrupted(self.bus.publish_outbound(message))
            .await
    }

    /// Publishes a message to the gateway, like [`publish_outbound`](Self::publish_outbound).
    pub(super) async fn publish_inbound(&self, message: InboundMessage) -> Result<()> {
        self.until_interrupted(self.bus.publish_inbound(message))
            .await
    }

    /// Waits for the publishing of a message, at most [`PUBLISH_AFTER_INTERRUPT`] after the turns
    /// were interrupted.
    async fn until_interrupted(&self, publish: impl Future<Output = Result<()>>) -> Result<()> {
        let end = async {
            self.interrupt.cancelled().await;
            sleep(PUBLISH_AFTER_INTERRUPT).await;
        };
        tokio::select! {
            biased;
            outcome = publish => outcome,
            () = end => Err(stopped()),
        }
    }

    /// Waits for the publishing of a message in a turn, at most [`MAX_PUBLISH_TIME`]. The turn
    /// holds a permit that other turns need, so it must not wait longer for a channel whose queue
    /// stays full.
    pub(super) async fn publish_in_turn(
        &self,
        publish: impl Future<Output = Result<()>>,
    ) -> Result<()> {
        timeout(MAX_PUBLISH_TIME, publish)
            .await
            .unwrap_or_else(|_| {
                let text = format!(
                    "the bus took no message of the channel for {} s; check that the channel's \
                     adapter and the server of the bus are running",
                    MAX_PUBLISH_TIME.as_secs()
                );
                Err(Error::new(ErrorKind::Timeout, text))
            })
    }

    /// Returns `true` if a turn may continue without the message that the bus did not take, because
    /// its queue stays full or the turns were interrupted.
    pub(super) fn may_skip(&self, error: &Error) -> bool {
        error.kind() == ErrorKind::Timeout || self.interrupt.is_cancelled()
    }

    /// Returns `true` if a task of `spawn` needs the session of a turn without history.
    pub(super) fn has_once_task(&self, once_id: &str) -> bool {
        lock(&self.open_tasks).contains_key(once_id)
    }

    /// Returns the id of the next task of `spawn`.
    pub(super) fn next_task_id(&self) -> Arc<str> {
        let number = self.spawned.fetch_add(1, Ordering::Relaxed) + 1;
        format!("subagent-{number}").into()
    }
}

/// Returns the error of a turn that the end of the gateway interrupted.
pub(super) fn stopped() -> Error {
    Error::new(ErrorKind::Cancelled, "the gateway was stopped")
}
