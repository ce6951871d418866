//! The work on one message of the bus, until it is acknowledged or given back.

use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::error::{Error, ErrorKind, Result};
use crate::util::panic;
use crate::util::text::quoted;
use crate::util::time::{NEVER, later};

use super::bus::Delivery;
use super::core::{BUSY_RETRY, Core};
use super::lanes::LanePlace;
use super::message::InboundMessage;
use super::process::Processed;
use super::process_options::ProcessOptions;
use super::system_channel::notice_of;

/// The time after which a message that could not be processed is delivered again.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// The minimum interval of the reports to the bus that a message is in progress.
const MIN_KEEP_ALIVE: Duration = Duration::from_millis(100);

/// The end of the work on a message.
enum Settlement {
    /// It is acknowledged.
    Done,
    /// It is given back, to be delivered again after this delay.
    Retry(Duration),
}

impl Core {
    /// Sends a message about background work to its chat.
    pub(super) async fn notify(&self, delivery: Delivery<InboundMessage>) {
        if let Some(message) = notice_of(&delivery.message)
            && let Err(error) = self.shared.publish_outbound(message).await
            && let Settlement::Retry(delay) = after_send_error(&delivery.message.id, &error)
        {
            return give_back(delivery, delay).await;
        }
        acknowledge(delivery).await;
    }

    /// Stores that a message was taken as an answer, and acknowledges it.
    pub(super) async fn settle_answer(&self, delivery: Delivery<InboundMessage>) {
        self.store_answer(&delivery.message).await;
        acknowledge(delivery).await;
    }

    /// Processes a message after the earlier messages of its session, replies, and acknowledges it.
    /// `is_steered` is `true` if the message was sent to the run in progress of its session: if
    /// that run has responded to it, it has also replied.
    pub(super) async fn process_delivery(
        &self,
        delivery: Delivery<InboundMessage>,
        options: ProcessOptions,
        place: LanePlace,
        is_steered: bool,
    ) {
        let work = async {
            let is_first = tokio::select! {
                biased;
                () = self.shared.stop.cancelled() => return Settlement::Retry(Duration::ZERO),
                is_first = place.wait_until_first() => is_first,
            };
            if !is_first {
                return Settlement::Retry(BUSY_RETRY);
            }
            let outcome = {
                let Ok(_permit) = self.turns.acquire().await else {
                    return Settlement::Retry(Duration::ZERO);
                };
                self.process_caught(&options).await
            };
            // The permit is released first: a channel whose queue is full does not block others.
            self.deliver(outcome, &options, is_steered).await
        };
        let interval = self.shared.bus.keep_alive_interval();
        match keep_alive(&delivery, interval, work).await {
            Settlement::Done => acknowledge(delivery).await,
            Settlement::Retry(delay) => {
                // The later messages are given back as well, so that the bus keeps their order.
                place.clear_later_places();
                give_back(delivery, delay).await;
            }
        }
    }

    /// Runs a turn. A panic is an error of the turn, so that other turns continue.
    async fn process_caught(&self, options: &ProcessOptions) -> Result<Processed> {
        let outcome = panic::catch_async(self.process(options)).await;
        outcome.unwrap_or_else(|text| {
            let text = format!("the turn panicked: {text}");
            tracing::error!("session {}: {text}", options.session_key);
            Err(Error::new(ErrorKind::Other, text))
        })
    }

    /// Sends the reply, or the error.
    async fn deliver(
        &self,
        outcome: Result<Processed>,
        options: &ProcessOptions,
        is_steered: bool,
    ) -> Settlement {
        let sending = match outcome {
            Ok(mut processed) => {
                if let Some(summary) = processed.summary.take() {
                    self.summarize_later(summary);
                }
                // The run that the message was sent to has replied.
                if is_steered && processed.is_repeated {
                    Ok(())
                } else {
                    self.send_reply(options, &processed).await
                }
            }
            Err(error) if error.kind() == ErrorKind::SessionBusy => {
                return Settlement::Retry(BUSY_RETRY);
            }
            Err(_) if self.shared.interrupt.is_cancelled() => {
                return Settlement::Retry(Duration::ZERO);
            }
            Err(error) => {
                let text = format!("Error processing message: {error}");
                self.send_text(options, &text).await
            }
        };
        match sending {
            Ok(()) => Settlement::Done,
            Err(error) => after_send_error(&options.input_id, &error),
        }
    }
}

/// Returns the settlement of a message whose reply could not be sent: another attempt, unless the
/// bus would refuse each.
fn after_send_error(input_id: &str, error: &Error) -> Settlement {
    if error.kind() == ErrorKind::InvalidRequest {
        let input_id = quoted(input_id);
        tracing::error!("the reply to message {input_id} is not sent: the bus refuses it: {error}");
        return Settlement::Done;
    }
    tracing::warn!("a reply could not be sent and is sent again later: {error}");
    Settlement::Retry(RETRY_DELAY)
}

/// Drives the work on a message, and reports to the bus in each interval that it is in progress.
async fn keep_alive<T>(
    delivery: &Delivery<InboundMessage>,
    interval: Duration,
    work: impl Future<Output = T>,
) -> T {
    let reports = async {
        let interval = interval.max(MIN_KEEP_ALIVE);
        let mut interval = interval_at(later(Instant::now(), interval), interval.min(NEVER));
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            interval.tick().await;
            if let Err(error) = delivery.keep_alive().await {
                tracing::warn!(
                    "the bus could not be informed that a message is in progress: {error}"
                );
            }
        }
    };
    // A report that hangs does not delay the work.
    tokio::select! {
        biased;
        output = work => output,
        never = reports => never,
    }
}

pub(super) async fn acknowledge(delivery: Delivery<InboundMessage>) {
    if let Err(error) = delivery.ack().await {
        tracing::warn!("a message could not be acknowledged and may be delivered again: {error}");
    }
}

async fn give_back(delivery: Delivery<InboundMessage>, delay: Duration) {
    if let Err(error) = delivery.give_back(delay).await {
        tracing::warn!("a message could not be given back: {error}");
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;
    use crate::gateway::{InProcessBus, MessageBus};

    #[tokio::test(start_paused = true)]
    async fn keep_alive_interval_of_the_maximum_is_none() {
        let bus = InProcessBus::new(1);
        let message = InboundMessage::new("cli", "ann", "chat", "hello");
        bus.publish_inbound(message).await.unwrap();
        let delivery = bus.consume_inbound().await.unwrap().unwrap();
        let work = async {
            sleep(Duration::from_secs(3_600)).await;
            "done"
        };
        assert_eq!(keep_alive(&delivery, Duration::MAX, work).await, "done");
    }
}
