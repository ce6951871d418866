//! Events for clients that watch a registry.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use futures::Stream;
use tokio::sync::mpsc;

use crate::util::sync::lock;

/// The maximum number of events that wait for a client.
const BUFFER: usize = 16;

/// Events such as `tools_changed` or `container_status:USER`, for clients that watch a registry.
/// Clones are the same bus.
///
/// A client has room for 16 events. An event that arrives while there is no room is dropped for
/// this client; the publisher does not wait.
///
/// ```
/// use agentcore::registry::EventBus;
///
/// # async fn example() {
/// let bus = EventBus::new();
/// let mut ann = bus.subscribe("ann");
/// bus.publish_to("bob", "container_status:bob");
/// bus.publish("tools_changed");
/// assert_eq!(ann.next().await.as_deref(), Some("tools_changed"));
/// # }
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(example());
/// ```
#[derive(Clone, Default)]
pub struct EventBus(Arc<Mutex<Vec<Client>>>);

struct Client {
    user: Arc<str>,
    sender: mpsc::Sender<Arc<str>>,
}

impl EventBus {
    /// Creates a bus without clients.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sends an event to the clients of all users.
    pub fn publish(&self, event: impl Into<Arc<str>>) {
        self.send(None, &event.into());
    }

    /// Sends an event to the clients of one user.
    pub fn publish_to(&self, user: &str, event: impl Into<Arc<str>>) {
        self.send(Some(user), &event.into());
    }

    /// Adds a client of a user. It receives the events that are published from now on, until the
    /// subscription is dropped.
    pub fn subscribe(&self, user: impl Into<Arc<str>>) -> EventSubscription {
        let (sender, receiver) = mpsc::channel(BUFFER);
        let user = user.into();
        let mut clients = lock(&self.0);
        clients.retain(|client| !client.sender.is_closed());
        clients.push(Client { user, sender });
        EventSubscription(receiver)
    }

    /// Returns the number of clients.
    pub fn clients(&self) -> usize {
        let clients = lock(&self.0);
        clients
            .iter()
            .filter(|client| !client.sender.is_closed())
            .count()
    }

    fn send(&self, user: Option<&str>, event: &Arc<str>) {
        let mut clients = lock(&self.0);
        clients.retain(|client| {
            if user.is_some_and(|user| user != &*client.user) {
                return !client.sender.is_closed();
            }
            match client.sender.try_send(event.clone()) {
                Ok(()) | Err(mpsc::error::TrySendError::Full(_)) => true,
                Err(mpsc::error::TrySendError::Closed(_)) => false,
            }
        });
    }
}

impl fmt::Debug for EventBus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventBus")
            .field("clients", &self.clients())
            .finish_non_exhaustive()
    }
}

/// The events of one client: a stream that ends when the bus is dropped.
#[derive(Debug)]
pub struct EventSubscription(mpsc::Receiver<Arc<str>>);

impl EventSubscription {
    /// Waits for the next event. Returns `None` if the bus no longer exists.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no event.
    pub async fn next(&mut self) -> Option<Arc<str>> {
        self.0.recv().await
    }
}

impl Stream for EventSubscription {
    type Item = Arc<str>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Arc<str>>> {
        self.0.poll_recv(cx)
    }
}
