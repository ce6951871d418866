//! The loop of a gateway: messages from the bus, each in the lane of its session.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep, timeout};

use crate::error::{Error, ErrorKind, Result};
use crate::message::Message;
use crate::util::text::truncate;

use super::bus::Delivery;
use super::channels::SYSTEM;
use super::gateway::{BUSY_RETRY, Core, Gateway};
use super::lane::Place;
use super::message::InboundMessage;
use super::options::{DeliveryPolicy, ProcessOptions, WhenBusy};
use super::process::{Processed, input};
use super::system_channel::{handed_over, notice, report_depth};

/// The time for turns in progress after the gateway was stopped.
const GRACE: Duration = Duration::from_secs(10);
/// The time for interrupted turns to store what they have.
const CLOSING: Duration = Duration::from_secs(15);
/// The time after which a message that could not be processed is delivered again.
const RETRY: Duration = Duration::from_secs(1);
/// The shortest interval of the reports to the bus about work in progress.
const MIN_KEEP_ALIVE: Duration = Duration::from_millis(100);

type Work<'a> = FuturesUnordered<BoxFuture<'a, ()>>;

impl Gateway {
    /// Takes messages from the bus and processes them until the gateway is [stopped](Self::stop) or
    /// the bus is closed. Each message is answered: by the reply, by `Error processing message:
    /// CAUSE`, or by the tool `message`. It is acknowledged when the turn is stored and the reply
    /// is on the bus.
    ///
    /// # Errors
    ///
    /// That of the bus, after the turns in progress have ended; the gateway may be run again then.
    /// [`Conflict`](ErrorKind::Conflict) if the gateway is running.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops all turns and gives their messages back to the bus. What was
    /// stored stays, and the turns continue from there.
    pub async fn run(&self) -> Result<()> {
        let core = &*self.core;
        if core.is_running.swap(true, Ordering::AcqRel) {
            return Err(Error::new(ErrorKind::Conflict, "the gateway is running"));
        }
        let _running = Running(&core.is_running);

        let mut work = Work::new();
        let outcome = self.take_messages(&mut work).await;
        let stop = &core.shared.stop;
        let grace = async {
            stop.cancelled().await;
            sleep(GRACE).await;
        };
        let is_drained = tokio::select! {
            biased;
            () = self.drain(&mut work) => true,
            () = grace => false,
        };
        if !is_drained {
            core.shared.interrupt.cancel();
            let drain = self.drain(&mut work);
            if timeout(CLOSING, drain).await.is_err() {
                tracing::warn!("turns that did not end were dropped");
            }
        }
        if stop.is_cancelled() {
            core.shared.tasks.close();
            core.shared.summaries.close();
        }
        outcome
    }

    async fn take_messages<'a>(&'a self, work: &mut Work<'a>) -> Result<()> {
        let core = &*self.core;
        let mut next_beat = core.next_beat();
        loop {
            let delivery = tokio::select! {
                biased;
                () = core.shared.stop.cancelled() => return Ok(()),
                Some(()) = work.next() => continue,
                _ = poll_fn(|cx| core.shared.tasks.poll_finished(cx)) => continue,
                _ = poll_fn(|cx| core.shared.summaries.poll_finished(cx)) => continue,
                () = &mut next_beat => {
                    work.push(self.beat().boxed());
                    next_beat = core.next_beat();
                    continue;
                }
                delivery = core.shared.bus.consume_inbound() => delivery?,
            };
            match delivery {
                None => return Ok(()),
                Some(delivery) => work.push(self.dispatch(delivery)),
            }
        }
    }

    /// Waits for the turns, the tasks and the summaries in progress.
    async fn drain(&self, work: &mut Work<'_>) {
        let (tasks, summaries) = (&self.core.shared.tasks, &self.core.shared.summaries);
        while !work.is_empty() || !tasks.is_empty() || !summaries.is_empty() {
            tokio::select! {
                biased;
                Some(()) = work.next() => {}
                _ = poll_fn(|cx| tasks.poll_finished(cx)) => {}
                _ = poll_fn(|cx| summaries.poll_finished(cx)) => {}
            }
        }
    }

    /// Begins the work on a message. Its place in the lane of its session is taken here, so that
    /// messages keep their order.
    fn dispatch(&self, delivery: Delivery<InboundMessage>) -> BoxFuture<'_, ()> {
        let core = &*self.core;
        let message = &delivery.message;
        if &*message.channel == SYSTEM {
            self.process_system_message(message);
            return self.dispatch_system(delivery);
        }
        let questions = &core.shared.questions;
        if questions.has_taken(&message.id) {
            return settle(delivery).boxed();
        }
        if questions.answer(message) {
            let is_noted = core.note_answer(message);
            return core.settle_answer(delivery, is_noted).boxed();
        }

        let options = ProcessOptions::of_message(message);
        let is_steered = core.when_busy == WhenBusy::Steer && core.steer(&options);
        let place = core.lanes.enter(&message.session_key);
        core.answer(delivery, options, place, is_steered).boxed()
    }

    fn dispatch_system(&self, delivery: Delivery<InboundMessage>) -> BoxFuture<'_, ()> {
        let core = &*self.core;
        match core.delivery {
            DeliveryPolicy::Notify => core.notify(delivery).boxed(),
            DeliveryPolicy::HandToAgent => match handed_over(&delivery.message) {
                None => settle(delivery).boxed(),
                Some(message) => {
                    let options = ProcessOptions {
                        report_depth: report_depth(&delivery.message),
                        ..ProcessOptions::of_message(&message)
                    };
                    let place = core.lanes.enter(&message.session_key);
                    core.answer(delivery, options, place, false).boxed()
                }
            },
        }
    }
}

/// The end of the work on a message.
enum Settlement {
    Done,
    Retry(Duration),
}

impl Core {
    /// Waits for the next check of the heartbeat, if there is one.
    fn next_beat(&self) -> BoxFuture<'_, ()> {
        match &self.heartbeat {
            Some(heartbeat) => heartbeat.wait().boxed(),
            None => std::future::pending().boxed(),
        }
    }

    /// Sends an input to the run in progress of its session. Returns `false` if there is none.
    fn steer(&self, options: &ProcessOptions) -> bool {
        let Some(handle) = self.served.handle(&options.session_key) else {
            return false;
        };
        let message = Message::human(input(options));
        handle.steer_input(options.input_id.clone(), message)
    }

    /// Sends a message about background work to its chat.
    async fn notify(&self, delivery: Delivery<InboundMessage>) {
        if let Some(message) = notice(&delivery.message)
            && let Err(error) = self.shared.bus.publish_outbound(message).await
            && let Settlement::Retry(delay) = after_refusal(&delivery.message.id, &error)
        {
            return give_back(delivery, delay).await;
        }
        settle(delivery).await;
    }

    /// Acknowledges a message that was taken as an answer.
    async fn settle_answer(&self, delivery: Delivery<InboundMessage>, is_noted: bool) {
        if !is_noted {
            self.store_answer(&delivery.message).await;
        }
        settle(delivery).await;
    }

    /// Processes a message in its place and replies.
    async fn answer(
        &self,
        delivery: Delivery<InboundMessage>,
        options: ProcessOptions,
        place: Place,
        is_steered: bool,
    ) {
        let work = async {
            let has_turn = tokio::select! {
                biased;
                () = self.shared.stop.cancelled() => return Settlement::Retry(Duration::ZERO),
                has_turn = place.turn() => has_turn,
            };
            if !has_turn {
                return Settlement::Retry(BUSY_RETRY);
            }
            let outcome = {
                let Ok(_permit) = self.turns.acquire().await else {
                    return Settlement::Retry(Duration::ZERO);
                };
                self.process(&options).await
            };
            // Without the permit: a channel that takes no messages holds up no other.
            self.deliver(outcome, &options, is_steered).await
        };
        let interval = self.shared.bus.keep_alive_interval();
        match keep_alive(&delivery, interval, work).await {
            Settlement::Done => settle(delivery).await,
            Settlement::Retry(delay) => {
                // Given back together, so that the bus keeps their order.
                place.clear_later();
                give_back(delivery, delay).await;
            }
        }
    }

    /// Sends the reply, or the error.
    async fn deliver(
        &self,
        outcome: Result<Processed>,
        options: &ProcessOptions,
        is_steered: bool,
    ) -> Settlement {
        let sending = match outcome {
            // The run that the message was sent to has replied.
            Ok(processed) if is_steered && processed.is_repeated => Ok(()),
            Ok(processed) => self.send_reply(options, &processed).await,
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
            Err(error) => after_refusal(&options.input_id, &error),
        }
    }
}

/// The end of the work on a message whose reply could not be sent: a later attempt, unless the bus
/// refuses such a reply each time.
fn after_refusal(input_id: &str, error: &Error) -> Settlement {
    if error.kind() == ErrorKind::InvalidRequest {
        let input_id = truncate(input_id, 64);
        tracing::error!(
            "the reply to message {input_id:?} is not sent: the bus refuses it: {error}"
        );
        return Settlement::Done;
    }
    tracing::warn!("a reply could not be sent and is sent again later: {error}");
    Settlement::Retry(RETRY)
}

/// Does the work on a message, and reports to the bus that it is in progress.
async fn keep_alive<T>(
    delivery: &Delivery<InboundMessage>,
    interval: Duration,
    work: impl Future<Output = T>,
) -> T {
    let reports = async {
        let interval = interval.max(MIN_KEEP_ALIVE);
        let mut interval = interval_at(Instant::now() + interval, interval);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            interval.tick().await;
            if let Err(error) = delivery.keep_alive().await {
                tracing::warn!("the bus could not be informed about a message: {error}");
            }
        }
    };
    // The work goes on while a report hangs.
    tokio::select! {
        biased;
        output = work => output,
        never = reports => never,
    }
}

async fn settle(delivery: Delivery<InboundMessage>) {
    if let Err(error) = delivery.ack().await {
        tracing::warn!("a message could not be acknowledged and may be delivered again: {error}");
    }
}

async fn give_back(delivery: Delivery<InboundMessage>, delay: Duration) {
    if let Err(error) = delivery.give_back(delay).await {
        tracing::warn!("a message could not be given back: {error}");
    }
}

/// Notes the end of a gateway's run when it is dropped.
struct Running<'a>(&'a AtomicBool);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}
