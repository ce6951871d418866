//! The loop of a gateway: messages from the bus, each in the lane of its session.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};

use crate::error::{Error, ErrorKind, Result};
use crate::message::Message;

use super::bus::Delivery;
use super::channels::SYSTEM;
use super::core::Core;
use super::gateway::Gateway;
use super::message::InboundMessage;
use super::options::{DeliveryPolicy, WhenBusy};
use super::process::input;
use super::process_options::ProcessOptions;
use super::settlement::acknowledge;
use super::system_channel::{input_of, report_depth};

/// The work on the messages that were taken from the bus.
type MessageWork<'a> = FuturesUnordered<BoxFuture<'a, ()>>;

impl Gateway {
    /// Takes messages from the bus and processes them until the gateway is [stopped](Self::stop) or
    /// the bus is closed, and waits for the turns and tasks in progress then. Each message is
    /// answered: by the reply, by `Error processing message: CAUSE`, or by the tool `message`. It
    /// is acknowledged when the turn is stored and the reply is on the bus.
    ///
    /// These messages have no reply of their own:
    ///
    /// * the answer to a question of a turn in progress, or of a task of [`spawn`](super::spawn);
    /// * a message that joined the run in progress, which answers it ([`WhenBusy::Steer`]);
    /// * a message whose turn ended with a question that still waits for its answer.
    ///
    /// # Errors
    ///
    /// Returns the error of the bus, and [`Conflict`](ErrorKind::Conflict) if the gateway is
    /// running already. The error of the bus is returned after the turns and tasks in progress have
    /// ended: if the bus cannot be reached, a task tries to report its end for up to ten minutes.
    /// The gateway may be run again after an error of the bus.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops all turns and gives their messages back to the bus. Stored
    /// messages stay, and the turns continue from there.
    pub async fn run(&self) -> Result<()> {
        let core = &*self.core;
        if core.is_running.swap(true, Ordering::AcqRel) {
            return Err(Error::new(
                ErrorKind::Conflict,
                "the gateway is running already; wait until its `run` has ended",
            ));
        }
        let _running = Running(&core.is_running);

        let mut work = MessageWork::new();
        let outcome = self.take_messages(&mut work).await;
        core.until_closed(self.drain(&mut work)).await;
        if core.shared.stop.is_cancelled() {
            core.shared.tasks.close();
            core.shared.summaries.close();
        }
        outcome
    }

    /// Takes messages from the bus until the gateway is stopped or the bus is closed.
    async fn take_messages<'a>(&'a self, work: &mut MessageWork<'a>) -> Result<()> {
        let core = &*self.core;
        let mut next_beat = core.next_beat();
        loop {
            let delivery = tokio::select! {
                biased;
                () = core.shared.stop.cancelled() => return Ok(()),
                Some(()) = work.next() => continue,
                _ = poll_fn(|cx| core.shared.tasks.poll_ended(cx)) => continue,
                _ = poll_fn(|cx| core.shared.summaries.poll_ended(cx)) => continue,
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
    async fn drain(&self, work: &mut MessageWork<'_>) {
        let (tasks, summaries) = (&self.core.shared.tasks, &self.core.shared.summaries);
        while !work.is_empty() || !tasks.is_empty() || !summaries.is_empty() {
            tokio::select! {
                biased;
                Some(()) = work.next() => {}
                _ = poll_fn(|cx| tasks.poll_ended(cx)) => {}
                _ = poll_fn(|cx| summaries.poll_ended(cx)) => {}
            }
        }
    }

    /// Begins the work on a message. Its place in the lane of its session is taken before this
    /// returns, so that messages keep their order.
    fn dispatch(&self, mut delivery: Delivery<InboundMessage>) -> BoxFuture<'_, ()> {
        let core = &*self.core;
        // Without ids, an answer cannot be distinguished from the input whose turn asks.
        delivery.message.fill_id();
        // A message without a session would have a new one, so its chat would have no history.
        delivery.message.fill_session_key();
        let message = &delivery.message;
        if &*message.channel == SYSTEM {
            self.process_system_message(message);
            return self.dispatch_system(delivery);
        }
        let questions = &core.shared.questions;
        if questions.has_taken(&message.id) {
            return acknowledge(delivery).boxed();
        }
        if questions.answer(message) {
            if core.record_answer_in_run(message) {
                return acknowledge(delivery).boxed();
            }
            return core.settle_answer(delivery).boxed();
        }

        let options = ProcessOptions::of_message(message);
        let open_turn = match core.when_busy {
            WhenBusy::Queue => None,
            WhenBusy::Steer => core.lanes.open_turn(&options),
        };
        let is_steered = open_turn.is_some() && core.steer(&options);
        let joined_turn = open_turn.filter(|_| is_steered);
        let place = core.lanes.enter_for(&options, joined_turn);
        core.process_delivery(delivery, options, place, is_steered)
            .boxed()
    }

    fn dispatch_system(&self, delivery: Delivery<InboundMessage>) -> BoxFuture<'_, ()> {
        let core = &*self.core;
        match core.delivery {
            DeliveryPolicy::Notify => core.notify(delivery).boxed(),
            DeliveryPolicy::HandToAgent => match input_of(&delivery.message) {
                None => acknowledge(delivery).boxed(),
                Some(message) => {
                    let options = ProcessOptions {
                        report_depth: report_depth(&delivery.message),
                        ..ProcessOptions::of_message(&message)
                    };
                    let place = core.lanes.enter_for(&options, None);
                    core.process_delivery(delivery, options, place, false)
                        .boxed()
                }
            },
        }
    }
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
        let Some(handle) = self.served.handle_of(&options.session_key) else {
            return false;
        };
        let message = Message::human(input(options));
        handle.steer_input(options.input_id.clone(), message)
    }
}

/// Marks a gateway as running until it is dropped.
struct Running<'a>(&'a AtomicBool);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}
