//! The HTTP client everything of this crate starts from.

use std::error::Error as _;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::time::Duration;

use reqwest::{Client, ClientBuilder, Url, redirect};
use tokio::runtime::{Handle, Id};

use crate::error::Result;

use super::sync::lock;

/// The time limit for opening a connection, TLS included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// The maximum total size of the headers of an answer over HTTP/2, in bytes; the library's own
/// limit is 16 MiB.
const MAX_HEADERS: u32 = 64 * 1024;

/// For how many runtimes and kinds a client is kept.
const MOST_KEPT: usize = 64;

/// A client, or why there is none.
pub(crate) type Built = std::result::Result<Client, String>;

/// Clients of several kinds, for each runtime its own.
///
/// A pooled connection is driven by the runtime it was made in. Where that runtime is not driven
/// itself, because its `block_on` has returned or its thread computes, a request that another
/// runtime sends over the connection waits until it is. When there are too many clients, the least
/// recently used is dropped, and its pool with it: the end of a runtime is not reported.
#[derive(Debug)]
pub(crate) struct Clients<K>(Mutex<Vec<(K, Option<Id>, Client)>>);

impl<K: PartialEq> Clients<K> {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// The client of this kind for the runtime that asks, built if need be.
    pub(crate) fn get(&self, kind: K, build: impl FnOnce() -> Built) -> Built {
        let runtime = Handle::try_current().ok().map(|handle| handle.id());
        let mut kept = lock(&self.0);
        let found = kept
            .iter()
            .rposition(|(other, of, _)| *of == runtime && *other == kind);
        if let Some(at) = found {
            kept[at..].rotate_left(1);
        } else {
            let client = build()?;
            if kept.len() == MOST_KEPT {
                kept.remove(0);
            }
            kept.push((kind, runtime, client));
        }
        match kept.last() {
            Some((_, _, client)) => Ok(client.clone()),
            None => unreachable!("a client was found or pushed"),
        }
    }
}

/// A client for https or for plain http, that names this crate, follows no redirect and sends no
/// `Referer`.
///
/// A client belongs to the runtime it is first used in: see [`Clients`].
///
/// # Errors
///
/// When it is to be secure and the system's certificate store cannot be used, or the feature
/// `tls` is off.
pub(crate) fn builder(secure: bool) -> Result<ClientBuilder> {
    let builder = Client::builder()
        .user_agent(concat!(
            env!("CARGO_PKG_NAME"),
            "/",
            env!("CARGO_PKG_VERSION")
        ))
        .connect_timeout(CONNECT_TIMEOUT)
        .http2_max_header_list_size(MAX_HEADERS)
        .redirect(redirect::Policy::none())
        .referer(false);
    tls::add(builder, secure)
}

/// A transport error with its causes, which contain the details, and without its address, which may
/// hold a secret.
pub(crate) fn describe(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let _ = write!(text, ": {error}");
        cause = error.source();
    }
    text
}

/// Returns `true` if a redirect stays in place: the same host and port, or the same host from http
/// to https, each at its usual port.
pub(crate) fn stays(from: &Url, to: &Url) -> bool {
    let port = Url::port_or_known_default;
    let is_upgrade = (from.scheme(), port(from), to.scheme(), port(to))
        == ("http", Some(80), "https", Some(443));
    let is_same = from.scheme() == to.scheme() && port(from) == port(to);
    from.host() == to.host() && (is_same || is_upgrade)
}

#[cfg(feature = "tls")]
mod tls {
    use reqwest::ClientBuilder;

    use crate::error::Result;
    use crate::util::tls::{trusting_nobody, trusting_system};

    /// Hands over a finished configuration: reqwest's own depends on a process-wide default.
    pub(super) fn add(builder: ClientBuilder, secure: bool) -> Result<ClientBuilder> {
        let mut config = if secure {
            trusting_system()?
        } else {
            // So that plain http works where there is no certificate store.
            trusting_nobody()?
        };
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(builder.tls_backend_preconfigured(config))
    }
}

#[cfg(not(feature = "tls"))]
mod tls {
    use reqwest::ClientBuilder;

    use crate::error::{Error, ErrorKind, Result};

    pub(super) fn add(builder: ClientBuilder, secure: bool) -> Result<ClientBuilder> {
        if secure {
            let text = "https needs the crate feature `tls`";
            return Err(Error::new(ErrorKind::Config, text));
        }
        Ok(builder)
    }
}
