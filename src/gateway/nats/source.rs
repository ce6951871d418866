//! The messages of one durable consumer. Those of each subject are delivered in their order.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, pull};
use async_nats::jetstream::message::Acker;
use async_nats::jetstream::{AckKind, Message};
use futures::StreamExt;
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout_at};

use crate::error::{Error, Result};
use crate::util::sync::lock;

use super::super::bus::Delivery;
use super::connection::Connection;
use super::failure::failed;
use super::order::{Condition, Order};
use super::receipt::{NatsReceipt, StreamPosition};

/// The delay after which a message that came out of order is delivered again.
const ORDER_DELAY: Duration = Duration::from_millis(250);
/// The same delay after [`MANY_ATTEMPTS`].
const LONG_ORDER_DELAY: Duration = Duration::from_secs(1);
/// The number of deliveries after which the delay is longer.
const MANY_ATTEMPTS: i64 = 8;
/// The maximum number of messages that are delivered and not acknowledged, of all processes.
const MAX_ACK_PENDING: i64 = 10_000;
/// The size of the messages in progress in this process, in bytes, from which on no further message
/// is taken.
const MAX_BYTES: usize = 64 * 1024 * 1024;
/// The time that a request for messages waits at the server.
const EXPIRES: Duration = Duration::from_secs(30);
/// The interval in which the server reports that the request waits.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// The time between attempts to reach the server.
const RETRY: Duration = Duration::from_millis(500);

/// The state of a source that its deliveries share.
#[derive(Default)]
pub(super) struct SourceState {
    order: Mutex<Order>,
    /// The deliveries that were dropped.
    dropped: Mutex<Vec<Acker>>,
    /// The size of the messages in progress.
    bytes: AtomicUsize,
    /// Notified when a delivery was dropped, there is room again, or the source was closed.
    change: Notify,
    is_closed: AtomicBool,
    /// The time at which the last wait for messages ended.
    waited_at: Mutex<Option<Instant>>,
}

/// The wait of one call of [`Source::next`]. Its end is recorded on drop, so also if the call is
/// dropped.
struct Wait<'a>(&'a SourceState);

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        *lock(&self.0.waited_at) = Some(Instant::now());
    }
}

impl SourceState {
    /// Returns the time since the last wait for messages ended.
    fn pause(&self) -> Duration {
        let waited_at = *lock(&self.waited_at);
        waited_at.map_or(Duration::ZERO, |waited_at| waited_at.elapsed())
    }

    pub(super) fn begin(&self, position: &StreamPosition, size: usize) {
        self.bytes.fetch_add(size, Ordering::AcqRel);
        lock(&self.order).begin(&position.subject, position.number);
    }

    /// Makes room for other messages after the end of one of this size.
    pub(super) fn release(&self, size: usize) {
        if self.bytes.fetch_sub(size, Ordering::AcqRel) >= MAX_BYTES {
            self.change.notify_one();
        }
    }

    fn has_room(&self) -> bool {
        self.bytes.load(Ordering::Acquire) < MAX_BYTES
    }

    pub(super) fn end(&self, position: &StreamPosition) {
        lock(&self.order).end(&position.subject, position.number);
    }

    pub(super) fn give_back(&self, position: &StreamPosition) {
        lock(&self.order).give_back(&position.subject, position.number);
    }

    /// Leaves a delivery that was dropped to a call of [`Source::next`], which gives it back.
    pub(super) fn give_back_later(&self, acker: Acker) {
        lock(&self.dropped).push(acker);
        self.change.notify_one();
    }
}

/// The messages of one durable consumer of a stream.
pub(super) struct Source {
    connection: Connection,
    stream: String,
    config: pull::Config,
    /// The number of messages that are requested at once.
    batch: usize,
    /// Locked by the call of [`next`](Self::next) that waits; other calls wait for the lock.
    pull: tokio::sync::Mutex<Pull>,
    state: Arc<SourceState>,
}

/// The messages that arrive.
#[derive(Default)]
struct Pull {
    messages: Option<pull::Stream>,
    /// The message that is being examined. It stays here if the call that examines it is dropped.
    current: Option<Message>,
    /// The time from which on there is no room for further messages.
    full_since: Option<Instant>,
}

impl Pull {
    /// Returns the time until which the messages wait for room. It stays the same if the call that
    /// waits is dropped and another one waits instead.
    fn deadline(&mut self, max_wait: Duration) -> Instant {
        *self.full_since.get_or_insert_with(Instant::now) + max_wait
    }
}

/// Checks a message that has arrived. The second argument is the id for a message without one: the
/// stream, the number and the time of publication, which together are unique even if the stream is
/// removed and created again.
pub(super) type Accept<M> = fn(&mut M, &str) -> Result<()>;

/// The action on a message that has arrived.
enum Disposition {
    Deliver,
    /// It is given back, to be delivered again later.
    Defer,
    /// It is in progress here, or was acknowledged elsewhere.
    Skip,
}

impl Source {
    /// Creates the source of the messages of `stream` with `subject`. Its durable consumer has the
    /// name `name` and requests `batch` messages at once.
    pub(super) fn new(
        connection: Connection,
        stream: String,
        subject: String,
        name: String,
        batch: usize,
    ) -> Self {
        let ack_wait = connection.options().ack_wait;
        let config = pull::Config {
            durable_name: Some(name),
            filter_subject: subject,
            ack_policy: AckPolicy::Explicit,
            ack_wait,
            max_ack_pending: MAX_ACK_PENDING,
            ..pull::Config::default()
        };
        Self {
            connection,
            stream,
            config,
            batch,
            pull: tokio::sync::Mutex::default(),
            state: Arc::default(),
        }
    }

    /// Ends all waits for messages.
    pub(super) fn close(&self) {
        self.state.is_closed.store(true, Ordering::Release);
        self.state.change.notify_one();
    }

    /// Waits for the next message that passes `accept`; `None` once the source is closed.
    pub(super) async fn next<M: DeserializeOwned>(
        &self,
        accept: Accept<M>,
    ) -> Result<Option<Delivery<M>>> {
        let mut pull = self.pull.lock().await;
        let pause = self.state.pause();
        if pause >= self.config.ack_wait {
            // The messages that have arrived meanwhile may be in progress in another process.
            *pull = Pull::default();
        }
        let _wait = Wait(&self.state);
        loop {
            if self.state.is_closed.load(Ordering::Acquire) {
                // Wakes the next task that waits for the lock.
                self.state.change.notify_one();
                return Ok(None);
            }
            self.give_back_dropped().await;
            if !self.state.has_room() {
                let deadline = pull.deadline(self.config.ack_wait / 2);
                let change = self.state.change.notified();
                if timeout_at(deadline, change).await.is_err() {
                    // The messages that wait here are delivered again, perhaps to another process.
                    *pull = Pull::default();
                }
                continue;
            }
            pull.full_since = None;
            if pull.current.is_none() && !self.receive(&mut pull).await? {
                continue;
            }

            let Some(message) = &pull.current else {
                continue;
            };
            let position = position_of(message)?;
            let disposition = self.disposition(&position).await?;
            let Some(message) = pull.current.take() else {
                continue;
            };
            match disposition {
                Disposition::Skip => {}
                Disposition::Defer => self.defer(&message).await,
                Disposition::Deliver => {
                    if pause > self.config.ack_wait / 2 {
                        self.prolong(&message).await;
                    }
                    if let Some(delivery) = self.delivery(message, position, accept).await {
                        return Ok(Some(delivery));
                    }
                }
            }
        }
    }

    /// Restarts the time until the server delivers a message again: it may have waited here.
    async fn prolong(&self, message: &Message) {
        if let Err(error) = message.ack_with(AckKind::Progress).await {
            tracing::warn!("NATS: a message may be delivered again: {error}");
        }
    }

    /// Waits for a message. Returns `false` if there is something else to do first.
    async fn receive(&self, pull: &mut Pull) -> Result<bool> {
        let Pull {
            messages, current, ..
        } = pull;
        let stream = match messages {
            Some(stream) => stream,
            None => messages.insert(self.open().await?),
        };
        let message = tokio::select! {
            biased;
            () = self.state.change.notified() => return Ok(false),
            message = stream.next() => message,
        };
        match message {
            Some(Ok(message)) => {
                *current = Some(message);
                Ok(true)
            }
            Some(Err(error)) => {
                tracing::warn!("NATS: messages are requested again: {error}");
                *messages = None;
                Ok(false)
            }
            None => {
                *messages = None;
                Ok(false)
            }
        }
    }

    /// Creates the consumer if it is missing, and begins to request messages.
    async fn open(&self) -> Result<pull::Stream> {
        let start = Instant::now();
        loop {
            let error = match self.try_open().await {
                Ok(messages) => return Ok(messages),
                Err(error) => error,
            };
            self.wait_before_retry(start, error).await?;
        }
    }

    async fn try_open(&self) -> Result<pull::Stream> {
        let error = |error: &dyn std::fmt::Display| failed("the request for messages", error);
        let jetstream = self.connection.jetstream();
        let consumer = jetstream
            .create_consumer_on_stream(self.config.clone(), &*self.stream)
            .await
            .map_err(|cause| error(&cause))?;
        let messages = consumer
            .stream()
            .max_messages_per_batch(self.batch)
            .expires(EXPIRES)
            .heartbeat(HEARTBEAT)
            .messages();
        messages.await.map_err(|cause| error(&cause))
    }

    /// Gives back the deliveries that were dropped.
    async fn give_back_dropped(&self) {
        loop {
            let acker = lock(&self.state.dropped).pop();
            let Some(acker) = acker else { return };
            if let Err(error) = acker.ack_with(AckKind::Nak(None)).await {
                tracing::warn!("NATS: a message is delivered again later: {error}");
            }
        }
    }

    /// Determines the action on a message that has arrived.
    async fn disposition(&self, position: &StreamPosition) -> Result<Disposition> {
        let (subject, number) = (&position.subject, position.number);
        loop {
            let condition = lock(&self.state.order).condition(subject, number);
            match condition {
                Condition::Never => return Ok(Disposition::Skip),
                Condition::Gone(earlier) => match self.first_number(subject, earlier).await? {
                    Some(first) if first == earlier => return Ok(Disposition::Defer),
                    _ => lock(&self.state.order).forget(subject, earlier),
                },
                Condition::FirstFrom(start) => {
                    return Ok(match self.first_number(subject, start).await? {
                        Some(first) if first == number => Disposition::Deliver,
                        Some(first) if first < number => Disposition::Defer,
                        // It is no longer in the stream.
                        _ => Disposition::Skip,
                    });
                }
            }
        }
    }

    /// Returns the sequence number of the first message of a subject at or after `start`. Repeats
    /// the request if it fails.
    async fn first_number(&self, subject: &str, start: u64) -> Result<Option<u64>> {
        let begin = Instant::now();
        loop {
            let request = self.connection.first_number(&self.stream, subject, start);
            let error = match request.await {
                Ok(number) => return Ok(number),
                Err(error) => error,
            };
            self.wait_before_retry(begin, error).await?;
        }
    }

    /// Waits before a request is repeated. Returns its error if it was repeated for too long.
    async fn wait_before_retry(&self, start: Instant, error: Error) -> Result<()> {
        if start.elapsed() >= self.connection.max_retry_time() {
            return Err(error);
        }
        sleep(RETRY).await;
        Ok(())
    }

    /// Gives a message back that came out of order.
    async fn defer(&self, message: &Message) {
        let attempts = message.info().map_or(0, |info| info.delivered);
        let delay = if attempts < MANY_ATTEMPTS {
            ORDER_DELAY
        } else {
            LONG_ORDER_DELAY
        };
        if let Err(error) = message.ack_with(AckKind::Nak(Some(delay))).await {
            tracing::warn!("NATS: a message is delivered again later: {error}");
        }
    }

    /// Returns the delivery of a message. Returns `None` for a message that cannot be read or has
    /// names that are too long, which is not delivered again.
    async fn delivery<M: DeserializeOwned>(
        &self,
        message: Message,
        position: StreamPosition,
        accept: Accept<M>,
    ) -> Option<Delivery<M>> {
        let fallback_id = fallback_id(&message);
        match parse(&message.payload, &fallback_id, accept) {
            Ok(content) => {
                let size = message.payload.len();
                let (_, acker) = message.split();
                let receipt = NatsReceipt::begin(&self.state, position, size, acker);
                Some(Delivery::new(content, receipt))
            }
            Err(error) => {
                let (stream, number) = (&self.stream, position.number);
                tracing::error!(
                    "message {number} of stream {stream} cannot be read and is removed: {error}"
                );
                if let Err(error) = message.ack_with(AckKind::Term).await {
                    tracing::warn!("NATS: message {number} could not be removed: {error}");
                }
                None
            }
        }
    }
}

/// Reads a message. Other publishers than this crate may have published it, so that it is checked
/// as well.
fn parse<M: DeserializeOwned>(payload: &[u8], fallback_id: &str, accept: Accept<M>) -> Result<M> {
    let mut content: M = serde_json::from_slice(payload)?;
    accept(&mut content, fallback_id)?;
    Ok(content)
}

/// Returns the id for a message without one; empty for a message that is in no stream.
fn fallback_id(message: &Message) -> String {
    let info = message.info();
    info.map_or_else(
        |_| String::new(),
        |info| {
            format!(
                "{}:{}:{}",
                info.stream, info.stream_sequence, info.published
            )
        },
    )
}

fn position_of(message: &Message) -> Result<StreamPosition> {
    let info = message
        .info()
        .map_err(|error| failed("reading the position of a message", error))?;
    Ok(StreamPosition {
        subject: message.subject.as_str().into(),
        number: info.stream_sequence,
    })
}

#[cfg(test)]
mod tests {
    use super::super::bus::{accept_inbound, accept_outbound};
    use super::*;
    use crate::gateway::{InboundMessage, OutboundMessage};

    #[test]
    fn message_of_another_publisher_with_a_long_id_is_refused() {
        let inbound = |id: &str| {
            let message = InboundMessage::new("cli", "1", "ann", "hello").with_id(id);
            let payload = serde_json::to_vec(&message).unwrap();
            parse(&payload, "IN:7", accept_inbound)
        };
        assert!(inbound("short").is_ok());
        let error = inbound(&"x".repeat(100_000)).unwrap_err();
        assert!(error.to_string().contains("100000 bytes"), "{error}");

        let message = OutboundMessage::new("cli", "1".repeat(2_000), "hello");
        let payload = serde_json::to_vec(&message).unwrap();
        assert!(parse(&payload, "OUT:7", accept_outbound).is_err());
    }

    #[test]
    fn message_of_another_publisher_without_an_id_has_the_fallback_id() {
        let payload = br#"{"channel":"cli","chat_id":"1"}"#;
        let message = parse(payload, "IN:7", accept_inbound).unwrap();
        assert_eq!(&*message.id, "IN:7");
        let payload = br#"{"id":"own","channel":"cli","chat_id":"1"}"#;
        let message = parse(payload, "IN:7", accept_inbound).unwrap();
        assert_eq!(&*message.id, "own");
    }

    #[tokio::test(start_paused = true)]
    async fn messages_wait_for_room_as_long_for_one_call_as_for_several() {
        let max_wait = Duration::from_secs(15);
        let mut pull = Pull::default();
        let deadline = Instant::now() + max_wait;
        for _ in 0..3 {
            assert_eq!(pull.deadline(max_wait), deadline);
            sleep(Duration::from_secs(10)).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn pause_of_a_source_begins_when_its_last_wait_ends() {
        let (state, time) = (SourceState::default(), Duration::from_secs(15));
        assert_eq!(state.pause(), Duration::ZERO);
        let wait = Wait(&state);
        sleep(time).await;
        drop(wait);
        assert_eq!(state.pause(), Duration::ZERO);
        sleep(time).await;
        assert_eq!(state.pause(), time);
        drop(Wait(&state));
        assert_eq!(state.pause(), Duration::ZERO);
    }

    #[test]
    fn large_messages_in_progress_leave_no_room_until_they_end() {
        let state = SourceState::default();
        let position = |number| StreamPosition {
            subject: "s".into(),
            number,
        };
        let half = MAX_BYTES / 2;
        state.begin(&position(1), half);
        assert!(state.has_room());
        state.begin(&position(2), half + 1);
        assert!(!state.has_room());
        state.end(&position(1));
        state.release(half);
        assert!(state.has_room());
    }
}
