//! The connection to the server, and the streams on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_nats::jetstream::context::{PublishError, PublishErrorKind};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::{
    Config, DirectGetErrorKind, DiscardPolicy, RetentionPolicy, StorageType,
};
use async_nats::jetstream::{self, Context};
use bytes::Bytes;
use tokio::time::{Instant, sleep};

use crate::error::Result;
use crate::util::panic;
use crate::util::secret::Redactor;

use super::failure::{closed, failed, refused};
use super::login::Login;
use super::options::NatsOptions;

/// The time for which the server keeps the ids of messages.
const DUPLICATE_WINDOW: Duration = Duration::from_secs(10 * 60);
/// The time for connecting, and for an answer of the server.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The time between attempts to publish.
const RETRY: Duration = Duration::from_millis(250);

/// The connection to the server. Clones share it.
#[derive(Clone)]
pub(super) struct Connection(Arc<Inner>);

struct Inner {
    jetstream: Context,
    options: NatsOptions,
    /// Holds the secrets of the login, which are removed from errors as long as it exists.
    _redactor: Redactor,
    is_closed: AtomicBool,
}

/// The direction of a stream's messages.
#[derive(Clone, Copy)]
pub(super) enum Direction {
    In,
    Out,
}

impl Direction {
    /// Returns the parts of the names of streams and of subjects.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::In => ("IN", "in"),
            Self::Out => ("OUT", "out"),
        }
    }
}

impl Connection {
    /// Connects, and creates the streams that are missing.
    pub(super) async fn open(url: &str, options: NatsOptions) -> Result<Self> {
        options.check()?;
        let login = Login::new(url, &options)?;
        let redactor = login.redactor();
        let event_redactor = redactor.clone();
        let address = &login.address;
        let connecting = login
            .connect_options()?
            .name(env!("CARGO_PKG_NAME"))
            .connection_timeout(TIMEOUT)
            .request_timeout(Some(TIMEOUT))
            .event_callback(move |event| {
                tracing::debug!("NATS: {}", event_redactor.redact(&event.to_string()));
                async {}
            })
            .connect(address.clone());
        // Lengths that a server sends can make the client panic: while it connects here, and later
        // in its own task, which then ends, so that every request fails.
        let action = format!("connecting to {}:{}", address.host(), address.port());
        let client = panic::catch_async(connecting).await;
        let client = client
            .map_err(|text| {
                let text = format!("the client panicked over what the server sent: {text}");
                failed(&action, text)
            })?
            .map_err(|error| failed(&action, redactor.redact(&error.to_string())))?;

        let connection = Self(Arc::new(Inner {
            jetstream: jetstream::new(client),
            options,
            _redactor: redactor,
            is_closed: AtomicBool::new(false),
        }));
        connection.add_stream(Direction::In).await?;
        connection.add_stream(Direction::Out).await?;
        Ok(connection)
    }

    async fn add_stream(&self, direction: Direction) -> Result<()> {
        let options = &self.0.options;
        let name = self.stream_name(direction);
        let config = Config {
            name: name.clone(),
            subjects: vec![self.subject(direction, "*")],
            // A message that is acknowledged leaves the stream.
            retention: RetentionPolicy::WorkQueue,
            storage: StorageType::File,
            discard: DiscardPolicy::New,
            max_bytes: i64::try_from(options.max_bytes).unwrap_or(i64::MAX),
            max_messages: -1,
            max_messages_per_subject: -1,
            max_consumers: -1,
            num_replicas: options.replicas,
            duplicate_window: DUPLICATE_WINDOW,
            allow_direct: true,
            ..Config::default()
        };
        let stream = self.0.jetstream.get_or_create_stream(config).await;
        stream.map_err(|error| failed(&format!("creating stream {name}"), error))?;
        Ok(())
    }

    /// Returns the name of the stream of a direction.
    pub(super) fn stream_name(&self, direction: Direction) -> String {
        format!("{}_{}", self.0.options.prefix, direction.names().0)
    }

    /// Returns the subject of a direction with this last token.
    pub(super) fn subject(&self, direction: Direction, token: &str) -> String {
        format!("{}.{}.{token}", self.0.options.prefix, direction.names().1)
    }

    pub(super) fn jetstream(&self) -> &Context {
        &self.0.jetstream
    }

    pub(super) fn max_retry_time(&self) -> Duration {
        self.0.options.max_retry_time
    }

    pub(super) fn options(&self) -> &NatsOptions {
        &self.0.options
    }

    /// Refuses further messages.
    pub(super) fn close(&self) {
        self.0.is_closed.store(true, Ordering::Release);
    }

    /// Returns the sequence number of the first message of a subject at or after `start`; `None` if
    /// there is none.
    pub(super) async fn first_number(
        &self,
        stream: &str,
        subject: &str,
        start: u64,
    ) -> Result<Option<u64>> {
        let action = "looking up a message";
        let stream = self
            .0
            .jetstream
            .get_stream_no_info(stream)
            .await
            .map_err(|error| failed(action, error))?;
        let request = stream.direct_get_builder().sequence(start);
        match request.next_by_subject(subject).send().await {
            Ok(message) => Ok(Some(message.sequence)),
            Err(error) if error.kind() == DirectGetErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(action, error)),
        }
    }

    /// Publishes a message. Waits while the stream is full, and repeats a request that is not
    /// answered: the server drops a message that it has.
    pub(super) async fn publish(&self, subject: &str, id: &str, payload: Vec<u8>) -> Result<()> {
        let payload = Bytes::from(payload);
        let start = Instant::now();
        loop {
            if self.0.is_closed.load(Ordering::Acquire) {
                return Err(closed());
            }
            let message = PublishMessage::build()
                .payload(payload.clone())
                .message_id(id);
            let error = match self.try_publish(subject, message).await {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            if error.kind() == PublishErrorKind::MaxPayloadExceeded {
                let text = format!(
                    "a message of {} bytes as JSON is longer than the server takes; send a link, or \
                     raise its max_payload",
                    payload.len()
                );
                return Err(refused(text));
            }
            if !is_full(&error) && start.elapsed() >= self.max_retry_time() {
                return Err(failed("publishing a message", error));
            }
            sleep(RETRY).await;
        }
    }

    async fn try_publish(
        &self,
        subject: &str,
        message: PublishMessage,
    ) -> std::result::Result<(), PublishError> {
        let subject = subject.to_owned();
        self.0
            .jetstream
            .send_publish(subject, message)
            .await?
            .await?;
        Ok(())
    }
}

/// Returns `true` if the stream has no space for a message.
fn is_full(error: &PublishError) -> bool {
    let text = error.to_string();
    text.contains("maximum bytes exceeded") || text.contains("maximum messages exceeded")
}
