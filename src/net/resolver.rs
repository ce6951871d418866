//! The resolution of host names.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::{Arc, LazyLock, Mutex};

use async_trait::async_trait;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use crate::util::sync::lock;

/// The maximum number of concurrent lookups.
const MAX_LOOKUPS: usize = 16;
/// The maximum number of concurrent lookups of one domain's names.
const MAX_OF_DOMAIN: usize = 4;

static LOOKUPS: LazyLock<Arc<LookupPermits>> =
    LazyLock::new(|| Arc::new(LookupPermits::new(MAX_LOOKUPS, MAX_OF_DOMAIN)));

/// The permits for lookups, of all names and of the names of each domain.
struct LookupPermits {
    all: Arc<Semaphore>,
    max_of_domain: usize,
    /// The domains of which names are being looked up, or wait.
    domains: Mutex<BTreeMap<String, Domain>>,
}

struct Domain {
    permits: Arc<Semaphore>,
    users: usize,
}

/// A use of a domain's permits. They are removed when the last use ends.
struct DomainUse {
    all: Arc<LookupPermits>,
    name: String,
}

impl LookupPermits {
    fn new(count: usize, max_of_domain: usize) -> Self {
        Self {
            all: Arc::new(Semaphore::new(count)),
            max_of_domain,
            domains: Mutex::default(),
        }
    }

    /// Begins to use the permits of a host's domain.
    fn of_domain(self: &Arc<Self>, host: &str) -> (DomainUse, Arc<Semaphore>) {
        let name = domain(host);
        let mut domains = lock(&self.domains);
        let domain = domains.entry(name.clone()).or_insert_with(|| Domain {
            permits: Arc::new(Semaphore::new(self.max_of_domain)),
            users: 0,
        });
        domain.users += 1;
        let all = self.clone();
        (DomainUse { all, name }, domain.permits.clone())
    }
}

impl Drop for DomainUse {
    fn drop(&mut self) {
        let mut domains = lock(&self.all.domains);
        if let Some(domain) = domains.get_mut(&self.name) {
            domain.users -= 1;
            if domain.users == 0 {
                domains.remove(&self.name);
            }
        }
    }
}

/// Returns the last two labels of a name.
fn domain(host: &str) -> String {
    let host = host.strip_suffix('.').unwrap_or(host);
    let mut dots = memchr::memrchr_iter(b'.', host.as_bytes());
    let start = dots.nth(1).map_or(0, |dot| dot + 1);
    host[start..].to_ascii_lowercase()
}

/// Finds the addresses of a host. They are checked before anything is connected to.
#[async_trait]
pub trait Resolver: Send + Sync + 'static {
    /// Returns the addresses of `host`, in the order in which to try them.
    ///
    /// # Errors
    ///
    /// Returns an error if the name cannot be resolved. The caller treats an empty list as an error
    /// as well.
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>>;
}

/// The resolver of the system.
///
/// A lookup cannot be ended, so at most 16 run at once in the whole program; others wait for one to
/// return. At most four of them are for names with the same last two labels, so that a domain whose
/// servers never answer does not block the lookups of others.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemResolver;

#[async_trait]
impl Resolver for SystemResolver {
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        let name = host.to_owned();
        let look_up = move || {
            let addresses = (name.as_str(), 0).to_socket_addrs()?;
            Ok(addresses.map(|address| address.ip()).collect())
        };
        bounded(&LOOKUPS, host, look_up).await
    }
}

/// Runs `look_up` on a thread for blocking work, once there are permits for a lookup and for the
/// domain of `host`. Both are released when the lookup returns, even if the caller has stopped
/// waiting for it.
async fn bounded<T: Send + 'static>(
    permits: &Arc<LookupPermits>,
    host: &str,
    look_up: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    // Taken first, so that names of a domain that wait for each other take no permit of others.
    let (domain_use, domain_permits) = permits.of_domain(host);
    let domain_permit = domain_permits.acquire_owned().await;
    let domain_permit = domain_permit.map_err(io::Error::other)?;
    let permit = permits.all.clone().acquire_owned().await;
    let permit = permit.map_err(io::Error::other)?;
    let task = spawn_blocking(move || {
        let result = look_up();
        drop((permit, domain_permit, domain_use));
        result
    });
    task.await.map_err(io::Error::other)?
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    /// Starts lookups that hang until the sender is dropped, and abandons each. Returns `true` for
    /// each lookup that has begun.
    async fn abandon(
        permits: &Arc<LookupPermits>,
        hosts: &[&str],
        receiver: mpsc::Receiver<()>,
    ) -> Vec<bool> {
        let receiver = Arc::new(Mutex::new(receiver));
        let mut start_receivers = Vec::new();
        for host in hosts {
            let (start_sender, start_receiver) = tokio::sync::oneshot::channel();
            let receiver = receiver.clone();
            let look_up = move || {
                let _ = start_sender.send(());
                let _ = lock(&receiver).recv();
                Ok(())
            };

            let call = bounded(permits, host, look_up);
            assert!(timeout(Duration::from_millis(20), call).await.is_err());
            start_receivers.push(start_receiver);
        }

        // The others were cancelled before a place was free.
        let mut has_begun = Vec::new();
        for start_receiver in start_receivers {
            has_begun.push(start_receiver.await.is_ok());
        }
        has_begun
    }

    #[tokio::test]
    async fn abandoned_lookups_keep_their_places_and_use_no_more_threads() {
        let permits = Arc::new(LookupPermits::new(2, 4));
        let (sender, receiver) = mpsc::channel();
        let hosts: Vec<_> = (0..20).map(|number| format!("host{number}")).collect();
        let hosts: Vec<_> = hosts.iter().map(String::as_str).collect();
        let has_begun = abandon(&permits, &hosts, receiver).await;
        assert!(
            has_begun
                .iter()
                .zip(0..)
                .all(|(begun, at)| *begun == (at < 2))
        );

        assert_eq!(permits.all.available_permits(), 0);
        drop(sender);
        bounded(&permits, "host", || Ok(())).await.unwrap();
    }

    #[tokio::test]
    async fn hanging_lookups_of_one_domain_leave_places_for_others() {
        let permits = Arc::new(LookupPermits::new(3, 2));
        let (sender, receiver) = mpsc::channel();
        let hosts = ["a.evil.test", "b.A.Evil.TEST.", "evil.test", "c.evil.test"];
        let has_begun = abandon(&permits, &hosts, receiver).await;
        assert_eq!(has_begun, [true, true, false, false]);

        for _ in 0..3 {
            let outcome = bounded(&permits, "a.good.test", || Ok(())).await;
            outcome.unwrap();
        }
        assert_eq!(lock(&permits.domains).len(), 1);
        drop(sender);
        bounded(&permits, "evil.test", || Ok(())).await.unwrap();
    }

    #[tokio::test]
    async fn places_of_a_domain_are_forgotten_after_its_last_lookup() {
        let permits = Arc::new(LookupPermits::new(2, 1));
        for host in ["", ".", "a", "a.b", "..", "::1", "ä.é.ü"] {
            bounded(&permits, host, || Ok(())).await.unwrap();
        }
        assert!(lock(&permits.domains).is_empty());
        assert_eq!(permits.all.available_permits(), 2);
    }

    #[test]
    fn domain_is_the_last_two_labels() {
        for (host, expected) in [
            ("www.Example.com.", "example.com"),
            ("example.com", "example.com"),
            ("localhost", "localhost"),
            ("a.b.c.d", "c.d"),
            ("", ""),
        ] {
            assert_eq!(domain(host), expected);
        }
    }
}
