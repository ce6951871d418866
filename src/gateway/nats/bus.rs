//! The bus on a NATS server.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;

use crate::error::Result;
use crate::util::sync::lock;

use super::super::bus::{Delivery, MessageBus};
use super::super::message::{InboundMessage, OutboundMessage};
use super::connection::{Connection, Direction};
use super::names::{channel_token, message_id, session_token};
use super::options::NatsOptions;
use super::source::Source;

/// The name of the consumer of inbound messages.
const GATEWAY: &str = "gateway";
/// The number of inbound messages that are requested at once.
const INBOUND_BATCH: usize = 16;
/// The same number of outbound messages. An adapter sends them one after the other: those that it
/// has not taken yet must not be delivered to another adapter while they wait here.
const OUTBOUND_BATCH: usize = 1;

/// A bus on a NATS server with JetStream, which gateways on several machines share. It needs
/// nats-server 2.9 or later.
///
/// A killed gateway loses no message: messages that it has not acknowledged are delivered to
/// another gateway after the [`ack_wait`](NatsOptions::ack_wait), and its sessions continue from
/// their stored state. The sessions have to be in a store that all gateways share, such as
/// `PostgresStore` or `RedisStore`. A task of [`spawn`](super::super::spawn) ends with its process.
///
/// While a message of a session is in progress, the later ones of the session are delivered to the
/// same process, such as the answer to a question of the turn. A task of `spawn` outlives the turn.
/// If no message of its session is in progress, an answer to its question is delivered to any
/// gateway. On any other gateway, it is an input of the conversation, and the task waits on. A
/// deployment whose tasks ask should therefore run one gateway for each prefix
/// ([`NatsOptions::prefix`]), or deny the calls that would ask.
///
/// ```no_run
/// use agentcore::AgentBuilder;
/// use agentcore::gateway::{Gateway, NatsBus};
/// use agentcore::testing::ScriptedModel;
///
/// # async fn example() -> agentcore::Result<()> {
/// let bus = NatsBus::connect("nats://127.0.0.1:4222").await?;
/// let agent = AgentBuilder::new(ScriptedModel::new());
/// let gateway = Gateway::builder(agent).bus(bus).build()?;
/// gateway.run().await
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example())?;
/// # Ok::<(), agentcore::Error>(())
/// ```
///
/// # Streams
///
/// `PREFIX_IN` has the inbound messages, with a subject for each session, and `PREFIX_OUT` the
/// outbound ones, with a subject and a durable consumer for each channel. They are created with the
/// first connection. A message leaves its stream when it is acknowledged.
///
/// # Order
///
/// A message is delivered if all earlier messages of its subject that are not acknowledged are in
/// progress in the same process. Any other message is given back to the server for a quarter of a
/// second, so that one machine at a time processes the messages of a session. Each delivery
/// therefore costs one request for the first message of its subject.
///
/// # Redelivery
///
/// The server drops a message whose id was published within the last ten minutes. Acknowledgements
/// wait for the server's confirmation. A bus requests 16 inbound messages at once, and the messages
/// to a channel one by one, so that no adapter has messages that another one sends. If you stop
/// consuming, the messages that have arrived are delivered to other consumers after the
/// [`ack_wait`](NatsOptions::ack_wait), and no longer here.
///
/// # Limits
///
/// A message is at most as long as the server's `max_payload`, 1 MiB unless it is configured. A
/// longer one is refused with [`InvalidRequest`](crate::ErrorKind::InvalidRequest).
///
/// Of the inbound messages, and of the messages to each channel, at most 10,000 are delivered and
/// not acknowledged, in all processes together, and 64 MiB in one process. The next messages wait
/// for an acknowledgement, those of other chats too: limit what one sender may publish.
///
/// # Connection
///
/// `nats://USER:PASSWORD@HOST:PORT` logs in as a user, `nats://TOKEN@HOST:PORT` with a token, and
/// `tls://` requires TLS; a server is trusted by the certificates of the system. No password or
/// token is part of an error, of an event of the log or of `Debug`. Clones share the connection,
/// which ends with the runtime that it was made in.
///
/// # Security
///
/// Connect only to servers of your own, with `tls://` where another machine could answer instead. A
/// server can exhaust the memory of this process: the client buffers a message of any length that
/// the server announces, and this crate cannot limit it.
#[derive(Clone)]
pub struct NatsBus(Arc<Inner>);

struct Inner {
    connection: Connection,
    inbound: Source,
    outbound: Mutex<OutboundSources>,
}

/// The sources of outbound messages, by channel.
#[derive(Default)]
struct OutboundSources {
    sources: HashMap<Arc<str>, Arc<Source>>,
    is_closed: bool,
}

impl NatsBus {
    /// Connects to the server at `url`, and creates the streams that are missing.
    ///
    /// # Errors
    ///
    /// Returns [`Config`](crate::ErrorKind::Config) if the URL is not valid, and
    /// [`Connect`](crate::ErrorKind::Connect) if the server cannot be reached or has no JetStream.
    pub async fn connect(url: impl AsRef<str>) -> Result<Self> {
        Self::with_options(url, NatsOptions::default()).await
    }

    /// Connects to the server at `url` with options.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`connect`](Self::connect), and
    /// [`Config`](crate::ErrorKind::Config) if an option is not valid.
    pub async fn with_options(url: impl AsRef<str>, options: NatsOptions) -> Result<Self> {
        let connection = Connection::open(url.as_ref(), options).await?;
        let inbound = Source::new(
            connection.clone(),
            connection.stream_name(Direction::In),
            connection.subject(Direction::In, "*"),
            GATEWAY.to_owned(),
            INBOUND_BATCH,
        );
        Ok(Self(Arc::new(Inner {
            connection,
            inbound,
            outbound: Mutex::default(),
        })))
    }

    /// Closes this side of the bus: publishing fails, and consuming returns `None`. The messages
    /// stay on the server.
    pub fn close(&self) {
        self.0.connection.close();
        self.0.inbound.close();
        let mut channels = lock(&self.0.outbound);
        channels.is_closed = true;
        for source in channels.sources.values() {
            source.close();
        }
    }

    /// Returns the source of the messages to a channel, and creates it if it is missing.
    fn source(&self, channel: &str) -> Arc<Source> {
        let connection = &self.0.connection;
        let mut channels = lock(&self.0.outbound);
        if let Some(source) = channels.sources.get(channel) {
            return source.clone();
        }

        let token = channel_token(channel);
        let source = Arc::new(Source::new(
            connection.clone(),
            connection.stream_name(Direction::Out),
            connection.subject(Direction::Out, &token),
            token,
            OUTBOUND_BATCH,
        ));
        if channels.is_closed {
            source.close();
        }
        channels.sources.insert(channel.into(), source.clone());
        source
    }
}

#[async_trait]
impl MessageBus for NatsBus {
    async fn publish_inbound(&self, message: InboundMessage) -> Result<()> {
        let message = message.completed();
        message.check()?;
        let connection = &self.0.connection;
        let subject = connection.subject(Direction::In, &session_token(&message.session_key));
        let payload = serde_json::to_vec(&message)?;
        let id = message_id(&[&message.id]);
        connection.publish(&subject, &id, payload).await
    }

    async fn consume_inbound(&self) -> Result<Option<Delivery<InboundMessage>>> {
        self.0.inbound.next(accept_inbound).await
    }

    async fn publish_outbound(&self, message: OutboundMessage) -> Result<()> {
        let message = message.completed();
        message.check()?;
        let connection = &self.0.connection;
        let subject = connection.subject(Direction::Out, &channel_token(&message.channel));
        let payload = serde_json::to_vec(&message)?;
        // The ids of channels are separate.
        let id = message_id(&[&message.channel, &message.id]);
        connection.publish(&subject, &id, payload).await
    }

    async fn consume_outbound(&self, channel: &str) -> Result<Option<Delivery<OutboundMessage>>> {
        self.source(channel).next(accept_outbound).await
    }

    fn keep_alive_interval(&self) -> Duration {
        self.0.connection.options().ack_wait / 3
    }
}

/// Checks a message. Sets its id if another publisher has given it none.
pub(super) fn accept_inbound(message: &mut InboundMessage, fallback_id: &str) -> Result<()> {
    if message.id.is_empty() {
        message.id = fallback_id.into();
    }
    message.check()
}

pub(super) fn accept_outbound(message: &mut OutboundMessage, _fallback_id: &str) -> Result<()> {
    message.check()
}

impl fmt::Debug for NatsBus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsBus")
            .field("options", self.0.connection.options())
            .finish_non_exhaustive()
    }
}
