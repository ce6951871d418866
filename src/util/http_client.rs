//! The HTTP client that all requests of this crate are sent with.

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

/// The maximum total size of the headers of a response over HTTP/2, in bytes; the library's own
/// limit is 16 MiB.
const MAX_HEADERS: u32 = 64 * 1024;

/// The maximum number of runtimes and kinds for which a client is kept.
const MAX_CLIENTS: usize = 64;

/// The scheme of the addresses of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    Http,
    Https,
}

impl Scheme {
    /// Returns [`Https`](Self::Https) for an address with that scheme only.
    pub(crate) fn of(url: &Url) -> Self {
        if url.scheme() == "https" {
            Self::Https
        } else {
            Self::Http
        }
    }
}

/// A client, or the reason why it could not be built.
pub(crate) type ClientResult = std::result::Result<Client, String>;

/// Clients of several kinds, one for each kind and runtime.
///
/// The runtime that opened a pooled connection drives it. If that runtime is blocked or its
/// `block_on` has returned, a request from another runtime over the same connection would wait. The
/// end of a runtime is not reported, so the least recently used client is dropped when there are
/// too many.
#[derive(Debug)]
pub(crate) struct Clients<K>(Mutex<Vec<CachedClient<K>>>);

#[derive(Debug)]
struct CachedClient<K> {
    kind: K,
    /// The runtime of the client; `None` if it was built outside of a runtime.
    runtime: Option<Id>,
    client: Client,
}

impl<K: PartialEq> Clients<K> {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// Returns the client of this kind for the runtime that asks, built if need be.
    pub(crate) fn get(&self, kind: K, build: impl FnOnce() -> ClientResult) -> ClientResult {
        let runtime = Handle::try_current().ok().map(|handle| handle.id());
        let mut clients = lock(&self.0);
        let position = clients
            .iter()
            .rposition(|entry| entry.runtime == runtime && entry.kind == kind);
        let client = match position {
            Some(index) => clients.remove(index).client,
            None => build()?,
        };
        if clients.len() == MAX_CLIENTS {
            clients.remove(0);
        }

        // The client that was used last is at the end.
        clients.push(CachedClient {
            kind,
            runtime,
            client: client.clone(),
        });
        Ok(client)
    }
}

/// Returns a client for addresses with this scheme, that names this crate, follows no redirect and
/// sends no `Referer`.
///
/// A client belongs to the runtime it is first used in: see [`Clients`].
///
/// # Errors
///
/// Returns an error if the client uses TLS and the system's certificate store cannot be used, or
/// the feature `tls` is off.
pub(crate) fn builder(scheme: Scheme) -> Result<ClientBuilder> {
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
    tls::add(builder, scheme)
}

/// Returns a transport error with its causes, which contain the details, and without its address,
/// which may hold a secret.
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

/// Returns `true` if a redirect leads to the same host and port, or to the same host from http to
/// https, each at its default port.
pub(crate) fn is_same_origin_or_upgrade(from: &Url, to: &Url) -> bool {
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
    use crate::util::tls::{empty_trust_config, system_trust_config};

    use super::Scheme;

    /// Hands over a finished configuration: reqwest's own depends on a process-wide default.
    pub(super) fn add(builder: ClientBuilder, scheme: Scheme) -> Result<ClientBuilder> {
        let mut config = match scheme {
            Scheme::Https => system_trust_config()?,
            // Plain http must work on machines without a certificate store.
            Scheme::Http => empty_trust_config()?,
        };
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(builder.tls_backend_preconfigured(config))
    }
}

#[cfg(not(feature = "tls"))]
mod tls {
    use reqwest::ClientBuilder;

    use crate::error::{Error, ErrorKind, Result};

    use super::Scheme;

    pub(super) fn add(builder: ClientBuilder, scheme: Scheme) -> Result<ClientBuilder> {
        if scheme == Scheme::Https {
            let text = "https needs the crate feature `tls`";
            return Err(Error::new(ErrorKind::Config, text));
        }
        Ok(builder)
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    const HEADERS: u8 = 1;
    const SETTINGS: u8 = 4;
    const CONTINUATION: u8 = 9;

    fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len())
            .unwrap_or(u32::MAX)
            .to_be_bytes();
        let head = [
            length[1], length[2], length[3], kind, flags, 0, 0, 0, stream,
        ];
        [&head, payload].concat()
    }

    async fn read_frame(stream: &mut TcpStream) -> io::Result<(u8, Vec<u8>)> {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        stream.read_exact(&mut payload).await?;
        Ok((head[3], payload))
    }

    /// Answers a request over HTTP/2 with headers without end, and returns the settings of the
    /// client and how many bytes of headers it took.
    async fn endless_headers(listener: TcpListener) -> io::Result<(Vec<u8>, usize)> {
        let (mut stream, _) = listener.accept().await?;
        stream.read_exact(&mut [0; 24]).await?;
        let mut settings = Vec::new();
        stream.write_all(&frame(SETTINGS, 0, 0, &[])).await?;
        loop {
            match read_frame(&mut stream).await? {
                (HEADERS, _) => break,
                (SETTINGS, payload) if !payload.is_empty() => settings = payload,
                _ => {}
            }
        }

        // `:status: 200`, then fields without an index: a name of one byte, a value of 100.
        let status = frame(HEADERS, 0, 1, &[0x88]);
        let mut outcome = stream.write_all(&status).await;
        let field = [&[0, 1, b'a', 100][..], &[b'b'; 100]].concat();
        let fields = field.repeat(150);
        let mut bytes_sent = 0;
        while outcome.is_ok() && bytes_sent < 64 * 1024 * 1024 {
            outcome = stream.write_all(&frame(CONTINUATION, 0, 1, &fields)).await;
            bytes_sent += fields.len();
        }

        Ok((settings, bytes_sent))
    }

    #[tokio::test]
    async fn headers_over_the_limit_end_a_request_over_http2() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("its address");
        let server = tokio::spawn(endless_headers(listener));
        let builder = builder(Scheme::Http).expect("a builder");
        let client = builder
            .no_proxy()
            .http2_prior_knowledge()
            .build()
            .expect("a client");
        let response = client.get(format!("http://{address}/")).send().await;
        assert!(response.is_err(), "{response:?}");
        drop(client);
        let (settings, bytes_sent) = server.await.expect("no panic").expect("a request");
        let limit = [&[0, 6][..], &MAX_HEADERS.to_be_bytes()].concat();
        assert!(
            settings.chunks(6).any(|setting| setting == limit),
            "{settings:?}"
        );

        // Plus the buffers of the sockets.
        assert!(bytes_sent < 32 * 1024 * 1024, "{bytes_sent}");
    }
}
