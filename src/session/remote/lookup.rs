//! Names of hosts, looked up in bounded time.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use crate::error::{Error, ErrorKind};
use crate::util::sync::lock;

use super::server::{Failure, Outcome};

/// The texts of system errors for a failed lookup that proves nothing about the name.
const UNKNOWN: [&str; 2] = ["Temporary failure", "Try again"];

/// The lookups in progress. They cannot be stopped, so a second request for a name joins the first
/// instead of starting another thread.
static PENDING: Mutex<BTreeMap<Arc<str>, Arc<Lookup>>> = Mutex::new(BTreeMap::new());

/// A lookup of a name, on its own thread.
#[derive(Default)]
pub(in crate::session) struct Lookup {
    found: Mutex<Option<Result<Vec<SocketAddr>, String>>>,
    is_over: Condvar,
}

/// The thread's part of a lookup. Dropping it wakes the waiters in every case.
struct Work(Arc<str>, Arc<Lookup>);

impl Drop for Work {
    fn drop(&mut self) {
        let Self(name, lookup) = self;
        lock(&PENDING).remove(name);
        lock(&lookup.found).get_or_insert_with(|| Err("the lookup was interrupted".into()));
        lookup.is_over.notify_all();
    }
}

impl Lookup {
    /// Begins to look a name up, or joins a lookup in progress.
    pub(in crate::session) fn begin(name: &str) -> Arc<Self> {
        Self::begin_with(name, |name| Ok((name, 0).to_socket_addrs()?.collect()))
    }

    pub(in crate::session) fn begin_with(
        name: &str,
        find: impl FnOnce(&str) -> io::Result<Vec<SocketAddr>> + Send + 'static,
    ) -> Arc<Self> {
        let name = Arc::<str>::from(name);
        let mut pending = lock(&PENDING);
        if let Some(lookup) = pending.get(&name) {
            return lookup.clone();
        }

        let lookup = Arc::<Self>::default();
        pending.insert(name.clone(), lookup.clone());
        drop(pending);
        let work = Work(name, lookup.clone());

        // If no thread can be started, the work is dropped at once.
        let _ = thread::Builder::new()
            .name("agentcore-names".into())
            .spawn(move || {
                let addresses = find(&work.0).map_err(|error| error.to_string());
                *lock(&work.1.found) = Some(addresses);
            });
        lookup
    }

    /// Returns the addresses of the name, without a port; `None` when they are not known by then.
    pub(in crate::session) fn wait(&self, until: Instant) -> Outcome<Option<Vec<SocketAddr>>> {
        let lookup_result = lock(&self.found);
        let time_left = until.saturating_duration_since(Instant::now());
        let (lookup_result, _) = self
            .is_over
            .wait_timeout_while(lookup_result, time_left, |lookup_result| {
                lookup_result.is_none()
            })
            .unwrap_or_else(PoisonError::into_inner);
        let reason = match &*lookup_result {
            None => return Ok(None),
            Some(Ok(addresses)) if !addresses.is_empty() => return Ok(Some(addresses.clone())),
            Some(Ok(_)) => "it has no address",
            Some(Err(reason)) => reason,
        };

        let kind = if UNKNOWN.iter().any(|text| reason.contains(text)) {
            ErrorKind::Connect
        } else {
            ErrorKind::Dns
        };

        let text = format!("its name was not found: {reason}");
        Err(Failure::Lost(Error::new(kind, text)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    fn soon() -> Instant {
        Instant::now() + LIMIT
    }

    #[test]
    fn hanging_lookup_is_shared() {
        let (sender, receiver) = mpsc::channel::<()>();
        let hanging = Lookup::begin_with("hangs.test", move |_| {
            let _ = receiver.recv();
            Ok(vec![([127, 0, 0, 1], 0).into()])
        });
        assert!(matches!(hanging.wait(Instant::now()), Ok(None)));
        let same_lookup = Lookup::begin_with("hangs.test", |_| panic!("a second lookup began"));
        assert!(Arc::ptr_eq(&hanging, &same_lookup));
        drop(sender);
        assert_eq!(same_lookup.wait(soon()).unwrap().unwrap().len(), 1);
        assert_eq!(hanging.wait(soon()).unwrap().unwrap().len(), 1);
    }

    #[test]
    fn failed_lookup_is_a_dns_or_connect_error() {
        type Find = fn(&str) -> io::Result<Vec<SocketAddr>>;
        let finds: [(Find, ErrorKind); 4] = [
            (|_| Err(io::ErrorKind::NotFound.into()), ErrorKind::Dns),
            (|_| Ok(Vec::new()), ErrorKind::Dns),
            (|_| panic!("no names here"), ErrorKind::Dns),
            (
                |_| Err(io::Error::other("Temporary failure in name resolution")),
                ErrorKind::Connect,
            ),
        ];
        for (number, (find, kind)) in finds.into_iter().enumerate() {
            let lookup = Lookup::begin_with(&format!("no{number}.test"), find);
            let Err(Failure::Lost(error)) = lookup.wait(soon()) else {
                panic!("it is not found")
            };

            assert_eq!(error.kind(), kind, "{error}");
        }
    }
}
