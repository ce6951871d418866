//! The resolution of host names.

use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::{Arc, LazyLock};

use async_trait::async_trait;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// The number of look-ups that run at once.
const MAX_LOOK_UPS: usize = 16;

static LOOK_UPS: LazyLock<Arc<Semaphore>> =
    LazyLock::new(|| Arc::new(Semaphore::new(MAX_LOOK_UPS)));

/// Finds the addresses of a host. They are checked before anything is connected to.
#[async_trait]
pub trait Resolver: Send + Sync + 'static {
    /// The addresses of `host`, in the order in which to try them.
    ///
    /// # Errors
    ///
    /// When the name cannot be resolved. The caller treats an empty list as an error as well.
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>>;
}

/// The resolver of the system.
///
/// A look-up cannot be ended, so at most 16 run at once in the whole program; others wait for one
/// to return.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemResolver;

#[async_trait]
impl Resolver for SystemResolver {
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        let host = host.to_owned();
        let look_up = move || {
            let addresses = (host.as_str(), 0).to_socket_addrs()?;
            Ok(addresses.map(|address| address.ip()).collect())
        };
        bounded(&LOOK_UPS, look_up).await
    }
}

/// Runs `look_up` on a thread for blocking work, when one of the `places` is free. The place is
/// given back when the look-up returns, also where the caller has not waited for it.
async fn bounded<T: Send + 'static>(
    places: &Arc<Semaphore>,
    look_up: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let place = places.clone().acquire_owned().await;
    let place = place.map_err(io::Error::other)?;
    let task = spawn_blocking(move || {
        let result = look_up();
        drop(place);
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

    #[tokio::test]
    async fn abandoned_lookups_keep_their_permits_and_use_no_more_threads() {
        let places = Arc::new(Semaphore::new(2));
        let (sender, receiver) = mpsc::channel::<()>();
        let receiver = Arc::new(std::sync::Mutex::new(receiver));
        let mut start_receivers = Vec::new();
        for _ in 0..20 {
            let (start_sender, start_receiver) = tokio::sync::oneshot::channel();
            let receiver = receiver.clone();
            let look_up = move || {
                let _ = start_sender.send(());
                let _ = receiver.lock().unwrap().recv();
                Ok(())
            };

            let call = bounded(&places, look_up);
            assert!(timeout(Duration::from_millis(20), call).await.is_err());
            start_receivers.push(start_receiver);
        }

        for (at, start_receiver) in start_receivers.into_iter().enumerate() {
            // The others were cancelled before a slot was free.
            assert_eq!(start_receiver.await.is_ok(), at < 2, "{at}");
        }

        assert_eq!(places.available_permits(), 0);
        drop(sender);
        bounded(&places, || Ok(())).await.unwrap();
    }
}
